// mfu-live's metrics for Prometheus. Names, units and types follow its naming rules: base units,
// counters end in _total. Everything that rises is a counter, so that the reader chooses the
// window:
//   MFU = rate(mfu_step_model_flops_total) /
//         (rate(mfu_step_model_flops_gpu_seconds_total) * mfu_step_peak_flops)
//   MFU of a GPU = rate(mfu_gpu_model_flops_total) / rate(mfu_gpu_model_peak_flops_total)
#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <string_view>
#include <vector>

#include "plugin/live_reading.hh"

namespace mfu {
namespace {

enum class Type : uint8_t { kGauge, kCounter };

// A metric with its samples: the text format wants them together.
class Metric {
 public:
  Metric(const char* name, Type type, const char* help) : name_(name), help_(help), type_(type) {}

  // `labels`: `a="b",c="d"`. Nothing for a negative value: it is not known.
  void add(const std::string& labels, double value) {
    if (!(value >= 0)) return;
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    samples_ += name_;
    if (!labels.empty()) samples_.append("{").append(labels).append("}");
    samples_.append(" ").append(digits, end).append("\n");
  }

  void write(std::ostream& out) const {
    if (samples_.empty()) return;
    out << "# HELP " << name_ << ' ' << help_ << "\n# TYPE " << name_
        << (type_ == Type::kCounter ? " counter\n" : " gauge\n") << samples_;
  }

 private:
  const char* name_;
  const char* help_;
  Type type_;
  std::string samples_;
};

constexpr double kNs = 1e-9;
constexpr double kMs = 1e-3;

// `,name="text"`, whatever the text is.
std::string label(const char* name, std::string_view text) {
  std::string result = std::string(",") + name + "=\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') result += '\\';
    result += byte >= ' ' && byte <= '~' ? byte : '?';
  }
  return result + '"';
}

std::string step_labels(const StepPlan& plan) {
  const std::string name = step_name(plan);
  const size_t dot = name.rfind('.');
  return "jobid=\"" + name.substr(0, dot) + '"' + label("step", name.substr(dot + 1)) +
         label("node", plan.node);
}

std::string user_name(uint32_t uid) {
  struct passwd entry;
  struct passwd* found = nullptr;
  std::vector<char> text(16384);
  getpwuid_r(uid, &entry, text.data(), text.size(), &found);
  return found != nullptr ? found->pw_name : std::to_string(uid);
}

double seconds(uint128 ns) {
  return static_cast<double>(ns) * kNs;
}

double flops(uint128 flops) {
  return static_cast<double>(flops);
}

// As in the line: where there is no MFU or HFU, its parts say nothing.
bool is_modelled(const Sums& sums) {
  return sums.model_flops != 0 && sums.capacity_flop != 0;
}
bool is_executed(const Sums& sums) {
  return sums.executed_flops != 0 && sums.executed_capacity_flop != 0;
}

// 0 of a base: nothing of it is known.
double over(uint128 base, double value) {
  return base == 0 ? -1 : value;
}

class StepMetrics {
 public:
  void add(const LiveStep& step) {
    const std::string labels = step_labels(step.plan);
    const Comment& line = step.figures.line;
    const Sums& sums = line.sums;
    const Figures shown = live_figures(line);
    const std::string device = fit_name(line.gpu);
    info_.add(labels + label("user", user_name(step.plan.uid)) +
                  label("device", device.empty() ? kUnknownGpu : device) +
                  label("precision", precision_name(line.precision)) +
                  label("peak_basis", peak_basis_name(line.peak_basis)),
              1);
    gpus_.add(labels, step.plan.gpus);
    begin_.add(labels, seconds(step.plan.started_ns));
    const bool one_peak = line.peak_gigaflops != 0 && line.peak_gigaflops != kMixedPeak;
    peak_.add(labels, one_peak ? static_cast<double>(line.peak_gigaflops) * 1e9 : -1);
    mfu_.add(labels, shown.mfu);
    hfu_.add(labels, shown.hfu);
    const std::string basis = labels + label("basis", basis_name(line.basis));
    const bool modelled = is_modelled(sums);
    const bool executed = is_executed(sums);
    model_flops_.add(basis, modelled ? flops(sums.model_flops) : -1);
    model_seconds_.add(basis, modelled ? seconds(sums.flops_ns) : -1);
    executed_flops_.add(labels, executed ? flops(sums.executed_flops) : -1);
    executed_seconds_.add(labels, executed ? seconds(sums.executed_ns) : -1);
    flops_coverage_.add(labels, modelled ? shown.flops_coverage : -1);
    observed_coverage_.add(labels, shown.observed_coverage);
    attributed_.add(labels, over(sums.attributed_ns, seconds(sums.attributed_ns)));
    training_steps_.add(labels,
                        over(sums.training_steps, static_cast<double>(sums.training_steps)));
    step_seconds_.add(labels, shown.step_seconds);
    goodput_.add(labels, shown.goodput.fraction);
    read_.add(labels, over(sums.io_ms, static_cast<double>(sums.read_mb) * 1e6));
    written_.add(labels, over(sums.io_ms, static_cast<double>(sums.written_mb) * 1e6));
  }

