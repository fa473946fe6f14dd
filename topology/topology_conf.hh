// What Slurm is told of a network: switches with nodes below them, or blocks of nodes.
//
// Three files of Slurm carry it, of which slurmctld reads the first that is there:
//   topology.yaml  Slurm 25.05+: several topologies, each for some partitions (topology_yaml.hh)
//   topology.conf  with TopologyPlugin=topology/tree, all versions: a tree, or a forest
//   topology.conf  with TopologyPlugin=topology/block, Slurm 24.05+ (23.11: BlockLevels instead of
//                  BlockSizes); blocks with fewer nodes than the base block only since 25.05
// What Slurm makes of a forest, by its sources: no version refuses one; 22.05 to 26.05 log "no
// switch can reach all nodes" once, and no job gets nodes of two trees. RoutePlugin=topology (until
// 23.02) and TopologyParam=RouteTree (later) need one root. topology/block takes blocks in the
// order of the file: those of a larger size are consecutive ones.
#ifndef MFU_TOPOLOGY_TOPOLOGY_CONF_HH_
#define MFU_TOPOLOGY_TOPOLOGY_CONF_HH_

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace mfu {

enum class TopologyKind : uint8_t { kTree, kBlock, kFlat, kOther };
// "tree", "block", "flat", "other".
const char* topology_kind_name(TopologyKind kind);

// A leaf has nodes, any other switch has switches; one without both is an empty leaf.
struct TopologySwitch {
  std::string name;
  std::vector<std::string> switches;  // names of its children
  std::vector<std::string> nodes;
  uint32_t line = 0;  // of the file that it was read from; 0: none
};

struct TopologyBlock {
  std::string name;
  std::vector<std::string> nodes;
  uint32_t line = 0;
};

struct Topology {
  std::string name;              // in topology.yaml; empty in topology.conf
  bool cluster_default = false;  // in topology.yaml
  TopologyKind kind = TopologyKind::kTree;
  std::vector<TopologySwitch> switches;  // of a tree
  std::vector<TopologyBlock> blocks;     // of a block topology, in Slurm's order
  // Nodes; the first is the base block's. Empty: not said, and it is the first's that has nodes.
  std::vector<uint32_t> block_sizes;
};

// Slurm counts switches in 16 bits.
inline constexpr size_t kMostSwitches = 65535;
// Slurm takes 64 characters (HOST_NAME_MAX).
inline constexpr size_t kLongestSwitchName = 64;
// More levels of switches than any network has: what looks at all that is below each switch would
// take the square of a chain's length.
inline constexpr size_t kMostLevels = 64;

// Slurm's own conditions, each of which makes slurmctld stop: unique names of at most 64
// characters, children that exist, no circle, a base block, sizes that are the base times powers of
// two; and kMostLevels. The error begins with "`where`: line N: ". Otherwise notes of what Slurm
// only warns of or ignores: nodes below two leaves, switches with two parents, two roots.
tl::expected<std::vector<std::string>, std::string> check_topology(const Topology& topology,
                                                                   const std::string& where);

// Of a block topology, as Slurm has it; 0: it has neither sizes nor nodes.
uint32_t base_block_size(const Topology& topology);
// A note of blocks with fewer nodes than the base block, for topology.conf, which Slurm
// before 25.05 reads too; empty: there are none.
std::string small_blocks_note(const Topology& topology);

// The text of a topology.conf, each comment a line of its own on top. Children as hostlists.
std::string write_topology_conf(const Topology& topology, const std::vector<std::string>& comments);

// "# text" lines, for both formats. Whatever is not printable ASCII becomes '?'.
std::string topology_comments(const std::vector<std::string>& comments);

}  // namespace mfu

#endif
