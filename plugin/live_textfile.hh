// A file that its readers find whole at any time: node_exporter's textfile collector takes whatever
// ends in .prom.
#ifndef MFU_PLUGIN_LIVE_TEXTFILE_HH_
#define MFU_PLUGIN_LIVE_TEXTFILE_HH_

#include <string>
#include <string_view>

namespace mfu {

// Puts a new file in the place of `path`, mode 0644, by way of a file in the same folder that ends
// in no .prom. Returns why it failed, and then leaves the old file as it was; empty: it did not.
// What `path` is a symbolic link to is left alone: the link is replaced.
std::string replace_textfile(const std::string& path, std::string_view text);

}  // namespace mfu

#endif
