// Slurm's hostlists: "dgx[001-032,040],login1" for many names in a few characters.
//
// Read as Slurm reads them: several brackets in a name ("rack[1-2]n[01-04]", the last one turns
// fastest), leading zeros kept by the width of a range's first number, "[8-12]" without any, text
// behind the last bracket ("node[01-10]-int", since 23.11). Written with one bracket, at the number
// that ends the name.
#ifndef MFU_TOPOLOGY_HOST_LIST_HH_
#define MFU_TOPOLOGY_HOST_LIST_HH_

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mfu {

// More names than any fabric has: a list that says "n[0-999999999]" is an error, not a full memory.
inline constexpr size_t kMostHosts = 1 << 18;

// Names in the order of the list, doubles too. Lists are separated by commas or blanks; empty parts
// are skipped, as Slurm does. The error says what is wrong with which part.
tl::expected<std::vector<std::string>, std::string> expand_hosts(std::string_view list);

// A short list of the names, sorted in natural order, without doubles: expand_hosts gives
// exactly the set back, if all names are without ",[]" and blanks.
std::string compress_hosts(std::vector<std::string> names);

// "3 `what`: n[1-3]", for people.
std::string count_hosts(std::vector<std::string> names, const std::string& what);

// Natural order: n2 before n10; numbers of one value by their width. A strict total order.
bool host_before(std::string_view a, std::string_view b);

// Sorts by it and drops doubles.
void sort_hosts(std::vector<std::string>* names);

}  // namespace mfu

#endif
