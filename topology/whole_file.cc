#include "topology/whole_file.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mfu {
namespace {

bool write_all(int file, std::string_view text, Kept kept, mode_t mode, FileOwner owner) {
  while (!text.empty()) {
    const ssize_t bytes = write(file, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  return fchown(file, owner.uid, owner.gid) == 0 && fchmod(file, mode) == 0 &&
         (kept == Kept::kInMemory || fsync(file) == 0);
}

}  // namespace

std::string write_whole_file(const std::string& path, std::string_view text, Kept kept, mode_t mode,
                             FileOwner owner) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return path + ": is there and no regular file";
  }
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return path + ": cannot write beside it: " + std::strerror(errno);
  bool good = write_all(file, text, kept, mode, owner);
  int error = errno;
  if (close(file) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good && rename(temporary.c_str(), path.c_str()) == 0) return {};
  if (good) error = errno;
  unlink(temporary.c_str());
  return path + ": " + std::strerror(error);
}

}  // namespace mfu
