// Plays CUPTI and the GPU to the profiler's real session: kernels on three streams, one of which
// communicates, in buffers of CUpti_ActivityKernel10 as CUPTI writes them.
#ifndef MFU_TESTS_BENCH_ACTIVITY_FEED_HH_
#define MFU_TESTS_BENCH_ACTIVITY_FEED_HH_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/record.hh"

namespace mfu::bench {

// One kernel, with its times from the block's start.
struct Operation {
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t stream;
  bool communication;
  const char* name;
};
// In order of their ends, as they complete. Times are far shorter than a GPU's, so that generated
// ones stay behind the clock: the profiler refuses the future.
std::vector<Operation> operations(size_t count);
// Blocks of so many operations follow each other without overlap when this far apart.
uint64_t block_span_ns(size_t count);

double resident_mib();

class ActivityFeed {
 public:
  // The process's only feed, or nullptr with the reason in *why. Opens the session.
  static ActivityFeed* get(std::string* why);

  // Hands so many full buffers back to the session; the records' number. `cold`: puts them out of
  // the processor's caches, where a GPU's driver thread may have left them long ago.
  size_t fill(int buffers, bool cold);
  // A buffer as it is handed back, for parsing by itself.
  std::vector<uint8_t>& sample() { return block_; }
  size_t records_per_buffer() const { return operations_.size(); }
  // Moves the clock of the generated records on by a block; its start.
  uint64_t next_block_ns();

  // What the session has published. pid == 0: nothing sound.
  Record published() const;
  // Before the session was opened, the real libcupti loaded.
  double mib_before() const { return mib_before_; }

 private:
  bool open(std::string* why);

  std::vector<Operation> operations_;
  std::vector<uint8_t> block_;
  uint64_t clock_ns_ = 0;
  double mib_before_ = 0;
  std::string record_path_;
  void* shim_ = nullptr;
};

}  // namespace mfu::bench

#endif
