// What a job step costs its node, and the node that merges a large step.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plugin/comment.hh"
#include "plugin/node_sums.hh"
#include "plugin/spool.hh"
#include "plugin/step_report.hh"
#include "profiler/record.hh"

namespace mfu::bench {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'700'000'000 * kSecond;
constexpr uint64_t kEnd = kStart + 100 * kSecond;
constexpr char kDevice[] = "NVIDIA H100 80GB HBM3";

StepPlan plan_of(uint32_t nodes, const std::string& top) {
  StepPlan plan;
  plan.job = 7;
  plan.nodes = nodes;
  plan.uid = getuid();
  plan.gpus = 8;
  plan.started_ns = kStart;
  plan.node = "n1";
  plan.user.flops = 1'234'567'890'123'456'789;
  plan.site.spool = top + "/spool";
  plan.folder = step_folder(plan);
  return plan;
}

// A spool below a new folder that goes with it. Not usable: the benchmark has been skipped.
class Spool {
 public:
  explicit Spool(benchmark::State& state) {
    std::string top = std::filesystem::temp_directory_path() / "mfu-bench.XXXXXX";
    usable_ = geteuid() == 0 && mkdtemp(top.data()) != nullptr;
    if (!usable_) state.SkipWithError("skipped: the spool is root's, run as root");
    top_ = top;
    plan = plan_of(1, top_);
  }
  ~Spool() {
    if (usable_) std::filesystem::remove_all(top_);
  }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  bool usable() const { return usable_; }

  StepPlan plan;

 private:
  bool usable_;
  std::string top_;
};

Record record_of(uint32_t pid) {
  Record record;
  record.pid = pid;
  record.device = pid % 8;
  record.uuid[0] = static_cast<uint8_t>(record.device + 1);
  record.flags = kFinished | kPrimary | kDeviceKnown;
  std::snprintf(record.device_name, sizeof(record.device_name), "%s", kDevice);
  record.started_ns = kStart;
  record.published_ns = kEnd;
  record.time.span_start_ns = kStart + kSecond;
  record.time.span_end_ns = kEnd - kSecond;
  record.time.partition_ns[kCompute] = 70 * kSecond;
  record.time.partition_ns[kCommunication] = 10 * kSecond;
  record.gemm_ns[static_cast<size_t>(Precision::kBf16)] = 60 * kSecond;
  return record;
}

void spool_of_step(benchmark::State& state) {
  Spool spool(state);
  if (!spool.usable()) return;
  for (auto _ : state) {
    if (!create_spool(spool.plan, 0)) return state.SkipWithError("no spool");
    store_plan(spool.plan);
    remove_spool(spool.plan);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(spool_of_step)->UseRealTime();

void read_records_64(benchmark::State& state) {
  Spool spool(state);
  if (!spool.usable()) return;
  if (!create_spool(spool.plan, 0)) return state.SkipWithError("no spool");
  const std::string records = records_folder(spool.plan.folder);
  for (uint32_t pid = 1; pid <= 64; ++pid) {
    RecordFile file;
    Record record = record_of(pid);
    if (!file.create(records.c_str(), pid) || !file.publish(&record)) {
      return state.SkipWithError("no record file");
    }
  }
  for (auto _ : state) {
    SpoolRecords found = read_records(spool.plan);
    NodeSums sums;
    add_records(found.records, kStart, kEnd, &sums);
    if (sums.processes != 64) return state.SkipWithError("not every record was read");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(read_records_64)->UseRealTime();

std::map<uint32_t, NodeSums> nodes_of(uint32_t count) {
  std::vector<Record> records;
  for (uint32_t pid = 1; pid <= 8; ++pid) records.push_back(record_of(pid));
  std::map<uint32_t, NodeSums> nodes;
  for (uint32_t id = 0; id < count; ++id) {
    NodeSums& sums = nodes[id];
    sums.node_id = id;
    sums.last = 1;
    sums.gpus = 8;
    sums.until_ns = kEnd;
    add_records(records, kStart, kEnd, &sums);
  }
  return nodes;
}

// Full samples of 8 ranks.
CollectiveSpreads spreads_of_node() {
  CollectiveSpreads spreads;
  for (uint32_t task = 0; task < 8; ++task) {
    Record record = record_of(task + 1);
    record.task = task;
    record.flags = kPrimary | kFinished;
    record.communication_kernels = 10'000;
    for (uint64_t n = 0; n < 10'000; ++n) record.samples.add(1, n, 100'000 + n * task);
    spreads.add(record, record);
  }
  return spreads;
}

// Of 4,096 nodes with 8 GPUs each, as they have come from the network, to the finished line.
void merge_4096_nodes(benchmark::State& state) {
  constexpr uint32_t kNodes = 4096;
  const StepPlan plan = plan_of(kNodes, "");
  const std::map<uint32_t, NodeSums> nodes = nodes_of(kNodes);
  const CollectiveSpreads of_node = spreads_of_node();
  for (auto _ : state) {
    Comment job;
    CollectiveSpreads all;
    for (uint32_t i = 0; i < kNodes; ++i) all.add(of_node);
    const Comment step = report_step(plan, nodes, all, {}, kEnd, true);
    if (!merge_step(&job, step, 0) || step.gpus != 8 * kNodes || !step.no_time.empty()) {
      return state.SkipWithError("no sound step");
    }
    benchmark::DoNotOptimize(format_comment(job));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(merge_4096_nodes);

Comment step_comment() {
  return report_step(plan_of(4, ""), nodes_of(4), {}, {}, kEnd, true);
}

Comment job_comment() {
  Comment job;
  merge_step(&job, step_comment(), 0);
  return job;
}

void format_line(benchmark::State& state) {
  const Comment job = job_comment();
  for (auto _ : state) benchmark::DoNotOptimize(format_comment(job));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(format_line);

void parse_line(benchmark::State& state) {
  const std::string line = format_comment(job_comment());
  for (auto _ : state) benchmark::DoNotOptimize(parse_comment(line));
  if (!parse_comment(line)) state.SkipWithError("the line does not parse");
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(parse_line);

// The copy of the job is part of it: a job's line takes a step once.
void merge_line(benchmark::State& state) {
  const Comment step = step_comment();
  const Comment job = job_comment();
  for (auto _ : state) {
    Comment copy = job;
    benchmark::DoNotOptimize(merge_step(&copy, step, 1));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(merge_line);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
