#include "plugin/comment.hh"

#include <algorithm>
#include <iterator>

namespace mfu {
namespace {

constexpr uint128 kNsPerMs = 1'000'000;

double ratio(uint128 part, uint128 whole) {
  return whole == 0 ? -1 : static_cast<double>(part) / static_cast<double>(whole);
}

// `amount` a unit of the time that its sensor was read in; unknown where that is too little of
// the time that counts.
double sensor_rate(uint128 amount, uint128 known_ms, uint128 whole_ns) {
  const double coverage = ratio(known_ms * kNsPerMs, whole_ns);
  return coverage >= kLeastSensorCoverage ? ratio(amount, known_ms) : -1;
}

void add_sensor_figures(const Sums& sums, Figures* result) {
  const uint128 elapsed = sums.elapsed_ns;
  const double joules_per_ms = sensor_rate(sums.energy_j, sums.energy_ms, elapsed);
  if (joules_per_ms >= 0) {
    result->watts = joules_per_ms * 1000;
    if (sums.training_gpu_ms > 0 && sums.training_steps > 0) {
      result->joules_per_step = joules_per_ms * ratio(sums.training_gpu_ms, sums.training_steps);
    }
  }
  const uint128 busy = elapsed - std::min(elapsed, sums.idle_ns());
  const double gigahertz = sensor_rate(sums.clock_megacycles, sums.clock_ms, busy);
  if (gigahertz >= 0) result->clock_mhz = gigahertz * 1000;
  result->tensor_activity =
      sensor_rate(std::min(sums.tensor_active_ms, sums.tensor_ms), sums.tensor_ms, elapsed);
  // 10^6 bytes a millisecond are 10^9 bytes a second.
  result->read_gb_per_s = sensor_rate(sums.read_mb, sums.io_ms, elapsed);
  result->written_gb_per_s = sensor_rate(sums.written_mb, sums.io_ms, elapsed);
}

bool is_reason_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
         byte == ':' || byte == '.';
}

bool is_name_byte(char byte) {
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
         (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
}

// Nothing yields to something; two different texts are kMixed.
std::string merged_text(const std::string& ours, const std::string& theirs) {
  if (theirs.empty() || ours == theirs) return ours;
  return ours.empty() ? theirs : kMixed;
}

// The same of marks: `none` yields, two different ones are `several`.
template <typename Mark>
Mark merged_mark(Mark ours, Mark theirs, Mark none, Mark several) {
  if (theirs == none || ours == theirs) return ours;
  return ours == none ? theirs : several;
}

// "no-cuda" is what helper steps give (nvidia-smi, hostname): another reason says more.
std::string merged_reason(std::string_view ours, std::string_view theirs) {
  const std::string_view weak = "no-cuda";
  if (ours == weak && !theirs.empty()) return fit_reason(theirs);
  if (theirs == weak && !ours.empty()) return fit_reason(ours);
  return merged_text(fit_reason(ours), fit_reason(theirs));
}

// Why a part is missing: nothing when none is, and never nothing when all is.
std::string flops_gap(const Sums& sums, std::string_view reason) {
  if (sums.flops_whole()) return "";
  if (!reason.empty()) return fit_reason(reason);
  if (sums.model_flops == 0) return "no-flops";
  return sums.capacity_flop == 0 ? "peak-unknown" : "";
}

std::string time_gap(const Sums& sums, std::string_view reason) {
  if (sums.time_whole()) return "";
  if (!reason.empty()) return fit_reason(reason);
  return sums.attributed_ns == 0 ? "no-records" : "";
}

std::string executed_gap(const Sums& sums, std::string_view reason) {
  if (sums.executed_whole()) return "";
  if (!reason.empty()) return fit_reason(reason);
  if (sums.executed_flops == 0) return "no-counts";
  return sums.executed_capacity_flop == 0 ? "peak-unknown" : "";
}

// The reasons of the line. One in it is that of the merged steps where these have a gap, otherwise
// that of the running step, whose next words it must not outlive.
struct Reason {
  std::string Comment::*text;
  bool (Sums::*whole)() const;
  std::string (*gap)(const Sums&, std::string_view);

  bool is_merged(const Comment& job) const { return !job.merged.empty() && !(job.sums.*whole)(); }
};
constexpr Reason kReasons[] = {
    {&Comment::no_mfu, &Sums::flops_whole, flops_gap},
    {&Comment::no_hfu, &Sums::executed_whole, executed_gap},
    {&Comment::no_time, &Sums::time_whole, time_gap},
};

// A peak that FLOPs were divided by.
bool peak_counts(const Sums& sums) {
  return sums.capacity_flop > 0 || sums.executed_capacity_flop > 0;
}

void set_peak(Comment* job, uint64_t gigaflops, Precision precision, PeakBasis basis) {
  job->peak_gigaflops = gigaflops;
  job->precision = precision;
  job->peak_basis = basis;
}

// One that is an upper bound makes the MFU too low, whatever the others are: it stands.
PeakBasis merged_basis(PeakBasis ours, PeakBasis theirs) {
  if (theirs == PeakBasis::kEstimated) return theirs;
  return ours == PeakBasis::kEstimated ? ours : std::max(ours, theirs);
}

// Peaks that count go first: the others are those of steps without FLOPs.
void merge_peak(Comment* job, const Comment& step) {
  if (step.peak_gigaflops == 0) return;
  const bool ours = job->peak_gigaflops != 0 && peak_counts(job->sums);
  const bool theirs = peak_counts(step.sums);
  if (ours && !theirs) return;
  if (job->peak_gigaflops == 0 || (theirs && !ours)) {
    return set_peak(job, step.peak_gigaflops, step.precision, step.peak_basis);
  }
  const PeakBasis basis = merged_basis(job->peak_basis, step.peak_basis);
  if (step.peak_gigaflops == job->peak_gigaflops && step.precision == job->precision) {
    job->peak_basis = basis;
  } else {
    set_peak(job, kMixedPeak, Precision::kUnknown,
             basis == PeakBasis::kEstimated ? basis : PeakBasis::kUnknown);
  }
}

// What is neither a sum nor a reason: the same in any order and any number of times.
void merge_description(Comment* job, const Comment& step) {
  job->gpus = std::max(job->gpus, step.gpus);
  job->gpu = merged_text(fit_name(job->gpu), fit_name(step.gpu));
  merge_peak(job, step);
  if (step.sums.model_flops > 0) {
    job->basis = merged_mark(job->basis, step.basis, Basis::kNone, Basis::kSeveral);
  }
  if (step.sums.training_steps > 0) {
    job->steps_by = merged_mark(job->steps_by, step.steps_by, StepsBy::kNobody, StepsBy::kSeveral);
  }
  if (step.sums.collective_ns > 0) {
    job->slowest = merged_mark(job->slowest, step.slowest, kNoTask, kSeveralTasks);
  }
  if (step.sums.clock_ms > 0) {
    job->clock_limit_mhz = std::max(job->clock_limit_mhz, step.clock_limit_mhz);
    job->clock_reason = merged_text(fit_reason(job->clock_reason), fit_reason(step.clock_reason));
  }
  Place place = step.place;
  place.rules = fit_rules(place.rules);
  job->place.rules = fit_rules(job->place.rules);
  job->place = std::max(job->place, place);
  job->partial = merged_reason(job->partial, step.partial);
}

// Marks whose sums the merged steps do not have are the running step's. They change while it runs:
// what it says next takes their place.
void drop_running_marks(Comment* job) {
  const Sums& merged = job->sums;
  if (merged.model_flops == 0) job->basis = Basis::kNone;
  if (merged.training_steps == 0) job->steps_by = StepsBy::kNobody;
  if (merged.collective_ns == 0) job->slowest = kNoTask;
  if (merged.clock_ms == 0) {
    job->clock_limit_mhz = 0;
    job->clock_reason.clear();
  }
  if (job->running_step && !peak_counts(merged)) {
    set_peak(job, 0, Precision::kUnknown, PeakBasis::kUnknown);
  }
}

// False when the line must not take the step in. Clears a line that speaks of an earlier run, and
// what a running step has said of itself: with `other_stays` this step only.
bool open_line(Comment* job, const Comment& step, uint32_t step_id, bool other_stays) {
  if (step.run < job->run || (step.run == job->run && job->merged.contains(step_id))) return false;
  const bool other_runs = other_stays && job->running_step && *job->running_step != step_id;
  if (step.run > job->run || (job->merged.empty() && !other_runs)) {
    *job = Comment{};
    job->run = step.run;
  }
  for (const Reason& reason : kReasons) {
    if (!reason.is_merged(*job)) (job->*reason.text).clear();
  }
  drop_running_marks(job);
  return true;
}

}  // namespace

std::string fit_reason(std::string_view text) {
  std::string reason(text.substr(0, kMaxReason));
  for (char& byte : reason) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
    if (!is_reason_byte(byte)) byte = '-';
  }
  return reason;
}

