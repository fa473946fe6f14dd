// mfu-report's JSON.
#include <ostream>
#include <utility>

#include "plugin/job_report.hh"
#include "plugin/report_json_value.hh"

namespace mfu {
namespace {

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

Json sums_json(const Sums& sums) {
  Json json = Json::object();
  for (const SumField& field : kSumFields) json.append(field.name, decimal(sums.*field.member));
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
  for (const GoodputPart* part : losses(parts)) names.append(part->loss);
  json.append("losses", names);
  Json exact = Json::object();
  for (const GoodputPart& part : kGoodputParts) {
    exact.append(part.name, decimal(parts.*part.member));
  }
  json.append("parts", exact);
  return json;
}

Json share(uint128 part, uint128 whole) {
  return whole == 0 ? Json() : Json(static_cast<double>(part) / static_cast<double>(whole));
}

// Of the GPUs' sensors and of the processes' files.
void add_sensors(const Comment& line, const Figures& shown, const Sums& total, Json* json) {
  json->append("watts_per_gpu", known(shown.watts));
  json->append("joules_per_step", known(shown.joules_per_step));
  json->append("energy_coverage", share(total.energy_ms * kNsPerMs, total.elapsed_ns));
  json->append("clock_mhz", known(shown.clock_mhz));
  json->append("clock_limit_mhz", line.clock_limit_mhz == 0 ? Json() : Json(line.clock_limit_mhz));
  json->append("clock_reason", known(line.clock_reason));
  json->append("tensor_activity", known(shown.tensor_activity));
  json->append("tensor_coverage", share(total.tensor_ms * kNsPerMs, total.elapsed_ns));
  json->append("read_gb_per_s", known(shown.read_gb_per_s));
  json->append("written_gb_per_s", known(shown.written_gb_per_s));
  json->append("io_coverage", share(total.io_ms * kNsPerMs, total.elapsed_ns));
}

Json unknown_goodput_json(const std::string& reason) {
  return {
      {"fraction", {}}, {"reason", reason}, {"largest_loss", {}}, {"losses", {}}, {"parts", {}}};
}

// Without a line all the figures are unknown, and for that reason.
void add_line(const FieldReading& reading, const Figures& shown, Json* json) {
  static const Comment kNoLine;
  const bool told = reading.line.has_value();
  const Comment& line = told ? *reading.line : kNoLine;
  const Sums total = line.total();
  // Of what is null.
  const auto reason = [&](bool is_null, const auto& why) {
    if (!told) return Json(reading.fault);
    return is_null ? known(why(line)) : Json();
  };
  json->append("mfu", known(shown.mfu));
  json->append("mfu_reason", reason(shown.mfu < 0, why_no_mfu));
  json->append("hfu", known(shown.hfu));
  json->append("hfu_reason", reason(shown.hfu < 0, why_no_hfu));
  json->append("basis", known(std::string(basis_name(line.basis))));
  json->append("executed_coverage", known(shown.executed_coverage));
  json->append("executed_gap", known(line.no_hfu));
  json->append("counted_coverage", known(shown.counted_coverage));
  json->append("compute", known(shown.compute));
  json->append("communication_exposed", known(shown.exposed_communication));
  json->append("communication_overlapped", known(shown.overlapped_communication));
  json->append("memory_exposed", known(shown.exposed_memory));
  json->append("idle", known(shown.idle));
  json->append("wait", known(shown.wait));
  json->append("wait_slowest", known(task_text(line.slowest)));
  json->append("place", known(place_text(line.place)));
  json->append("time_reason", reason(shown.compute < 0, why_no_time));
  json->append("flops_coverage", known(shown.flops_coverage));
  json->append("flops_gap", known(line.no_mfu));
  json->append("observed_coverage", known(shown.observed_coverage));
  json->append("observed_gap", known(line.no_time));
  json->append("training_steps_by", line.steps_by == StepsBy::kDeclared
                                        ? Json("declared")
                                        : known(std::string(steps_by_name(line.steps_by))));
  json->append("step_seconds", known(shown.step_seconds));
  json->append("goodput",
               told ? goodput_json(total.goodput()) : unknown_goodput_json(reading.fault));
  add_sensors(line, shown, total, json);
  json->append("device", known(line.gpu));
  json->append("device_count", told ? Json(line.gpus) : Json());
  json->append("peak_tflops", peak_json(line));
  const bool precise = line.precision != Precision::kUnknown;
  json->append("precision", precise ? Json(precision_name(line.precision)) : Json());
  const bool based = line.peak_basis != PeakBasis::kUnknown;
  json->append("peak_basis", based ? Json(peak_basis_name(line.peak_basis)) : Json());
  json->append("run", told ? Json(line.run) : Json());
  json->append("running", told ? Json(line.running()) : Json());
  json->append("partial", known(line.partial));
  json->append("steps_merged", known(line.merged.text(SIZE_MAX)));
  json->append("sums", told ? sums_json(total) : Json());
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
    list.append({{"severity", severity_name(finding.severity)},
                 {"rule", finding.rule},
                 {"place", finding.places_text()},
                 {"evidence", finding.evidence},
                 {"remedy", finding.remedy}});
  }
  json->append("findings", list);
  json->append("findings_left_out", found.note ? Json(found.note->left_out) : Json());
  json->append("findings_reason", known(found.why_not));
}

Json row_json(const Job& job, const FieldReading& reading, const Figures& shown) {
  Json json = identity_json(job);
  json.append("start", known(job.start));
  json.append("end", known(job.end));
  json.append("elapsed_seconds", job.elapsed_seconds);
  json.append("nodes", job.nodes);
  json.append("gpus", job.gpus);
  json.append("line", known(std::string(reading.text)));
  json.append("line_fault", known(reading.fault));
  add_line(reading, shown, &json);
  add_findings(read_findings(job, reading), &json);
  return json;
}

Json totals_json(const Totals& totals) {
  return {{"jobs", totals.jobs},
          {"runs", totals.runs},
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
  json.append("runs", job.runs.count);
  json.append("runs_told", job.told_runs);
  json.append("runs_with_line", job.lines);
  json.append("line_fault", known(job.fault));
  json.append("queued_seconds", job.runs.gap_ns() / kSecond);
  json.append("allocated_gpu_seconds", decimal(job.allocated_ns / kSecond));
  json.append("goodput", goodput_json(job.parts));
  json.append("read_gb_per_s", known(shown.read_gb_per_s));
  json.append("written_gb_per_s", known(shown.written_gb_per_s));
  json.append("io_coverage", share(together.io_ms * kNsPerMs, together.elapsed_ns));
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

// Opens the object, writes a job or a group a line, and closes it.
class Lines {
 public:
  // `head`: keys that come before the list.
  Lines(std::ostream& out, const Json& head, const char* list) : out_(out) {
    out << head.opened() << ",\"" << list << "\":[";
  }
  void add(const Json& json) {
    text_ = std::exchange(before_, ",\n");
    json.write(&text_);
    out_ << text_;
  }
  void close(const Json& totals) {
    text_ = *before_ == ',' ? "\n" : "";
    text_ += "],\"totals\":";
    totals.write(&text_);
    out_ << text_ << "}\n";
  }

 private:
  std::ostream& out_;
  const char* before_ = "\n";
  std::string text_;
};

class RowJson : public Report {
 public:
  RowJson(std::ostream& out, std::string_view field, bool last_only)
      : last_only_(last_only),
        lines_(out, {{"format", "mfu-report/1"}, {"field", field}}, "jobs") {}

  void add(std::span<const Job> runs) override {
    totals_.begin_job();
    read_rows(runs, last_only_, [&](const Job& run, const FieldReading& reading) {
      const Figures shown = reading.line ? figures(*reading.line) : Figures{};
      lines_.add(row_json(run, reading, shown));
      totals_.add(run, reading.line, shown);
    });
  }
  void finish() override { lines_.close(totals_json(totals_)); }

 private:
  bool last_only_;
  Lines lines_;
  Totals totals_;
};

class GoodputJson : public Report {
 public:
  GoodputJson(std::ostream& out, std::string_view field)
      : lines_(out, {{"format", "mfu-report-goodput/1"}, {"field", field}}, "jobs") {}

  void add(std::span<const Job> runs) override {
    const JobGoodput job = goodput_of_runs(runs);
    lines_.add(runs_json(job));
    totals_.add(job);
  }
  void finish() override { lines_.close(totals_json(totals_)); }

 private:
  Lines lines_;
  GoodputTotals totals_;
};

Json figures_json(const GroupRow& row) {
  Json json = Json::object();
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    if (column.value == nullptr) {
      const std::string text = column.cell(row);
      json.append(column.name, text == "-" ? Json() : Json(text));
      continue;
    }
    json.append(column.name, known(column.value(row)));
  }
  return json;
}

// Keys of the groups, and of their figures what they mean.
Json group_head(std::string_view field, const std::vector<GroupBy>& by) {
  Json json = {{"format", "mfu-report-groups/1"}, {"field", field}};
  Json names = Json::array();
  for (const GroupBy key : by) names.append(group_name(key));
  json.append("by", names);
  Json meanings = Json::object();
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    meanings.append(column.name, Json(column.meaning));
  }
  json.append("definitions", meanings);
  return json;
}

class GroupJson : public Report {
 public:
  GroupJson(std::ostream& out, std::string_view field, const TableStyle& style)
      : out_(out), field_(field), style_(style), groups_({style.by}) {}

  void add(std::span<const Job> runs) override { groups_.add(runs); }

  void finish() override {
    Lines lines(out_, group_head(field_, style_.by), "groups");
    for (const Group* group : sorted_groups(groups_[0], style_.sort)) {
      Json json = Json::object();
      for (size_t i = 0; i < style_.by.size(); ++i) {
        json.append(group_name(style_.by[i]), known(group->key[i]));
      }
      json.append_members(figures_json({style_.by, group->key, group->sums}));
      lines.add(json);
    }
    Json totals = figures_json({style_.by, {}, groups_.total()});
    totals.append("jobs_left_out", groups_.left_out());
    lines.close(totals);
  }

 private:
  std::ostream& out_;
  std::string field_;
  const TableStyle style_;
  Groupings groups_;
};

}  // namespace

std::unique_ptr<Report> make_json(std::ostream& out, std::string_view field,
                                  const TableStyle& style) {
  if (style.subject == Subject::kGroups) return std::make_unique<GroupJson>(out, field, style);
  if (style.subject == Subject::kGoodput) return std::make_unique<GoodputJson>(out, field);
  return std::make_unique<RowJson>(out, field, style.last_runs);
}

}  // namespace mfu
