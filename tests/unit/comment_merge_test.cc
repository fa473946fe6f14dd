// What is merged into a line.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

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

TEST(Merge, BasesClocksAndPeaks) {
  Comment declared = step_of(8, 22, 500);
  Comment counted = observed_step_of(8, 22, 500);
  Comment silent = step_of(8, 1, 0);
  silent.sums.capacity_flop = silent.sums.flops_ns = 0;
  silent.basis = Basis::kGemm;  // of no FLOPs
  silent.precision = Precision::kTf32;
  silent.peak_gigaflops = 494700;
  Comment job = job_of(declared, 0);
  ASSERT_TRUE(merge_step(&job, silent, 1));
  EXPECT_EQ(job.basis, Basis::kModel);
  EXPECT_EQ(value_of(format_comment(job), "peak"), "989.4(bf16)");
  ASSERT_TRUE(merge_step(&job, counted, 2));
  EXPECT_EQ(value_of(format_comment(job), "basis"), "several");
  EXPECT_EQ(job.clock_limit_mhz, 1980U);
  counted.clock_limit_mhz = 1755;
  counted.clock_reason = "thermal";
  ASSERT_TRUE(merge_step(&job, counted, 3));
  EXPECT_EQ(job.clock_limit_mhz, 1980U);
  EXPECT_EQ(job.clock_reason, "mixed");

  job = job_of(silent, 0);
  EXPECT_EQ(value_of(format_comment(job), "peak"), "494.7(tf32)");
  EXPECT_EQ(value_of(format_comment(job), "basis"), "");
  ASSERT_TRUE(merge_step(&job, counted, 1));
  EXPECT_EQ(value_of(format_comment(job), "peak"), "989.4(bf16)");
  counted.precision = Precision::kFp8;
  counted.peak_gigaflops = 1978900;
  ASSERT_TRUE(merge_step(&job, counted, 2));
  EXPECT_EQ(value_of(format_comment(job), "peak"), "mixed");
}

