#include "topology/node_file.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mfu {
namespace {

struct Closer {
  int file;
  ~Closer() { close(file); }
};

// False on an error, or beyond `most` bytes with errno EFBIG.
bool read_all(int file, size_t most, std::string* text) {
  char block[16384];
  for (;;) {
    const ssize_t bytes = read(file, block, sizeof block);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return bytes == 0;
    text->append(block, static_cast<size_t>(bytes));
    if (text->size() > most) {
      errno = EFBIG;
      return false;
    }
  }
}

}  // namespace

tl::expected<std::string, std::string> read_node_file(const std::string& path, size_t most) {
  auto failed = [&path](const std::string& reason) {
    return tl::make_unexpected(path + ": " + reason);
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return failed(std::strerror(errno));
  const Closer closer{file};
  struct stat status;
  if (fstat(file, &status) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failed("not a regular file");
  std::string text;
  if (read_all(file, most, &text)) return text;
  return failed(errno == EFBIG ? "larger than " + std::to_string(most) + " bytes"
                               : std::strerror(errno));
}

std::string read_attribute(const std::string& path) {
  constexpr size_t kMostAttribute = 1 << 16;
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return text;
  const Closer closer{file};
  if (!read_all(file, kMostAttribute, &text)) return {};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace mfu
