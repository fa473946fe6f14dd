// mfu-report's JSON.
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint128 kNsPerMs = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

Json known(double number) {
  return number < 0 ? Json() : Json(number);
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}
Json known(time_t time) {
  return time == 0 ? Json() : Json(time);
}

// Appends a new key: operator[] would search for it among all the others.
void add(Json* object, const char* key, Json value) {
  object->get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json sums_json(const Sums& sums) {
  Json json = Json::object();
  for (const SumField& field : kSumFields) add(&json, field.name, decimal(sums.*field.member));
  return json;
}

Json peak_json(const Comment& line) {
  if (line.peak_gigaflops == 0) return {};
  if (line.peak_gigaflops == kMixedPeak) return kMixed;
  return static_cast<double>(line.peak_gigaflops) / 1000;
}

// Texts: a double would lose digits, as with the sums.
Json goodput_json(const GoodputSums& parts) {
  const Goodput found = goodput(parts);
  Json json = {{"fraction", known(found.fraction)},
               {"reason", known(std::string(found.why_not))},
               {"largest_loss", known(std::string(found.largest_loss))}};
  Json names = Json::array();
  for (const GoodputPart* part : losses(parts)) names.push_back(part->loss);
  add(&json, "losses", std::move(names));
  Json exact = Json::object();
  for (const GoodputPart& part : kGoodputParts) {
    add(&exact, part.name, decimal(parts.*part.member));
  }
  add(&json, "parts", std::move(exact));
  return json;
}

Json share(uint128 part, uint128 whole) {
  return whole == 0 ? Json() : Json(static_cast<double>(part) / static_cast<double>(whole));
}

// Of the GPUs' sensors and of the processes' files.
void add_sensors(const Comment& line, const Figures& shown, const Sums& total, Json* json) {
  add(json, "watts_per_gpu", known(shown.watts));
  add(json, "joules_per_step", known(shown.joules_per_step));
  add(json, "energy_coverage", share(total.energy_ms * kNsPerMs, total.elapsed_ns));
  add(json, "clock_mhz", known(shown.clock_mhz));
  add(json, "clock_limit_mhz", line.clock_limit_mhz == 0 ? Json() : Json(line.clock_limit_mhz));
  add(json, "clock_reason", known(line.clock_reason));
  add(json, "tensor_activity", known(shown.tensor_activity));
  add(json, "tensor_coverage", share(total.tensor_ms * kNsPerMs, total.elapsed_ns));
  add(json, "read_gb_per_s", known(shown.read_gb_per_s));
  add(json, "written_gb_per_s", known(shown.written_gb_per_s));
  add(json, "io_coverage", share(total.io_ms * kNsPerMs, total.elapsed_ns));
}

void add_line(const Comment& line, const Figures& shown, Json* json) {
  const Sums total = line.total();
  add(json, "mfu", known(shown.mfu));
  add(json, "mfu_reason", shown.mfu < 0 ? known(why_no_mfu(line)) : Json());
  add(json, "hfu", known(shown.hfu));
  add(json, "hfu_reason", shown.hfu < 0 ? known(why_no_hfu(line)) : Json());
  add(json, "basis", known(std::string(basis_name(line.basis))));
  add(json, "executed_coverage", known(shown.executed_coverage));
  add(json, "executed_gap", known(line.no_hfu));
  add(json, "counted_coverage", known(shown.counted_coverage));
  add(json, "compute", known(shown.compute));
  add(json, "communication_exposed", known(shown.exposed_communication));
  add(json, "communication_overlapped", known(shown.overlapped_communication));
  add(json, "memory_exposed", known(shown.exposed_memory));
  add(json, "idle", known(shown.idle));
  add(json, "wait", known(shown.wait));
  add(json, "wait_slowest", known(task_text(line.slowest)));
  add(json, "place", known(place_text(line.place)));
  add(json, "time_reason", known(why_no_time(line)));
  add(json, "flops_coverage", known(shown.flops_coverage));
  add(json, "flops_gap", known(line.no_mfu));
  add(json, "observed_coverage", known(shown.observed_coverage));
  add(json, "observed_gap", known(line.no_time));
  add(json, "training_steps_by",
      line.steps_by == StepsBy::kDeclared ? Json("declared")
                                          : known(std::string(steps_by_name(line.steps_by))));
  add(json, "step_seconds", known(shown.step_seconds));
  add(json, "goodput", goodput_json(total.goodput()));
  add_sensors(line, shown, total, json);
  add(json, "device", known(line.gpu));
  add(json, "device_count", line.gpus);
  add(json, "peak_tflops", peak_json(line));
  const bool precise = line.precision != Precision::kUnknown;
  add(json, "precision", precise ? Json(precision_name(line.precision)) : Json());
  const bool based = line.peak_basis != PeakBasis::kUnknown;
  add(json, "peak_basis", based ? Json(peak_basis_name(line.peak_basis)) : Json());
  add(json, "run", line.run);
  add(json, "running", line.running());
  add(json, "partial", known(line.partial));
  add(json, "steps_merged", known(line.merged.text(SIZE_MAX)));
  add(json, "sums", sums_json(total));
}

Json identity_json(const Job& job) {
  return {{"job_id", job.id},
          {"name", job.name},
          {"user", known(job.user)},
          {"account", known(job.account)},
          {"partition", known(job.partition)},
          {"state", job.state}};
}

// Nothing found is an empty list.
void add_findings(const FindingsReading& found, Json* json) {
  Json list = found.note ? Json::array() : Json();
  for (const NotedFinding& finding : found.note.value_or(PlaceNote()).findings) {
    list.push_back({{"severity", severity_name(finding.severity)},
                    {"rule", finding.rule},
                    {"place", finding.places_text()},
                    {"evidence", finding.evidence},
                    {"remedy", finding.remedy}});
  }
  add(json, "findings", std::move(list));
  add(json, "findings_left_out", found.note ? Json(found.note->left_out) : Json());
  add(json, "findings_reason", known(found.why_not));
}

Json row_json(const Job& job, const FieldReading& reading, const Figures& shown) {
  Json json = identity_json(job);
  add(&json, "start", known(job.start));
  add(&json, "end", known(job.end));
  add(&json, "elapsed_seconds", job.elapsed_seconds);
  add(&json, "nodes", job.nodes);
  add(&json, "gpus", job.gpus);
  add(&json, "line", known(std::string(reading.text)));
  add(&json, "line_fault", known(reading.fault));
  // Without a line all the figures are unknown, and for that reason.
  add_line(reading.line ? *reading.line : Comment{}, shown, &json);
  add_findings(read_findings(job, reading), &json);
  if (!reading.line) {
    for (const char* key : {"mfu_reason", "hfu_reason", "time_reason"}) json[key] = reading.fault;
    for (const char* key : {"device_count", "run", "running", "sums"}) json[key] = nullptr;
    for (auto& [key, value] : json["goodput"].items()) value = nullptr;
    json["goodput"]["reason"] = reading.fault;
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
          {"mfu", known(totals.mfu())},
          {"energy_kwh",
           totals.energy_ms == 0 ? Json() : Json(static_cast<double>(totals.energy_j) / 3.6e6)},
          {"energy_gpu_seconds", decimal(totals.energy_ms / 1000)},
          {"goodput", goodput_json(totals.parts)}};
}

Json runs_json(const JobGoodput& job) {
  const Sums& together = job.together.sums;
  const Figures shown = figures(job.together);
  Json json = identity_json(*job.last);
  add(&json, "runs", job.runs.count);
  add(&json, "runs_told", job.told_runs);
  add(&json, "runs_with_line", job.lines);
  add(&json, "line_fault", known(job.fault));
  add(&json, "queued_seconds", job.runs.gap_ns() / kSecond);
  add(&json, "allocated_gpu_seconds", decimal(job.allocated_ns / kSecond));
  add(&json, "goodput", goodput_json(job.parts));
  add(&json, "read_gb_per_s", known(shown.read_gb_per_s));
  add(&json, "written_gb_per_s", known(shown.written_gb_per_s));
  add(&json, "io_coverage", share(together.io_ms * kNsPerMs, together.elapsed_ns));
  return json;
}

Json totals_json(const GoodputTotals& totals) {
  return {{"jobs", totals.jobs},
          {"jobs_with_goodput", totals.jobs_with_goodput},
          {"runs", totals.runs},
          {"queued_seconds", decimal(totals.queued_ns / kSecond)},
          {"allocated_gpu_seconds", decimal(totals.allocated_ns / kSecond)},
          {"goodput", goodput_json(totals.parts)}};
}

}  // namespace

