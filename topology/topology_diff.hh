// How two topologies differ, by their structure: names of switches do not matter.
//
// Leaves (blocks) are paired by the nodes they share: each leaf's best partner is the one with most
// of its nodes, of equals the one with the same name. A pair that is best for both is one leaf. A
// leaf whose best partner has a better one was merged into it; a part of a leaf that is most of a
// new leaf was split off; single nodes elsewhere have moved. Higher switches are compared as sets
// of paired leaves, so that a moved node does not make its whole pod another one.
#ifndef MFU_TOPOLOGY_TOPOLOGY_DIFF_HH_
#define MFU_TOPOLOGY_TOPOLOGY_DIFF_HH_

#include <string>
#include <vector>

#include "topology/topology_conf.hh"
#include "topology/topology_parse.hh"

namespace mfu {

enum class DiffKind : uint8_t {
  kKind,         // tree, block, flat: subject is the old, object the new one
  kMissing,      // nodes of the first that are not in the second; subject: their leaf
  kExtra,        // nodes of the second that are not in the first; object: their leaf
  kMoved,        // nodes that are under another leaf; subject -> object
  kMerged,       // leaf subject is part of the leaf object
  kSplit,        // nodes of the leaf subject are the leaf object now
  kLevelGone,    // switch subject above leaves is not in the second
  kLevelNew,     // switch object above leaves is not in the first
  kBlockSizes,   // subject -> object, as lists
  kNoTopology,   // the second file has no topology of subject's kind
  kNewTopology,  // the first file has none of object's
};

struct TopologyChange {
  DiffKind kind = DiffKind::kMoved;
  std::string subject;             // name in the first topology, or empty
  std::string object;              // name in the second, or empty
  std::vector<std::string> nodes;  // sorted; for levels: all that are below
};

// In the order of DiffKind, then of names. Empty: the same structure.
std::vector<TopologyChange> diff_topologies(const Topology& first, const Topology& second);

// Of two files: topologies in pairs of one kind, cluster_default before others, then by order.
std::vector<TopologyChange> diff_topology_files(const TopologyFile& first,
                                                const TopologyFile& second);

// A printable line for each, '-', '+' or '~' in front: what the second lacks, has more, has
// otherwise.
std::string write_changes(const std::vector<TopologyChange>& changes);

// {"same": false, "changes": [{"change": "moved", "from": "su1", "to": "su2", "nodes": "n[1-2]",
// "count": 2}, ...]}: from and to only where there is one.
std::string write_changes_json(const std::vector<TopologyChange>& changes);

}  // namespace mfu

#endif
