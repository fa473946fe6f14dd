// Slurm's topology.yaml (25.05+): several topologies, of which partitions choose by name, and the
// first that says cluster_default serves the rest.
#ifndef MFU_TOPOLOGY_TOPOLOGY_YAML_HH_
#define MFU_TOPOLOGY_TOPOLOGY_YAML_HH_

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/topology_parse.hh"

namespace mfu {

// Tree, block and flat; others (ring, torus3d) are kept by name only, with a note. Errors:
// "`where`: line 12: what is wrong".
tl::expected<TopologyFile, std::string> parse_topology_yaml(std::string_view text,
                                                            const std::string& where);

// The names of the topologies must be unique and, like those of switches and nodes, as
// topology_names.hh makes them: nothing is quoted but what YAML would take for a number or a bool.
std::string write_topology_yaml(const std::vector<Topology>& topologies,
                                const std::vector<std::string>& comments);

}  // namespace mfu

#endif
