// The shared files of real and synthetic topologies, which tests skip without.
#ifndef MFU_TESTS_UNIT_TOPOLOGY_DATA_HH_
#define MFU_TESTS_UNIT_TOPOLOGY_DATA_HH_

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace mfu {

inline constexpr char kNoTopologyData[] = "no shared data: set MFU_SHARED or run beside ../shared";

inline std::string topology_data() {
  const char* folder = std::getenv("MFU_SHARED");
  return std::string(folder == nullptr ? "../shared" : folder) + "/data/topology/";
}

inline bool has_topology_data() {
  struct stat status;
  return stat(topology_data().c_str(), &status) == 0;
}

inline std::string topology_text(const std::string& name) {
  std::ifstream file(topology_data() + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Files of a folder of INDEX.tsv ("hwloc", "nccl", ...): what it is, and the name of its answers.
struct TopologyFile {
  std::string name;
  std::string expected;  // empty: none
};
inline std::vector<TopologyFile> topology_files(const std::string& folder) {
  std::vector<TopologyFile> files;
  std::ifstream index(topology_data() + "INDEX.tsv");
  for (std::string line; std::getline(index, line);) {
    if (!line.starts_with(folder + "/")) continue;
    const size_t last = line.rfind('\t');
    files.push_back({line.substr(0, line.find('\t')), line.substr(last + 1)});
  }
  return files;
}

}  // namespace mfu

#endif