  void write(std::ostream& out) const {
    for (const Metric* metric :
         {&info_, &gpus_, &begin_, &peak_, &mfu_, &hfu_, &model_flops_, &model_seconds_,
          &executed_flops_, &executed_seconds_, &flops_coverage_, &observed_coverage_, &attributed_,
          &training_steps_, &step_seconds_, &goodput_, &read_, &written_}) {
      metric->write(out);
    }
  }

 private:
  Metric info_{"mfu_step_info", Type::kGauge, "A running job step on this node; always 1."};
  Metric gpus_{"mfu_step_gpus", Type::kGauge, "GPUs that the step has on this node."};
  Metric begin_{"mfu_step_start_time_seconds", Type::kGauge, "When the step began, Unix time."};
  Metric peak_{"mfu_step_peak_flops", Type::kGauge,
               "Dense peak of one GPU in FLOP/s at the step's precision."};
  Metric mfu_{"mfu_step_mfu_ratio", Type::kGauge,
              "Model FLOPs utilisation of this node's GPUs since the step's begin, by "
              "mfu-comment(5)."};
  Metric hfu_{"mfu_step_hfu_ratio", Type::kGauge,
              "The same of all FLOPs that were executed and counted."};
  Metric model_flops_{"mfu_step_model_flops_total", Type::kCounter,
                      "Model FLOPs; basis: model (declared) or gemm (counted)."};
  Metric model_seconds_{"mfu_step_model_flops_gpu_seconds_total", Type::kCounter,
                        "GPU time that mfu_step_model_flops_total is of."};
  Metric executed_flops_{"mfu_step_executed_flops_total", Type::kCounter,
                         "FLOPs that kernels executed, as far as they were counted."};
  Metric executed_seconds_{"mfu_step_executed_flops_gpu_seconds_total", Type::kCounter,
                           "GPU time that mfu_step_executed_flops_total is of."};
  Metric flops_coverage_{"mfu_step_flops_coverage_ratio", Type::kGauge,
                         "Share of GPU time whose model FLOPs are known."};
  Metric observed_coverage_{"mfu_step_observed_coverage_ratio", Type::kGauge,
                            "Share of GPU time that was observed."};
  Metric attributed_{"mfu_step_attributed_gpu_seconds_total", Type::kCounter,
                     "GPU time in which activity is known, of GPUs that nobody uses as well."};
  Metric training_steps_{"mfu_step_training_steps_total", Type::kCounter,
                         "Training steps that were found."};
  Metric step_seconds_{"mfu_step_training_step_seconds", Type::kGauge,
                       "Mean time of a training step since the step's begin."};
  Metric goodput_{"mfu_step_goodput_ratio", Type::kGauge,
                  "Share of GPU time since the step's begin that went into training steps."};
  Metric read_{"mfu_step_read_bytes_total", Type::kCounter,
               "Bytes that the step's processes have read from files."};
  Metric written_{"mfu_step_written_bytes_total", Type::kCounter,
                  "Bytes that the step's processes have written to files."};
};

class GpuMetrics {
 public:
  void add(const StepPlan& plan, const LiveGpu* before, const LiveGpu& gpu) {
    std::string labels = step_labels(plan) + label("uuid", gpu.uuid);
    if (gpu.rank != kNoTask) labels += label("rank", std::to_string(gpu.rank));
    const Comment& line = gpu.figures.line;
    const Sums& sums = line.sums;
    const NodeSums& raw = gpu.sums;
    state_.add(labels + label("state", gpu.state), 1);
    processes_.add(labels, gpu.processes);
    mfu_.add(labels, live_figures(line).mfu);
    // Another precision has another peak, of all time so far: its counters are others.
    const std::string precise = labels + label("precision", precision_name(line.precision));
    if (is_modelled(sums)) {
      const std::string basis = precise + label("basis", basis_name(line.basis));
      model_flops_.add(basis, flops(sums.model_flops));
      model_peak_.add(basis, flops(sums.capacity_flop));
    }
    if (is_executed(sums)) {
      executed_flops_.add(precise, flops(sums.executed_flops));
      executed_peak_.add(precise, flops(sums.executed_capacity_flop));
    }
    elapsed_.add(labels, seconds(sums.elapsed_ns));
    const auto of_time = [&](uint128 ns) { return over(sums.attributed_ns, seconds(ns)); };
    compute_.add(labels, of_time(sums.compute_ns));
    exposed_.add(labels, of_time(sums.exposed_communication_ns));
    overlapped_.add(labels, of_time(sums.overlapped_communication_ns));
    memory_.add(labels, of_time(sums.exposed_memory_ns));
    attributed_.add(labels, of_time(sums.attributed_ns));
    lost_.add(labels, of_time(sums.lost_ns));
    energy_.add(labels, over(raw.energy_ns, static_cast<double>(raw.energy_mj) * kMs));
    energy_seconds_.add(labels, over(raw.energy_ns, seconds(raw.energy_ns)));
    for (int i = 0; i < kClockReasons; ++i) {
      const auto reason = static_cast<ClockReason>(i);
      if (reason == kClockIdle) continue;
      reasons_.add(labels + label("reason", clock_reason_name(reason)),
                   over(raw.reasons_ns, seconds(raw.reason_ns[i])));
    }
    limit_.add(labels, over(line.clock_limit_mhz, line.clock_limit_mhz * 1e6));
    if (before == nullptr) return;
    celsius_.add(labels, celsius_between(*before, gpu));
    const auto last = between(before->figures, gpu.figures);
    if (!last) return;
    const Figures shown = live_figures(last->line);
    watts_.add(labels, shown.watts);
    clock_.add(labels, shown.clock_mhz < 0 ? -1 : shown.clock_mhz * 1e6);
    tensor_.add(labels, shown.tensor_activity);
  }

