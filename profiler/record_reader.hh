// Record files (see record.hh) as mfu-analyze shows them: the figures of a trace, as far as a
// record has them, and the FLOPs that were counted, which no trace has.
#ifndef MFU_PROFILER_RECORD_READER_HH_
#define MFU_PROFILER_RECORD_READER_HH_

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "profiler/peaks.hh"
#include "profiler/trace_figures.hh"
#include "profiler/trace_reader.hh"

namespace mfu {

// By the name's ending, kRecordSuffix.
bool is_record_path(const std::string& path);

// The newer sound slot of the file. One device; TraceFigures::record is set.
tl::expected<TraceFigures, TraceError> read_record(const std::string& path);

// What the reader of a record's figures must know: why there are none, what was lost, what the
// recording cost. Sentences.
std::string record_note(const Record& record);

// FLOPs that a process counted, of all its GPUs together, and the peak that they are held against:
// that of the precision that carries most of them.
struct ProcessFlops {
  uint32_t gpus = 0;  // that something ran on
  uint64_t span_ns = 0;
  uint64_t kernel_ns = 0;     // of compute kernels
  uint64_t counted_ns = 0;    // of it: kernels whose FLOPs are known
  uint64_t uncounted_ns = 0;  // of it: others that multiply by their names
  FlopSum gemm;
  FlopSum attention;
  FlopSum model;          // unless there is a reason
  std::string no_model;   // "few-steps", "uncounted-kernels", ...
  double recomputed = 0;  // share of forward passes' GEMM FLOPs
  Precision precision = Precision::kUnknown;
  Peak peak;
  std::string no_peak;  // "peak-unknown", ...: why it is not known
  double capacity = 0;  // FLOPs at the peak, over `span_ns`

  FlopSum executed() const;
  // Why there is no such share of the peak; empty: there is.
  std::string no_mfu() const { return no_model.empty() ? no_peak : no_model; }
  std::string no_hfu() const;
  double mfu() const { return model.approximate() / capacity; }
  double hfu() const { return executed().approximate() / capacity; }
  // Of several processes. The reason of one is the sum's; peaks that differ are none.
  void add(const ProcessFlops& other);
};

// Of a process's sound records, all of them. Nothing where none of its calls or kernels told FLOPs.
std::optional<ProcessFlops> process_flops(std::span<const Record* const> records);

}  // namespace mfu

#endif
