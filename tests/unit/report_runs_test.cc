// What mfu-report says of jobs with several runs.
#include <gtest/gtest.h>

#include "tests/unit/report_group_samples.hh"

namespace mfu {
namespace {

constexpr uint128 kMs = 1'000'000;

// Parts in seconds of each of 8 GPUs.
std::string line_of_run(uint32_t run, uint64_t seconds, const std::vector<uint64_t>& parts) {
  Comment step;
  step.run = run;
  step.gpus = 8;
  step.sums.elapsed_ns = uint128{8} * seconds * 1000 * kMs;
  constexpr uint128 Sums::*kParts[] = {&Sums::productive_ms, &Sums::start_up_ms, &Sums::restart_ms,
                                       &Sums::writing_ms,    &Sums::reading_ms,  &Sums::stalled_ms,
                                       &Sums::tail_ms};
  for (size_t i = 0; i < parts.size(); ++i) step.sums.*kParts[i] = uint128{8} * parts[i] * 1000;
  step.sums.read_mb = uint128{8} * seconds * 120;
  step.sums.written_mb = uint128{8} * seconds * 30;
  step.sums.io_ms = uint128{8} * seconds * 1000;
  return line_of_step(step);
}

// Of the first one 8 GPUs computed for an hour; the second one died within half a minute and wrote
// nothing, so that Slurm handed the line on to it.
std::vector<Job> job_with_handed_on_line() {
  Job first = job_of("7", 8, 3600, line_of_step(step_of({28'800, 20'000, 0, 0, 50, 1000})));
  first.state = "REQUEUED";
  Job second = job_of("7", 8, 30, first.comment);
  second.start = first.end + 100;
  second.end = second.start + 30;
  return {first, second};
}

TEST(Runs, ALineThatWasHandedOnIsNoneOfItsRow) {
  const std::vector<Job> jobs = job_with_handed_on_line();
  const std::vector<std::string> lines = lines_of(table_of(jobs));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[1].find("  50.0%  "), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2].find('%'), std::string::npos) << lines[2];
  EXPECT_TRUE(lines[2].ends_with("-  no line")) << lines[2];
  EXPECT_EQ(lines[4],
            "1 job in 2 runs, 1 with MFU; 8.1 GPU-hours, 0.1 of them without MFU; MFU 50.0%, "
            "weighted by GPU time and peak");
}

TEST(Runs, ALineThatWasHandedOnIsInJsonsTotalsOnce) {
  const std::vector<Job> jobs = job_with_handed_on_line();
  const auto json = json_of(jobs);
  const auto alone = json_of({jobs[0]});
  ASSERT_EQ(json["jobs"].size(), 2u);
  EXPECT_EQ(json["jobs"][0]["mfu"], 0.5);
  EXPECT_TRUE(json["jobs"][1]["mfu"].is_null());
  EXPECT_TRUE(json["jobs"][1]["line"].is_null());
  EXPECT_EQ(json["jobs"][1]["line_fault"], "no line");
  const auto& totals = json["totals"];
  EXPECT_EQ(totals["jobs"], 1);
  EXPECT_EQ(totals["runs"], 2);
  EXPECT_EQ(totals["jobs_with_mfu"], 1);
  EXPECT_EQ(totals["model_flops"], alone["totals"]["model_flops"]);
  EXPECT_EQ(totals["capacity_flop"], alone["totals"]["capacity_flop"]);
  EXPECT_EQ(totals["gpu_seconds"], "29040");
  EXPECT_EQ(totals["gpu_seconds_without_mfu"], "240");
  EXPECT_EQ(totals["goodput"]["parts"]["unknown_ns"], "29040000000000");
}

// The others are read nevertheless, and tell that its line is none of its own.
TEST(Runs, OnlyTheLastOneHasARow) {
  std::vector<Job> jobs = job_with_handed_on_line();
  const TableStyle style = {.last_runs = true};
  std::vector<std::string> lines = lines_of(table_of(jobs, style));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[1].ends_with("-  no line")) << lines[1];
  EXPECT_EQ(lines[3], "1 job, 0 with MFU; 0.1 GPU-hours, 0.1 of them without MFU");
  const auto json = json_of(jobs, style);
  ASSERT_EQ(json["jobs"].size(), 1u);
  EXPECT_EQ(json["jobs"][0]["line_fault"], "no line");
  EXPECT_EQ(json["totals"]["model_flops"], "0");
  const TableStyle placement = {.subject = Subject::kPlacement, .last_runs = true};
  EXPECT_EQ(table_of(jobs, placement),
            "1 job: 0 with findings, 0 audited without any, 1 no line\n");
  // Records of one run of a resized job.
  jobs.insert(jobs.begin() + 1, jobs[0]);
  jobs[1].state = "RESIZING";
  EXPECT_EQ(json_of(jobs, style)["jobs"].size(), 2u);
}

