// A topology for Slurm from a fabric.
//
// Tree: a unit of the fabric (the leaves that serve the same hosts, one for each rail) is one leaf
// switch for Slurm, in which a node can be only once; pods are switches above units where an island
// has several; an island has one switch on top. Islands stay apart, since no job can communicate
// across, unless `root` joins them.
// Block: cliques of NVLink where a map of them is given, else units. Blocks are in the order
// island, pod, unit, so that Slurm's larger blocks are of one pod as far as they can be. Whatever
// has an order has it by its first node.
#ifndef MFU_TOPOLOGY_TOPOLOGY_GENERATE_HH_
#define MFU_TOPOLOGY_TOPOLOGY_GENERATE_HH_

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "topology/fabric_roles.hh"
#include "topology/slurm_nodes.hh"
#include "topology/topology_conf.hh"

namespace mfu {

struct GenerateOptions {
  bool root = false;  // of a tree: one switch above all islands
  std::string rest;   // of a tree: a switch for the listed nodes that are not in the fabric; empty:
                      // they are left out, and Slurm never places a job on them and others
  std::unordered_map<std::string, std::string> cliques;  // node -> NVLink clique; empty: unknown
  std::vector<uint32_t> block_sizes;                     // empty: the smallest block's
  // Whether a block of fewer nodes than the base one stays: Slurm takes it since 25.05. None: all
  // such are left out.
  std::function<bool(const TopologyBlock&)> keeps_small;
};

struct GeneratedTopology {
  Topology topology;               // as check_topology wants it; nameless, no cluster_default
  std::vector<std::string> notes;  // for people: what was left out, and why
};

// `roles` are the fabric's, `nodes` place_nodes of them. Equal input, equal output.
tl::expected<GeneratedTopology, std::string> generate_tree(const Fabric& fabric,
                                                           const FabricRoles& roles,
                                                           const SlurmNodes& nodes,
                                                           const GenerateOptions& options);
tl::expected<GeneratedTopology, std::string> generate_blocks(const Fabric& fabric,
                                                             const FabricRoles& roles,
                                                             const SlurmNodes& nodes,
                                                             const GenerateOptions& options);

}  // namespace mfu

#endif
