// The line as written, and what is merged into it.
#include "plugin/comment.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <vector>

#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

TEST(Line, AsDocumented) {
  EXPECT_EQ(format_comment(job_of(step_of(8, 22, 519))),
            "mfu/1 mfu=51.9% hfu=n/a(no-counts) basis=model gpus=8xH100-SXM peak=989.4(bf16) "
            "compute=78.2% comm=12.1%+9.3% mem=0.2% idle=9.5% steps=20 step=1.10s "
            "cover=100.0%/99.8% s=0 "
            "sum=opvj41gmps0,1bmlhqzz0yyo,28uput4w,28uput4w,28uput4w,28uput4o,1r86jev4,9s736rk,"
            "7ip31mo,5tkkxs,5tkkxs,k,a3u8cn4,0,0.");
}

TEST(Line, WaitingAndWhoIsWaitedFor) {
  Comment step = step_of(8, 22, 519);
  EXPECT_EQ(value_of(format_comment(job_of(step)), "wait"), "");
  step.sums.collective_ns = 1000;
  step.sums.wait_ns = 413;
  EXPECT_EQ(value_of(format_comment(job_of(step)), "wait"), "41.3%");
  step.slowest = 3;
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "wait"), "41.3%(task3)");
  EXPECT_EQ(format_comment(parsed(line)), line);
  // Another step: its waiting is added, and the straggler stays only if it is the same.
  Comment job = job_of(step);
  Comment silent = step_of(8, 22, 519);
  ASSERT_TRUE(merge_step(&job, silent, 1));
  EXPECT_EQ(value_of(format_comment(job), "wait"), "41.3%(task3)");
  step.sums.wait_ns = 1000;
  step.slowest = 12;
  ASSERT_TRUE(merge_step(&job, step, 2));
  EXPECT_EQ(value_of(format_comment(job), "wait"), "70.7%(several)");
  // More waiting than time is nobody's word.
  step.sums.wait_ns = 2000;
  EXPECT_EQ(value_of(format_comment(job_of(step)), "wait"), "100.0%(task12)");
}

TEST(Line, EmptyJobIsAllUnknown) {
  EXPECT_EQ(format_comment({}),
            "mfu/1 mfu=n/a(no-flops) hfu=n/a(no-counts) gpus=0xunknown peak=n/a "
            "compute=n/a(no-records) comm=n/a mem=n/a idle=n/a cover=n/a/n/a "
            "sum=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.");
}

TEST(Line, MfuAboveOneIsMarked) {
  EXPECT_EQ(value_of(format_comment(job_of(step_of(8, 22, 1042))), "mfu"), "104.2%!");
  EXPECT_EQ(value_of(format_comment(job_of(step_of(8, 22, 1000))), "mfu"), "100.0%");
  EXPECT_EQ(value_of(format_comment(job_of(step_of(8, 22, 77000))), "mfu"), "999.9%!");
}

TEST(Line, MfuIsNeverAGuess) {
  Comment step = step_of(8, 22, 500);
  step.no_mfu = "peak-unknown";
  step.sums.model_flops = step.sums.capacity_flop = step.sums.flops_ns = 0;
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "mfu"), "n/a(peak-unknown)");
  EXPECT_EQ(value_of(line, "basis"), "");
  EXPECT_EQ(value_of(line, "cover"), "0.0%/99.8%");
  EXPECT_EQ(parsed(line).no_mfu, "peak-unknown");
}

TEST(Line, CoverageBelowHalfGivesNoMfuAndKeepsTheReason) {
  Comment job = job_of(step_of(8, 49, 500), 0);
  Comment silent = step_of(8, 51, 0);
  silent.sums.capacity_flop = silent.sums.flops_ns = 0;
  silent.no_mfu = "no-flops";
  ASSERT_TRUE(merge_step(&job, silent, 1));
  std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "mfu"), "n/a(coverage)");
  EXPECT_EQ(value_of(line, "cover"), "49.0%(no-flops)/99.8%");
  EXPECT_EQ(parsed(line).no_mfu, "no-flops");

  ASSERT_TRUE(merge_step(&job, step_of(8, 100, 500), 2));
  line = format_comment(job);
  EXPECT_EQ(value_of(line, "mfu"), "50.0%");
  EXPECT_EQ(value_of(line, "cover"), "74.5%(no-flops)/99.8%");
}

