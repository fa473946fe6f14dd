// Comments for tests: plausible ones, and any that could be.
#ifndef MFU_TESTS_UNIT_COMMENT_SAMPLES_HH_
#define MFU_TESTS_UNIT_COMMENT_SAMPLES_HH_

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "plugin/comment.hh"

namespace mfu {

constexpr uint64_t kSecond = 1'000'000'000;

// A step of `gpus` H100 for `seconds` at the given MFU in permille.
inline Comment step_of(uint32_t gpus, uint64_t seconds, unsigned permille) {
  Comment step;
  step.gpus = gpus;
  step.gpu = "H100-SXM";
  step.peak_gigaflops = 989400;
  step.precision = Precision::kBf16;
  step.peak_basis = PeakBasis::kTable;
  step.basis = Basis::kModel;
  step.steps_by = StepsBy::kDeclared;
  Sums& sums = step.sums;
  sums.elapsed_ns = uint128{gpus} * seconds * kSecond;
  sums.flops_ns = sums.elapsed_ns;
  sums.attributed_ns = sums.elapsed_ns;
  sums.capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
  sums.model_flops = sums.capacity_flop * permille / 1000;
  sums.span_ns = sums.elapsed_ns - gpus;
  sums.compute_ns = sums.elapsed_ns * 782 / 1000;
  sums.exposed_communication_ns = sums.elapsed_ns * 121 / 1000;
  sums.overlapped_communication_ns = sums.elapsed_ns * 93 / 1000;
  sums.exposed_memory_ns = sums.elapsed_ns * 2 / 1000;
  sums.lost_ns = sums.elapsed_ns * 2 / 1000;
  sums.training_steps = 20;
  sums.training_ns = seconds * kSecond;
  sums.training_gpu_ms = uint128{gpus} * seconds * 1000;
  return step;
}

// The same with all that can be known of a step: executed FLOPs 3% above the model's, sensors,
// files and goodput.
inline Comment observed_step_of(uint32_t gpus, uint64_t seconds, unsigned permille) {
  Comment step = step_of(gpus, seconds, permille);
  step.basis = Basis::kGemm;
  step.steps_by = StepsBy::kPeriod;
  step.clock_limit_mhz = 1980;
  step.clock_reason = "power";
  Sums& sums = step.sums;
  const uint128 gpu_ms = uint128{gpus} * seconds * 1000;
  sums.executed_flops = sums.model_flops * 103 / 100;
  sums.executed_capacity_flop = sums.capacity_flop;
  sums.executed_ns = sums.elapsed_ns;
  sums.kernel_ms = gpu_ms * 79 / 100;
  sums.counted_ms = sums.kernel_ms * 813 / 1000;
  sums.training_gpu_ms = gpu_ms * 97 / 100;
  sums.training_ns = sums.training_ns * 97 / 100;
  sums.energy_ms = gpu_ms * 99 / 100;
  sums.energy_j = sums.energy_ms * 612 / 1000;
  sums.clock_ms = gpu_ms * 98 / 100;
  sums.clock_megacycles = sums.clock_ms * 1755 / 1000;
  sums.tensor_ms = sums.energy_ms;
  sums.tensor_active_ms = sums.tensor_ms * 552 / 1000;
  sums.io_ms = gpu_ms;
  sums.read_mb = gpu_ms * 12 / 100;
  sums.written_mb = gpu_ms * 3 / 100;
  sums.productive_ms = gpu_ms * 960 / 1000;
  sums.start_up_ms = gpu_ms * 9 / 1000;
  sums.writing_ms = gpu_ms * 20 / 1000;
  sums.stalled_ms = gpu_ms * 10 / 1000;
  sums.tail_ms = gpu_ms / 1000;
  return step;
}

// As the job's only step.
inline Comment job_of(const Comment& step, uint32_t step_id = 0) {
  Comment job;
  EXPECT_TRUE(merge_step(&job, step, step_id));
  return job;
}

inline Comment parsed(const std::string& line) {
  auto comment = parse_comment(line);
  EXPECT_TRUE(comment) << comment.error() << "\n" << line;
  return comment ? *comment : Comment{};
}

inline std::string value_of(const std::string& line, const std::string& key) {
  const size_t at = line.find(" " + key + "=");
  if (at == line.npos) return "";
  const size_t start = at + key.size() + 2;
  return line.substr(start, line.find(' ', start) - start);
}

inline std::string replaced(std::string line, const std::string& from, const std::string& to) {
  const size_t at = line.find(from);
  EXPECT_NE(at, line.npos) << from;
  return line.replace(at, from.size(), to);
}

inline uint128 wild_number(std::mt19937_64* random, uint128 most) {
  const uint128 number = (uint128{(*random)()} << 64) | (*random)();
  switch ((*random)() % 5) {
    case 0:
      return 0;
    case 1:
      return number % 1000;
    case 2:
      return number % (uint128{1} << 62);
    case 3:
      return number % (most + 1);
    default:
      return (*random)() % 8 == 0 ? number : most - number % 1000;
  }
}

inline std::string wild_text(std::mt19937_64* random) {
  static const char* const kTexts[] = {"",         "no-flops", "no-cuda",  "mixed",   "coverage",
                                       "overflow", "unknown",  "H100-SXM", "n/a",     "no-records",
                                       "a)b(c",    "x sum=0.", "\n\t|;\"", "\x80\xff"};
  std::string text = kTexts[(*random)() % std::size(kTexts)];
  if ((*random)() % 4 == 0) {
    for (size_t count = (*random)() % 60; count > 0; --count) {
      text += static_cast<char>((*random)() % 256);
    }
  }
  return text;
}

inline Sums wild_sums(std::mt19937_64* random) {
  Sums sums;
  for (const SumField& field : kSumFields) sums.*field.member = wild_number(random, field.most);
  return sums;
}

inline Comment wild_comment(std::mt19937_64* random) {
  Comment comment;
  comment.run = static_cast<uint32_t>(wild_number(random, UINT32_MAX));
  comment.gpus = static_cast<uint32_t>(wild_number(random, UINT32_MAX));
  comment.gpu = wild_text(random);
  comment.peak_gigaflops = static_cast<uint64_t>(wild_number(random, UINT64_MAX));
  comment.precision = static_cast<Precision>((*random)() % kPrecisions);
  comment.peak_basis = static_cast<PeakBasis>((*random)() % 6);
  comment.basis = static_cast<Basis>((*random)() % kBases);
  comment.no_mfu = wild_text(random);
  comment.no_hfu = wild_text(random);
  comment.no_time = wild_text(random);
  comment.steps_by = static_cast<StepsBy>((*random)() % kStepsBy);
  comment.slowest = (*random)() % 2 == 0 ? kNoTask : static_cast<uint32_t>((*random)() % 3);
  comment.clock_limit_mhz = static_cast<uint32_t>(wild_number(random, UINT32_MAX));
  comment.clock_reason = wild_text(random);
  comment.place.verdict = static_cast<Place::Verdict>((*random)() % 4);
  if (comment.place.verdict > Place::Verdict::kOk) {
    comment.place.findings = static_cast<uint32_t>(wild_number(random, UINT32_MAX));
    comment.place.rules = wild_text(random);
  }
  comment.partial = wild_text(random);
  for (size_t count = (*random)() % 40; count > 0; --count) {
    comment.merged.insert(static_cast<uint32_t>(((*random)() >> 32) >> (*random)() % 32) - 16);
  }
  comment.sums = wild_sums(random);
  if ((*random)() % 2 == 0) comment.running_step = static_cast<uint32_t>((*random)() % 20);
  comment.current = wild_sums(random);
  return comment;
}

// What a collector can give: no part larger than its whole, and sums as large as those of 16,384
// GPUs in a year.
inline Comment wild_step(std::mt19937_64* random) {
  Comment step = wild_comment(random);
  for (std::string Comment::*reason : {&Comment::no_mfu, &Comment::no_hfu, &Comment::no_time,
                                       &Comment::clock_reason, &Comment::partial}) {
    (step.*reason).resize(std::min<size_t>((step.*reason).size(), 10));
  }
  step.place.rules.clear();
  Sums& sums = step.sums;
  for (const SumField& field : kSumFields) sums.*field.member %= field.most / 1000;
  sums.elapsed_ns += 2;
  sums.flops_ns = sums.elapsed_ns / ((*random)() % 2 + 1);
  sums.attributed_ns = sums.elapsed_ns / ((*random)() % 2 + 1);
  sums.lost_ns = (*random)() % 2 * sums.attributed_ns / 2;
  if (step.steps_by == StepsBy::kNobody) step.steps_by = StepsBy::kDeclared;
  if ((*random)() % 3 == 0) sums.flops_ns = sums.model_flops = sums.capacity_flop = 0;
  if ((*random)() % 3 == 0) sums.attributed_ns = sums.lost_ns = 0;
  if (sums.model_flops == 0 || sums.capacity_flop == 0) {
    sums.model_flops = sums.capacity_flop = sums.flops_ns = 0;
  }
  sums.executed_ns = sums.elapsed_ns / ((*random)() % 2 + 1);
  if ((*random)() % 3 == 0 || sums.executed_flops == 0 || sums.executed_capacity_flop == 0) {
    sums.executed_ns = sums.executed_flops = sums.executed_capacity_flop = 0;
  }
  if (step.peak_gigaflops == 0) step.peak_gigaflops = 312000;  // FLOPs need one
  if ((*random)() % 3 == 0) sums.clock_ms = 0;
  return step;
}

}  // namespace mfu

#endif
