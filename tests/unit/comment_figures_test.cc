// What the sums of a line say.
#include <gtest/gtest.h>

#include <cstdio>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

TEST(Figures, ExecutedFlopsNeedHalfOfTheKernelTimeAndOfTheGpus) {
  Comment step = observed_step_of(8, 100, 400);
  EXPECT_DOUBLE_EQ(figures(step).hfu, 0.412);
  EXPECT_EQ(why_no_hfu(step), "");
  Comment half = step;
  half.sums.counted_ms = half.sums.kernel_ms / 2;
  EXPECT_DOUBLE_EQ(figures(half).counted_coverage, 0.5);
  EXPECT_DOUBLE_EQ(figures(half).hfu, 0.412);
  half.sums.counted_ms -= 1;
  EXPECT_LT(figures(half).hfu, 0);
  EXPECT_EQ(why_no_hfu(half), "coverage");
  EXPECT_EQ(value_of(format_comment(job_of(half)), "counted"), "49.9%");

  // Of eight GPUs four count.
  Comment four = step;
  four.sums.counted_ms = four.sums.kernel_ms * 7 / 10;
  four.sums.executed_ns /= 2;
  four.sums.executed_capacity_flop /= 2;
  four.sums.executed_flops /= 2;
  four.no_hfu = "no-cublas";
  EXPECT_DOUBLE_EQ(figures(four).hfu, 0.412);
  EXPECT_EQ(value_of(format_comment(job_of(four)), "counted"), "70.0%(no-cublas)");
  four.sums.executed_ns -= 8;
  EXPECT_EQ(why_no_hfu(four), "coverage");
  EXPECT_EQ(parsed(format_comment(job_of(four))).no_hfu, "no-cublas");

  // Without kernel time nobody knows what the FLOPs are of.
  step.sums.kernel_ms = step.sums.counted_ms = 0;
  EXPECT_EQ(why_no_hfu(step), "coverage");
  EXPECT_EQ(value_of(format_comment(job_of(step)), "counted"), "n/a");
}

TEST(Figures, HfuIsMarkedAndExplainedAsMfuIs) {
  Comment step = observed_step_of(8, 22, 1000);
  EXPECT_EQ(value_of(format_comment(job_of(step)), "hfu"), "103.0%!");
  step.sums.executed_flops = step.sums.executed_capacity_flop = step.sums.executed_ns = 0;
  EXPECT_EQ(value_of(format_comment(job_of(step)), "hfu"), "n/a(no-counts)");
  EXPECT_EQ(value_of(format_comment(job_of(step)), "counted"), "");
  step.no_hfu = "count-off";
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "hfu"), "n/a(count-off)");
  EXPECT_EQ(parsed(line).no_hfu, "count-off");
}

