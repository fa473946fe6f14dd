#include "plugin/live_textfile.hh"

#include "topology/whole_file.hh"

namespace mfu {

std::string textfile_name_fault(const std::string& path) {
  constexpr std::string_view kSuffix = ".prom";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) return "";
  return "'" + path + "' does not end in .prom: node_exporter would not see it";
}

std::string replace_textfile(const std::string& path, std::string_view text) {
  return write_whole_file(path, text, Kept::kInMemory);
}

}  // namespace mfu
