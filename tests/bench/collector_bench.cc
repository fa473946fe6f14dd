// The collector of a step's first node with 4,096 nodes that end at the same time, on this machine:
// network, munged and all nodes share its processors, accounting answers at once.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "plugin/collector.hh"
#include "tests/unit/collector_samples.hh"
#include "tests/unit/fake_accounting.hh"

namespace mfu::bench {
namespace {

using namespace collector_samples;

double cpu_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// From the step's end to its whole line. `at_once`: nodes that speak at the same moment.
void collect_nodes(benchmark::State& state) {
  const auto nodes = static_cast<uint32_t>(state.range(0));
  const PrivateMunged munged, theirs;
  if (!munged.runs() || !theirs.runs())
    return state.SkipWithError("skipped: needs root and the user munge");
  double tries = 0, growth = 0, cpu = 0;
  for (auto _ : state) {
    const ScratchFolder folder;
    const StepPlan plan = plan_of(nodes, munged.socket(), folder.path());
    if (!leave_records(plan)) return state.SkipWithError("no spool");
    fake_accounting = {};
    const StepLink link;
    Nodes others(plan, {.at_once = static_cast<uint32_t>(state.range(1)), .strangers = false}, link,
                 theirs.socket());
    forget_peak_memory();
    const double before = memory_mib("VmRSS");
    const double cpu_before = cpu_seconds();
    Collector(plan, link.collector()).follow();
    cpu += cpu_seconds() - cpu_before;
    growth = std::max(growth, memory_mib("VmHWM") - before);
    others.join();
    const auto job = parse_comment(find_comment(fake_accounting.field));
    if (!job || job->gpus != nodes * kGpus || !job->partial.empty()) {
      return state.SkipWithError("no whole line");
    }
    const auto written = std::chrono::steady_clock::now() - fake_accounting.edits.front().begin;
    const double since_written = std::chrono::duration<double>(written).count();
    const double since_begin = static_cast<double>(wall_clock_ns() - others.seen->begin_ns) / 1e9;
    state.SetIterationTime(since_begin - since_written);
    tries += others.seen->tries;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["grown_mib"] = growth;
  state.counters["tries"] = tries / static_cast<double>(state.iterations());
  state.counters["cpu_s"] = cpu / static_cast<double>(state.iterations());
}
BENCHMARK(collect_nodes)
    ->Args({512, 64})
    ->Args({4096, 64})

    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
