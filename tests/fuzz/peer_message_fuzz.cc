// Any bytes as what up to four nodes say of a job step: no crash, no undefined behaviour; what
// passes the checks gives parts that are no more than the whole, a line that can be read, and
// findings that fit behind it. (That they come from root of a node of the step MUNGE shows.)
#include <cstdio>
#include <map>
#include <string>

#include "plugin/comment.hh"
#include "plugin/nvlink_cliques.hh"
#include "plugin/peer.hh"
#include "plugin/place_note.hh"
#include "plugin/step_report.hh"
#include "tests/fuzz/fuzz_input.hh"

namespace {

using mfu::require;

constexpr uint32_t kNodes = 4;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'700'000'000 * kSecond;

mfu::peer::Message plausible_message(uint32_t node) {
  mfu::peer::Message message;
  mfu::NodeSums& sums = message.sums;
  sums.job = 7;
  sums.node_id = node;
  sums.sequence = 1;
  sums.last = 1;
  sums.until_ns = kStart + 100 * kSecond;
  sums.gpus = sums.processes = sums.devices = sums.counted_devices = 4;
  std::snprintf(sums.device_name, sizeof(sums.device_name), "NVIDIA H100 80GB HBM3");
  std::snprintf(sums.clique, sizeof(sums.clique), "rack%u.1", node % 2);
  sums.placement_audited = 1;
  sums.span_ns = 360 * kSecond;
  sums.compute_ns = 320 * kSecond;
  sums.exposed_communication_ns = 16 * kSecond;
  sums.overlapped_communication_ns = 40 * kSecond;
  sums.exposed_memory_ns = 8 * kSecond;
  sums.kernel_ns = 320 * kSecond;
  sums.counted_ns = 300 * kSecond;
  const auto bf16 = static_cast<int>(mfu::Precision::kBf16);
  sums.gemm_ns[bf16] = 300 * kSecond;
  sums.gemm_flops[bf16].mega = 100'000'000'000;
  sums.inferred_flops.mega = 90'000'000'000;
  sums.inference = mfu::Inference::kKnown;
  sums.energy_ns = sums.clock_ns = sums.tensor_ns = sums.reasons_ns = 390 * kSecond;
  sums.energy_mj = 240'000'000;
  sums.sm_cycles = 600'000'000'000;
  sums.clock_limit_mhz = 1980;
  sums.read_bytes = kSecond;
  sums.productive_ns = 350 * kSecond;
  sums.tail_ns = 10 * kSecond;
  sums.steps = {1, 4, 100, 100, kSecond};
  message.spreads.count = 1;
  message.spreads.ranks = 4;
  message.spreads.collectives = 10;
  message.spreads.kernel_ns = 16 * kSecond;
  message.spreads.spreads[0] = {64, kSecond, 5 * kSecond, 4, node * 4};
  const mfu::Finding finding = {"nic-down", mfu::Severity::kHigh, "n1 mlx5_0", "port 1 is DOWN",
                                "ibstat mlx5_0"};
  message.findings = mfu::top_findings({&finding, 1});
  return message;
}

// As the listener judges what has proved itself.
bool is_believed(const mfu::peer::Message& message, const mfu::StepPlan& plan) {
  return message.spreads.fault() == nullptr && message.findings.fault() == nullptr &&
         mfu::node_sums_fault(message.sums, plan.job, plan.step, plan.nodes) == nullptr;
}

void check_sums(const mfu::Sums& sums) {
  require(sums.attributed_ns <= sums.elapsed_ns);
  require(sums.lost_ns <= sums.attributed_ns);
  require(sums.flops_ns <= sums.elapsed_ns);
  require(sums.executed_ns <= sums.elapsed_ns);
  require(sums.wait_ns <= sums.collective_ns);
  require(sums.goodput().total_ns() <= sums.elapsed_ns);
}

void check_line(const mfu::Comment& step, bool ended) {
  mfu::Comment job;
  require(ended ? mfu::merge_step(&job, step, 0) : mfu::show_running(&job, step, 0));
  const std::string line = mfu::format_comment(job);
  require(line.size() <= mfu::kMaxLine && mfu::find_comment(line) == line);
  const auto again = mfu::parse_comment(line);
  require(again && mfu::format_comment(*again) == line);
}

void check_note(const mfu::PlaceNote& note) {
  const std::string text = mfu::format_place_note(note);
  require(text.size() <= mfu::kMostPlaceNote);
  if (text.empty()) return;
  const auto again = mfu::read_place_note(text);
  require(again.note && *again.note == note && again.text == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mfu::FuzzInput in(data, size);
  mfu::StepPlan plan;
  plan.job = 7;
  plan.nodes = kNodes;
  plan.started_ns = kStart;
  const uint8_t how = in.take<uint8_t>();
  const bool ended = (how & 1) != 0;
  if ((how & 2) != 0) plan.user.flops_per_step = 1'000'000'000'000;
  if ((how & 4) != 0) plan.user.steps = 100;
  if ((how & 8) != 0) plan.user.precision = mfu::Precision::kBf16;
  const uint64_t now_ns = kStart + in.take<uint8_t>() * kSecond;

  std::map<uint32_t, mfu::NodeSums> nodes;
  mfu::CollectiveSpreads spreads;
  mfu::PlaceNote note;
  for (uint32_t node = 0; node < kNodes; ++node) {
    const mfu::peer::Message message = in.changed(plausible_message(node));
    if (!is_believed(message, plan)) continue;
    mfu::NodeSums& known = nodes[message.sums.node_id];
    if (known.last == 0 && message.sums.last != 0) spreads.add(message.spreads);
    known = message.sums;
    for (const mfu::Finding& finding : message.findings.findings()) note.add(finding);
    require(spreads.fault() == nullptr);
  }
  if (const auto crossed = mfu::crossed_cliques(plan, nodes)) {
    note.add(*crossed);
    require(mfu::top_findings({&*crossed, 1}).fault() == nullptr);
  }
  const mfu::Comment step = mfu::report_step(plan, nodes, spreads, {}, now_ns, ended);
  check_sums(step.sums);
  check_line(step, ended);
  check_note(note);
  return 0;
}
