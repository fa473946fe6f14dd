// Sorting more than memory holds: records are collected, sorted and written out as runs to an
// unlinked temporary file (in TMPDIR or /tmp), then merged. Nothing is written while everything
// fits into memory.
#ifndef MFU_PROFILER_SORTED_SPILL_HH_
#define MFU_PROFILER_SORTED_SPILL_HH_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace mfu {

// A temporary file without a name.
class SpillFile {
 public:
  SpillFile() = default;
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // False with error() set. The file is made by the first write.
  bool append(const void* bytes, size_t size);
  bool read(uint64_t offset, void* bytes, size_t size);
  uint64_t size() const { return size_; }
  const std::string& error() const { return error_; }

 private:
  bool fail(const char* what);

  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string error_;
};

// `Before` orders records; equal ones come out in any order. First add() all, then next() until it
// gives nullptr; error() tells whether that was the end.
template <class Record, class Before>
class SortedSpill {
  static_assert(std::is_trivially_copyable_v<Record>);
  // Records of a run that are in memory while merging, at the least. Beyond bytes / 512 runs, each
  // more takes as much.
  static constexpr size_t kLeastBlock = 512 / sizeof(Record) + 1;

 public:
  // Records kept in memory: about `bytes` of them, while adding and while merging.
  explicit SortedSpill(size_t bytes) : capacity_(std::max<size_t>(bytes / sizeof(Record), 2)) {}

  void add(const Record& record) {
    if (records_.size() == capacity_) spill();
    if (records_.capacity() == records_.size()) {  // doubling must not overshoot
      records_.reserve(std::min(capacity_, std::max<size_t>(2 * records_.size(), 1024)));
    }
    records_.push_back(record);
    ++count_;
  }
  uint64_t count() const { return count_; }

  const Record* next() {
    if (!merging_) start_merge();
    if (runs_.empty()) return at_ < records_.size() ? &records_[at_++] : nullptr;
    if (advance_ != nullptr) {  // the record handed out last was this run's first
      std::pop_heap(heap_.begin(), heap_.end(), later);
      if (refill(advance_)) {
        std::push_heap(heap_.begin(), heap_.end(), later);
      } else {
        heap_.pop_back();
      }
      advance_ = nullptr;
    }
    if (heap_.empty() || !file_.error().empty()) return nullptr;
    advance_ = heap_.front();
    return advance_->at;
  }

  const std::string& error() const { return file_.error(); }

 private:
  struct Run {
    uint64_t offset = 0;  // of what is still in the file
    uint64_t left = 0;    // records
    std::vector<Record> block;
    const Record* at = nullptr;
    const Record* end = nullptr;
  };
  static bool later(const Run* a, const Run* b) { return Before()(*b->at, *a->at); }

  void spill() {
    std::sort(records_.begin(), records_.end(), Before());
    Run run;
    run.offset = file_.size();
    run.left = records_.size();
    file_.append(records_.data(), records_.size() * sizeof(Record));
    runs_.push_back(std::move(run));
    records_.clear();
  }

  void start_merge() {
    merging_ = true;
    if (runs_.empty()) {
      std::sort(records_.begin(), records_.end(), Before());
      return;
    }
    if (!records_.empty()) spill();
    records_ = {};
    block_size_ = std::max<size_t>(capacity_ / runs_.size(), kLeastBlock);
    for (Run& run : runs_) {
      run.at = run.end = nullptr;
      if (next_block(&run)) heap_.push_back(&run);
    }
    std::make_heap(heap_.begin(), heap_.end(), later);
  }

  bool refill(Run* run) { return ++run->at != run->end || next_block(run); }

  bool next_block(Run* run) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(run->left, block_size_));
    if (size == 0) return false;
    run->block.resize(size);
    if (!file_.read(run->offset, run->block.data(), size * sizeof(Record))) return false;
    run->offset += size * sizeof(Record);
    run->left -= size;
    run->at = run->block.data();
    run->end = run->at + size;
    return true;
  }

  size_t capacity_;
  size_t block_size_ = 0;
  uint64_t count_ = 0;
  std::vector<Record> records_;
  size_t at_ = 0;
  bool merging_ = false;
  std::vector<Run> runs_;
  std::vector<Run*> heap_;
  Run* advance_ = nullptr;
  SpillFile file_;
};

}  // namespace mfu

#endif
