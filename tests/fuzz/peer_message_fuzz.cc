// Any bytes as what up to four nodes say of a job step: no crash, no undefined behaviour; what
// passes the checks gives parts that are no more than the whole, a line that can be read, and
// findings that fit behind it. (That they come from root of a node of the step MUNGE shows.)
#include <map>
#include <string>

#include "plugin/comment.hh"
#include "plugin/nvlink_cliques.hh"
#include "plugin/place_note.hh"
#include "plugin/step_report.hh"
#include "tests/fuzz/fuzz_input.hh"
#include "tests/fuzz/plausible_message.hh"

namespace {

using mfu::kFuzzSecond;
using mfu::kFuzzStart;
using mfu::require;

constexpr uint32_t kNodes = 4;

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
  mfu::StepPlan plan = mfu::plan_of_message(kNodes);
  const uint8_t how = in.take<uint8_t>();
  const bool ended = (how & 1) != 0;
  if ((how & 2) != 0) plan.user.flops_per_step = 1'000'000'000'000;
  if ((how & 4) != 0) plan.user.steps = 100;
  if ((how & 8) != 0) plan.user.precision = mfu::Precision::kBf16;
  const uint64_t now_ns = kFuzzStart + in.take<uint8_t>() * kFuzzSecond;

  std::map<uint32_t, mfu::NodeSums> nodes;
  mfu::CollectiveSpreads spreads;
  mfu::PlaceNote note;
  for (uint32_t node = 0; node < kNodes; ++node) {
    const mfu::peer::Message message = in.changed(mfu::plausible_message(node));
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
