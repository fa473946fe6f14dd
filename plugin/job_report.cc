#include "plugin/job_report.hh"

namespace mfu {

FieldReading read_field(std::string_view field) {
  FieldReading reading;
  reading.text = find_comment(field);
  if (reading.text.empty()) {
    // A line that was cut off or edited is not found, yet its reader wants to know.
    constexpr std::string_view kOpening = "mfu/1 ";
    const size_t at = field.starts_with(kOpening) ? 0 : field.find(" mfu/1 ");
    if (at == field.npos) {
      reading.fault = "no line";
      return reading;
    }
    reading.text = field.substr(at == 0 ? 0 : at + 1);
  }
  auto line = parse_comment(reading.text);
  if (line) {
    reading.line = std::move(*line);
  } else {
    reading.fault = "broken line: " + line.error();
  }
  return reading;
}

void Totals::add(const Job& job, const std::optional<Comment>& line) {
  const uint128 allocated = uint128{job.gpus} * job.elapsed_seconds;
  ++jobs;
  gpu_seconds += allocated;
  if (!line || figures(*line).mfu < 0) {
    gpu_seconds_without_mfu += allocated;
    return;
  }
  const Sums total = line->total();
  ++jobs_with_mfu;
  model_flops += total.model_flops;
  capacity_flop += total.capacity_flop;
}

double Totals::mfu() const {
  if (capacity_flop == 0) return -1;
  return static_cast<double>(model_flops) / static_cast<double>(capacity_flop);
}

}  // namespace mfu
