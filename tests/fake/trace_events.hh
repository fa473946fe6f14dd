// GPU operations of a Chrome or Kineto trace.
//
// Counted are complete events ("ph": "X") whose category is kernel, gpu_kernel (kernels),
// gpu_memcpy, memcpy, memcopy (copies), gpu_memset or memset (fills), in any case of letters, with
// "ts" and "dur". Microseconds become nanoseconds exactly, from their decimal text; digits beyond
// the nanosecond are dropped; a negative duration counts as 0.
#ifndef MFU_TESTS_FAKE_TRACE_EVENTS_HH_
#define MFU_TESTS_FAKE_TRACE_EVENTS_HH_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

struct TraceOperation {
  GpuOperation operation;  // start_ns and end_ns since the first operation; name unset
  std::string name;
};

// Integer nanoseconds of a JSON number in microseconds, or nothing: no number or out of range.
std::optional<int64_t> nanoseconds(std::string_view microseconds);

// The operations of the file (.json, gzipped or not) in order of start. Streams that are not
// numbers are numbered from 1,000,000 on. Throws std::runtime_error "path: byte N: what".
std::vector<TraceOperation> read_trace(const std::string& path);

}  // namespace mfu::fake

#endif
