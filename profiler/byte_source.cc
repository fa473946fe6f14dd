#include "profiler/byte_source.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace mfu {
namespace {

constexpr size_t kPackedBlock = 1 << 18;
constexpr int kGzipOnly = 15 + 16;  // zlib's window bits: the largest, with a gzip header

}  // namespace

struct ByteSource::Unpacker {
  z_stream stream = {};
  std::vector<unsigned char> packed = std::vector<unsigned char>(kPackedBlock);
  bool between_members = false;
  bool more_inside = false;  // the last call had no room for all that zlib has already taken in
  bool ended = false;
};

ByteSource::ByteSource() = default;

ByteSource::~ByteSource() {
  if (unpacks_) inflateEnd(&unpacker_->stream);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool ByteSource::open(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    error_ = std::strerror(errno);
    return false;
  }
  if (S_ISDIR(status.st_mode)) {
    error_ = std::strerror(EISDIR);
    return false;
  }
  file_size_ = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
  unpacker_ = std::make_unique<Unpacker>();
  z_stream& stream = unpacker_->stream;
  stream.next_in = unpacker_->packed.data();
  // Two bytes tell gzip. A pipe may hand them out one by one.
  while (stream.avail_in < 2) {
    size_t got = fetch(unpacker_->packed.data() + stream.avail_in, kPackedBlock - stream.avail_in);
    if (got == 0) break;
    stream.avail_in += static_cast<uInt>(got);
  }
  if (!error_.empty()) return false;
  const unsigned char* head = unpacker_->packed.data();
  if (stream.avail_in < 2 || head[0] != 0x1f || head[1] != 0x8b) {
    return true;
  }
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    error_ = "zlib has no memory";
    return false;
  }
  unpacks_ = true;
  return true;
}

size_t ByteSource::fetch(unsigned char* to, size_t room) {
  ssize_t got;
  do {
    got = ::read(descriptor_, to, room);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    error_ = std::strerror(errno);
    return 0;
  }
  consumed_ += static_cast<uint64_t>(got);
  return static_cast<size_t>(got);
}

size_t ByteSource::read(char* to, size_t room) {
  if (!error_.empty() || room == 0) return 0;
  if (!unpacker_) return fetch(reinterpret_cast<unsigned char*>(to), room);
  if (unpacks_) return unpack(to, room);
  // Not gzip: first the bytes that were looked at.
  size_t head = std::min<size_t>(unpacker_->stream.avail_in, room);
  std::memcpy(to, unpacker_->stream.next_in, head);
  unpacker_->stream.next_in += head;
  unpacker_->stream.avail_in -= static_cast<uInt>(head);
  if (unpacker_->stream.avail_in == 0) unpacker_.reset();
  return head > 0 ? head : read(to, room);
}

size_t ByteSource::unpack(char* to, size_t room) {
  z_stream& stream = unpacker_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(std::min<size_t>(room, 1 << 30));
  const size_t wanted = stream.avail_out;
  while (stream.avail_out == wanted && !unpacker_->ended) {
    if (stream.avail_in == 0 && !unpacker_->more_inside) {
      stream.next_in = unpacker_->packed.data();
      stream.avail_in = static_cast<uInt>(fetch(unpacker_->packed.data(), kPackedBlock));
      if (!error_.empty()) break;
      if (stream.avail_in == 0) {
        unpacker_->ended = true;
        if (!unpacker_->between_members) error_ = "the gzip data ends early";
        break;
      }
    }
    if (unpacker_->between_members) {
      // Zeros may fill up to a block's end; another member may follow; nothing else.
      while (stream.avail_in > 0 && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
      }
      if (stream.avail_in == 0) continue;
      unpacker_->between_members = false;
      inflateReset(&stream);
    }
    int result = inflate(&stream, Z_NO_FLUSH);
    unpacker_->more_inside = result != Z_STREAM_END && stream.avail_out == 0;
    if (result == Z_STREAM_END) {
      unpacker_->between_members = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      error_ = std::string("the gzip data is damaged") +
               (stream.msg == nullptr ? "" : std::string(" (") + stream.msg + ")");
      break;
    }
  }
  return wanted - stream.avail_out;
}

}  // namespace mfu
