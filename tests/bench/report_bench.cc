// mfu-report on a cluster's accounting: what a job costs it, from the field's text to the output.
// slurmdbd's answer and libslurm's records of it are in no figure.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <ctime>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <vector>

#include "plugin/job_report.hh"

namespace mfu::bench {
namespace {

// Lines of one run with all sums, as long as lines of real jobs become.
std::string line_of(uint64_t number) {
  Comment step;
  step.gpus = 8;
  step.gpu = "H100-SXM";
  step.peak_gigaflops = 989400;
  step.precision = Precision::kBf16;
  step.peak_basis = PeakBasis::kTable;
  step.basis = Basis::kGemm;
  step.steps_by = StepsBy::kPeriod;
  step.slowest = 3;
  step.clock_limit_mhz = 1980;
  step.clock_reason = "power";
  Sums& sums = step.sums;
  const uint128 ms = 8 * 1000 * (2000 + number % 1000) + number % 997;
  sums.elapsed_ns = sums.attributed_ns = sums.flops_ns = sums.executed_ns = ms * 1'000'000 + number;
  sums.span_ns = sums.elapsed_ns;
  sums.compute_ns = sums.elapsed_ns / 10 * 7;
  sums.exposed_communication_ns = sums.elapsed_ns / 9;
  sums.overlapped_communication_ns = sums.elapsed_ns / 11;
  sums.exposed_memory_ns = sums.elapsed_ns / 500;
  sums.capacity_flop = sums.executed_capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
  sums.model_flops = sums.capacity_flop / 1000 * (300 + number % 200);
  sums.executed_flops = sums.model_flops / 10 * 11;
  sums.kernel_ms = ms / 10 * 7;
  sums.counted_ms = sums.kernel_ms / 100 * 95;
  sums.training_steps = 1000 + number;
  sums.training_ns = ms / 8 * 1'000'000;
  sums.training_gpu_ms = ms;
  sums.collective_ns = sums.elapsed_ns / 5;
  sums.wait_ns = sums.collective_ns / 9;
  sums.energy_j = ms * 612 / 1000;
  sums.clock_megacycles = ms * 1755 / 1000;
  sums.tensor_active_ms = ms / 4;
  sums.read_mb = ms / 9;
  sums.written_mb = ms / 33;
  sums.energy_ms = sums.clock_ms = sums.tensor_ms = sums.io_ms = ms;
  sums.productive_ms = ms / 10 * 8;
  sums.start_up_ms = sums.writing_ms = sums.tail_ms = ms / 20;
  Comment job;
  merge_step(&job, step, 0);
  return format_comment(job);
}

constexpr size_t kJobs = 1000;  // which come again and again

std::vector<Job> sample_jobs() {
  std::vector<Job> jobs(kJobs);
  for (size_t i = 0; i < kJobs; ++i) {
    Job& job = jobs[i];
    job.id = std::to_string(1'000'000 + i);
    job.name = "train-model-" + std::to_string(i % 50);
    job.user = "user" + std::to_string(i % 300);
    job.account = "account" + std::to_string(i % 40);
    job.partition = "gpu";
    job.state = "COMPLETED";
    job.elapsed_seconds = 3600;
    job.start = 1'700'000'000 + static_cast<time_t>(i) * 2500;
    job.end = job.start + 3600;
    job.nodes = 1;
    job.gpus = 8;
    job.comment = line_of(i);
  }
  return jobs;
}

class Nowhere : public std::streambuf {
  int overflow(int byte) override { return byte; }
  std::streamsize xsputn(const char*, std::streamsize size) override { return size; }
};

template <typename Make>
void report_jobs(benchmark::State& state, Make make) {
  const std::vector<Job> jobs = sample_jobs();
  const auto rows = static_cast<size_t>(state.range(0));
  Nowhere nowhere;
  std::ostream out(&nowhere);
  size_t held = 0;
  for (auto _ : state) {
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const std::unique_ptr<Report> report = make(out);
    for (size_t i = 0; i < rows; ++i) report->add({&jobs[i % kJobs], 1});
    held = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    report->finish();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bytes_per_job"] = static_cast<double>(held) / static_cast<double>(rows);
}

constexpr int64_t kRows = 100'000;

void report_table(benchmark::State& state) {
  report_jobs(state, [](std::ostream& out) { return make_table(out, {}); });
}
BENCHMARK(report_table)->Arg(kRows);

void report_csv(benchmark::State& state) {
  report_jobs(state, [](std::ostream& out) { return make_table(out, {.form = Form::kCsv}); });
}
BENCHMARK(report_csv)->Arg(kRows);

void report_groups(benchmark::State& state) {
  const TableStyle style = {.subject = Subject::kGroups, .by = {GroupBy::kUser, GroupBy::kDay}};
  report_jobs(state, [&](std::ostream& out) { return make_table(out, style); });
}
BENCHMARK(report_groups)->Arg(kRows);

void report_page(benchmark::State& state) {
  report_jobs(state, [](std::ostream& out) { return make_page(out, {}); });
}
BENCHMARK(report_page)->Arg(kRows);

void report_json(benchmark::State& state) {
  report_jobs(state, [](std::ostream& out) { return make_json(out, "admin_comment", {}); });
}
BENCHMARK(report_json)->Arg(kRows / 10);

void report_read_field(benchmark::State& state) {
  const std::vector<Job> jobs = sample_jobs();
  for (auto _ : state) {
    for (const Job& job : jobs) benchmark::DoNotOptimize(read_field(job.comment));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kJobs));
}
BENCHMARK(report_read_field);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