void write_json(std::ostream& out, std::span<const Job> jobs, std::string_view field,
                Subject subject) {
  const bool rows = subject != Subject::kGoodput;
  out << "{\"format\":\"mfu-report" << (rows ? "" : "-goodput")
      << "/1\",\"field\":" << text_of(Json(field)) << ",\"jobs\":[";
  const char* before = "\n";
  const auto write = [&](const Json& job) { out << std::exchange(before, ",\n") << text_of(job); };
  Totals totals;
  GoodputTotals goodput_totals;
  for (size_t count = 0; !jobs.empty(); jobs = jobs.subspan(count)) {
    count = rows ? 1 : runs_at_front(jobs);
    if (rows) {
      const FieldReading reading = read_field(jobs[0].comment);
      const Figures shown = reading.line ? figures(*reading.line) : Figures{};
      write(row_json(jobs[0], reading, shown));
      totals.add(jobs[0], reading.line, shown);
    } else {
      const JobGoodput job = goodput_of_runs(jobs.first(count));
      write(runs_json(job));
      goodput_totals.add(job);
    }
  }
  out << (*before == ',' ? "\n" : "")
      << "],\"totals\":" << text_of(rows ? totals_json(totals) : totals_json(goodput_totals))
      << "}\n";
}

}  // namespace mfu
