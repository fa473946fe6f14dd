// mfu-report's findings of placement.
#include <map>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// A word or two of why findings are not known: "broken line".
std::string short_reason(const std::string& why_not) {
  return why_not.substr(0, why_not.find(':'));
}

void write_block(std::ostream& out, const Job& job, const Comment& line, const PlaceNote& note) {
  const std::string place = place_text(line.place);
  out << job.id << ": " << (place.empty() ? "not known whether all is well" : place) << " ("
      << cell_text(job.name) << ", " << cell_text(job.user) << ")\n";
  for (const NotedFinding& finding : note.findings) {
    out << "  " << severity_name(finding.severity) << ' ' << finding.rule << ": "
        << finding.places_text() << ": " << finding.evidence << "\n    -> " << finding.remedy
        << '\n';
  }
  if (note.left_out) out << "  and more, which had no room\n";
  out << '\n';
}

// A finding a line.
void write_bars(std::ostream& out, const Job& job, const Comment& line, const PlaceNote& note) {
  for (const NotedFinding& finding : note.findings) {
    out << job.id << '|' << cell_text(place_text(line.place)) << '|'
        << severity_name(finding.severity) << '|' << finding.rule << '|'
        << cell_text(finding.places_text()) << '|' << cell_text(finding.evidence) << '|'
        << cell_text(finding.remedy) << '\n';
  }
}

class FindingsReport : public Report {
 public:
  FindingsReport(std::ostream& out, const TableStyle& style)
      : out_(out),
        bars_(style.form == Form::kBars),
        bare_(style.bare),
        last_only_(style.last_runs) {
    if (bars_ && !bare_) out << "JOBID|PLACE|SEVERITY|RULE|PLACES|EVIDENCE|REMEDY\n";
  }

  void add(std::span<const Job> runs) override {
    ++jobs_;
    read_rows(runs, last_only_, [&](const Job& run, const FieldReading& reading) {
      const FindingsReading found = read_findings(run, reading);
      ++runs_;
      if (!found.note) {
        ++unknown_[short_reason(found.why_not)];
      } else if (found.note->findings.empty()) {
        ++without_;
      } else {
        ++with_;
        (bars_ ? write_bars : write_block)(out_, run, *reading.line, *found.note);
      }
    });
  }

  void finish() override {
    if (bars_ || bare_) return;
    out_ << counted(jobs_, "job") << in_runs(jobs_, runs_) << ": " << with_ << " with findings, "
         << without_ << " audited without any";
    for (const auto& [why, count] : unknown_) out_ << ", " << count << ' ' << why;
    out_ << '\n';
  }

 private:
  std::ostream& out_;
  bool bars_;
  bool bare_;
  bool last_only_;
  uint64_t jobs_ = 0;
  uint64_t runs_ = 0;
  uint64_t with_ = 0;
  uint64_t without_ = 0;
  std::map<std::string, uint64_t> unknown_;
};

}  // namespace

FindingsReading read_findings(const Job& run, const FieldReading& reading) {
  if (!reading.line) return {std::nullopt, reading.fault};
  PlaceNoteReading told = read_place_note(run.comment);
  // Those of the run before, whose field Slurm has handed on.
  if (told.note && told.note->run != reading.line->run) told = {};
  if (!told.fault.empty()) return {std::nullopt, told.fault};
  if (told.note) return {std::move(told.note), ""};
  switch (reading.line->place.verdict) {
    case Place::Verdict::kUnknown:
      return {std::nullopt, "not audited"};
    case Place::Verdict::kOk:
      return {PlaceNote{.run = reading.line->run}, ""};
    default:
      return {std::nullopt, "not in this field"};
  }
}

std::unique_ptr<Report> make_findings(std::ostream& out, const TableStyle& style) {
  return std::make_unique<FindingsReport>(out, style);
}

}  // namespace mfu
