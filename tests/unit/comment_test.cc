// The line as written.
#include "plugin/comment.hh"

#include <gtest/gtest.h>

#include <clocale>

#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

TEST(Line, AsDocumented) {
  EXPECT_EQ(format_comment(job_of(step_of(8, 22, 519))),
            "mfu/1 mfu=51.9% hfu=n/a(no-counts) basis=model gpus=8xH100-SXM peak=989.4(bf16) "
            "compute=78.2% comm=12.1%+9.3% mem=0.2% idle=9.5% steps=20 step=1.10s "
            "cover=100.0%/99.8% s=0 "
            "sum=opvj41gmps0,1bmlhqzz0yyo,28uput4w,28uput4w,28uput4w,28uput4o,1r86jev4,9s736rk,"
            "7ip31mo,5tkkxs,5tkkxs,k,a3u8cn4,3rsw,,,,,,,,,,,,,,,,,,,,,,,.");
}

TEST(Line, WithAllThatCanBeKnown) {
  Comment step = observed_step_of(8, 22, 519);
  step.sums.collective_ns = 1000;
  step.sums.wait_ns = 413;
  step.slowest = 3;
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(line.substr(0, line.find("sum=")),
            "mfu/1 mfu=51.9% hfu=53.5% basis=gemm gpus=8xH100-SXM peak=989.4(bf16) compute=78.2% "
            "comm=12.1%+9.3% mem=0.2% idle=9.5% wait=41.3%(task3) steps=20(period) step=1.07s "
            "goodput=96.0%(checkpoint) power=612W energy=5.22kJ clock=1755/1980(power) util=55.2% "
            "io=0.12+0.03GB/s cover=100.0%/99.8% counted=81.2% s=0 ");
  EXPECT_EQ(format_comment(parsed(line)), line);
}

// A job as large as this site's largest, and as much known of it as can be, has room for all.
TEST(Line, OfManyGpusHasAllKeys) {
  for (const auto& [gpus, seconds] :
       {std::pair<uint32_t, uint64_t>{128, 86'400}, {4096, 7 * 86'400}}) {
    const std::string line = format_comment(job_of(observed_step_of(gpus, seconds, 519)));
    EXPECT_LE(line.size(), kMaxLine);
    EXPECT_NE(value_of(line, "io"), "") << line;
    EXPECT_EQ(value_of(line, "clock"), "1755/1980(power)");
  }
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

TEST(Line, WhereTheTasksSit) {
  Comment step = step_of(8, 22, 519);
  EXPECT_EQ(value_of(format_comment(job_of(step)), "place"), "");
  for (const auto& [place, text] :
       {std::pair<Place, const char*>{{Place::Verdict::kOk, 0, ""}, "ok"},
        {{Place::Verdict::kWarn, 2, "job-leaves"}, "warn:2(job-leaves)"},
        {{Place::Verdict::kWarn, UINT32_MAX, ""}, "warn:4294967295"},
        {{Place::Verdict::kBad, 3, "nic-down,pcie-link"}, "bad:3(nic-down,pcie-link)"}}) {
    step.place = place;
    const std::string line = format_comment(job_of(step));
    EXPECT_EQ(value_of(line, "place"), text);
    EXPECT_EQ(parsed(line).place, place);
    EXPECT_EQ(format_comment(parsed(line)), line);
  }
  // A node's word for a rule's name does not break the line.
  step.place.rules = "a) s=0|\n" + std::string(100, 'x');
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(value_of(line, "place"), "bad:3(a--s-0--" + std::string(kMostRules - 8, 'x') + ")");
  EXPECT_EQ(format_comment(parsed(line)), line);
}

TEST(Line, EmptyJobIsAllUnknown) {
  EXPECT_EQ(format_comment({}),
            "mfu/1 mfu=n/a(no-flops) hfu=n/a(no-counts) gpus=0xunknown peak=n/a "
            "compute=n/a(no-records) comm=n/a mem=n/a idle=n/a cover=n/a/n/a "
            "sum=,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,.");
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

TEST(Line, PeakSaysItsBasisUnlessItIsTheTable) {
  for (const auto& [basis, text] :
       {std::pair<PeakBasis, const char*>{PeakBasis::kTable, "133.7(bf16)"},
        {PeakBasis::kMig, "133.7(bf16,mig)"},
        {PeakBasis::kEstimated, "133.7(bf16,estimated)"},
        {PeakBasis::kFile, "133.7(bf16,file)"},
        {PeakBasis::kDeclared, "133.7(bf16,declared)"}}) {
    Comment step = step_of(1, 1, 500);
    step.peak_gigaflops = 133700;
    step.peak_basis = basis;
    const std::string line = format_comment(job_of(step));
    EXPECT_EQ(value_of(line, "peak"), text);
    EXPECT_EQ(parsed(line).peak_basis, basis);
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
  const std::string line = format_comment(job_of(observed_step_of(8, 22, 519)));
  EXPECT_EQ(value_of(line, "mfu"), "51.9%");
  EXPECT_EQ(value_of(line, "io"), "0.12+0.03GB/s");
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

}  // namespace
}  // namespace mfu