std::string fit_rules(std::string_view text) {
  std::string rules(text.substr(0, kMostRules));
  std::replace_if(
      rules.begin(), rules.end(),
      [](char byte) {
        return !((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
                 byte == ',');
      },
      '-');
  return rules;
}

std::string fit_name(std::string_view text) {
  if (text == kUnknownGpu) return "";
  std::string name(text.substr(0, kMaxGpuName));
  std::replace_if(
      name.begin(), name.end(), [](char byte) { return !is_name_byte(byte); }, '-');
  return name;
}

Sums& Sums::operator+=(const Sums& other) {
  for (const SumField& field : kSumFields) {
    const uint128 room = field.most - std::min(this->*field.member, field.most);
    this->*field.member = field.most - room + std::min(other.*field.member, room);
  }
  return *this;
}

uint128 Sums::idle_ns() const {
  uint128 rest = attributed_ns;
  for (const uint128 part : {compute_ns, exposed_communication_ns, exposed_memory_ns}) {
    rest -= std::min(rest, part);
  }
  return rest;
}

bool Sums::overflowed() const {
  return std::any_of(std::begin(kSumFields), std::end(kSumFields),
                     [&](const SumField& field) { return this->*field.member >= field.most; });
}

bool Sums::flops_whole() const {
  return flops_ns >= elapsed_ns && model_flops > 0 && capacity_flop > 0;
}

bool Sums::executed_whole() const {
  return executed_ns >= elapsed_ns && executed_flops > 0 && executed_capacity_flop > 0;
}

bool Sums::time_whole() const {
  return attributed_ns >= elapsed_ns && attributed_ns > 0 && lost_ns == 0;
}

GoodputSums Sums::goodput() const {
  GoodputSums parts;
  parts.productive_ns = productive_ms * kNsPerMs;
  parts.start_up_ns = start_up_ms * kNsPerMs;
  parts.restart_ns = restart_ms * kNsPerMs;
  parts.writing_ns = writing_ms * kNsPerMs;
  parts.reading_ns = reading_ms * kNsPerMs;
  parts.stalled_ns = stalled_ms * kNsPerMs;
  parts.tail_ns = tail_ms * kNsPerMs;
  const uint128 known = parts.total_ns();
  parts.unknown_ns = elapsed_ns - std::min(elapsed_ns, known);
  return parts;
}

Sums Comment::total() const {
  Sums all = sums;
  if (running()) all += current;
  return all;
}

Figures figures(const Comment& comment) {
  const Sums total = comment.total();
  Figures result;
  if (total.overflowed()) return result;
  result.flops_coverage = ratio(total.flops_ns, total.elapsed_ns);
  result.observed_coverage =
      ratio(total.attributed_ns - std::min(total.attributed_ns, total.lost_ns), total.elapsed_ns);
  if (total.model_flops > 0 && result.flops_coverage >= kLeastCoverage) {
    result.mfu = ratio(total.model_flops, total.capacity_flop);
  }
  result.executed_coverage = ratio(total.executed_ns, total.elapsed_ns);
  result.counted_coverage = ratio(std::min(total.counted_ms, total.kernel_ms), total.kernel_ms);
  if (total.executed_flops > 0 && result.executed_coverage >= kLeastCoverage &&
      result.counted_coverage >= kLeastCoverage) {
    result.hfu = ratio(total.executed_flops, total.executed_capacity_flop);
  }
  result.compute = ratio(total.compute_ns, total.attributed_ns);
  result.exposed_communication = ratio(total.exposed_communication_ns, total.attributed_ns);
  result.overlapped_communication = ratio(total.overlapped_communication_ns, total.attributed_ns);
  result.exposed_memory = ratio(total.exposed_memory_ns, total.attributed_ns);
  result.idle = ratio(total.idle_ns(), total.attributed_ns);
  result.wait = ratio(std::min(total.wait_ns, total.collective_ns), total.collective_ns);
  result.step_seconds = ratio(total.training_ns, total.training_steps);
  if (result.step_seconds >= 0) result.step_seconds /= 1e9;
  add_sensor_figures(total, &result);
  result.goodput = mfu::goodput(total.goodput());
  return result;
}

std::string why_no_mfu(const Comment& comment) {
  if (figures(comment).mfu >= 0) return "";
  const Sums total = comment.total();
  if (total.overflowed()) return "overflow";
  if (total.model_flops > 0 && total.capacity_flop > 0) return "coverage";
  return flops_gap(total, comment.no_mfu);
}

std::string why_no_hfu(const Comment& comment) {
  if (figures(comment).hfu >= 0) return "";
  const Sums total = comment.total();
  if (total.overflowed()) return "overflow";
  if (total.executed_flops > 0 && total.executed_capacity_flop > 0) return "coverage";
  return executed_gap(total, comment.no_hfu);
}

std::string why_no_time(const Comment& comment) {
  const Sums total = comment.total();
  if (total.overflowed()) return "overflow";
  return total.attributed_ns > 0 ? "" : time_gap(total, comment.no_time);
}

bool merge_step(Comment* job, const Comment& step, uint32_t step_id) {
  if (!open_line(job, step, step_id, true)) return false;
  merge_description(job, step);
  // A step without GPU time (a batch script whose steps do the work) gives the reason only where no
  // other step has one to give.
  const bool job_empty = job->sums.elapsed_ns == 0;
  const bool step_empty = step.sums.elapsed_ns == 0;
  if (job_empty && !step_empty) {
    for (const Reason& reason : kReasons) (job->*reason.text).clear();
  }
  if (job_empty || !step_empty) {
    for (const Reason& reason : kReasons) {
      std::string& text = job->*reason.text;
      text = merged_reason(text, reason.gap(step.sums, step.*reason.text));
    }
  }
  job->sums += step.sums;
  job->merged.insert(step_id);
  if (!job->running()) job->running_step.reset();
  return true;
}

bool show_running(Comment* job, const Comment& step, uint32_t step_id) {
  if (!open_line(job, step, step_id, false)) return false;
  // Where the merged steps have marks of their own, these stay.
  Comment shown = step;
  const Sums& merged = job->sums;
  if (merged.model_flops > 0) shown.sums.model_flops = 0;
  if (merged.training_steps > 0) shown.sums.training_steps = 0;
  if (merged.collective_ns > 0) shown.sums.collective_ns = 0;
  if (merged.clock_ms > 0) shown.sums.clock_ms = 0;
  if (peak_counts(merged)) shown.peak_gigaflops = 0;
  merge_description(job, shown);
  for (const Reason& reason : kReasons) {
    if (!reason.is_merged(*job)) job->*reason.text = reason.gap(step.sums, step.*reason.text);
  }
  job->running_step = step_id;
  job->current = step.sums;
  return true;
}

}  // namespace mfu
