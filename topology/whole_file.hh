// A file that is there as a whole or not at all.
#ifndef MFU_TOPOLOGY_WHOLE_FILE_HH_
#define MFU_TOPOLOGY_WHOLE_FILE_HH_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace mfu {

// Who a new file is to belong to; -1: whoever makes it.
struct FileOwner {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
};

// Writes a new file of this mode and owner beside `path` and moves it there: whoever reads `path`
// has the old text or the new one. Empty, or the error, which names the path; then the old file is
// as it was. kOnDisk: comes back when it would survive a loss of power.
enum class Kept { kInMemory, kOnDisk };
std::string write_whole_file(const std::string& path, std::string_view text,
                             Kept kept = Kept::kOnDisk, mode_t mode = 0644, FileOwner owner = {});

}  // namespace mfu

#endif
