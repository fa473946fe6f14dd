// Jobs with sums that can be added up by hand.
#ifndef MFU_TESTS_UNIT_REPORT_GROUP_SAMPLES_HH_
#define MFU_TESTS_UNIT_REPORT_GROUP_SAMPLES_HH_

#include <string>
#include <vector>

#include "tests/unit/report_samples.hh"

namespace mfu {

inline constexpr uint128 kGpuSecond = 1'000'000'000;  // in GPU-nanoseconds
inline constexpr char kHostile[] = "=1|</td><script>alert(1)</script>\"'&\x1b[2J\n,\\";

// GPU-seconds of a job step, and its MFU in percent (0: none) at a peak in TFLOP/s.
struct StepTimes {
  uint64_t elapsed, compute, communication, lost;
  unsigned percent, peak;
};

inline Comment step_of(const StepTimes& times) {
  Comment step;
  step.gpus = 8;
  step.gpu = "H100-SXM";
  Sums& sums = step.sums;
  sums.elapsed_ns = sums.attributed_ns = times.elapsed * kGpuSecond;
  sums.compute_ns = times.compute * kGpuSecond;
  sums.exposed_communication_ns = times.communication * kGpuSecond;
  sums.lost_ns = times.lost * kGpuSecond;
  if (times.percent == 0) return step;
  step.peak_gigaflops = times.peak * uint64_t{1000};
  step.precision = Precision::kBf16;
  step.peak_basis = PeakBasis::kTable;
  step.basis = Basis::kGemm;
  sums.flops_ns = sums.elapsed_ns;
  sums.capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
  sums.model_flops = sums.capacity_flop / 100 * times.percent;
  return step;
}

// Of alice 8 GPU-hours of which a job step had 24,000 s, 1,000 of them lost, and 16 hours on slower
// GPUs without a gap; of bob 4 hours without a line; of carol a job that had no GPUs.
inline std::vector<Job> group_jobs() {
  std::vector<Job> jobs = {
      job_of("1", 8, 3600, line_of_step(step_of({24'000, 15'000, 3'000, 1'000, 50, 1000}))),
      job_of("2", 16, 3600, line_of_step(step_of({57'600, 40'000, 0, 0, 25, 500}))),
      job_of("3", 4, 3600, ""),
      job_of("4", 0, 3600, ""),
  };
  jobs[2].user = "bob";
  jobs[3].user = "carol";
  return jobs;
}

inline TableStyle grouped(std::vector<GroupBy> by) {
  return {.subject = Subject::kGroups, .by = std::move(by)};
}

}  // namespace mfu

#endif
