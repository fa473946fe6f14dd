// The accounting line: what a job's comment field says about its efficiency.
//
//   mfu/1 mfu=51.9% hfu=55.0% basis=gemm gpus=8xH100-SXM peak=989.4(bf16) compute=78.2%
//   comm=12.1%+9.3% mem=0.2% idle=9.5% steps=20(period) step=1.13s goodput=96.0%(checkpoint)
//   power=612W energy=5.53kJ clock=1755/1980(power) io=0.12+0.03GB/s cover=100.0%/99.8%
//   counted=81.3% s=0-1 sum=1k3,...,7.
//
// One line, at most kMaxLine bytes, printable ASCII without quotes, '|', ';' and newline. Keys
// stand in a fixed order; readers ignore keys that they do not know. mfu-comment(5) defines every
// key.
//
// A job has one line and many writers: its steps, one after the other or at the same time. Hence
// the line carries, in base 36, the exact integer sums of the steps merged so far (`sum=`), which
// steps those are (`s=`), and apart from them the state of one step that still runs (`cur=`).
// Merging a step twice is impossible, and a lost update can be seen and repeated.
//
// `sum=` is the last key in every version of the line and ends with a full stop: so a reader knows
// where the line ends in a field that others write to as well, and sees when it was cut off.
#ifndef MFU_PLUGIN_COMMENT_HH_
#define MFU_PLUGIN_COMMENT_HH_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "plugin/goodput.hh"
#include "plugin/step_set.hh"
#include "profiler/counted_kernels.hh"
#include "profiler/kernel.hh"
#include "profiler/peaks.hh"

namespace mfu {

// The accounting field has room for 65,535 bytes, but the user's Comment only for 1,024 with what
// others write there.
inline constexpr size_t kMaxLine = 768;

// Bounds of the sums: 20, 14 and 10 digits in base 36. The first is 16,384 GPUs of 10^16 FLOP/s for
// 2,000 years; the second is 6 * 10^12 GPU-seconds in nanoseconds; the third is 4 * 10^12 of them
// in milliseconds, at 1,000 W in joules, or at 1 GB/s in megabytes.
inline constexpr uint128 kMostFlop = uint128{3656158440062976} * 3656158440062976 - 1;
inline constexpr uint128 kMostNs = uint128{78364164096} * 78364164096 - 1;
inline constexpr uint128 kMostCount = 3656158440062976 - 1;

// Exact sums over GPUs; merging is addition, which stops at the bounds. Times in GPU-nanoseconds:
// 128 bits, for 16,384 GPUs fill 64 bits within 13 days.
struct Sums {
  uint128 model_flops = 0;    // FLOP, of Comment::basis
  uint128 capacity_flop = 0;  // dense peak x time of the GPUs that model_flops were spent on
  uint128 flops_ns = 0;       // GPU time for which FLOPs and peak are known
  uint128 elapsed_ns = 0;     // GPUs x wall time of the steps
  uint128 attributed_ns = 0;  // GPU time for which compute, communication and idle are known
  uint128 span_ns = 0;        // first to last activity per GPU, summed
  uint128 compute_ns = 0;
  uint128 exposed_communication_ns = 0;
  uint128 overlapped_communication_ns = 0;
  uint128 exposed_memory_ns = 0;
  uint128 lost_ns = 0;          // part of attributed_ns that was not observed
  uint128 training_steps = 0;   // as declared or found; 0: unknown
  uint128 training_ns = 0;      // wall time (not GPU time) of the job steps that declared them, and
                                // of those found
  uint128 training_gpu_ms = 0;  // GPU time of training_ns: each job step's share times its GPUs
  uint128 collective_ns = 0;    // kernel time of collectives that could be compared over ranks
  uint128 wait_ns = 0;          // part of it that was waiting for the last rank

  // FLOP that kernels executed, as far as they were counted, recomputation included; dense peak x
  // time of the GPUs that counted (one on which nothing computed has counted all there was); the
  // time of these GPUs: elapsed_ns where all of them counted. Compute kernels' time of all observed
  // GPUs, and the part of it that executed_flops are of.
  uint128 executed_flops = 0;
  uint128 executed_capacity_flop = 0;
  uint128 executed_ns = 0;
  uint128 counted_ms = 0;
  uint128 kernel_ms = 0;

  // The GPUs' sensors; each sum has beside it the GPU time that it is known for.
  uint128 energy_j = 0;
  uint128 energy_ms = 0;
  uint128 clock_megacycles = 0;  // of one SM of each GPU, while it was not idle
  uint128 clock_ms = 0;
  uint128 tensor_active_ms = 0;
  uint128 tensor_ms = 0;