// Its job is not known to have had an earlier run, but it has had no time.
TEST(Runs, OneThatHasNotBegunHasNoLine) {
  Job waiting = job_with_handed_on_line()[1];
  waiting.start = waiting.end = 0;
  waiting.elapsed_seconds = 0;
  EXPECT_EQ(json_of({waiting})["jobs"][0]["line_fault"], "no line");
  EXPECT_EQ(json_of({waiting})["totals"]["model_flops"], "0");
}

// Slurm starts a new record when a job is resized; the run goes on, and its line with it.
TEST(Runs, AResizedJobsLineIsThatOfItsLastRecord) {
  std::vector<Job> jobs = job_with_handed_on_line();
  jobs[0].state = "RESIZING";
  jobs[1].comment = line_of_step(step_of({29'040, 20'000, 0, 0, 40, 1000}));
  const auto json = json_of(jobs);
  EXPECT_EQ(json["jobs"][0]["line_fault"], "no line");
  EXPECT_NEAR(json["jobs"][1]["mfu"].get<double>(), 0.4, 1e-9);
  EXPECT_EQ(json["totals"]["jobs_with_mfu"], 1);
}

// Two runs of 8 GPUs with 100 s in the queue between. Of the first one's 1000 s job steps took 960,
// of which 20 are unknown.
std::vector<Job> requeued_job() {
  Job first = job_of("7", 8, 1000, line_of_run(0, 960, {700, 100, 0, 60, 20, 10, 50}));
  first.state = "REQUEUED";
  Job second = job_of("7", 8, 2000, line_of_run(1, 2000, {1700, 50, 100, 50, 0, 0, 100}));
  second.start = first.end + 100;
  second.end = second.start + 2000;
  return {first, second};
}

TEST(GoodputOverRuns, ByHand) {
  std::vector<Job> jobs = requeued_job();
  jobs.push_back(job_of("8", 8, 3000, "no"));
  EXPECT_EQ(
      table_of(jobs, {.subject = Subject::kGoodput}),
      "JOBID  NAME   RUNS    QUEUED  ALLOCATED  GOODPUT  START-UP  RESTART  CHECKPOINT  DATA  "
      "STALLED  TAIL  OUTSIDE  UNKNOWN             IO  "
      "LOSSES                WHY\n"
      "    7  train     2  00:01:40   06:40:00    80.0%      3.3%     5.0%        3.7%  0.7%  "
      "   0.3%  5.0%     1.3%     0.7%  0.12+0.03GB/s  "
      "restart,tail,checkp+\n"
      "    8  train     1         -   06:40:00        -      0.0%     0.0%        0.0%  0.0%  "
      "   0.0%  0.0%     0.0%   100.0%              -  "
      "unknown               no line\n"
      "\n"
      "2 jobs, 1 with goodput; 3 runs, 00:01:40 between them; 13.3 GPU-hours; lost: unknown "
      "50.3%, restart 2.5%, tail 2.5%, checkpoint 1.8%, start-up 1.7%, outside 0.7%, data "
      "0.3%, stalled 0.2%\n");
  const auto json = json_of(jobs, {.subject = Subject::kGoodput});
  EXPECT_EQ(json["format"], "mfu-report-goodput/1");
  const auto& job = json["jobs"][0];
  EXPECT_EQ(job["job_id"], "7");
  EXPECT_EQ(job["state"], "COMPLETED");
  EXPECT_EQ(job["runs"], 2);
  EXPECT_EQ(job["queued_seconds"], 100);
  EXPECT_EQ(job["allocated_gpu_seconds"], "24000");
  EXPECT_EQ(job["goodput"]["fraction"], 0.8);
  EXPECT_EQ(job["goodput"]["largest_loss"], "restart");
  EXPECT_EQ(job["goodput"]["losses"][1], "tail");
  EXPECT_EQ(job["goodput"]["parts"]["restart_ns"], "1200000000000");
  EXPECT_EQ(job["goodput"]["parts"]["outside_ns"], "320000000000");
  EXPECT_EQ(job["goodput"]["parts"]["unknown_ns"], "160000000000");
  EXPECT_EQ(job["read_gb_per_s"], 0.12);
  EXPECT_TRUE(json["jobs"][1]["goodput"]["fraction"].is_null());
  EXPECT_EQ(json["jobs"][1]["goodput"]["reason"], "no-steps");
  EXPECT_EQ(json["jobs"][1]["line_fault"], "no line");
  EXPECT_EQ(json["totals"]["jobs_with_goodput"], 1);
  EXPECT_EQ(json["totals"]["allocated_gpu_seconds"], "48000");
  EXPECT_EQ(json["totals"]["goodput"]["parts"]["productive_ns"], "19200000000000");
}

