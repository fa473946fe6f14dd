#include "plugin/live_step.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "plugin/step_report.hh"

namespace mfu {
namespace {

// Its last word, or now where nobody speaks any more: then its GPU has nothing to do, or nobody
// knows.
uint64_t heard_until(std::span<const Record> records, uint64_t now_ns) {
  uint64_t heard_ns = 0;
  for (const Record& record : records) {
    if ((record.flags & kFinished) == 0) heard_ns = std::max(heard_ns, record.published_ns);
  }
  return heard_ns > now_ns || now_ns - heard_ns > kSilentNs ? now_ns : heard_ns;
}

Comment report(const StepPlan& plan, const NodeSums& sums, const PeakAdditions& peaks) {
  return report_step(plan, {{0, sums}}, {}, peaks, sums.until_ns, false);
}

// Declared FLOPs first, then counted ones; of the whole step, `part` of its GPUs.
Comment best_report(const StepPlan& step, uint32_t gpus, const NodeSums& sums,
                    const PeakAdditions& peaks) {
  StepPlan plan = step;
  plan.nodes = 1;
  plan.node_id = 0;
  const uint32_t all = whole_gpus(step);
  plan.user.flops = all == 0 ? 0 : step.user.flops * gpus / all;
  plan.user.flops_per_step = all == 0 ? 0 : step.user.flops_per_step * gpus / all;
  const bool declared = plan.user.flops != 0 || plan.user.flops_per_step != 0;
  Comment line = report(plan, sums, peaks);
  if (!declared || line.sums.model_flops != 0) return line;
  plan.user.flops = plan.user.flops_per_step = 0;
  Comment counted = report(plan, sums, peaks);
  return counted.sums.model_flops != 0 ? counted : line;
}

// Records of one device such that add_records() can judge them alone: losses are the process's, and
// so are counted calls, which belong to a device when the process has computed on no other.
std::vector<Record> records_of(const NodeRecords& node, const NodeRecords::Device& device,
                               bool* divided) {
  std::vector<Record> alone;
  for (const Record* record : device.records) {
    const auto process = node.processes.find(NodeRecords::process_key(*record));
    const Record& primary = node.process_of(*record);
    size_t computing = 0;
    for (const Record* each : process->second.records) computing += each->compute_kernels != 0;
    Record copy = *record;
    copy.flags |= primary.flags & ~static_cast<uint32_t>(kDeviceKnown);
    copy.dropped = primary.dropped;
    copy.lost_ns = primary.lost_ns;
    const bool its_own = record->compute_kernels != 0 && computing == 1;
    copy.gemms = its_own ? primary.gemms : GemmSums{};
    copy.inferred = its_own ? primary.inferred : InferredFlops{};
    copy.storage = its_own ? primary.storage : StorageSums{.result = EINVAL};  // of others as well
    if (computing > 1) {
      copy.counted = {};
      *divided = true;
    }
    alone.push_back(copy);
  }
  return alone;
}

std::string state_of(std::span<const Record> records, const NodeSums& sums, uint64_t now_ns) {
  if (sums.state != State::kOk && sums.state != State::kNoRecords) return state_name(sums.state);
  bool all_ended = true;
  uint64_t heard_ns = 0;
  for (const Record& record : records) {
    all_ended = all_ended && (record.flags & kFinished) != 0;
    heard_ns = std::max(heard_ns, record.published_ns);
  }
  if (all_ended) return "ended";
  if (now_ns > heard_ns && now_ns - heard_ns > kSilentNs) return "silent";
  return sums.state == State::kOk ? "ok" : "idle";
}

// Bytes of a record are hostile.
std::string plain(const char* text) {
  std::string plain(text);
  std::replace_if(
      plain.begin(), plain.end(), [](char byte) { return !is_value_byte(byte); }, '?');
  return plain;
}

std::string uuid_text(const Record& record) {
  std::string text = split_mig_name(record.device_name).slices != 0 ? "MIG-" : "GPU-";
  for (size_t i = 0; i < sizeof(record.uuid); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", record.uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

LiveGpu live_gpu(const StepPlan& plan, const NodeRecords& node, const DeviceKey& key,
                 const NodeRecords::Device& device, const PeakAdditions& peaks, uint64_t now_ns) {
  LiveGpu gpu;
  gpu.key = key;
  bool divided = false;
  const std::vector<Record> records = records_of(node, device, &divided);
  std::set<ProcessKey> processes;
  const Record* told = &records.front();  // whose sensors say most
  for (const Record& record : records) {
    gpu.rank = std::min(gpu.rank, record.task);
    processes.insert(NodeRecords::process_key(record));
    if (record.sensors.readings > told->sensors.readings) told = &record;
    if ((record.flags & kDeviceKnown) != 0) {
      gpu.uuid = uuid_text(record);
      gpu.pci = plain(record.pci_bus_id);
    }
  }
  gpu.processes = static_cast<uint32_t>(processes.size());
  gpu.temperature_c_us = told->sensors.temperature_c_us;
  gpu.temperature_ns = told->sensors.temperature_ns;
  NodeSums& sums = gpu.sums;
  sums.gpus = 1;
  sums.until_ns = gpu.figures.until_ns = heard_until(records, now_ns);
  add_records(records, plan.started_ns, sums.until_ns, &sums);
  gpu.state = state_of(records, sums, now_ns);
  Comment& line = gpu.figures.line = best_report(plan, 1, sums, peaks);
  if (divided) {
    // What the process counted is of several GPUs.
    if (line.sums.model_flops == 0) line.no_mfu = "several-gpus";
    line.no_hfu = "several-gpus";
  }
  return gpu;
}

// FLOPs, time, sensors and files: each with the base that makes it known.
constexpr uint128 Sums::*kFlopsFields[] = {&Sums::model_flops, &Sums::capacity_flop,
                                           &Sums::flops_ns};
constexpr uint128 Sums::*kExecutedFields[] = {&Sums::executed_flops, &Sums::executed_capacity_flop,
                                              &Sums::executed_ns, &Sums::counted_ms,
                                              &Sums::kernel_ms};
constexpr uint128 Sums::*kTrainingFields[] = {&Sums::training_steps, &Sums::training_ns,
                                              &Sums::training_gpu_ms};

void forget(Sums* sums, std::span<uint128 Sums::*const> fields) {
  for (const auto field : fields) sums->*field = 0;
}

}  // namespace

LiveStep live_step(const RunningStep& step, const SpoolRecords& records, const PeakAdditions& peaks,
                   uint64_t now_ns) {
  LiveStep live{.plan = step.plan, .planned = step.planned};
  const NodeRecords node(records.records);
  // Without the plan: the GPUs that show.
  if (!step.planned) live.plan.gpus = static_cast<uint32_t>(node.devices.size());
  const StepPlan& plan = live.plan;
  NodeSums sums;
  sums.job = plan.job;
  sums.step = plan.step;
  sums.gpus = plan.gpus;
  sums.broken_records = records.broken;
  sums.record_errno = records.record_errno;
  sums.until_ns = live.figures.until_ns = heard_until(records.records, now_ns);
  add_records(records.records, plan.started_ns, sums.until_ns, &sums);
  live.figures.line = best_report(plan, plan.gpus, sums, peaks);
  for (const auto& [key, device] : node.devices) {
    if (live.gpus.size() < kMostLiveGpus) {
      live.gpus.push_back(live_gpu(plan, node, key, device, peaks, now_ns));
    } else {
      ++live.left_out;
    }
  }
  std::stable_sort(live.gpus.begin(), live.gpus.end(),
                   [](const LiveGpu& a, const LiveGpu& b) { return a.rank < b.rank; });
  return live;
}

std::optional<LiveFigures> between(const LiveFigures& before, const LiveFigures& after) {
  if (after.until_ns <= before.until_ns) return std::nullopt;
  LiveFigures result = after;
  const Sums& earlier = before.line.sums;
  const Sums& later = after.line.sums;
  Sums& sums = result.line.sums;
  for (const SumField& field : kSumFields) {
    const bool rises = later.*field.member >= earlier.*field.member;
    sums.*field.member = rises ? later.*field.member - earlier.*field.member : 0;
  }
  if (later.elapsed_ns <= earlier.elapsed_ns || later.attributed_ns < earlier.attributed_ns ||
      later.compute_ns < earlier.compute_ns) {
    return std::nullopt;
  }
  const Comment& one = before.line;
  const Comment& other = after.line;
  const bool same_peak =
      one.peak_gigaflops == other.peak_gigaflops && one.precision == other.precision;
  if (one.basis != other.basis || !same_peak || later.model_flops < earlier.model_flops) {
    forget(&sums, kFlopsFields);
    if (result.line.no_mfu.empty()) result.line.no_mfu = "interval";
  }
  if (earlier.executed_ns == 0 || !same_peak || later.executed_flops < earlier.executed_flops) {
    forget(&sums, kExecutedFields);
    if (result.line.no_hfu.empty()) result.line.no_hfu = "interval";
  }
  if (one.steps_by != other.steps_by) forget(&sums, kTrainingFields);
  // Nothing of these was known before: all of it would count as of now.
  if (earlier.attributed_ns == 0) sums.attributed_ns = 0;
  if (sums.attributed_ns == 0 && result.line.no_time.empty()) result.line.no_time = "interval";
  return result;
}

Figures live_figures(const Comment& line) {
  Figures shown = figures(line);
  const Sums& sums = line.sums;
  const auto none = [&](uint128 flops, uint128 capacity, double coverage) {
    return flops == 0 && capacity != 0 && coverage >= kLeastCoverage;
  };
  if (none(sums.model_flops, sums.capacity_flop, shown.flops_coverage)) shown.mfu = 0;
  if (none(sums.executed_flops, sums.executed_capacity_flop, shown.executed_coverage)) {
    shown.hfu = 0;
  }
  return shown;
}

double celsius_between(const LiveGpu& before, const LiveGpu& after) {
  if (after.temperature_ns <= before.temperature_ns ||
      after.temperature_c_us < before.temperature_c_us) {
    return -1;
  }
  return 1000 * static_cast<double>(after.temperature_c_us - before.temperature_c_us) /
         static_cast<double>(after.temperature_ns - before.temperature_ns);
}

const LiveStep* find_step(const std::vector<LiveStep>& steps, const LiveStep& step) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const LiveStep& other) {
    return other.plan.folder == step.plan.folder && other.plan.started_ns == step.plan.started_ns;
  });
  return found == steps.end() ? nullptr : &*found;
}

const LiveGpu* find_gpu(const LiveStep* step, const LiveGpu& gpu) {
  if (step == nullptr) return nullptr;
  const auto found = std::find_if(step->gpus.begin(), step->gpus.end(),
                                  [&](const LiveGpu& other) { return other.key == gpu.key; });
  return found == step->gpus.end() ? nullptr : &*found;
}

std::string step_name(const StepPlan& plan) {
  const std::string job =
      plan.array_job == 0 ? std::to_string(plan.job)
                          : std::to_string(plan.array_job) + "_" + std::to_string(plan.array_task);
  const std::string step = plan.step == kBatchStep         ? "batch"
                           : plan.step == kInteractiveStep ? "interactive"
                                                           : std::to_string(plan.step);
  return job + "." + step;
}

}  // namespace mfu
