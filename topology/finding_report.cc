#include "topology/finding_report.hh"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "topology/host_list.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

size_t count_of(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [severity](const Finding& finding) { return finding.severity == severity; }));
}

void add_wrapped(const std::string& first, const std::string& text, size_t columns,
                 std::string* report) {
  const size_t room = columns > first.size() ? columns - first.size() : 1;
  std::string indent = first;
  for (const std::string& line : wrapped(printable(text), room)) {
    report->append(indent).append(line).append("\n");
    indent.assign(first.size(), ' ');
  }
}

// Findings that differ in their place only.
struct Group {
  const Finding* first;
  std::vector<std::string> places;

  std::string place() const {
    if (places.size() == 1) return places.front();
    const bool names = std::all_of(places.begin(), places.end(), [](const std::string& name) {
      return name.find_first_of(" ,[]") == std::string::npos;
    });
    if (names) return count_hosts(places, "places");
    std::string text = std::to_string(places.size()) + " places: ";
    for (size_t i = 0; i < places.size(); ++i) text += (i > 0 ? ", " : "") + places[i];
    return text;
  }
};

std::vector<Group> grouped(const std::vector<Finding>& findings) {
  std::vector<Group> groups;
  std::map<std::tuple<Severity, std::string_view, std::string_view, std::string_view>, size_t>
      known;
  for (const Finding& finding : findings) {
    const auto [found, added] = known.emplace(
        std::tuple(finding.severity, std::string_view(finding.rule),
                   std::string_view(finding.evidence), std::string_view(finding.remedy)),
        groups.size());
    if (added) groups.push_back({&finding, {}});
    groups[found->second].places.push_back(finding.place);
  }
  return groups;
}

}  // namespace

std::string write_findings(const FindingReport& report, size_t columns, size_t most) {
  const std::vector<Finding>& findings = report.findings;
  std::string counts;
  for (const Severity severity : {Severity::kHigh, Severity::kWarning, Severity::kInformation}) {
    const size_t count = count_of(findings, severity);
    if (count == 0) continue;
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + severity_name(severity);
  }
  std::string text =
      printable(report.subject) + ": " + (counts.empty() ? "nothing found" : counts) + "\n";
  for (const std::string& note : report.notes) add_wrapped("note: ", note, columns, &text);
  const std::vector<Group> groups = grouped(findings);
  std::map<std::pair<Severity, std::string>, size_t> seen, total;
  for (const Group& group : groups) ++total[{group.first->severity, group.first->rule}];
  for (const Group& group : groups) {
    const Finding& finding = *group.first;
    const auto kind = std::pair(finding.severity, finding.rule);
    const std::string head =
        std::string(severity_name(finding.severity)) + "  " + printable(finding.rule) + "  ";
    if (const size_t number = ++seen[kind]; most != 0 && number > most) {
      if (number == most + 1) {
        text += "\n" + head + std::to_string(total[kind] - most) + " more, --all tells them\n";
      }
      continue;
    }
    text += "\n";
    add_wrapped(head, group.place(), columns, &text);
    add_wrapped("    found  ", finding.evidence, columns, &text);
    add_wrapped("    to do  ", finding.remedy, columns, &text);
  }
  return text;
}

std::string findings_json(const FindingReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"severity", severity_name(finding.severity)},
                        {"rule", finding.rule},
                        {"place", finding.place},
                        {"evidence", finding.evidence},
                        {"remedy", finding.remedy}});
  }
  const Json json = {{"subject", report.subject},
                     {"high", count_of(report.findings, Severity::kHigh)},
                     {"warning", count_of(report.findings, Severity::kWarning)},
                     {"information", count_of(report.findings, Severity::kInformation)},
                     {"findings", std::move(findings)},
                     {"notes", report.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int findings_status(const std::vector<Finding>& findings) {
  int status = 0;
  for (const Finding& finding : findings)
    status = std::max(status, static_cast<int>(finding.severity));
  return status;
}

}  // namespace mfu
