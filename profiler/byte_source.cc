#include "profiler/byte_source.hh"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace mfu {
namespace {

constexpr size_t kPackedBlock = 1 << 18;
constexpr uint32_t kUnpackedBlock = 1 << 18;
constexpr uint8_t kMagic[] = {0x1f, 0x8b};

const char* reason(int result) {
  switch (result) {
    case ISAL_INVALID_BLOCK:
      return "invalid block";
    case ISAL_INVALID_SYMBOL:
      return "invalid code";
    case ISAL_INVALID_LOOKBACK:
      return "invalid distance";
    case ISAL_INVALID_WRAPPER:
      return "invalid header";
    case ISAL_UNSUPPORTED_METHOD:
      return "unknown compression method";
    case ISAL_INCORRECT_CHECKSUM:
      return "incorrect checksum";
    default:
      return "cannot go on";
  }
}

}  // namespace

struct ByteSource::Unpacker {
  inflate_state stream;
  std::vector<uint8_t> packed = std::vector<uint8_t>(kPackedBlock);
  bool between_members = false;
  bool more_inside = false;  // the last call had no room for all that was already taken in
  bool ended = false;
  std::vector<char> unpacked;
  std::string_view kept;  // of these, what was not handed out

  void begin_member() {
    // A reset keeps what is still to be read.
    isal_inflate_reset(&stream);
    stream.crc_flag = ISAL_GZIP;
  }
};

ByteSource::ByteSource() = default;

ByteSource::~ByteSource() {
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
  inflate_state& stream = unpacker_->stream;
  isal_inflate_init(&stream);
  stream.next_in = unpacker_->packed.data();
  // Two bytes tell gzip. A pipe may hand them out one by one.
  while (stream.avail_in < 2) {
    size_t got = fetch(unpacker_->packed.data() + stream.avail_in, kPackedBlock - stream.avail_in);
    if (got == 0) break;
    stream.avail_in += static_cast<uint32_t>(got);
  }
  if (!error_.empty()) return false;
  if (stream.avail_in < 2 || std::memcmp(stream.next_in, kMagic, sizeof(kMagic)) != 0) return true;
  unpacker_->begin_member();
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
  if (unpacks_) return unpack(to, room);
  if (!error_.empty() || room == 0) return 0;
  if (!unpacker_) return fetch(reinterpret_cast<unsigned char*>(to), room);
  // Not gzip: first the bytes that were looked at.
  size_t head = std::min<size_t>(unpacker_->stream.avail_in, room);
  std::memcpy(to, unpacker_->stream.next_in, head);
  unpacker_->stream.next_in += head;
  unpacker_->stream.avail_in -= static_cast<uint32_t>(head);
  if (unpacker_->stream.avail_in == 0) unpacker_.reset();
  return head > 0 ? head : read(to, room);
}

// How much ISA-L hands out before damage depends on the room that it gets. It always gets the same,
// so that what a broken file holds does not depend on the caller.
size_t ByteSource::unpack(char* to, size_t room) {
  std::string_view& kept = unpacker_->kept;
  if (kept.empty()) {
    if (room >= kUnpackedBlock) return unpack_block(to);
    unpacker_->unpacked.resize(kUnpackedBlock);
    kept = {unpacker_->unpacked.data(), unpack_block(unpacker_->unpacked.data())};
  }
  const size_t size = std::min(kept.size(), room);
  std::memcpy(to, kept.data(), size);
  kept.remove_prefix(size);
  return size;
}

size_t ByteSource::unpack_block(char* to) {
  if (!error_.empty()) return 0;
  inflate_state& stream = unpacker_->stream;
  stream.next_out = reinterpret_cast<uint8_t*>(to);
  stream.avail_out = kUnpackedBlock;
  while (stream.avail_out == kUnpackedBlock && !unpacker_->ended) {
    if (stream.avail_in == 0 && !unpacker_->more_inside) {
      stream.next_in = unpacker_->packed.data();
      stream.avail_in = static_cast<uint32_t>(fetch(unpacker_->packed.data(), kPackedBlock));
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
      if (*stream.next_in != kMagic[0]) {
        error_ = "the gzip data is damaged (something else follows)";
        break;
      }
      unpacker_->between_members = false;
      unpacker_->begin_member();
    }
    const uint32_t to_read = stream.avail_in;
    const int result = isal_inflate(&stream);
    const bool idle = stream.avail_in == to_read && stream.avail_out == kUnpackedBlock;
    unpacker_->between_members = result >= 0 && stream.block_state == ISAL_BLOCK_FINISH;
    unpacker_->more_inside = !unpacker_->between_members && stream.avail_out == 0;
    if (result < 0 || (idle && to_read > 0 && !unpacker_->between_members)) {
      error_ = std::string("the gzip data is damaged (") + reason(result) + ")";
      break;
    }
  }
  return kUnpackedBlock - stream.avail_out;
}

}  // namespace mfu
