#include "plugin/live_reading.hh"

#include <map>

namespace mfu {

LiveReading read_live(const LiveFilter& filter, uint64_t now_ns) {
  LiveReading reading;
  reading.at_ns = now_ns;
  RunningSteps running = running_steps(filter.spool, filter.node, filter.jobs);
  reading.closed = running.closed;
  reading.missing = std::move(running.missing);
  reading.fault = std::move(running.fault);
  std::map<std::string, PeakAdditions> peaks;  // by path
  for (const RunningStep& step : running.steps) {
    const std::string& path = step.plan.site.peaks;
    const auto [entry, is_new] = peaks.try_emplace(path);
    // Without them, as the line: a broken file must not cost it.
    if (is_new && !path.empty()) {
      if (auto read = read_peak_additions(path)) entry->second = std::move(*read);
    }
    const SpoolRecords records = read_records(step.plan);
    if (leaves_work_to_steps(step.plan.step) && records.records.empty()) continue;
    reading.steps.push_back(live_step(step, records, entry->second, now_ns));
  }
  return reading;
}

}  // namespace mfu
