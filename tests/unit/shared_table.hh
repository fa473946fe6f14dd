// Tables of shared/data/mfu, which tests skip without.
#ifndef MFU_TESTS_UNIT_SHARED_TABLE_HH_
#define MFU_TESTS_UNIT_SHARED_TABLE_HH_

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace mfu {

inline constexpr char kNoSharedData[] = "no shared data: set MFU_SHARED or run beside ../shared";

// Rows by the header's names; none when the file is not there.
inline std::vector<std::map<std::string, std::string>> read_table(const std::string& name,
                                                                  char separator = '\t') {
  const char* root = std::getenv("MFU_SHARED");
  std::ifstream file(std::string(root != nullptr ? root : "../shared") + "/data/mfu/" + name);
  auto split = [separator](const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, separator);) cells.push_back(cell);
    return cells;
  };
  std::vector<std::map<std::string, std::string>> rows;
  std::string line;
  if (!std::getline(file, line)) return rows;
  std::vector<std::string> header = split(line);
  while (std::getline(file, line)) {
    std::vector<std::string> cells = split(line);
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < header.size(); ++i) row[header[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

}  // namespace mfu

#endif
