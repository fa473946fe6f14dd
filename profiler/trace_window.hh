// A window that moves over the bytes of a trace file. The bytes in it are contiguous, may be
// written to, have one more writable byte before them and JsonEvents::kPadding ones behind.
#ifndef MFU_PROFILER_TRACE_WINDOW_HH_
#define MFU_PROFILER_TRACE_WINDOW_HH_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "profiler/byte_source.hh"
#include "profiler/json_events.hh"

namespace mfu {

class TraceWindow {
 public:
  // An event that does not fit into the largest window is an error.
  static constexpr size_t kLargest = 256 << 20;

  TraceWindow(ByteSource* source, size_t size)
      : source_(source), buffer_(1 + size + JsonEvents::kPadding) {}

  char* begin() { return buffer_.data() + begin_; }
  char* end() { return buffer_.data() + end_; }
  bool empty() const { return begin_ == end_; }
  size_t size() const { return end_ - begin_; }
  // Position in the file, unpacked, of begin().
  uint64_t offset() const { return offset_; }
  // Nothing comes after end(). When the source failed, its error() tells why.
  bool at_end() const { return at_end_; }
  bool full() const { return size() + 1 + JsonEvents::kPadding == buffer_.size(); }
  bool can_grow() const { return size() < kLargest; }

  // Gives up the bytes before `to`.
  void move_to(const char* to) {
    const size_t index = static_cast<size_t>(to - buffer_.data());
    offset_ += index - begin_;
    begin_ = index;
  }

  // Brings in more, up to the window's size; twice that size when it is full. Pointers become void.
  void fill() {
    if (full()) buffer_.resize(1 + 2 * size() + JsonEvents::kPadding);
    if (begin_ > 1) {
      std::memmove(buffer_.data() + 1, begin(), size());
      end_ -= begin_ - 1;
      begin_ = 1;
    }
    const size_t limit = buffer_.size() - JsonEvents::kPadding;
    while (end_ < limit && !at_end_) {
      const size_t got = source_->read(end(), limit - end_);
      end_ += got;
      at_end_ = got == 0;
    }
  }

 private:
  ByteSource* source_;
  std::vector<char> buffer_;
  size_t begin_ = 1;
  size_t end_ = 1;
  uint64_t offset_ = 0;
  bool at_end_ = false;
};

}  // namespace mfu

#endif
