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
      << printable(job.name) << ", " << printable(job.user) << ")\n";
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
    out << job.id << '|' << printable(place_text(line.place)) << '|'
        << severity_name(finding.severity) << '|' << finding.rule << '|'
        << printable(finding.places_text()) << '|' << printable(finding.evidence) << '|'
        << printable(finding.remedy) << '\n';
  }
}

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

void write_findings(std::ostream& out, std::span<const Job> jobs, const TableStyle& style) {
  size_t with = 0;
  size_t without = 0;
  std::map<std::string, size_t> unknown;
  if (style.bars && !style.bare) out << "JOBID|PLACE|SEVERITY|RULE|PLACES|EVIDENCE|REMEDY\n";
  for (const Job& job : jobs) {
    const FieldReading reading = read_field(job.comment);
    const FindingsReading found = read_findings(job, reading);
    if (!found.note) {
      ++unknown[short_reason(found.why_not)];
    } else if (found.note->findings.empty()) {
      ++without;
    } else {
      ++with;
      (style.bars ? write_bars : write_block)(out, job, *reading.line, *found.note);
    }
  }
  if (style.bars || style.bare) return;
  out << jobs.size() << (jobs.size() == 1 ? " job: " : " jobs: ") << with << " with findings, "
      << without << " audited without any";
  for (const auto& [why, count] : unknown) out << ", " << count << ' ' << why;
  out << '\n';
}

}  // namespace mfu