TEST(Line, AttributionUnknown) {
  Comment step = step_of(8, 22, 500);
  step.no_time = "cupti:enable-kernel:39";
  step.sums.attributed_ns = step.sums.compute_ns = step.sums.exposed_communication_ns = 0;
  step.sums.overlapped_communication_ns = step.sums.exposed_memory_ns = step.sums.lost_ns = 0;
  const std::string line = format_comment(job_of(step));
  EXPECT_NE(line.find("compute=n/a(cupti:enable-kernel:39) comm=n/a mem=n/a idle=n/a steps=20"),
            line.npos)
      << line;
  EXPECT_EQ(value_of(line, "mfu"), "50.0%");
  EXPECT_EQ(value_of(line, "cover"), "100.0%/0.0%");
}

TEST(Line, PartOfTheAttributionMissingSaysWhy) {
  Comment step = step_of(8, 100, 500);
  step.sums.attributed_ns /= 2;
  step.no_time = "stood-down";
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "cover"), "100.0%/49.8%(stood-down)");
  EXPECT_EQ(parsed(line).no_time, "stood-down");
}

TEST(Line, PeakIsExact) {
  for (const auto& [gigaflops, text] : {std::pair<uint64_t, const char*>{989400, "989.4(bf16)"},
                                        {312000, "312(bf16)"},
                                        {60, "0.06(bf16)"},
                                        {1, "0.001(bf16)"},
                                        {1978905, "1978.905(bf16)"},
                                        {0, "n/a"},
                                        {kMixedPeak, "mixed"},
                                        {kMixedPeak - 1, "18446744073709551.614(bf16)"}}) {
    Comment step = step_of(1, 1, 500);
    step.peak_gigaflops = gigaflops;
    const std::string line = format_comment(job_of(step));
    EXPECT_EQ(value_of(line, "peak"), text);
    EXPECT_EQ(parsed(line).peak_gigaflops, gigaflops);
  }
}

TEST(Line, StateRunAndRunningStep) {
  Comment job;
  Comment step = step_of(8, 22, 500);
  step.run = 3;
  ASSERT_TRUE(merge_step(&job, step, 0));
  ASSERT_TRUE(show_running(&job, step, kBatchStep));
  std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "run"), "3");
  EXPECT_EQ(value_of(line, "state"), "running");
  EXPECT_EQ(value_of(line, "cur").substr(0, 4), "b:nt");
  EXPECT_EQ(value_of(line, "mfu"), "50.0%");
  EXPECT_EQ(value_of(line, "steps"), "40");
  EXPECT_EQ(parsed(line).running_step, kBatchStep);

  step.partial = "node-lost";
  ASSERT_TRUE(show_running(&job, step, kBatchStep));
  line = format_comment(job);
  EXPECT_EQ(value_of(line, "state"), "running,partial(node-lost)");
  EXPECT_EQ(parsed(line).partial, "node-lost");

  ASSERT_TRUE(merge_step(&job, step, kBatchStep));
  line = format_comment(job);
  EXPECT_EQ(value_of(line, "state"), "partial(node-lost)");
  EXPECT_EQ(value_of(line, "cur"), "");
  EXPECT_EQ(value_of(line, "s"), "0,b");
}

TEST(Line, NumbersHaveNoLocale) {
  const char* const old = std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_EQ(value_of(format_comment(job_of(step_of(8, 22, 519))), "mfu"), "51.9%");
  if (old != nullptr) std::setlocale(LC_ALL, "C");
}

