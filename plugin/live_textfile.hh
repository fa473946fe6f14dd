// A file that its readers find whole at any time, for node_exporter's textfile collector, which
// takes whatever ends in .prom.
#ifndef MFU_PLUGIN_LIVE_TEXTFILE_HH_
#define MFU_PLUGIN_LIVE_TEXTFILE_HH_

#include <string>
#include <string_view>

namespace mfu {

// Why node_exporter would not see a file of this name; empty: it does.
std::string textfile_name_fault(const std::string& path);

// Puts a new file in the place of `path`, mode 0644, by way of PATH.XXXXXX, which node_exporter
// ignores. Returns why it failed, and then leaves the old file as it was; empty: it did not. What
// `path` is a symbolic link to is left alone: the link is replaced.
std::string replace_textfile(const std::string& path, std::string_view text);

}  // namespace mfu

#endif
