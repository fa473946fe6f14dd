#include "plugin/step_report.hh"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/unit/step_samples.hh"

namespace mfu {
namespace {

using namespace step_samples;

TEST(StepReport, SumsAreExact) {
  StepPlan plan = plan_of(2);
  plan.run = 3;
  plan.user.flops = 1'234'567'890'123'456'789;
  Comment comment = reported(plan, Nodes{{0, node()}, {1, node()}}, kNow, true);
  EXPECT_EQ(comment.run, 3u);
  EXPECT_EQ(comment.gpus, 8u);
  EXPECT_EQ(comment.gpu, "H100-SXM");
  EXPECT_EQ(comment.precision, Precision::kBf16);
  EXPECT_EQ(comment.peak_gigaflops, kPeak);
  EXPECT_EQ(comment.partial, "");
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_EQ(comment.no_time, "gap");
  const Sums& sums = comment.sums;
  EXPECT_TRUE(sums.elapsed_ns == 800 * kSecond);
  EXPECT_TRUE(sums.attributed_ns == 800 * kSecond);
  EXPECT_TRUE(sums.flops_ns == 800 * kSecond);
  EXPECT_TRUE(sums.capacity_flop == uint128{kPeak} * (800 * kSecond));
  EXPECT_TRUE(sums.model_flops == plan.user.flops);
  EXPECT_TRUE(sums.span_ns == 720 * kSecond);
  EXPECT_TRUE(sums.compute_ns == 640 * kSecond);
  EXPECT_TRUE(sums.exposed_communication_ns == 32 * kSecond);
  EXPECT_TRUE(sums.overlapped_communication_ns == 80 * kSecond);
  EXPECT_TRUE(sums.exposed_memory_ns == 16 * kSecond);
  EXPECT_TRUE(sums.lost_ns == 8 * kSecond);
  EXPECT_TRUE(sums.training_steps == 0);
}

TEST(StepReport, FlopsPerStepAndSteps) {
  StepPlan plan = plan_of();
  plan.user.flops_per_step = 1'000'000;
  plan.user.steps = 20;
  Comment comment = reported(plan, Nodes{{0, node()}}, kNow, true);
  EXPECT_TRUE(comment.sums.model_flops == 20'000'000);
  EXPECT_TRUE(comment.sums.training_steps == 20);
  EXPECT_TRUE(comment.sums.training_ns == 100 * kSecond);
  EXPECT_TRUE(comment.sums.training_gpu_ms == 400'000);
  plan.user.flops_per_step = 0;  // the steps alone give their time
  comment = reported(plan, Nodes{{0, node()}}, kNow, true);
  EXPECT_EQ(comment.no_mfu, "no-flops");
  EXPECT_TRUE(comment.sums.training_steps == 20);
}

std::string no_mfu(const StepPlan& plan, const Nodes& nodes, bool ended = true) {
  Comment comment = reported(plan, nodes, kNow, ended);
  EXPECT_TRUE(comment.no_mfu.empty() || comment.sums.model_flops == 0);
  EXPECT_TRUE(comment.no_mfu.empty() || comment.sums.flops_ns == 0);
  return comment.no_mfu;
}

TEST(StepReport, EveryReasonWithoutMfu) {
  StepPlan plan = plan_of();
  EXPECT_EQ(no_mfu(plan, {{0, node()}}), "no-flops");
  plan.user.flops = 1000;
  EXPECT_EQ(no_mfu(plan, {{0, node()}}), "");
  EXPECT_EQ(no_mfu(plan, {{0, node()}}, false), "running");
  NodeSums failed = node();
  failed.failed_tasks = 1;
  EXPECT_EQ(no_mfu(plan, {{0, failed}}), "incomplete");
  NodeSums unended = node();
  unended.last = 0;
  EXPECT_EQ(no_mfu(plan, {{0, unended}}), "partial");
  EXPECT_EQ(no_mfu(plan_of(2), {{0, node()}}), "no-flops");
  StepPlan two = plan_of(2);
  two.user.flops = 1000;
  EXPECT_EQ(no_mfu(two, {{0, node()}}), "partial");
  EXPECT_EQ(no_mfu(two, {{0, node()}, {1, node("NVIDIA H200")}}), "mixed-gpus");
  NodeSums mixed = node();
  mixed.mixed_devices = 1;
  EXPECT_EQ(no_mfu(plan, {{0, mixed}}), "mixed-gpus");
  EXPECT_EQ(no_mfu(plan, {{0, node("")}}), "no-device");
  EXPECT_EQ(no_mfu(plan, {{0, node("NVIDIA Unheard Of")}}), "peak-unknown");
  NodeSums no_gemm = node();
  for (uint64_t& ns : no_gemm.gemm_ns) ns = 0;
  EXPECT_EQ(no_mfu(plan, {{0, no_gemm}}), "precision-unknown");
  plan.user.precision = Precision::kFp8;
  EXPECT_EQ(no_mfu(plan, {{0, no_gemm}}), "");
}

NodeSums with_steps(StepSource source, uint64_t fewest, uint64_t most,
                    uint64_t period_ns = kSecond) {
  NodeSums sums = node();
  sums.steps = {static_cast<uint32_t>(source), 4, fewest, most, period_ns};
  return sums;
}

TEST(StepReport, StepsThatWereFound) {
  StepPlan plan = plan_of(2);
  const NodeSums first = with_steps(StepSource::kPeriodicity, 90, 90);
  Comment comment = reported(plan, Nodes{{0, first}, {1, node()}}, kNow, true);
  EXPECT_EQ(comment.steps_by, StepsBy::kPeriod);
  EXPECT_TRUE(comment.sums.training_steps == 90);
  EXPECT_TRUE(comment.sums.training_ns == 90 * kSecond);
  // All nodes agree, but for a step that was under way: the fewest count.
  comment = reported(
      plan, Nodes{{0, first}, {1, with_steps(StepSource::kPeriodicity, 89, 90, 2 * kSecond)}}, kNow,
      true);
  EXPECT_TRUE(comment.sums.training_steps == 89);
  EXPECT_TRUE(comment.sums.training_ns == 178 * kSecond);
  EXPECT_TRUE(comment.sums.training_gpu_ms == 8 * 178'000);
  // They do not agree: nothing.
  comment = reported(plan, Nodes{{0, first}, {1, with_steps(StepSource::kPeriodicity, 45, 45)}},
                     kNow, true);
  EXPECT_EQ(comment.steps_by, StepsBy::kNobody);
  EXPECT_TRUE(comment.sums.training_steps == 0);
  // The better source wins, whatever the other one says.
  comment =
      reported(plan, Nodes{{0, first}, {1, with_steps(StepSource::kNvtx, 44, 44)}}, kNow, true);
  EXPECT_EQ(comment.steps_by, StepsBy::kNvtx);
  EXPECT_TRUE(comment.sums.training_steps == 44);
  // Declared ones are those of a whole run.
  plan.user.steps = 100;
  comment = reported(plan, Nodes{{0, first}, {1, node()}}, kNow, true);
  EXPECT_EQ(comment.steps_by, StepsBy::kDeclared);
  EXPECT_TRUE(comment.sums.training_steps == 100);
  comment = reported(plan, Nodes{{0, first}, {1, node()}}, kNow, false);
  EXPECT_EQ(comment.steps_by, StepsBy::kPeriod);
  EXPECT_TRUE(comment.sums.training_steps == 90);
}

TEST(StepReport, FlopsOfTheStepsThatWereFound) {
  StepPlan plan = plan_of();
  plan.user.flops_per_step = 1000;
  EXPECT_EQ(reported(plan, Nodes{{0, node()}}, kNow, true).no_mfu, "no-steps");
  NodeSums sums = with_steps(StepSource::kPeriodicity, 90, 90);
  Comment comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_TRUE(comment.sums.model_flops == 90'000);
  EXPECT_TRUE(comment.sums.capacity_flop == uint128{kPeak} * (400 * kSecond));
  // They have been executed, also when the step still runs or was killed.
  comment = reported(plan, Nodes{{0, sums}}, kNow, false);
  EXPECT_TRUE(comment.sums.model_flops == 90'000);
  sums.failed_tasks = 1;
  comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_TRUE(comment.sums.model_flops == 90'000);
  // Declared ones of the whole run are not believed then.
  plan.user.steps = 90;
  EXPECT_EQ(reported(plan, Nodes{{0, sums}}, kNow, true).no_mfu, "incomplete");
}

TEST(StepReport, WaitingIsThatOfAWholeStep) {
  CollectiveSpreads spreads;
  for (uint32_t task = 0; task < 2; ++task) {
    Record record;
    record.task = task;
    record.flags = kPrimary | kFinished;
    record.communication_kernels = 1;
    record.samples.add(1, 0, task == 1 ? 100 : 300);
    record.collective_ns[1] = task == 1 ? 100 : 300;
    spreads.add(record, record);
  }
  Comment comment = report_step(plan_of(), Nodes{{0, node()}}, spreads, {}, kNow, true);
  EXPECT_TRUE(comment.sums.collective_ns == 400);
  EXPECT_TRUE(comment.sums.wait_ns == 200);
  EXPECT_EQ(comment.slowest, 1u);
  comment = report_step(plan_of(), Nodes{{0, node()}}, spreads, {}, kNow, false);
  EXPECT_TRUE(comment.sums.collective_ns == 0);
  comment = report_step(plan_of(2), Nodes{{0, node()}}, spreads, {}, kNow, true);
  EXPECT_TRUE(comment.sums.collective_ns == 0) << "a node is missing";
}

struct TimeCase {
  const char* reason;
  void (*spoil)(NodeSums*);
  uint64_t attributed_gpus;
};

TEST(StepReport, EveryReasonWithoutTime) {
  const TimeCase cases[] = {
      {"", [](NodeSums* s) { s->lost_ns = 0; }, 4},
      {"gap", [](NodeSums*) {}, 4},
      {"dropped", [](NodeSums* s) { s->dropped = s->kept_out = s->shared_devices = 1; }, 4},
      {"bad-records", [](NodeSums* s) { s->kept_out = s->shared_devices = 1; }, 4},
      {"shared-gpus", [](NodeSums* s) { s->shared_devices = s->cut_off_processes = 1; }, 4},
      {"cut-off", [](NodeSums* s) { s->cut_off_processes = 1; }, 4},
      {"no-cuda", [](NodeSums* s) { s->processes = 0; }, 0},
      {"broken-records",
       [](NodeSums* s) {
         s->processes = 0;
         s->broken_records = 2;
       },
       0},
      {"record:enospc", [](NodeSums* s) { s->record_errno = ENOSPC; }, 0},
      {"record:errno-255", [](NodeSums* s) { s->record_errno = 255; }, 0},
      {"record:enoent",
       [](NodeSums* s) {
         s->processes = 0;
         s->record_errno = ENOENT;
       },
       0},
      {"stood-down",
       [](NodeSums* s) {
         s->state = State::kStoodDown;
         s->unattributed_devices = 1;
         s->span_ns = 270 * kSecond;
       },
       3},
      {"denied:enable-kernel:35",
       [](NodeSums* s) {
         s->state = State::kDenied;
         s->cupti_call = CuptiCall::kEnableKernel;
         s->cupti_result = 35;
         s->unattributed_devices = 9;  // more than Slurm gave
         s->span_ns = 0;
       },
       0},
      // A failed process on a device that others observed: nothing is missing.
      {"gap", [](NodeSums* s) { s->state = State::kNoCupti; }, 4},
      {"implausible", [](NodeSums* s) { s->span_ns = 405 * kSecond; }, 0},
      {"implausible", [](NodeSums* s) { s->span_ns = uint64_t{1} << 63; }, 0},
      {"gap", [](NodeSums* s) { s->span_ns = 403 * kSecond; }, 4},  // clocks
  };
  for (const TimeCase& c : cases) {
    NodeSums sums = node();
    c.spoil(&sums);
    Comment comment = reported(plan_of(), Nodes{{0, sums}}, kNow, true);
    EXPECT_EQ(comment.no_time, c.reason);
    EXPECT_TRUE(comment.sums.attributed_ns == c.attributed_gpus * 100 * kSecond) << c.reason;
    EXPECT_TRUE(comment.sums.elapsed_ns == 400 * kSecond);
    if (c.attributed_gpus == 0) {
      EXPECT_TRUE(comment.sums.compute_ns == 0) << c.reason;
      EXPECT_TRUE(comment.sums.lost_ns == 0) << c.reason;
    }
    auto parsed = parse_comment(format_comment(comment));
    EXPECT_TRUE(parsed) << parsed.error();
  }
}

TEST(StepReport, TheSpoolsOwnReason) {
  StepPlan plan = plan_of();
  plan.no_records = "spool:enospc";
  NodeSums sums = node();
  sums.processes = 0;
  EXPECT_EQ(reported(plan, Nodes{{0, sums}}, kNow, true).no_time, "spool:enospc");
}

TEST(StepReport, PartialNodes) {
  StepPlan plan = plan_of(3);
  NodeSums silent = node();  // was heard once, 40 s before the end
  silent.last = 0;
  silent.until_ns = kNow - 40 * kSecond;
  Comment comment = reported(plan, Nodes{{0, node()}, {2, silent}}, kNow, true);
  EXPECT_EQ(comment.partial, "nodes:1-of-3");
  EXPECT_EQ(comment.gpus, 8u);
  EXPECT_TRUE(comment.sums.elapsed_ns == 800 * kSecond);
  EXPECT_TRUE(comment.sums.lost_ns == (4 + 4 + 4 * 40) * kSecond);
  // While it runs nothing is partial, and each node counts as far as it was heard.
  comment = reported(plan, Nodes{{0, node()}, {2, silent}}, kNow, false);
  EXPECT_EQ(comment.partial, "");
  EXPECT_TRUE(comment.sums.elapsed_ns == (400 + 240) * kSecond);
}

TEST(StepReport, LostTimeStaysWithinTheAttributed) {
  NodeSums sums = node();
  sums.lost_ns = uint64_t{1} << 63;
  Comment comment = reported(plan_of(), Nodes{{0, sums}}, kNow, true);
  EXPECT_TRUE(comment.sums.lost_ns == 400 * kSecond);
  EXPECT_GE(figures(comment).observed_coverage, 0);
}

TEST(StepReport, ClocksThatRunBackwards) {
  NodeSums sums = node();
  sums.until_ns = kStart - kSecond;
  Comment comment = reported(plan_of(), Nodes{{0, sums}}, kStart - 5, true);
  EXPECT_TRUE(comment.sums.elapsed_ns == 0);
  comment = reported(plan_of(), {}, kNow, true);
  EXPECT_TRUE(comment.sums.elapsed_ns == 0);
  EXPECT_EQ(comment.partial, "nodes:0-of-1");
}

TEST(StepReport, Sensors) {
  NodeSums sums = node();
  sums.energy_mj = 240'000'999;  // 600 W for 400 s
  sums.energy_ns = sums.clock_ns = sums.tensor_ns = sums.reasons_ns = 400 * kSecond;
  sums.sm_cycles = 600'000'000'000;  // 1,500 MHz
  sums.tensor_active_ns = 100 * kSecond;
  sums.clock_limit_mhz = 1980;
  Comment comment = reported(plan_of(2), Nodes{{0, sums}, {1, sums}}, kNow, true);
  EXPECT_TRUE(comment.sums.energy_j == 480'001);  // divided once, at the end
  EXPECT_TRUE(comment.sums.energy_ms == 800'000);
  EXPECT_TRUE(comment.sums.clock_megacycles == 1'200'000);
  EXPECT_TRUE(comment.sums.clock_ms == 800'000);
  EXPECT_TRUE(comment.sums.tensor_active_ms == 200'000);
  EXPECT_TRUE(comment.sums.tensor_ms == 800'000);
  EXPECT_EQ(comment.clock_limit_mhz, 1980u);
  EXPECT_EQ(comment.clock_reason, "");
  // More time than its GPUs had: not believed.
  NodeSums other = sums;
  other.clock_limit_mhz = 1755;
  other.tensor_ns = 405 * kSecond;
  comment = reported(plan_of(2), Nodes{{0, sums}, {1, other}}, kNow, true);
  EXPECT_EQ(comment.clock_limit_mhz, 1980u);
  EXPECT_TRUE(comment.sums.energy_ms == 400'000);
  EXPECT_TRUE(comment.sums.tensor_ms == 400'000);
}

TEST(StepReport, WhyClocksWereHeldBack) {
  const auto reason = [](uint64_t idle, uint64_t power, uint64_t thermal, uint64_t setting) {
    NodeSums sums = node();
    sums.reasons_ns = 100 * kSecond;
    sums.reason_ns[kClockIdle] = idle * kSecond;
    sums.reason_ns[kClockPower] = power * kSecond;
    sums.reason_ns[kClockThermal] = thermal * kSecond;
    sums.reason_ns[kClockSetting] = setting * kSecond;
    return reported(plan_of(), Nodes{{0, sums}}, kNow, true).clock_reason;
  };
  EXPECT_EQ(reason(0, 0, 0, 0), "");
  EXPECT_EQ(reason(100, 0, 0, 0), "");  // it had nothing to do
  EXPECT_EQ(reason(90, 5, 4, 0), "power");
  EXPECT_EQ(reason(0, 4, 4, 4), "");
  EXPECT_EQ(reason(0, 30, 31, 0), "thermal");
  EXPECT_EQ(reason(0, 30, 31, 100), "setting");
}

TEST(StepReport, Storage) {
  NodeSums sums = node();
  sums.read_bytes = 1'700'000;
  sums.written_bytes = 2'600'000;
  Comment comment = reported(plan_of(2), Nodes{{0, sums}, {1, sums}}, kNow, true);
  EXPECT_TRUE(comment.sums.read_mb == 3);
  EXPECT_TRUE(comment.sums.written_mb == 5);
  EXPECT_TRUE(comment.sums.io_ms == 800'000);
  // Of the second node not all is known.
  const auto io_ms = [&](void (*spoil)(NodeSums*)) {
    NodeSums other = sums;
    spoil(&other);
    comment = reported(plan_of(2), Nodes{{0, sums}, {1, other}}, kNow, true);
    EXPECT_TRUE(comment.sums.read_mb == 1);
    return static_cast<uint64_t>(comment.sums.io_ms);
  };
  EXPECT_EQ(io_ms([](NodeSums* s) { s->storage_failures = 1; }), 400'000u);
  EXPECT_EQ(io_ms([](NodeSums* s) { s->broken_records = 1; }), 400'000u);
  EXPECT_EQ(io_ms([](NodeSums* s) { s->record_errno = ENOSPC; }), 400'000u);
  EXPECT_EQ(io_ms([](NodeSums* s) { s->processes = 0; }), 400'000u);
}

TEST(StepReport, Goodput) {
  NodeSums sums = node();
  sums.start_up_ns = 40 * kSecond;
  sums.productive_ns = 300 * kSecond;
  sums.writing_ns = 20 * kSecond;
  sums.reading_ns = 10 * kSecond;
  sums.stalled_ns = 5 * kSecond;
  sums.tail_ns = 15 * kSecond;  // 10 s are not known
  const auto seconds = [](uint128 ms) { return static_cast<uint64_t>(ms / 1000); };
  StepPlan plan = plan_of();
  Comment comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(seconds(comment.sums.start_up_ms), 40u);
  EXPECT_EQ(seconds(comment.sums.restart_ms), 0u);
  EXPECT_EQ(seconds(comment.sums.productive_ms), 300u);
  EXPECT_EQ(seconds(comment.sums.writing_ms), 20u);
  EXPECT_EQ(seconds(comment.sums.reading_ms), 10u);
  EXPECT_EQ(seconds(comment.sums.stalled_ms), 5u);
  EXPECT_EQ(seconds(comment.sums.tail_ms), 15u);
  EXPECT_TRUE(comment.sums.goodput().unknown_ns == 10 * kSecond);
  plan.run = 2;  // a requeued job begins once more
  comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(seconds(comment.sums.start_up_ms), 0u);
  EXPECT_EQ(seconds(comment.sums.restart_ms), 40u);
  // Summed up by an epilog, hours after the end.
  sums.tail_ns = 9000 * kSecond;
  comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(seconds(comment.sums.tail_ms), 25u);
  EXPECT_TRUE(comment.sums.goodput().total_ns() == comment.sums.elapsed_ns);
  // It began 4 s before the first node.
  sums.tail_ns = 1 * kSecond;
  sums.productive_ns = 329 * kSecond;
  comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(seconds(comment.sums.productive_ms), 329u);
  EXPECT_EQ(seconds(comment.sums.restart_ms), 36u);
  EXPECT_EQ(seconds(comment.sums.tail_ms), 0u);
  EXPECT_TRUE(comment.sums.goodput().total_ns() == comment.sums.elapsed_ns);
  // More than there was by far: not believed.
  sums.productive_ns = 390 * kSecond;
  comment = reported(plan, Nodes{{0, sums}}, kNow, true);
  EXPECT_EQ(seconds(comment.sums.productive_ms + comment.sums.tail_ms), 0u);
}

// What a hostile device name can do to the line.
NodeSums placed(uint32_t high, uint32_t warnings, const char* rules) {
  NodeSums sums = node();
  sums.placement_audited = 1;
  sums.placement_high = high;
  sums.placement_warnings = warnings;
  std::snprintf(sums.placement_rules, sizeof(sums.placement_rules), "%s", rules);
  return sums;
}

std::string place_of(const Nodes& nodes) {
  return place_text(
      reported(plan_of(static_cast<uint32_t>(nodes.size())), nodes, kNow, true).place);
}

TEST(StepReport, PlaceIsThatOfAllNodes) {
  const NodeSums good = placed(0, 0, "");
  EXPECT_EQ(place_of({{0, node()}}), "");
  EXPECT_EQ(place_of({{0, good}, {1, good}}), "ok");
  EXPECT_EQ(place_of({{0, good}, {1, node()}}), "");  // nobody knows of the second one
  EXPECT_EQ(place_of({{0, node()}, {1, placed(0, 1, "gpu-order")}}), "warn:1(gpu-order)");
  EXPECT_EQ(place_of({{0, placed(0, 2, "gpu-order,job-leaves")},
                      {1, good},
                      {2, placed(0, 3, "job-leaves,rank-gpu-map")}}),
            "warn:5(gpu-order,job-leaves,rank-gpu-map)");
  // What is worse goes first, and alone into the number.
  EXPECT_EQ(place_of({{0, placed(0, 7, "gpu-order")}, {1, placed(2, 1, "nic-down,job-leaves")}}),
            "bad:2(nic-down,job-leaves,gpu-order)");
  EXPECT_EQ(place_of({}), "");
}

TEST(StepReport, RulesOfManyNodesAreBounded) {
  Nodes nodes;
  uint64_t warnings = 0;
  for (uint32_t id = 0; id < 100; ++id) {
    nodes[id] = placed(0, 1 << 20, ("rule-" + std::to_string(id)).c_str());
    warnings += 1 << 20;
  }
  const Place place = reported(plan_of(100), nodes, kNow, true).place;
  EXPECT_EQ(place.findings, warnings);
  EXPECT_LE(place.rules.size(), kMostRules);
  EXPECT_EQ(place.rules.substr(0, 14), "rule-0,rule-1,");
  // A name is never cut, nor is one the beginning of another.
  EXPECT_EQ(place_of({{0, placed(0, 1, "rule-10")}, {1, placed(0, 1, "rule-1,rule-10,,")}}),
            "warn:2(rule-10,rule-1)");
}

TEST(StepReport, AnUnknownDeviceNameIsMadeToFit) {
  Comment comment =
      reported(plan_of(), Nodes{{0, node("evil |;'\" name mfu/1 mfu=99% sum=")}}, kNow, true);
  std::string line = format_comment(comment);
  EXPECT_EQ(line.find_first_of("|;'\""), line.npos);
  EXPECT_TRUE(parse_comment(line));
  EXPECT_EQ(find_comment(line), line);
}

}  // namespace
}  // namespace mfu