  // What the processes read from and wrote to files, and the GPU time of the nodes that tell.
  uint128 read_mb = 0;  // 10^6 bytes
  uint128 written_mb = 0;
  uint128 io_ms = 0;

  // Parts of the elapsed time, as in goodput.hh; what is left of it is unknown.
  uint128 productive_ms = 0;
  uint128 start_up_ms = 0;
  uint128 restart_ms = 0;
  uint128 writing_ms = 0;
  uint128 reading_ms = 0;
  uint128 stalled_ms = 0;
  uint128 tail_ms = 0;

  bool operator==(const Sums&) const = default;
  Sums& operator+=(const Sums& other);
  // attributed - compute - exposed communication - exposed memory, never below 0.
  uint128 idle_ns() const;
  // A sum stands at its bound: no figure can be told.
  bool overflowed() const;
  // FLOPs and peak are known for all of elapsed; executed FLOPs and peak are, as far as kernels'
  // FLOPs can be counted; compute, communication and idle are.
  bool flops_whole() const;
  bool executed_whole() const;
  bool time_whole() const;
  // The parts of elapsed_ns.
  GoodputSums goodput() const;
};

// A sum, its name in mfu-report's JSON, and its bound; in the order of the vector in the line.
struct SumField {
  const char* name;
  uint128 Sums::*member;
  uint128 most;
};
inline constexpr SumField kSumFields[] = {
    {"model_flops", &Sums::model_flops, kMostFlop},
    {"capacity_flop", &Sums::capacity_flop, kMostFlop},
    {"flops_ns", &Sums::flops_ns, kMostNs},
    {"elapsed_ns", &Sums::elapsed_ns, kMostNs},
    {"attributed_ns", &Sums::attributed_ns, kMostNs},
    {"span_ns", &Sums::span_ns, kMostNs},
    {"compute_ns", &Sums::compute_ns, kMostNs},
    {"exposed_communication_ns", &Sums::exposed_communication_ns, kMostNs},
    {"overlapped_communication_ns", &Sums::overlapped_communication_ns, kMostNs},
    {"exposed_memory_ns", &Sums::exposed_memory_ns, kMostNs},
    {"lost_ns", &Sums::lost_ns, kMostNs},
    {"training_steps", &Sums::training_steps, kMostCount},
    {"training_ns", &Sums::training_ns, kMostNs},
    {"training_gpu_ms", &Sums::training_gpu_ms, kMostCount},
    {"collective_ns", &Sums::collective_ns, kMostNs},
    {"wait_ns", &Sums::wait_ns, kMostNs},
    {"executed_flops", &Sums::executed_flops, kMostFlop},
    {"executed_capacity_flop", &Sums::executed_capacity_flop, kMostFlop},
    {"executed_ns", &Sums::executed_ns, kMostNs},
    {"counted_ms", &Sums::counted_ms, kMostCount},
    {"kernel_ms", &Sums::kernel_ms, kMostCount},
    {"energy_j", &Sums::energy_j, kMostCount},
    {"energy_ms", &Sums::energy_ms, kMostCount},
    {"clock_megacycles", &Sums::clock_megacycles, kMostCount},
    {"clock_ms", &Sums::clock_ms, kMostCount},
    {"tensor_active_ms", &Sums::tensor_active_ms, kMostCount},
    {"tensor_ms", &Sums::tensor_ms, kMostCount},
    {"read_mb", &Sums::read_mb, kMostCount},
    {"written_mb", &Sums::written_mb, kMostCount},
    {"io_ms", &Sums::io_ms, kMostCount},
    {"productive_ms", &Sums::productive_ms, kMostCount},
    {"start_up_ms", &Sums::start_up_ms, kMostCount},
    {"restart_ms", &Sums::restart_ms, kMostCount},
    {"writing_ms", &Sums::writing_ms, kMostCount},
    {"reading_ms", &Sums::reading_ms, kMostCount},
    {"stalled_ms", &Sums::stalled_ms, kMostCount},
    {"tail_ms", &Sums::tail_ms, kMostCount},
};

// Where the model FLOPs come from, in the order of their names.
enum class Basis : uint8_t {
  kNone,
  kModel,    // the job declared FLOPs, or a model's shape
  kGemm,     // inferred from counted matrix multiplications (profiler/model_inference.hh)
  kSeveral,  // of some steps so, of others otherwise
};
inline constexpr int kBases = 4;
// "model", "gemm", "several"; empty for kNone.
const char* basis_name(Basis basis);

// Who says how many training steps there were, in the order of their names.
enum class StepsBy : uint8_t { kNobody, kDeclared, kNvtx, kKernel, kPeriod, kSeveral };
inline constexpr int kStepsBy = 6;
// "nvtx", "kernel", "period", "several"; empty for the others.
const char* steps_by_name(StepsBy by);

// Comment::slowest.
inline constexpr uint32_t kNoTask = UINT32_MAX;
inline constexpr uint32_t kSeveralTasks = UINT32_MAX - 1;

// What an audit said of where a step's tasks sit (placement.hh). The worst one of several stands.
struct Place {
  enum class Verdict : uint8_t { kUnknown, kOk, kWarn, kBad } verdict = Verdict::kUnknown;
  uint32_t findings = 0;  // warnings, or those of high severity
  std::string rules;      // names of the most severe ones, with commas; at most kMostRules bytes

