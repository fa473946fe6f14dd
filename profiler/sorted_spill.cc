#include "profiler/sorted_spill.hh"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace mfu {

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool SpillFile::fail(const char* what) {
  error_ = std::string("temporary file (TMPDIR): ") + what;
  return false;
}

bool SpillFile::append(const void* bytes, size_t size) {
  if (!error_.empty()) return false;
  if (descriptor_ < 0) {
    const char* folder = std::getenv("TMPDIR");
    std::string path =
        std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/mfu-analyze-XXXXXX";
    descriptor_ = ::mkstemp(path.data());
    if (descriptor_ < 0) return fail(std::strerror(errno));
    ::unlink(path.c_str());
  }
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::pwrite(descriptor_, from, size, static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail(std::strerror(written < 0 ? errno : ENOSPC));
    from += written;
    size -= static_cast<size_t>(written);
    size_ += static_cast<uint64_t>(written);
  }
  return true;
}

bool SpillFile::read(uint64_t offset, void* bytes, size_t size) {
  if (!error_.empty()) return false;
  char* to = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = ::pread(descriptor_, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(got < 0 ? std::strerror(errno) : "it has become shorter");
    to += got;
    size -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

}  // namespace mfu
