#include "profiler/text_file.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mfu {

tl::expected<std::string, std::string> read_text_file(const std::string& path, size_t most) {
  auto failed = [&path](const std::string& reason) {
    return tl::make_unexpected(path + ": " + reason);
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return failed(std::strerror(errno));
  struct Closer {
    int file;
    ~Closer() { close(file); }
  } closer{file};
  struct stat status;
  if (fstat(file, &status) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failed("not a regular file");
  std::string text;
  char block[16384];
  for (;;) {
    const ssize_t bytes = read(file, block, sizeof block);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return failed(std::strerror(errno));
    if (bytes == 0) return text;
    text.append(block, static_cast<size_t>(bytes));
    if (text.size() > most) return failed("larger than " + std::to_string(most) + " bytes");
  }
}

}  // namespace mfu