TEST(GoodputOverRuns, PartsAreTheWholeAllocation) {
  const std::vector<Job> jobs = requeued_job();
  const JobGoodput job = goodput_of_runs(jobs);
  EXPECT_TRUE(job.parts.total_ns() == job.allocated_ns);
  EXPECT_EQ(job.lines, 2u);
  EXPECT_EQ(job.told_runs, 2u);
}

// A job that still runs has no end: it counts up to now, which is what Slurm calls its elapsed
// time.
TEST(GoodputOverRuns, ARunThatHasNotEnded) {
  std::vector<Job> jobs = requeued_job();
  jobs[1].end = 0;
  EXPECT_EQ(goodput_of_runs(jobs).runs.gap_ns(), 100 * 1000 * uint64_t{kMs});
  EXPECT_EQ(goodput_of_runs(jobs).goodput().fraction, 0.8);
  // Requeued once more, and waiting.
  jobs[1].end = jobs[1].start + 2000;
  jobs.push_back(jobs[1]);
  jobs[2].start = jobs[2].end = 0;
  jobs[2].elapsed_seconds = 0;
  jobs[2].gpus = 0;
  jobs[2].state = "PENDING";
  EXPECT_EQ(goodput_of_runs(jobs).runs.count, 2u);
  EXPECT_EQ(goodput_of_runs(jobs).goodput().fraction, 0.8);
  EXPECT_EQ(goodput_of_runs(jobs).last->state, "PENDING");
}

TEST(GoodputOverRuns, WithoutALastWordTheRestIsNotKnown) {
  Comment step;
  step.gpus = 8;
  step.sums.elapsed_ns = uint128{8} * 950 * 1000 * kMs;
  step.sums.productive_ms = uint128{8} * 900 * 1000;
  Comment line;
  ASSERT_TRUE(show_running(&line, step, 0));
  const Job run = job_of("7", 8, 1000, format_comment(line));
  const JobGoodput job = goodput_of_runs({&run, 1});
  EXPECT_TRUE(job.parts.outside_ns == 0);
  EXPECT_TRUE(job.parts.unknown_ns == uint128{8} * 100 * 1000 * kMs);
  EXPECT_EQ(job.goodput().fraction, 0.9);
}

TEST(GoodputOverRuns, ALineThatWasHandedOnIsNotCountedTwice) {
  std::vector<Job> jobs = requeued_job();
  jobs[1].comment = jobs[0].comment;
  const JobGoodput job = goodput_of_runs(jobs);
  EXPECT_EQ(job.lines, 1u);
  EXPECT_TRUE(job.parts.unknown_ns == uint128{8} * 2020 * 1000 * kMs);
  EXPECT_TRUE(job.parts.total_ns() == job.allocated_ns);
}

TEST(GoodputOverRuns, RunsOutsideOfTheTimeAskedForAreTold) {
  std::vector<Job> jobs = requeued_job();
  jobs.erase(jobs.begin());
  const TableStyle style = {.subject = Subject::kGoodput,
                            .form = Form::kBars,
                            .bare = true,
                            .columns = *parse_columns("jobid,runs,goodput", Subject::kGoodput)};
  EXPECT_EQ(table_of(jobs, style), "7|1/2|85.0%\n");
}

TEST(GoodputOverRuns, JobsOfOneIdAndTwoUsersAreTwo) {
  std::vector<Job> jobs = requeued_job();
  jobs[1].user = "bob";
  EXPECT_EQ(json_of(jobs, {.subject = Subject::kGoodput})["jobs"].size(), 2u);
}

TEST(GoodputOverRuns, ForeignTextAndNoGpusDoNoHarm) {
  Job job = job_of("1", 0, 10, "\x1b mfu/1 \xff");
  job.name = "a|b\n\x1b[2J";
  const std::string text =
      table_of({job}, {.subject = Subject::kGoodput, .form = Form::kBars, .bare = true});
  EXPECT_EQ(text,
            "1|a?b??[2J|1|-|00:00:00|-|-|-|-|-|-|-|-|-|-|-|"
            "broken line: byte 6: not a key=value token\n");
  EXPECT_EQ(json_of({job}, {.subject = Subject::kGoodput})["jobs"][0]["goodput"]["reason"],
            "no-time");
  EXPECT_TRUE(json_of({}, {.subject = Subject::kGoodput})["jobs"].empty());
}

}  // namespace
}  // namespace mfu