  void write(std::ostream& out) const {
    for (const Metric* metric :
         {&state_,          &processes_,     &mfu_,        &model_flops_, &model_peak_,
          &executed_flops_, &executed_peak_, &elapsed_,    &attributed_,  &lost_,
          &compute_,        &exposed_,       &overlapped_, &memory_,      &energy_,
          &energy_seconds_, &reasons_,       &limit_,      &celsius_,     &watts_,
          &clock_,          &tensor_}) {
      metric->write(out);
    }
  }

 private:
  Metric state_{"mfu_gpu_state_info", Type::kGauge,
                "What is known of the GPU's processes: ok, idle, silent, ended, or a reason of "
                "mfu-comment(5); always 1."};
  Metric processes_{"mfu_gpu_processes", Type::kGauge, "Processes of the step on the GPU."};
  Metric mfu_{"mfu_gpu_mfu_ratio", Type::kGauge,
              "Model FLOPs utilisation of the GPU since the step's begin."};
  Metric model_flops_{
      "mfu_gpu_model_flops_total", Type::kCounter,
      "Model FLOPs of the GPU; basis: model (its share of what the job declares) or "
      "gemm (counted)."};
  Metric model_peak_{
      "mfu_gpu_model_peak_flops_total", Type::kCounter,
      "FLOPs that its peak allows in the time that mfu_gpu_model_flops_total is of."};
  Metric executed_flops_{"mfu_gpu_executed_flops_total", Type::kCounter,
                         "FLOPs that the GPU's kernels executed, as far as they were counted."};
  Metric executed_peak_{
      "mfu_gpu_executed_peak_flops_total", Type::kCounter,
      "FLOPs that its peak allows in the time that mfu_gpu_executed_flops_total is of."};
  Metric elapsed_{"mfu_gpu_elapsed_seconds_total", Type::kCounter, "Time since the step's begin."};
  Metric attributed_{"mfu_gpu_attributed_seconds_total", Type::kCounter,
                     "Part of it of which the classes below are known; what none of compute, "
                     "exposed communication and exposed memory has is idle."};
  Metric lost_{"mfu_gpu_lost_seconds_total", Type::kCounter,
               "Part of it that was not observed, by estimate."};
  Metric compute_{"mfu_gpu_compute_seconds_total", Type::kCounter,
                  "Time in which a compute kernel ran."};
  Metric exposed_{"mfu_gpu_communication_exposed_seconds_total", Type::kCounter,
                  "Time of communication (NCCL and others) that no compute kernel hid."};
  Metric overlapped_{"mfu_gpu_communication_overlapped_seconds_total", Type::kCounter,
                     "Time of communication under compute kernels."};
  Metric memory_{"mfu_gpu_memory_exposed_seconds_total", Type::kCounter,
                 "Time of copies and fills alone."};
  Metric energy_{"mfu_gpu_energy_joules_total", Type::kCounter,
                 "Energy of the GPU while the step used it."};
  Metric energy_seconds_{"mfu_gpu_energy_seconds_total", Type::kCounter,
                         "Time that mfu_gpu_energy_joules_total is of."};
  Metric reasons_{"mfu_gpu_clock_reason_seconds_total", Type::kCounter,
                  "Time in which the clock was held back, by reason."};
  Metric limit_{"mfu_gpu_clock_limit_hertz", Type::kGauge,
                "The highest clock that the GPU offers."};
  Metric celsius_{"mfu_gpu_temperature_celsius", Type::kGauge, "Mean of the last interval."};
  Metric watts_{"mfu_gpu_power_watts", Type::kGauge, "Mean of the last interval."};
  Metric clock_{"mfu_gpu_clock_hertz", Type::kGauge,
                "Mean of the last interval while the GPU was not idle."};
  Metric tensor_{"mfu_gpu_tensor_active_ratio", Type::kGauge,
                 "Share of the last interval in which tensor cores were busy."};
};

void write_gauge(std::ostream& out, const char* name, const char* help, double value) {
  Metric metric(name, Type::kGauge, help);
  metric.add("", value);
  metric.write(out);
}

}  // namespace

