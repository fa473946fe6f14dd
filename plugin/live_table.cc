// mfu-live's table.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <ostream>

#include "plugin/live_reading.hh"
#include "profiler/text_table.hh"

namespace mfu {
namespace {

using Cells = std::vector<std::string>;
using text_table::format;

constexpr double kNsPerSecond = 1e9;

std::string number_or_dash(double value, const char* unit) {
  return value < 0 ? "-" : format("%.0f%s", value, unit);
}

std::string share_or_dash(double fraction) {
  return fraction < 0 ? "-" : percent_text(fraction);
}

std::string utilization(double fraction, const std::string& why) {
  if (fraction < 0) return why.empty() ? "n/a" : "n/a(" + why + ")";
  return percent_text(fraction) + (fraction > 1 ? "!" : "");
}

// Those of a row: since the begin, and over the last interval.
void add_figures(const LiveFigures& now, const std::optional<LiveFigures>& last, double celsius,
                 Cells* cells) {
  const Figures all = live_figures(now.line);
  const Figures recent = last ? live_figures(last->line) : Figures{};
  const Figures& shown = last ? recent : all;
  std::string mfu = utilization(all.mfu, why_no_mfu(now.line));
  if (all.mfu >= 0 && now.line.basis == Basis::kGemm) mfu += " gemm";
  if (all.mfu >= 0 && now.line.basis == Basis::kModel) mfu += " model";
  cells->push_back(mfu);
  cells->push_back(share_or_dash(recent.mfu));
  cells->push_back(share_or_dash(all.hfu));
  cells->push_back(shown.compute < 0 ? "n/a(" + why_no_time((last ? *last : now).line) + ")"
                                     : percent_text(shown.compute));
  cells->push_back(share_or_dash(shown.exposed_communication));
  cells->push_back(share_or_dash(shown.exposed_memory));
  cells->push_back(share_or_dash(shown.idle));
  cells->push_back(number_or_dash(shown.watts, "W"));
  cells->push_back(number_or_dash(shown.clock_mhz, "MHz"));
  cells->push_back(number_or_dash(celsius, "C"));
  const Sums& sums = now.line.sums;
  cells->push_back(
      sums.training_steps == 0 ? "-" : std::to_string(static_cast<uint64_t>(sums.training_steps)));
  cells->push_back(shown.step_seconds < 0 ? "-" : seconds_text(shown.step_seconds));
}

std::string rank_text(const LiveGpu& gpu) {
  if (gpu.rank == kNoTask) return "-";
  return std::to_string(gpu.rank) +
         (gpu.processes > 1 ? "+" + std::to_string(gpu.processes - 1) : "");
}

// As nvidia-smi -L begins.
std::string short_uuid(const LiveGpu& gpu) {
  return gpu.uuid.empty() ? "-" : gpu.uuid.substr(0, 12);
}

std::string model_text(const Comment& line) {
  const std::string name = fit_name(line.gpu);
  return std::to_string(line.gpus) + "x" + (name.empty() ? kUnknownGpu : name);
}

// The temperature, since the begin where there is no earlier reading.
double celsius_of(const LiveGpu* before, const LiveGpu& gpu) {
  return celsius_between(before == nullptr ? LiveGpu{} : *before, gpu);
}

std::string time_text(uint64_t ns) {
  const auto seconds = static_cast<time_t>(ns / 1'000'000'000);
  struct tm parts;
  char text[32] = "";
  if (localtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  }
  return text;
}

}  // namespace

void write_live_table(std::ostream& out, const LiveReading* before, const LiveReading& now) {
  size_t gpus = 0;
  for (const LiveStep& step : now.steps) gpus += step.plan.gpus;
  out << time_text(now.at_ns) << ", " << now.steps.size() << " steps, " << gpus << " GPUs; MFU and "
      << "HFU since the step's begin, ";
  if (before == nullptr) {
    out << "all else too\n";
  } else {
    out << "all else of the last "
        << format("%.1f s\n", static_cast<double>(now.at_ns - before->at_ns) / kNsPerSecond);
  }
  if (now.closed != 0) {
    out << now.closed
        << " more steps are of other users: only root and their users may read them\n";
  }
  if (now.steps.empty()) return;
  text_table::Columns table(
      {"STEP", "NODE", "RANK", "GPU", "MFU", "MFU-NOW", "HFU", "COMPUTE", "COMM", "MEM", "IDLE",
       "POWER", "CLOCK", "TEMP", "STEPS", "STEPTIME", "STATE"},
      1);
  for (const LiveStep& step : now.steps) {
    const LiveStep* earlier = before == nullptr ? nullptr : find_step(before->steps, step);
    const std::string name = step_name(step.plan);
    if (step.gpus.size() != 1 || step.plan.gpus != 1) {
      Cells cells{name, step.plan.node, "all", model_text(step.figures.line)};
      add_figures(step.figures,
                  earlier == nullptr ? std::nullopt : between(earlier->figures, step.figures), -1,
                  &cells);
      cells.push_back(step.planned ? "" : "no-plan");
      table.add(cells);
    }
    for (const LiveGpu& gpu : step.gpus) {
      const LiveGpu* was = find_gpu(earlier, gpu);
      Cells cells{name, step.plan.node, rank_text(gpu), short_uuid(gpu)};
      add_figures(gpu.figures, was == nullptr ? std::nullopt : between(was->figures, gpu.figures),
                  celsius_of(was, gpu), &cells);
      cells.push_back(gpu.state);
      table.add(cells);
    }
  }
  table.write(out);
}

}  // namespace mfu