  auto operator<=>(const Place&) const = default;
};
inline constexpr size_t kMostRules = 56;
// "ok", "warn:2(job-leaves)", "bad:1(nic-down)"; empty when it is unknown.
std::string place_text(const Place& place);
// `text` made a list of rules' names.
std::string fit_rules(std::string_view text);

// The line's content. A reason is one of those in mfu-comment(5): [a-z0-9-:.], at most kMaxReason
// bytes; format_comment() makes any other text fit. While a step runs, its reasons, basis,
// steps_by, slowest, clock and peak stand where the merged steps have none, and go when it is
// merged.
struct Comment {
  uint32_t run = 0;                           // how often the job had been requeued
  uint32_t gpus = 0;                          // of the widest step
  std::string gpu;                            // short device name, or kMixed; empty: unknown
  uint64_t peak_gigaflops = 0;                // 0: unknown; kMixedPeak
  Precision precision = Precision::kUnknown;  // that the peak is of
  // Of several peaks kEstimated where one of them is, else kUnknown.
  PeakBasis peak_basis = PeakBasis::kUnknown;
  Basis basis = Basis::kNone;  // of sums.model_flops
  std::string no_mfu;   // why mfu is n/a, or leaves out a part of the job; empty: unknown reason
  std::string no_hfu;   // the same of hfu
  std::string no_time;  // the same of compute, comm, mem and idle
  StepsBy steps_by = StepsBy::kNobody;
  uint32_t slowest = kNoTask;    // the rank that the others waited for, where one stands out
  uint32_t clock_limit_mhz = 0;  // the highest that a GPU offers; 0: unknown
  // Why clocks were held back for a part of the time: a ClockReason's name, or kMixed; empty: no
  // reason stands out.
  std::string clock_reason;
  Place place;
  std::string partial;  // why a part of the merged steps is missing; empty: nothing is
  StepSet merged;
  Sums sums;                             // of the merged steps
  std::optional<uint32_t> running_step;  // the step that `current` is of
  Sums current;

  // The merged steps and the running one, unless that one has been merged since.
  Sums total() const;
  bool running() const { return running_step && !merged.contains(*running_step); }
};
inline constexpr char kMixed[] = "mixed";
inline constexpr char kUnknownGpu[] = "unknown";
inline constexpr uint64_t kMixedPeak = UINT64_MAX;
inline constexpr size_t kMaxReason = 32;
// `text` made a reason, a device name (nothing for a device that is not known).
std::string fit_reason(std::string_view text);
std::string fit_name(std::string_view text);
inline constexpr size_t kMaxGpuName = 16;

// "task3" or "several"; empty for kNoTask.
std::string task_text(uint32_t task);

// Figures that a line shows, from its sums. Negative when unknown.
struct Figures {
  double mfu = -1;      // fraction; > 1 is shown, with "!" after it: the basis is wrong
  double hfu = -1;      // the same
  double compute = -1;  // fractions of attributed GPU time
  double exposed_communication = -1;
  double overlapped_communication = -1;
  double exposed_memory = -1;
  double idle = -1;
  double wait = -1;  // fraction of the collectives' time
  double step_seconds = -1;
  double flops_coverage = -1;     // flops_ns / elapsed_ns
  double observed_coverage = -1;  // (attributed - lost) / elapsed
  double executed_coverage = -1;  // executed_ns / elapsed_ns
  double counted_coverage = -1;   // counted_ms / kernel_ms