TEST(Line, ForeignTextInFieldsIsMadeToFit) {
  Comment step = step_of(1, 1, 0);
  step.sums = {};
  step.gpu = "NVIDIA \"H100\" | 80GB; HBM3\n";
  step.no_mfu = "Evil |\"reason\"\x1b[31m with far too many bytes to be one";
  step.no_time = std::string(1000, '|');
  step.partial = "a b";
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "gpus"), "1xNVIDIA--H100----");
  EXPECT_EQ(value_of(line, "mfu"), "n/a(evil---reason---31m-with-far-too)");
  EXPECT_EQ(value_of(line, "compute"), "n/a(" + std::string(32, '-') + ")");
  EXPECT_EQ(value_of(line, "state"), "partial(a-b)");
  EXPECT_EQ(format_comment(parsed(line)), line);
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
  EXPECT_EQ(read.current, step.sums);
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

// --- Merging.

TEST(Merge, TwiceIsRefused) {
  Comment job = job_of(step_of(8, 22, 500), 3);
  const Comment before = job;
  EXPECT_FALSE(merge_step(&job, step_of(8, 50, 100), 3));
  EXPECT_FALSE(show_running(&job, step_of(8, 50, 100), 3));
  EXPECT_EQ(format_comment(job), format_comment(before));
  EXPECT_TRUE(merge_step(&job, step_of(8, 50, 100), 4));
}

TEST(Merge, OrderDoesNotMatterAlsoThroughTheLine) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<uint32_t, Comment>> steps;
    for (uint32_t id = 0; id < 6; ++id) {
      Comment step = wild_step(&random);
      step.run = static_cast<uint32_t>(random() % 2);
      steps.emplace_back(id == 5 ? kBatchStep : id, step);
    }
    std::string expected;
    for (int order = 0; order < 8; ++order) {
      std::shuffle(steps.begin(), steps.end(), random);
      Comment job;
      for (const auto& [id, step] : steps) {
        merge_step(&job, step, id);
        if (order % 2 == 1) job = parsed(format_comment(job));
        EXPECT_FALSE(merge_step(&job, step, id));
      }
      const std::string line = format_comment(job);
      if (order == 0) expected = line;
      ASSERT_EQ(line, expected);
    }
  }
}

TEST(Merge, DifferentDevicesAreMixedAndUnknownOnesDoNotCount) {
  Comment a100 = step_of(4, 10, 500);
  a100.gpu = "A100-SXM-80GB";
  a100.peak_gigaflops = 312000;
  Comment helper;
  helper.gpus = 1;
  helper.no_mfu = helper.no_time = "no-cuda";
  helper.sums.elapsed_ns = kSecond;

  Comment job = job_of(helper, 0);
  EXPECT_EQ(value_of(format_comment(job), "gpus"), "1xunknown");
  ASSERT_TRUE(merge_step(&job, step_of(8, 22, 500), 1));
  EXPECT_EQ(value_of(format_comment(job), "gpus"), "8xH100-SXM");
  EXPECT_EQ(value_of(format_comment(job), "cover"), "99.4%(no-cuda)/99.2%(no-cuda)");
  ASSERT_TRUE(merge_step(&job, a100, 2));
  const std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "gpus"), "8xmixed");
  EXPECT_EQ(value_of(line, "peak"), "mixed");
  EXPECT_EQ(value_of(line, "mfu"), "50.0%");  // each against its own peak
}

TEST(Merge, ReasonsThatDiffer) {
  const auto reason_of = [](std::vector<std::string> reasons) {
    Comment job;
    uint32_t id = 0;
    for (const std::string& reason : reasons) {
      Comment step;
      step.no_time = reason;
      merge_step(&job, step, id++);
    }
    return why_no_time(job);
  };
  EXPECT_EQ(reason_of({"denied", "denied"}), "denied");
  EXPECT_EQ(reason_of({"denied", "no-cuda"}), "denied");
  EXPECT_EQ(reason_of({"no-cuda", "denied"}), "denied");
  EXPECT_EQ(reason_of({"denied", "stood-down"}), "mixed");
  EXPECT_EQ(reason_of({"", "no-records"}), "no-records");
}

