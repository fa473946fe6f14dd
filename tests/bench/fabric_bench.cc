// A fabric of 35,840 nodes: 4,096 hosts with 8 rails, 1,024 leaves in 32 pods, three levels. Its
// text is made in memory.
#include <benchmark/benchmark.h>

#include <memory>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_audit.hh"
#include "topology/fabric_text.hh"

namespace mfu::bench {
namespace {

const std::string& text() {
  static const std::string made = [] {
    FabricPlan plan;
    plan.pods = 32;
    plan.units = 4;
    plan.hosts = 32;
    plan.rails = 8;
    plan.spines = 32;
    plan.cores = 32;
    plan.sharp = false;
    return write_fabric(make_fabric(plan), 0);
  }();
  return made;
}

const Fabric& fabric() {
  static const Fabric parsed = parse_fabric(text())->fabric;
  return parsed;
}
const FabricRoles& roles() {
  static const FabricRoles found = find_roles(fabric());
  return found;
}
const FabricSpans& spans() {
  static const FabricSpans measured(fabric(), roles());
  return measured;
}
const std::vector<FabricFinding>& findings() {
  static const std::vector<FabricFinding> found = audit_fabric(fabric(), roles());
  return found;
}

void fabric_parse(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_fabric(text()));
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text().size()));
  state.counters["nodes"] = static_cast<double>(fabric().nodes.size());
}
BENCHMARK(fabric_parse)->Unit(benchmark::kMillisecond);

void fabric_roles(benchmark::State& state) {
  fabric();
  for (auto _ : state) benchmark::DoNotOptimize(find_roles(fabric()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(fabric_roles)->Unit(benchmark::kMillisecond);

void fabric_leaf_distances(benchmark::State& state) {
  roles();
  for (auto _ : state) benchmark::DoNotOptimize(LeafHops(fabric(), roles()));
  state.SetItemsProcessed(state.iterations());
  state.counters["leaves"] = static_cast<double>(roles().leaves.size());
}
BENCHMARK(fabric_leaf_distances)->Unit(benchmark::kMillisecond);

void fabric_audit_whole(benchmark::State& state) {
  roles();
  for (auto _ : state) benchmark::DoNotOptimize(audit_fabric(fabric(), roles()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(fabric_audit_whole)->Unit(benchmark::kMillisecond);

// Hosts spread evenly over the fabric.
void fabric_audit_job(benchmark::State& state) {
  std::vector<uint32_t> hosts;
  for (int64_t i = 0; i < state.range(0); ++i) {
    hosts.push_back(static_cast<uint32_t>(i * 4096 / state.range(0)));
  }
  spans();
  findings();
  for (auto _ : state) {
    const JobSpan span = spans().span(hosts);
    benchmark::DoNotOptimize(audit_job(roles(), span, hosts, findings()));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(fabric_audit_job)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
