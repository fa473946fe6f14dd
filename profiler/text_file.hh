// A small text file that somebody else wrote: a model's configuration, a table of peaks.
#ifndef MFU_PROFILER_TEXT_FILE_HH_
#define MFU_PROFILER_TEXT_FILE_HH_

#include <cstddef>
#include <string>
#include <tl/expected.hpp>

namespace mfu {

// The whole text of a regular file of at most `most` bytes. Errors name the path and the reason.
// Never waits: a pipe or a device is refused, not read.
tl::expected<std::string, std::string> read_text_file(const std::string& path, size_t most);

}  // namespace mfu

#endif
