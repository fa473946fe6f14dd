// The figures of one trace file.
//
// Traces are not sorted and their CPU side (launches, steps) and GPU side are apart, so that a
// step's kernels can only be known by a join over the whole file. Both are done by external
// sorting: while reading, operations and launches go to sorters by correlation id; then the two are
// joined, the operations sorted by start, and everything else is one sweep in order of time. Memory
// is bounded, whatever the order in the file, and no operation is late.
#ifndef MFU_PROFILER_TRACE_FIGURES_HH_
#define MFU_PROFILER_TRACE_FIGURES_HH_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/attribution.hh"
#include "profiler/record.hh"
#include "profiler/steps.hh"
#include "profiler/trace.hh"

namespace mfu {

class CollectiveSkew;

// One GPU of one process.
struct DeviceFigures {
  int64_t device = 0;
  int64_t process = 0;   // as TraceOperation
  int64_t start_ns = 0;  // first start, on the file's clock (time.span_* count from there)
  Attribution sums;
  StepEstimate steps = {};  // found without marks; times count from start_ns
  // Equal slices of the span, if asked for.
  std::vector<TimeSums> series;
};

struct StepFigures {
  std::string name;
  int64_t start_ns = 0;  // of its mark on the CPU
  int64_t duration_ns = 0;
  uint64_t operations = 0;  // launched inside
  // Of these operations, wherever they ran; over all devices of the file.
  Attribution sums;
};

struct KernelFigures {
  std::string name;
  KernelKind kind;
  CountedTime time;
  uint64_t longest_ns = 0;
};

struct TraceFigures {
  std::string path;
  std::shared_ptr<const Record> record;  // where the file is one
  TraceHead head;
  bool partial = false;  // the file is broken; what stood before is counted
  std::string error;     // then: why

  std::vector<DeviceFigures> devices;  // by process and device
  std::vector<StepFigures> steps;      // by start
  std::vector<KernelFigures> kernels;  // by time, longest first
  uint64_t unlisted_steps = 0;         // beyond the bounds of the tables
  CountedTime other_kernels;           // of names that a record does not list
  uint64_t kernel_names = 0;           // different ones, listed or not; of a record only
  uint64_t unlisted_kernels = 0;       // launches of kernels that found no place in the table

  uint64_t operations = 0;    // all GPU operations, the kept out ones included
  uint64_t kernel_count = 0;  // of these: kernels
  uint64_t streams = 0;
  uint64_t gpu_step_marks = 0;
  uint64_t launches = 0;
  uint64_t untimed = 0;   // complete events without start or duration
  uint64_t invalid = 0;   // kept out: start and end 0, out of range, or longer than a day
  uint64_t reversed = 0;  // negative duration, counted as 0
  uint64_t zero = 0;      // no duration
  bool launches_known = false;
  uint64_t uncorrelated = 0;             // operations without a launch in the file
  uint64_t launches_without_kernel = 0;  // calls that launch kernels, without one in the file
  uint64_t kernels_before_launch = 0;    // start before their launch: clocks differ
};

// Collects a file's events and works the figures out.
class FigureBuilder : public TraceSink {
 public:
  struct Options {
    int slices = 0;  // of DeviceFigures::series
    // How much the sorters may keep in memory, in bytes, each of three.
    size_t memory = 1 << 20;
  };
  explicit FigureBuilder(const Options& options);
  ~FigureBuilder() override;

  void operation(const TraceOperation& operation) override;
  void launch(const TraceLaunch& launch) override;
  void step(const TraceStep& step) override;
  void untimed() override;

  // Once, after everything came in. Collectives go to `skew` when it is not null, as those of
  // participants `first_participant`, and so on, one a device. False with *error when the temporary
  // files failed.
  bool finish(const TraceHead& head, CollectiveSkew* skew, size_t first_participant,
              TraceFigures* figures, std::string* error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mfu

#endif
