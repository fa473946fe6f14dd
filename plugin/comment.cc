#include "plugin/comment.hh"

#include <algorithm>
#include <iterator>

namespace mfu {
namespace {

double ratio(uint128 part, uint128 whole) {
  return whole == 0 ? -1 : static_cast<double>(part) / static_cast<double>(whole);
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

// What is neither a sum nor a reason: the same in any order and any number of times.
void merge_description(Comment* job, const Comment& step) {
  job->gpus = std::max(job->gpus, step.gpus);
  job->gpu = merged_text(fit_name(job->gpu), fit_name(step.gpu));
  if (job->peak_gigaflops == 0) {
    job->peak_gigaflops = step.peak_gigaflops;
    job->precision = step.precision;
  } else if (step.peak_gigaflops != 0 &&
             (step.peak_gigaflops != job->peak_gigaflops || step.precision != job->precision)) {
    job->peak_gigaflops = kMixedPeak;
    job->precision = Precision::kUnknown;
  }
  if (step.sums.training_steps > 0) {
    job->steps_by = merged_mark(job->steps_by, step.steps_by, StepsBy::kNobody, StepsBy::kSeveral);
  }
  if (step.sums.collective_ns > 0) {
    job->slowest = merged_mark(job->slowest, step.slowest, kNoTask, kSeveralTasks);
  }
  job->partial = merged_reason(job->partial, step.partial);
}

// The reasons in a line are those of the merged steps where these have a gap, otherwise those of
// the running step, whose next words they must not outlive.
bool mfu_reason_is_merged(const Comment& job) {
  return !job.merged.empty() && !job.sums.flops_whole();
}
bool time_reason_is_merged(const Comment& job) {
  return !job.merged.empty() && !job.sums.time_whole();
}

// False when the line must not take the step in. Clears a line that speaks of an earlier run, and
// what a running step has said of itself.
bool open_line(Comment* job, const Comment& step, uint32_t step_id) {
  if (step.run < job->run || (step.run == job->run && job->merged.contains(step_id))) return false;
  const bool another_step_runs = job->running_step && *job->running_step != step_id;
  if (step.run > job->run || (job->merged.empty() && !another_step_runs)) {
    *job = Comment{};
    job->run = step.run;
  }
  if (!mfu_reason_is_merged(*job)) job->no_mfu.clear();
  if (!time_reason_is_merged(*job)) job->no_time.clear();
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

bool Sums::time_whole() const {
  return attributed_ns >= elapsed_ns && attributed_ns > 0 && lost_ns == 0;
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
  result.compute = ratio(total.compute_ns, total.attributed_ns);
  result.exposed_communication = ratio(total.exposed_communication_ns, total.attributed_ns);
  result.overlapped_communication = ratio(total.overlapped_communication_ns, total.attributed_ns);
  result.exposed_memory = ratio(total.exposed_memory_ns, total.attributed_ns);
  result.idle = ratio(total.idle_ns(), total.attributed_ns);
  result.wait = ratio(std::min(total.wait_ns, total.collective_ns), total.collective_ns);
  result.step_seconds = ratio(total.training_ns, total.training_steps);
  if (result.step_seconds >= 0) result.step_seconds /= 1e9;
  return result;
}

std::string why_no_mfu(const Comment& comment) {
  if (figures(comment).mfu >= 0) return "";
  const Sums total = comment.total();
  if (total.overflowed()) return "overflow";
  if (total.model_flops > 0 && total.capacity_flop > 0) return "coverage";
  return flops_gap(total, comment.no_mfu);
}

std::string why_no_time(const Comment& comment) {
  const Sums total = comment.total();
  if (total.overflowed()) return "overflow";
  return total.attributed_ns > 0 ? "" : time_gap(total, comment.no_time);
}

bool merge_step(Comment* job, const Comment& step, uint32_t step_id) {
  if (!open_line(job, step, step_id)) return false;
  merge_description(job, step);
  // A step without GPU time (a batch script whose steps do the work) gives the reason only where no
  // other step has one to give.
  const bool job_empty = job->sums.elapsed_ns == 0;
  const bool step_empty = step.sums.elapsed_ns == 0;
  if (job_empty && !step_empty) {
    job->no_mfu.clear();
    job->no_time.clear();
  }
  if (job_empty || !step_empty) {
    job->no_mfu = merged_reason(job->no_mfu, flops_gap(step.sums, step.no_mfu));
    job->no_time = merged_reason(job->no_time, time_gap(step.sums, step.no_time));
  }
  job->sums += step.sums;
  job->merged.insert(step_id);
  if (!job->running()) job->running_step.reset();
  return true;
}

bool show_running(Comment* job, const Comment& step, uint32_t step_id) {
  if (!open_line(job, step, step_id)) return false;
  merge_description(job, step);
  if (!mfu_reason_is_merged(*job)) job->no_mfu = flops_gap(step.sums, step.no_mfu);
  if (!time_reason_is_merged(*job)) job->no_time = time_gap(step.sums, step.no_time);
  job->running_step = step_id;
  job->current = step.sums;
  return true;
}

}  // namespace mfu
