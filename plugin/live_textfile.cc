#include "plugin/live_textfile.hh"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mfu {

std::string replace_textfile(const std::string& path, std::string_view text) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "" : path.substr(0, slash + 1);
  std::string made = folder + ".mfu-live.XXXXXX";
  const int fd = mkostemp(made.data(), 0);
  if (fd < 0) return folder + ": " + std::strerror(errno);
  bool good = true;
  for (size_t at = 0; good && at < text.size();) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;
    good = written > 0;
    if (good) at += static_cast<size_t>(written);
  }
  good = good && fchmod(fd, 0644) == 0;
  int error = good ? 0 : errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(made.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return "";
  unlink(made.c_str());
  return path + ": " + std::strerror(error);
}

}  // namespace mfu
