// What a trace file tells, event by event, whatever its format.
//
// All times are integer nanoseconds on the file's own clock; TraceHead::base_time_ns, where given,
// is to be added for comparing files.
#ifndef MFU_PROFILER_TRACE_HH_
#define MFU_PROFILER_TRACE_HH_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mfu {

enum class OperationKind : uint8_t { kKernel, kCopy, kFill };

// An operation of a GPU. Texts live until the sink's call returns.
struct TraceOperation {
  OperationKind kind = OperationKind::kKernel;
  bool out_of_range = false;  // its times do not fit into 64 bits; start and duration are 0 then
  int64_t start_ns = 0;
  int64_t duration_ns = 0;             // as written: can be negative
  int64_t device = 0;                  // CUDA ordinal
  int64_t process = 0;                 // only where a file holds several processes
  std::optional<int64_t> correlation;  // of the launching call, unique in the file
  std::string_view stream;
  std::string_view name;
  std::string_view group;  // process group of a collective; empty when the trace does not tell
};

// A call of the CUDA runtime or driver.
struct TraceLaunch {
  int64_t start_ns = 0;
  int64_t correlation = 0;
  bool kernel = false;  // launches kernels
};

// A training step's mark (ProfilerStep#n).
struct TraceStep {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string_view name;
  bool on_gpu = false;  // the mark's shadow on a GPU track
};

// What a file says of itself.
struct TraceHead {
  std::optional<int64_t> base_time_ns;
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
  std::string backend;
  std::string nccl_version;
  std::map<int64_t, std::string> gpus;  // names by ordinal
  std::string note;                     // something the reader of the figures must know
};

// Takes the events in as they come, in no order.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void operation(const TraceOperation& operation) = 0;
  virtual void launch(const TraceLaunch& launch) = 0;
  virtual void step(const TraceStep& step) = 0;
  virtual void untimed() = 0;  // a complete event without start or duration
};

}  // namespace mfu

#endif