// An estimated peak is an upper bound: the MFU is too low, whatever the other peaks are.
TEST(Merge, AnEstimatedPeakAmongSeveralIsTold) {
  const auto step = [](uint64_t gigaflops, PeakBasis basis) {
    Comment result = step_of(8, 22, 500);
    result.peak_gigaflops = gigaflops;
    result.peak_basis = basis;
    return result;
  };
  std::vector<Comment> steps = {step(900'000, PeakBasis::kEstimated),
                                step(900'000, PeakBasis::kDeclared),
                                step(800'000, PeakBasis::kTable), step(700'000, PeakBasis::kFile)};
  std::vector<uint32_t> order = {0, 1, 2, 3};
  do {
    Comment job;
    bool estimated = false;
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_TRUE(merge_step(&job, steps[order[i]], order[i]));
      job = parsed(format_comment(job));
      estimated = estimated || order[i] == 0;
      ASSERT_EQ(job.peak_basis == PeakBasis::kEstimated, estimated) << i;
    }
    ASSERT_EQ(job.peak_gigaflops, kMixedPeak);
    ASSERT_EQ(value_of(format_comment(job), "peak"), "mixed");
    ASSERT_EQ(value_of(format_comment(job), "peaks"), "estimated");
  } while (std::next_permutation(order.begin(), order.end()));
  // What a running one says goes with it.
  Comment job = job_of(steps[2], 2);
  ASSERT_TRUE(merge_step(&job, steps[3], 3));
  EXPECT_EQ(format_comment(job).find(" peaks="), std::string::npos);
  ASSERT_TRUE(show_running(&job, steps[0], 0));
  EXPECT_EQ(format_comment(job).find(" peaks="), std::string::npos);
}

// What a step says while it runs may be something else at its end: it must not stay.
TEST(Merge, MarksOfARunningStepGoWithIt) {
  Comment early = observed_step_of(8, 1, 100);
  early.precision = Precision::kFp32;
  early.peak_gigaflops = 66900;
  early.clock_reason = "thermal";
  Comment job;
  Comment helper;
  helper.gpus = 1;
  helper.no_mfu = helper.no_hfu = helper.no_time = "no-cuda";
  helper.sums.elapsed_ns = kSecond;
  ASSERT_TRUE(merge_step(&job, helper, 0));
  ASSERT_TRUE(show_running(&job, early, 1));
  EXPECT_EQ(value_of(format_comment(job), "peak"), "66.9(fp32)");
  job = parsed(format_comment(job));
  Comment end = observed_step_of(8, 22, 519);
  end.basis = Basis::kModel;
  end.steps_by = StepsBy::kDeclared;
  ASSERT_TRUE(merge_step(&job, end, 1));
  EXPECT_EQ(job.basis, Basis::kModel);
  EXPECT_EQ(job.steps_by, StepsBy::kDeclared);
  EXPECT_EQ(job.clock_reason, "power");
  EXPECT_EQ(job.precision, Precision::kBf16);
  EXPECT_EQ(job.no_hfu, "no-cuda");  // of the helper's time

  // Those of merged steps stay, whatever a running one says.
  ASSERT_TRUE(show_running(&job, early, 2));
  EXPECT_EQ(job.basis, Basis::kModel);
  EXPECT_EQ(job.steps_by, StepsBy::kDeclared);
  EXPECT_EQ(job.clock_reason, "power");
  EXPECT_EQ(job.precision, Precision::kBf16);
  EXPECT_EQ(job.current, early.sums);
  ASSERT_TRUE(merge_step(&job, early, 2));
  EXPECT_EQ(job.basis, Basis::kSeveral);
  EXPECT_EQ(job.peak_gigaflops, kMixedPeak);
}

TEST(Merge, TheWorstPlaceStands) {
  using Verdict = Place::Verdict;
  std::vector<Place> places = {{Verdict::kUnknown, 0, ""},
                               {Verdict::kOk, 0, ""},
                               {Verdict::kWarn, 9, "job-leaves"},
                               {Verdict::kBad, 1, "pcie-link"},
                               {Verdict::kBad, 2, "nic-down"}};
  for (size_t worst = 0; worst < places.size(); ++worst) {
    std::vector<size_t> order(worst + 1);
    for (size_t i = 0; i <= worst; ++i) order[i] = i;
    do {
      Comment job;
      uint32_t id = 0;
      for (const size_t i : order) {
        Comment step = step_of(8, 22, 500);
        step.place = places[i];
        ASSERT_TRUE(merge_step(&job, step, id++));
        if (id % 2 == 0) job = parsed(format_comment(job));
      }
      ASSERT_EQ(job.place, places[worst]);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Merge, ARunningStepsPlaceIsShown) {
  Comment job;
  Comment step = step_of(8, 22, 500);
  step.place = {Place::Verdict::kWarn, 1, "job-leaves"};
  ASSERT_TRUE(show_running(&job, step, 0));
  EXPECT_EQ(value_of(format_comment(job), "place"), "warn:1(job-leaves)");
  job = parsed(format_comment(job));
  step.place = {Place::Verdict::kBad, 1, "nic-down"};  // another node has been heard
  ASSERT_TRUE(show_running(&job, step, 0));
  ASSERT_TRUE(merge_step(&job, step, 0));
  EXPECT_EQ(value_of(format_comment(job), "place"), "bad:1(nic-down)");
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
  early.no_hfu = "few-steps";
  early.sums.elapsed_ns = kSecond;
  ASSERT_TRUE(show_running(&job, early, 1));
  job = parsed(format_comment(job));
  EXPECT_EQ(job.no_mfu, "running");
  EXPECT_EQ(job.no_hfu, "no-counts");  // of the first step
  EXPECT_EQ(job.no_time, "no-records");
  Comment denied = early;
  denied.no_mfu = "no-flops";
  denied.no_hfu = "no-gemms";
  denied.no_time = "denied";
  ASSERT_TRUE(merge_step(&job, denied, 1));
  EXPECT_EQ(job.no_mfu, "no-flops");
  EXPECT_EQ(job.no_hfu, "mixed");
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

TEST(Merge, ARunningStepTakesThePlaceOfAnother) {
  Comment job;
  ASSERT_TRUE(show_running(&job, step_of(4096, 22, 500), 1));
  ASSERT_TRUE(show_running(&job, step_of(8, 22, 500), 2));
  EXPECT_EQ(job.gpus, 8u);
}

}  // namespace
}  // namespace mfu
