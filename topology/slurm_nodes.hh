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

// Slurm's name of a host: by the map, else its own.
const std::string& name_of(const FabricHost& host, const NameMap& names);

// Finds things by the names of their hosts: by the whole name, or by it up to the first dot in any
// case where that is one name only.
class HostNames {
 public:
  void add(const std::string& name, uint32_t index);  // of equal names the first one counts
  uint32_t find(const std::string& name) const;       // kNoIndex: none

 private:
  std::unordered_map<std::string, uint32_t> whole_, short_;
};

struct SlurmNodes {
  std::vector<std::vector<std::string>> by_unit;  // as FabricRoles::units, sorted
  std::vector<std::string> absent;                // of the list, but not in the fabric; sorted
  std::vector<std::string> notes;                 // for people: what was left out, and why
};

// Hosts under name_of(). `listed` restricts them to Slurm's nodes, found as HostNames does, and
// admits machines that look like service hosts. Null: all hosts.
SlurmNodes place_nodes(const FabricRoles& roles, const NameMap& names,
                       const std::vector<std::string>* listed);

}  // namespace mfu

#endif
