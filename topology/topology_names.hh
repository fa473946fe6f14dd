// Names for Slurm's switches and blocks, from the descriptions of real switches.
#ifndef MFU_TOPOLOGY_TOPOLOGY_NAMES_HH_
#define MFU_TOPOLOGY_TOPOLOGY_NAMES_HH_

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace mfu {

// Letters, digits, '.', '_' and '-' with no '-' next to another or at an end; at most 48
// characters. Empty if nothing is left.
std::string slurm_name(std::string_view text);

// Whether Slurm takes it as the name of a node: letters, digits, '.', '_' and '-', not empty, at
// most 255 characters.
bool is_node_name(std::string_view name);

// The name of a switch in its NodeDescription: "MF0;A09-P1-IBLEAF-04-04:MQM9701/U1" is managed, by
// the name "A09-P1-IBLEAF-04-04"; others are taken whole. A slurm_name.
std::string switch_name(std::string_view description);

// What several names have in common, word by word: of "LEAF-01-04" and "LEAF-02-04" "LEAF-04".
// Empty if that is no word at all, or if their numbers of words differ.
std::string shared_name(const std::vector<std::string>& names);

// For each wanted name itself where it is the only one of all and not taken, else
// `fallback` + its number from 1. Takes them.
std::vector<std::string> unique_names(const std::vector<std::string>& wanted,
                                      const std::string& fallback,
                                      std::unordered_set<std::string>* taken);

}  // namespace mfu

#endif