  // Known where the sensor covers kLeastSensorCoverage of the elapsed GPU time (clock_mhz: of that
  // without idle_ns).
  double watts = -1;            // mean of a GPU
  double joules_per_step = -1;  // watts times the GPU time of a training step
  double clock_mhz = -1;        // mean, while a GPU was not idle
  double tensor_activity = -1;  // fraction of time in which tensor cores were busy
  double read_gb_per_s = -1;    // 10^9 bytes, mean of a GPU
  double written_gb_per_s = -1;
  Goodput goodput;
};
inline constexpr double kLeastSensorCoverage = 0.9;
// MFU below this FLOPs coverage, and HFU below this executed or counted coverage, is n/a(coverage):
// it would speak of a small part of the job.
inline constexpr double kLeastCoverage = kLeastCountedTime;
Figures figures(const Comment& comment);

// "51.9%"; "n/a" for a negative fraction; at most "999.9%". Of no locale.
std::string percent_text(double fraction);
// The same rounded down: 100.0% is all.
std::string coverage_text(double fraction);
// "1.13s", "0.0041s"; "n/a" for a negative number.
std::string seconds_text(double seconds);
// "5.53kJ": J, kJ, MJ or GJ with three digits; "n/a" for a negative number.
std::string energy_text(double joules);
// "133.7(bf16,mig)": TFLOP/s; "mixed", or "n/a" for an unknown one.
std::string peak_text(const Comment& comment);
// "1755/1980(power)", as far as it is known; empty: nothing is.
std::string clock_text(const Comment& comment, const Figures& figures);
// "0.12+0.03GB/s"; "n/a" when it is not known.
std::string storage_text(const Figures& figures);

// Why mfu is n/a: a reason, "coverage" or "overflow". Empty: it is known.
std::string why_no_mfu(const Comment& comment);
// The same of hfu; "no-counts" where nothing was counted and nobody says why.
std::string why_no_hfu(const Comment& comment);
// Why compute, comm, mem and idle are n/a: a reason or "overflow". Empty: they are known.
std::string why_no_time(const Comment& comment);

// A byte of a value in the line: printable ASCII without blank, quotes, '|', ';' and '\'.
constexpr bool is_value_byte(char byte) {
  // A bit each: a million lines are read byte by byte.
  constexpr uint64_t kLow = 0xf7ffff7a00000000;   // '!' to '?' without " ' ;
  constexpr uint64_t kHigh = 0x6ffffffeefffffff;  // '@' to '~' without \ ` |
  const auto code = static_cast<unsigned char>(byte);
  return code < 128 && ((code < 64 ? kLow : kHigh) >> (code % 64) & 1) != 0;
}

// The line, without trailing newline. Text that does not fit the grammar is made to fit. A sum that
// is 0 is written as nothing. In a line that would be longer than kMaxLine the running step's sums
// are rounded down to four digits, and those of its sensors, files and goodput left out, which is
// made good by its next words; then old gaps in `s=` are closed, then figures left out that follow
// from the sums (io, util, energy, mem, idle, power, step, comm, goodput), then `cur=`. Sums near
// their bounds, which no job reaches, also cost what stands in parentheses behind clock, wait and
// steps, and the ends of reasons.
std::string format_comment(const Comment& comment);

// Reads a line (no surrounding text). Hostile input gives an error naming the byte offset.
tl::expected<Comment, std::string> parse_comment(std::string_view line);

// Folds a finished step into the job's line. False when it is in there already, or when the line
// is of a later run of a requeued job. A line of an earlier run starts anew. The order of merges
// does not matter. `step` carries its sums in `sums`; its `merged` and `current` are not read.
bool merge_step(Comment* job, const Comment& step, uint32_t step_id);

// Shows the state of a step that still runs in the job's line, in the place of what it or another
// running step showed. False as above.
bool show_running(Comment* job, const Comment& step, uint32_t step_id);

// --- The line inside a field that others write to as well.

// Our line in `field`: from "mfu/1 " at the field's start or after white space to the full stop
// that ends `sum=`, with nothing but key=value tokens between. An empty view at the field's end
// when there is none. A line found may still be unsound: parse_comment() tells.
std::string_view find_comment(std::string_view field);

// `field` with our line put in place of the old one, or appended after a blank; everybody else's
// text stays, byte for byte. An error when the field belongs to jobstats ("JS..."), whose readers
// break on any change, or when the result would exceed `limit` bytes.
tl::expected<std::string, std::string> replace_comment(std::string_view field,
                                                       std::string_view line, size_t limit);

}  // namespace mfu

#endif