TEST(Figures, OfSensorsOnlyWhereTheyCoverMostOfTheTime) {
  struct Case {
    const char* key;
    uint128 Sums::*known_ms;
    double Figures::*figure;
    double value;
  };
  for (const Case& c : {Case{"power", &Sums::energy_ms, &Figures::watts, 600},
                        {"clock", &Sums::clock_ms, &Figures::clock_mhz, 1500},
                        {"util", &Sums::tensor_ms, &Figures::tensor_activity, 0.25},
                        {"io", &Sums::io_ms, &Figures::read_gb_per_s, 2},
                        {"io", &Sums::io_ms, &Figures::written_gb_per_s, 0.5}}) {
    Comment step = observed_step_of(1, 1000, 400);
    step.clock_limit_mhz = 0;
    step.clock_reason.clear();
    step.sums.compute_ns = step.sums.attributed_ns;  // never idle
    const auto know = [&](uint64_t ms) {
      step.sums.*c.known_ms = ms;
      step.sums.energy_j = ms * 600 / 1000;
      step.sums.clock_megacycles = ms * 1500 / 1000;
      step.sums.tensor_active_ms = ms / 4;
      step.sums.read_mb = ms * 2;
      step.sums.written_mb = ms / 2;
    };
    know(900'000);
    EXPECT_DOUBLE_EQ(figures(step).*c.figure, c.value) << c.key;
    EXPECT_NE(value_of(format_comment(job_of(step)), c.key), "");
    know(899'000);
    EXPECT_LT(figures(step).*c.figure, 0) << c.key;
    EXPECT_EQ(value_of(format_comment(job_of(step)), c.key), "");
    know(0);
    EXPECT_LT(figures(step).*c.figure, 0) << c.key;
  }
}

TEST(Figures, AClockNeedsNotBeKnownOfIdleTime) {
  Comment step = observed_step_of(1, 1000, 400);
  step.sums.compute_ns = step.sums.attributed_ns / 2;
  step.sums.exposed_communication_ns = step.sums.exposed_memory_ns = 0;
  step.sums.clock_ms = 450'000;
  step.sums.clock_megacycles = 450 * 1700;
  EXPECT_DOUBLE_EQ(figures(step).clock_mhz, 1700);
  EXPECT_EQ(value_of(format_comment(job_of(step)), "clock"), "1700/1980(power)");
  step.sums.clock_ms = 449'000;
  EXPECT_LT(figures(step).clock_mhz, 0);
  EXPECT_EQ(value_of(format_comment(job_of(step)), "clock"), "n/a/1980(power)");
  step.sums.clock_ms = 0;
  EXPECT_EQ(value_of(format_comment(job_of(step)), "clock"), "");
}

// 8 GPUs of 500 W train for 90 s out of 100: 40 steps of 2.25 s, of 4 kW. Then 4 GPUs.
TEST(Figures, EnergyOfAStepIsThatOfAllItsGpus) {
  Comment step = step_of(8, 100, 400);
  step.sums.training_steps = 40;
  step.sums.training_ns = 90 * kSecond;
  step.sums.training_gpu_ms = 8 * 90'000;
  step.sums.energy_ms = 8 * 100'000;
  step.sums.energy_j = 8 * 100 * 500;
  EXPECT_DOUBLE_EQ(figures(step).watts, 500);
  EXPECT_DOUBLE_EQ(figures(step).joules_per_step, 9000);
  Comment job = job_of(step);
  EXPECT_EQ(value_of(format_comment(job), "energy"), "9.00kJ");
  Comment other = step_of(4, 100, 400);
  other.sums.training_steps = 80;
  other.sums.training_gpu_ms = 4 * 90'000;
  other.sums.energy_ms = 4 * 100'000;
  other.sums.energy_j = 4 * 100 * 500;
  ASSERT_TRUE(merge_step(&job, other, 1));
  EXPECT_DOUBLE_EQ(figures(job).joules_per_step, 500.0 * 12 * 90 / 120);
  // Not known without steps, or without power.
  job.sums.training_gpu_ms = 0;
  EXPECT_LT(figures(job).joules_per_step, 0);
  step.sums.energy_ms /= 2;
  EXPECT_LT(figures(step).joules_per_step, 0);
}

TEST(Figures, GoodputNamesItsLargestLoss) {
  Comment step = observed_step_of(8, 1000, 400);
  const auto value = [&] { return value_of(format_comment(job_of(step)), "goodput"); };
  EXPECT_EQ(value(), "96.0%(checkpoint)");
  step.sums.restart_ms = step.sums.writing_ms + 1;
  step.sums.productive_ms -= step.sums.restart_ms;
  EXPECT_EQ(value(), "94.0%(restart)");
  step.sums.productive_ms = step.sums.elapsed_ns / 1'000'000 - 1;  // rounding is no loss
  step.sums.start_up_ms = step.sums.restart_ms = step.sums.writing_ms = step.sums.stalled_ms = 0;
  step.sums.tail_ms = 0;
  EXPECT_EQ(value(), "100.0%");
  step.sums.productive_ms /= 2;  // nobody knows what became of the rest
  EXPECT_EQ(value(), "");
  EXPECT_STREQ(figures(step).goodput.why_not, "no-steps");
}

TEST(Text, Energy) {
  for (const auto& [joules, text] : {std::pair<double, const char*>{0, "0.00J"},
                                     {0.004, "0.00J"},
                                     {9.994, "9.99J"},
                                     {9.996, "10.0J"},
                                     {99.96, "100J"},
                                     {999.4, "999J"},
                                     {999.6, "1.00kJ"},
                                     {5530, "5.53kJ"},
                                     {55'349, "55.3kJ"},
                                     {1.5e6, "1.50MJ"},
                                     {2.25e10, "22.5GJ"},
                                     {1e15, "999GJ"},
                                     {-1, "n/a"}}) {
    EXPECT_EQ(energy_text(joules), text);
  }
}

TEST(Sums, AreExactFor16384GpusAndAMonth) {
  const Comment step = step_of(16384, 30 * 86400, 400);
  EXPECT_TRUE(step.sums.elapsed_ns > UINT64_MAX);
  Comment job = job_of(step, 0);
  ASSERT_TRUE(merge_step(&job, step, 1));
  ASSERT_TRUE(show_running(&job, step, 2));
  const std::string line = format_comment(job);
  EXPECT_LE(line.size(), kMaxLine);
  const Comment read = parsed(line);
  EXPECT_TRUE(read.sums.elapsed_ns == 2 * step.sums.elapsed_ns);
  EXPECT_TRUE(read.sums.model_flops == 2 * step.sums.model_flops);
  // The running step's are four digits.
  for (const SumField& field : kSumFields) {
    EXPECT_TRUE(read.current.*field.member <= step.sums.*field.member) << field.name;
    if (field.member == &Sums::span_ns) continue;  // which no figure comes from
    EXPECT_TRUE(read.current.*field.member >= step.sums.*field.member / 46656 * 46655)
        << field.name;
  }
  EXPECT_EQ(value_of(line, "mfu"), "40.0%");
  EXPECT_EQ(value_of(format_comment(job_of(step)), "idle"), "9.5%");
}

TEST(Sums, StopAtTheirBounds) {
  Comment step = step_of(8, 22, 500);
  step.sums.model_flops = kMostFlop - 1;
  Comment job = job_of(step, 0);
  EXPECT_FALSE(job.sums.overflowed());
  ASSERT_TRUE(merge_step(&job, step, 1));
  EXPECT_TRUE(job.sums.model_flops == kMostFlop);
  const std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "mfu"), "n/a(overflow)");
  EXPECT_EQ(value_of(line, "compute"), "n/a(overflow)");
  EXPECT_EQ(format_comment(parsed(line)), line);
  ASSERT_TRUE(merge_step(&job, step, 2));
  EXPECT_TRUE(job.sums.model_flops == kMostFlop);

  Sums wild;
  wild.model_flops = ~uint128{0};
  wild += wild;
  EXPECT_TRUE(wild.model_flops == kMostFlop);
}

TEST(Sums, IdleIsNeverNegative) {
  Sums sums;
  sums.attributed_ns = 10;
  sums.compute_ns = 6;
  sums.exposed_communication_ns = 3;
  EXPECT_TRUE(sums.idle_ns() == 1);
  sums.exposed_memory_ns = 5;
  EXPECT_TRUE(sums.idle_ns() == 0);
}

// The quick way and the library's tell the same digits, around ties too.
TEST(Figures, PercentagesAreRoundedAsByTheLibrary) {
  const auto by_library = [](double fraction) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f%%", std::min(fraction * 100, 999.9));
    return std::string(text);
  };
  for (int i = 0; i <= 100'000; ++i) {
    const double fraction = i / 10'000.0;  // every second one lies at a tie
    for (const double near : {fraction - 1e-12, fraction, fraction + 1e-12}) {
      if (near < 0) continue;
      ASSERT_EQ(percent_text(near), by_library(near)) << i;
    }
  }
  EXPECT_EQ(percent_text(9.999), "999.9%");
  EXPECT_EQ(percent_text(1e300), "999.9%");
  EXPECT_EQ(percent_text(-1), "n/a");
}

}  // namespace
}  // namespace mfu
