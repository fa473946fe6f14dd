// Jobs added up: values by hand.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include "plugin/report_trend.hh"
#include "tests/unit/report_group_samples.hh"

namespace mfu {
namespace {

using enum GroupBy;

GroupSums total_of(const std::vector<Job>& jobs) {
  Groupings groupings({});
  for (std::span<const Job> rest(jobs); !rest.empty();) {
    const size_t runs = runs_at_front(rest);
    groupings.add(rest.first(runs));
    rest = rest.subspan(runs);
  }
  return groupings.total();
}

bool is_seconds(uint128 ns, uint64_t gpu_seconds) {
  return ns == gpu_seconds * kGpuSecond;
}

TEST(Groups, ByHand) {
  const GroupSums alice = total_of({group_jobs()[0], group_jobs()[1]});
  EXPECT_EQ(alice.jobs, 2u);
  EXPECT_TRUE(is_seconds(alice.allocated_ns, 86'400));
  // 0.5 x 24,000 s x 1000 and 0.25 x 57,600 s x 500, of 24,000 x 1000 and 57,600 x 500.
  EXPECT_NEAR(alice.mfu(), 19.2 / 52.8, 1e-12);
  EXPECT_TRUE(is_seconds(alice.mfu_ns, 81'600));
  EXPECT_NEAR(alice.peak_ns / 1e9, 12'000 + 14'400, 1e-3);
  EXPECT_TRUE(is_seconds(alice.observed_ns, 80'600));
  // Idle 6,000 s, of which 1,000 were not seen, and 17,600; outside of the first job's step 4,800.
  EXPECT_NEAR(alice.idle(), 22'600.0 / 80'600, 1e-12);
  EXPECT_NEAR(alice.exposed_communication(), 3'000.0 / 80'600, 1e-12);
  EXPECT_TRUE(is_seconds(alice.wasted_ns, 5'000 + 17'600 + 4'800));
  EXPECT_TRUE(is_seconds(alice.unknown_ns, 1'000));
  EXPECT_EQ(alice.bases_text(), "gemm");
  EXPECT_LT(alice.hfu(), 0);
  EXPECT_LT(alice.goodput(), 0);
}

TEST(Groups, AnEstimatedPeakIsToldAlsoAmongSeveral) {
  Comment line;
  Comment step = step_of({24'000, 15'000, 3'000, 0, 50, 1000});
  step.peak_basis = PeakBasis::kEstimated;
  ASSERT_TRUE(merge_step(&line, step, 0));
  EXPECT_EQ(total_of({job_of("1", 8, 6000, format_comment(line))}).bases_text(),
            "gemm(estimated-peak)");
  step.peak_gigaflops /= 2;
  step.precision = Precision::kTf32;
  ASSERT_TRUE(merge_step(&line, step, 1));
  EXPECT_EQ(total_of({job_of("1", 8, 6000, format_comment(line))}).bases_text(),
            "gemm(estimated-peak)");
}

TEST(Groups, Table) {
  EXPECT_EQ(table_of(group_jobs(), grouped({kUser})),
            "USER   JOBS  GPU-HOURS    MFU  MFU-OF  BASIS  COMM   IDLE  TIME-OF  WASTED  UNKNOWN  "
            "PEAK-HOURS\n"
            "alice     2       24.0  36.4%   94.4%  gemm   3.7%  28.0%    93.2%     7.6      0.3  "
            "       7.3\n"
            "bob       1        4.0      -    0.0%  -         -      -     0.0%       -      4.0  "
            "         -\n"
            "\n"
            "2 groups; 3 jobs, 1 more without GPUs or time, 28.0 GPU-hours; MFU 36.4%(gemm) of "
            "80.9% of them; wasted 7.6 GPU-hours, not known of 4.3\n");
}

TEST(Groups, UnknownIsNeitherUsedNorWasted) {
  const GroupSums none = total_of({job_of("1", 8, 100, "")});
  EXPECT_TRUE(is_seconds(none.unknown_ns, 800));
  EXPECT_TRUE(none.wasted_ns == 0);
  EXPECT_LT(none.mfu(), 0);
  EXPECT_LT(none.idle(), 0);
  EXPECT_EQ(none.of_allocated(none.mfu_ns), 0);

  // What the last word of a running job step does not cover may be anything.
  Comment line;
  ASSERT_TRUE(show_running(&line, step_of({400, 300, 0, 0, 0, 0}), 0));
  const GroupSums running = total_of({job_of("1", 8, 100, format_comment(line))});
  EXPECT_TRUE(is_seconds(running.wasted_ns, 100));
  EXPECT_TRUE(is_seconds(running.unknown_ns, 400));

  Comment lost_node = step_of({400, 300, 0, 0, 0, 0});
  lost_node.partial = "node-lost";
  const GroupSums partial = total_of({job_of("1", 8, 100, line_of_step(lost_node))});
  EXPECT_TRUE(is_seconds(partial.wasted_ns, 100));
  EXPECT_TRUE(is_seconds(partial.unknown_ns, 400));

  // Observed for half of the time.
  Comment half = step_of({800, 300, 0, 0, 0, 0});
  half.sums.attributed_ns /= 2;
  const GroupSums observed = total_of({job_of("1", 8, 100, line_of_step(half))});
  EXPECT_TRUE(is_seconds(observed.wasted_ns, 100));
  EXPECT_TRUE(is_seconds(observed.unknown_ns, 400));
}

TEST(Groups, StepsThatShareGpusCountWithTheAllocatedTimeAtMost) {
  const GroupSums shared =
      total_of({job_of("1", 8, 100, line_of_step(step_of({1600, 800, 0, 0, 50, 1000})))});
  EXPECT_TRUE(is_seconds(shared.mfu_ns, 800));
  EXPECT_TRUE(is_seconds(shared.observed_ns, 800));
  EXPECT_NEAR(shared.mfu(), 0.5, 1e-12);
  EXPECT_TRUE(shared.wasted_ns == 0);
  EXPECT_TRUE(is_seconds(shared.unknown_ns, 800));
  // Slurm counts whole seconds: a little more is none of that.
  const GroupSums rounded =
      total_of({job_of("1", 8, 100, line_of_step(step_of({804, 600, 0, 0, 50, 1000})))});
  EXPECT_TRUE(is_seconds(rounded.wasted_ns, 204));
  EXPECT_TRUE(rounded.unknown_ns == 0);
}

TEST(Groups, PartsAreTheAllocatedTime) {
  for (const uint64_t compute : {0, 100, 799, 800, 5000}) {
    for (const uint64_t lost : {0, 1, 700, 9000}) {
      const GroupSums sums =
          total_of({job_of("1", 8, 100, line_of_step(step_of({800, compute, 0, lost, 50, 1000})))});
      EXPECT_TRUE(sums.wasted_ns + sums.unknown_ns <= sums.allocated_ns) << compute << ' ' << lost;
    }
  }
}

TEST(Groups, RunsOfAJob) {
  Comment step = step_of({800, 600, 0, 0, 50, 1000});
  std::vector<Job> runs = {job_of("7", 8, 100, line_of_step(step))};
  // Slurm hands the line on to a second run that writes none.
  runs.push_back(runs[0]);
  runs[1].end += 86'400;
  const GroupSums total = total_of(runs);
  EXPECT_EQ(total.jobs, 1u);
  EXPECT_EQ(total.runs, 2u);
  EXPECT_TRUE(is_seconds(total.mfu_ns, 800));
  EXPECT_TRUE(is_seconds(total.unknown_ns, 800));
  // A job in both of its days.
  const auto json = json_of(runs, grouped({kDay}));
  ASSERT_EQ(json["groups"].size(), 2u);
  EXPECT_EQ(json["groups"][0]["jobs"], 1);
  EXPECT_EQ(json["groups"][1]["jobs"], 1);
  EXPECT_EQ(json["totals"]["jobs"], 1);
}

TEST(Groups, GoodputAndEnergyHaveTheirOwnTime) {
  Comment step = step_of({800, 600, 0, 0, 0, 0});
  step.sums.productive_ms = 600'000;
  step.sums.start_up_ms = 200'000;
  step.sums.energy_j = 3'600'000;
  step.sums.energy_ms = 800'000;
  const GroupSums sums =
      total_of({job_of("1", 8, 100, line_of_step(step)), job_of("2", 8, 300, "")});
  EXPECT_EQ(sums.goodput(), 0.75);
  EXPECT_EQ(sums.of_allocated(sums.goodput_ns), 0.25);
  EXPECT_EQ(sums.of_allocated(sums.energy_ms * 1'000'000), 0.25);
  const auto json = json_of({job_of("1", 8, 100, line_of_step(step))}, grouped({kUser}));
  EXPECT_EQ(json["totals"]["energy_kwh"], 1);
}

TEST(Groups, AnAbsurdLineHasNoFigures) {
  Comment step = step_of({800, 600, 0, 0, 50, 1000});
  step.sums.capacity_flop = kMostFlop;
  const GroupSums sums = total_of({job_of("1", 8, 100, line_of_step(step))});
  EXPECT_LT(sums.mfu(), 0);
  EXPECT_TRUE(is_seconds(sums.unknown_ns, 800));
}

TEST(Groups, ByEveryKey) {
  setenv("TZ", "ABC-2", 1);  // two hours ahead of UTC, without daylight saving
  tzset();
  std::vector<Job> jobs = {group_jobs()[0]};
  jobs[0].end = 1'700'000'000;  // 2023-11-14 22:13:20 UTC
  const auto group = json_of(jobs, grouped({kUser, kAccount, kPartition, kCluster, kGpu, kMonth,
                                            kWeek, kDay}))["groups"][0];
  EXPECT_EQ(group["user"], "alice");
  EXPECT_EQ(group["account"], "ml");
  EXPECT_EQ(group["partition"], "gpu");
  EXPECT_EQ(group["cluster"], "here");
  EXPECT_EQ(group["gpu"], "H100-SXM");
  EXPECT_EQ(group["month"], "2023-11");
  EXPECT_EQ(group["week"], "2023-W46");
  EXPECT_EQ(group["day"], "2023-11-15");
  jobs[0].end = 1'735'560'000;  // 2024-12-30 12:00 UTC: of the next ISO year
  EXPECT_EQ(json_of(jobs, grouped({kWeek}))["groups"][0]["week"], "2025-W01");
  jobs[0].end = 0;
  EXPECT_EQ(json_of(jobs, grouped({kDay}))["groups"][0]["day"], "running");
}

TEST(Groups, NamesAreParsed) {
  EXPECT_EQ(*parse_groups("user,day"), (std::vector{kUser, kDay}));
  EXPECT_EQ(parse_groups("user,user").error(), "'user' is there twice");
  EXPECT_EQ(parse_groups("host").error(),
            "'host' is none of user account partition cluster gpu month week day");
  for (const char* text : {"", ",", "user,", "User", "user day"})
    EXPECT_FALSE(parse_groups(text)) << text;
}

std::string users(const std::vector<Job>& jobs, const char* sort) {
  TableStyle style = grouped({kUser});
  style.form = Form::kBars;
  style.bare = true;
  style.columns = *parse_columns("user", Subject::kGroups);
  if (*sort != '\0') style.sort = parse_sort(sort).value();
  std::string names;
  for (const std::string& line : lines_of(table_of(jobs, style))) names += line + " ";
  return names;
}

TEST(Groups, AreSorted) {
  std::vector<Job> jobs = group_jobs();
  jobs[1].user = "dave";
  EXPECT_EQ(users(jobs, ""), "dave alice bob ");
  EXPECT_EQ(users(jobs, "mfu"), "alice dave bob ");
  // What is not known is last, whatever the direction.
  EXPECT_EQ(users(jobs, "-mfu"), "dave alice bob ");
  EXPECT_EQ(users(jobs, "-gpu-hours"), "bob alice dave ");
  EXPECT_EQ(users(jobs, "user"), "alice bob dave ");
  EXPECT_EQ(users(jobs, "-user"), "dave bob alice ");
  for (const char* text : {"", "-", "mfus", "mfu,idle", "--mfu"})
    EXPECT_FALSE(parse_sort(text)) << text;
}

TEST(Trend, PeriodsAreNumberedWithoutGaps) {
  EXPECT_EQ(period_number(kDay, "1970-01-01"), 0);
  EXPECT_EQ(period_number(kDay, "2024-03-01").value() - period_number(kDay, "2024-02-28").value(),
            2);
  EXPECT_EQ(period_number(kWeek, "1970-W01"), 0);
  EXPECT_EQ(period_number(kWeek, "2027-W01").value() - period_number(kWeek, "2026-W53").value(), 1);
  EXPECT_EQ(period_number(kMonth, "2027-01").value() - period_number(kMonth, "2026-12").value(), 1);
  for (const char* text : {"running", "", "2024", "2024-13-", "2024-1x-01", "xxxx-01-01"}) {
    EXPECT_FALSE(period_number(kDay, text)) << text;
  }
  EXPECT_FALSE(period_number(kWeek, "2024-01"));
  EXPECT_FALSE(period_number(kMonth, "2024-01-01"));
}

}  // namespace
}  // namespace mfu
