// mfu-report's JSON.
#include <nlohmann/json.hpp>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

// Every digit, as a text: JSON's readers make doubles of numbers.
std::string decimal(uint128 number) {
  constexpr uint64_t kChunk = 1'000'000'000'000'000'000;  // 128-bit divisions are slow: one a chunk
  std::string digits;
  for (; number >= kChunk; number /= kChunk) {
    digits.insert(0, std::to_string(kChunk + static_cast<uint64_t>(number % kChunk)).substr(1));
  }
  return std::to_string(static_cast<uint64_t>(number)) + digits;
}

Json known(double number) {
  return number < 0 ? Json() : Json(number);
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}
Json known(time_t time) {
  return time == 0 ? Json() : Json(time);
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json sums_json(const Sums& sums) {
  Json json;
  for (const SumField& field : kSumFields) json[field.name] = decimal(sums.*field.member);
  return json;
}

Json peak_json(const Comment& line) {
  if (line.peak_gigaflops == 0) return {};
  if (line.peak_gigaflops == kMixedPeak) return kMixed;
  return static_cast<double>(line.peak_gigaflops) / 1000;
}

void add_line(const Comment& line, Json* json) {
  const Figures shown = figures(line);
  Json& job = *json;
  job["mfu"] = known(shown.mfu);
  job["mfu_reason"] = known(why_no_mfu(line));
  job["hfu"] = nullptr;
  job["hfu_reason"] = "no-counts";
  job["basis"] = line.total().model_flops > 0 ? Json("model") : Json();
  job["compute"] = known(shown.compute);
  job["communication_exposed"] = known(shown.exposed_communication);
  job["communication_overlapped"] = known(shown.overlapped_communication);
  job["memory_exposed"] = known(shown.exposed_memory);
  job["idle"] = known(shown.idle);
  job["wait"] = known(shown.wait);
  job["wait_slowest"] = known(task_text(line.slowest));
  job["time_reason"] = known(why_no_time(line));
  job["flops_coverage"] = known(shown.flops_coverage);
  job["flops_gap"] = known(line.no_mfu);
  job["observed_coverage"] = known(shown.observed_coverage);
  job["observed_gap"] = known(line.no_time);
  job["training_steps_by"] = line.steps_by == StepsBy::kDeclared
                                 ? Json("declared")
                                 : known(std::string(steps_by_name(line.steps_by)));
  job["step_seconds"] = known(shown.step_seconds);
  job["device"] = known(line.gpu);
  job["device_count"] = line.gpus;
  job["peak_tflops"] = peak_json(line);
  const bool precise = line.precision != Precision::kUnknown;
  job["precision"] = precise ? Json(precision_name(line.precision)) : Json();
  job["run"] = line.run;
  job["running"] = line.running();
  job["partial"] = known(line.partial);
  job["steps_merged"] = known(line.merged.text(SIZE_MAX));
  job["sums"] = sums_json(line.total());
}

Json job_json(const Job& job, const FieldReading& reading) {
  Json json;
  json["job_id"] = job.id;
  json["name"] = job.name;
  json["user"] = known(job.user);
  json["account"] = known(job.account);
  json["partition"] = known(job.partition);
  json["state"] = job.state;
  json["start"] = known(job.start);
  json["end"] = known(job.end);
  json["elapsed_seconds"] = job.elapsed_seconds;
  json["nodes"] = job.nodes;
  json["gpus"] = job.gpus;
  json["line"] = known(std::string(reading.text));
  json["line_fault"] = known(reading.fault);
  // Without a line all the figures are unknown, and for that reason.
  add_line(reading.line.value_or(Comment{}), &json);
  if (!reading.line) {
    for (const char* key : {"mfu_reason", "hfu_reason", "time_reason"}) json[key] = reading.fault;
    for (const char* key : {"device_count", "run", "running", "sums"}) json[key] = nullptr;
  }
  return json;
}

Json totals_json(const Totals& totals) {
  return {{"jobs", totals.jobs},
          {"jobs_with_mfu", totals.jobs_with_mfu},
          {"gpu_seconds", decimal(totals.gpu_seconds)},
          {"gpu_seconds_without_mfu", decimal(totals.gpu_seconds_without_mfu)},
          {"model_flops", decimal(totals.model_flops)},
          {"capacity_flop", decimal(totals.capacity_flop)},
          {"mfu", known(totals.mfu())}};
}

}  // namespace

void write_json(std::ostream& out, std::span<const Job> jobs, std::string_view field) {
  out << "{\"format\":\"mfu-report/1\",\"field\":" << text_of(Json(field)) << ",\"jobs\":[";
  Totals totals;
  for (const Job& job : jobs) {
    const FieldReading reading = read_field(job.comment);
    out << (totals.jobs == 0 ? "\n" : ",\n") << text_of(job_json(job, reading));
    totals.add(job, reading.line);
  }
  out << (totals.jobs == 0 ? "" : "\n") << "],\"totals\":" << text_of(totals_json(totals)) << "}\n";
}

}  // namespace mfu
