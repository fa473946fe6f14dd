// Writes a trace as PyTorch's profiler does, of a given size. The same bytes every time.
#ifndef MFU_TESTS_BENCH_TRACE_WRITER_HH_
#define MFU_TESTS_BENCH_TRACE_WRITER_HH_

#include <cstdint>
#include <string>

namespace mfu::bench {

struct WrittenTrace {
  uint64_t bytes = 0;  // 0: could not be written
  uint64_t kernels = 0;
};
WrittenTrace write_trace(const std::string& path, uint64_t least_bytes);

}  // namespace mfu::bench

#endif