TEST(Merge, ALaterRunStartsAnewAndAnEarlierOneIsTooLate) {
  Comment job = job_of(step_of(8, 22, 500), 0);
  Comment again = step_of(4, 10, 300);
  again.run = 1;
  ASSERT_TRUE(merge_step(&job, again, 0));
  EXPECT_EQ(job.sums, again.sums);
  EXPECT_EQ(job.gpus, 4U);
  EXPECT_FALSE(merge_step(&job, step_of(8, 22, 500), 1));
  EXPECT_FALSE(show_running(&job, step_of(8, 22, 500), 1));
}

TEST(Merge, ARunningStepThatHasBeenMergedIsNotCountedTwice) {
  const Comment step = step_of(8, 22, 500);
  Comment job;
  ASSERT_TRUE(show_running(&job, step, 0));
  ASSERT_TRUE(merge_step(&job, step, 1));  // another one ends meanwhile
  EXPECT_TRUE(job.running());
  EXPECT_TRUE(job.total().elapsed_ns == 2 * step.sums.elapsed_ns);
  ASSERT_TRUE(merge_step(&job, step, 0));
  EXPECT_FALSE(job.running());
  EXPECT_TRUE(job.total().elapsed_ns == 2 * step.sums.elapsed_ns);

  job.running_step = 0;  // as a writer with an old copy would leave it
  EXPECT_TRUE(job.total().elapsed_ns == 2 * step.sums.elapsed_ns);
  EXPECT_EQ(value_of(format_comment(job), "cur"), "");
}

TEST(Merge, WhatARunningStepSaidOfItselfGoesWithIt) {
  Comment early;
  early.gpus = 8;
  early.no_time = "no-records";
  early.no_mfu = "no-cuda";
  Comment job;
  Comment whole = step_of(8, 22, 500);
  whole.sums.lost_ns = 0;
  ASSERT_TRUE(show_running(&job, early, 0));
  ASSERT_TRUE(merge_step(&job, whole, 0));
  EXPECT_EQ(job.no_time, "");
  EXPECT_EQ(job.no_mfu, "");

  // Also where other steps have been merged before it.
  early.no_mfu = "running";
  early.sums.elapsed_ns = kSecond;
  ASSERT_TRUE(show_running(&job, early, 1));
  job = parsed(format_comment(job));
  EXPECT_EQ(job.no_mfu, "running");
  EXPECT_EQ(job.no_time, "no-records");
  Comment denied = early;
  denied.no_mfu = "no-flops";
  denied.no_time = "denied";
  ASSERT_TRUE(merge_step(&job, denied, 1));
  EXPECT_EQ(job.no_mfu, "no-flops");
  EXPECT_EQ(job.no_time, "denied");

  // The merged steps' own reasons stay, whatever a running one says.
  ASSERT_TRUE(show_running(&job, early, 2));
  EXPECT_EQ(job.no_mfu, "no-flops");
  ASSERT_TRUE(merge_step(&job, step_of(8, 22, 500), 2));
  EXPECT_EQ(job.no_mfu, "no-flops");
  EXPECT_EQ(job.no_time, "denied");
}

// A batch script that only starts steps: its "no-cuda" must not stand beside their figures, whoever
// is merged first.
TEST(MergeStep, AStepWithoutGpuTimeGivesNoReasonBesideOthers) {
  Comment batch;
  batch.gpus = 2;
  batch.no_mfu = batch.no_time = "no-cuda";
  Comment step;
  step.gpus = 2;
  step.no_mfu = "incomplete";
  step.sums.elapsed_ns = 100;
  step.sums.attributed_ns = 100;
  step.sums.lost_ns = 40;
  for (bool batch_first : {true, false}) {
    Comment job;
    if (batch_first) {
      merge_step(&job, batch, kBatchStep);
      EXPECT_EQ(why_no_time(job), "no-cuda");
    }
    merge_step(&job, step, 0);
    if (!batch_first) merge_step(&job, batch, kBatchStep);
    EXPECT_EQ(why_no_mfu(job), "incomplete") << batch_first;
    EXPECT_EQ(job.no_time, "") << batch_first;
    EXPECT_EQ(job.merged.text(40), "0,b");
  }
}

}  // namespace
}  // namespace mfu