void write_live_metrics(std::ostream& out, const LiveReading* before, const LiveReading& now) {
  StepMetrics steps;
  GpuMetrics gpus;
  size_t step_count = 0;
  size_t gpu_count = 0;
  size_t gpus_left_out = 0;
  for (const LiveStep& step : now.steps) {
    gpus_left_out += step.left_out;
    if (++step_count > kMostMetricSteps) continue;
    steps.add(step);
    const LiveStep* earlier = before == nullptr ? nullptr : find_step(before->steps, step);
    for (const LiveGpu& gpu : step.gpus) {
      // Two without a name would be one series.
      if (gpu.uuid.empty() || ++gpu_count > kMostMetricGpus) {
        ++gpus_left_out;
      } else {
        gpus.add(step.plan, find_gpu(earlier, gpu), gpu);
      }
    }
  }
  steps.write(out);
  gpus.write(out);
  write_gauge(out, "mfu_live_reading_time_seconds", "When mfu-live read the spool, Unix time.",
              seconds(now.at_ns));
  write_gauge(out, "mfu_live_steps", "Running steps that were read.",
              static_cast<double>(now.steps.size()));
  write_gauge(out, "mfu_live_steps_closed", "Running steps that mfu-live may not read.",
              now.closed);
  write_gauge(out, "mfu_live_steps_left_out", "Steps without series, as there were too many.",
              static_cast<double>(step_count - std::min(step_count, kMostMetricSteps)));
  write_gauge(out, "mfu_live_gpus_left_out",
              "GPUs of steps with series that have none: too many, or without a name yet.",
              static_cast<double>(gpus_left_out));
}

}  // namespace mfu
