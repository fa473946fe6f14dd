// mfu-live's JSON.
#include <nlohmann/json.hpp>
#include <ostream>

#include "plugin/live_reading.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

Json known(double number) {
  return number < 0 ? Json() : Json(number);
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json figures_json(const LiveFigures& of, uint64_t from_ns) {
  const Figures shown = live_figures(of.line);
  const Sums& sums = of.line.sums;
  return {
      {"seconds",
       of.until_ns <= from_ns ? Json() : Json(static_cast<double>(of.until_ns - from_ns) / 1e9)},
      {"mfu", known(shown.mfu)},
      {"mfu_reason", shown.mfu < 0 ? known(why_no_mfu(of.line)) : Json()},
      {"hfu", known(shown.hfu)},
      {"hfu_reason", shown.hfu < 0 ? known(why_no_hfu(of.line)) : Json()},
      {"basis", sums.model_flops == 0 ? Json() : known(std::string(basis_name(of.line.basis)))},
      {"flops_coverage", known(shown.flops_coverage)},
      {"compute", known(shown.compute)},
      {"communication_exposed", known(shown.exposed_communication)},
      {"communication_overlapped", known(shown.overlapped_communication)},
      {"memory_exposed", known(shown.exposed_memory)},
      {"idle", known(shown.idle)},
      {"time_reason", known(why_no_time(of.line))},
      {"observed_coverage", known(shown.observed_coverage)},
      {"watts", known(shown.watts)},
      {"clock_mhz", known(shown.clock_mhz)},
      {"tensor_activity", known(shown.tensor_activity)},
      {"training_steps",
       sums.training_steps == 0 ? Json() : Json(static_cast<uint64_t>(sums.training_steps))},
      {"training_steps_by", known(std::string(steps_by_name(of.line.steps_by)))},
      {"step_seconds", known(shown.step_seconds)},
      {"read_gb_per_s", known(shown.read_gb_per_s)},
      {"written_gb_per_s", known(shown.written_gb_per_s)}};
}

// What did not yet run in the earlier reading has no interval.
Json interval_json(const LiveFigures* before, const LiveFigures& now) {
  if (before == nullptr) return {};
  const auto interval = between(*before, now);
  return interval ? figures_json(*interval, before->until_ns) : Json();
}

Json gpu_json(const LiveStep& step, const LiveGpu* before, const LiveGpu& gpu) {
  return {{"rank", gpu.rank == kNoTask ? Json() : Json(gpu.rank)},
          {"processes", gpu.processes},
          {"uuid", known(gpu.uuid)},
          {"pci_bus_id", known(gpu.pci)},
          {"device", known(fit_name(gpu.figures.line.gpu))},
          {"state", gpu.state},
          {"celsius", known(celsius_between(before == nullptr ? LiveGpu{} : *before, gpu))},
          {"so_far", figures_json(gpu.figures, step.plan.started_ns)},
          {"interval", interval_json(before == nullptr ? nullptr : &before->figures, gpu.figures)}};
}

Json step_json(const LiveStep* before, const LiveStep& step) {
  const Comment& line = step.figures.line;
  Json gpus = Json::array();
  for (const LiveGpu& gpu : step.gpus) gpus.push_back(gpu_json(step, find_gpu(before, gpu), gpu));
  const bool peak = line.peak_gigaflops != 0;
  return {{"step", step_name(step.plan)},
          {"job_id", step.plan.job},
          {"node", step.plan.node},
          {"nodes", step.planned ? Json(step.plan.nodes) : Json()},
          {"uid", step.plan.uid},
          {"planned", step.planned},
          {"started", static_cast<double>(step.plan.started_ns) / 1e9},
          {"device", known(fit_name(line.gpu))},
          {"gpus", step.plan.gpus},
          {"gpus_left_out", step.left_out},
          {"peak_tflops", peak ? Json(static_cast<double>(line.peak_gigaflops) / 1000) : Json()},
          {"precision", peak ? Json(precision_name(line.precision)) : Json()},
          {"peak_basis", peak ? Json(peak_basis_name(line.peak_basis)) : Json()},
          {"so_far", figures_json(step.figures, step.plan.started_ns)},
          {"interval", interval_json(before == nullptr ? nullptr : &before->figures, step.figures)},
          {"gpu", std::move(gpus)}};
}

}  // namespace

void write_live_json(std::ostream& out, const LiveReading* before, const LiveReading& now) {
  Json steps = Json::array();
  for (const LiveStep& step : now.steps) {
    steps.push_back(step_json(before == nullptr ? nullptr : find_step(before->steps, step), step));
  }
  const Json reading = {{"format", "mfu-live/1"},
                        {"at", static_cast<double>(now.at_ns) / 1e9},
                        {"steps_closed", now.closed},
                        {"steps", std::move(steps)}};
  out << reading.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace mfu
