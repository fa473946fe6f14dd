// Which Slurm nodes hang where in a fabric: hosts by Slurm's names for them.
#ifndef MFU_TOPOLOGY_SLURM_NODES_HH_
#define MFU_TOPOLOGY_SLURM_NODES_HH_

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "topology/fabric_roles.hh"

namespace mfu {

// Words for words: what a site calls a thing, by the thing's GUID, description or other name.
struct NameMap {
  NodeNames by_guid;
  std::unordered_map<std::string, std::string> by_text;
};

// Lines of "KEY NAME": the last word is the name, all before it the key, which is a GUID if it is
// 0x and hexadecimal digits. Empty lines, and what follows a '#' that begins a word, are skipped.
// Errors begin with `where` and name the line.
tl::expected<NameMap, std::string> parse_name_map(std::string_view text, const std::string& where);

// The nodes of Slurm in some text: the values of NodeName= if there are any (scontrol show nodes),
// else hostlists (sinfo -h -o %N).
tl::expected<std::vector<std::string>, std::string> parse_node_list(std::string_view text);

// The map's names for adapters, by GUID and by whole description, for find_roles.
NodeNames adapter_names(const Fabric& fabric, const NameMap& names);

struct SlurmNodes {
  std::vector<std::vector<std::string>> by_unit;  // as FabricRoles::units, sorted
  std::vector<std::string> absent;                // of the list, but not in the fabric; sorted
  std::vector<std::string> notes;                 // for people: what was left out, and why
};

// Hosts under their names of the map (by_text may have a host's name), else their own. `listed`
// restricts them to Slurm's nodes, and admits machines that look like service hosts; a host fits a
// listed node by its whole name, or by it up to the first dot in any case. Null: all hosts.
SlurmNodes place_nodes(const FabricRoles& roles, const NameMap& names,
                       const std::vector<std::string>* listed);

}  // namespace mfu

#endif
