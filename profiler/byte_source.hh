// The bytes of a file, in order, unpacked if the file is gzip (also of several members).
#ifndef MFU_PROFILER_BYTE_SOURCE_HH_
#define MFU_PROFILER_BYTE_SOURCE_HH_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mfu {

class ByteSource {
 public:
  ByteSource();
  ~ByteSource();

  // False with error() set.
  bool open(const std::string& path);

  // Fills up to `room` bytes; 0: the end, or a failure when error() is not empty. What was unpacked
  // before damage is handed out first.
  size_t read(char* to, size_t room);

  const std::string& error() const { return error_; }
  bool unpacks() const { return unpacks_; }
  // Of the file as it lies on disk, for progress.
  uint64_t consumed() const { return consumed_; }
  uint64_t file_size() const { return file_size_; }

 private:
  struct Unpacker;  // ISA-L's state

  size_t fetch(unsigned char* to, size_t room);
  size_t unpack(char* to, size_t room);
  size_t unpack_block(char* to);

  int descriptor_ = -1;
  bool unpacks_ = false;
  uint64_t consumed_ = 0;
  uint64_t file_size_ = 0;
  std::string error_;
  std::unique_ptr<Unpacker> unpacker_;  // null: the bytes are as they are
};

}  // namespace mfu

#endif
