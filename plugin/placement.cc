#include "plugin/placement.hh"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include "plugin/comment.hh"
#include "plugin/device_files.hh"
#include "plugin/node_findings.hh"
#include "plugin/spool.hh"
#include "topology/child_output.hh"
#include "topology/step_command.hh"
#include "topology/whole_file.hh"

namespace mfu {
namespace {

constexpr size_t kMostNote = 4096;
constexpr size_t kMostVerdict = 64 << 10;
constexpr size_t kMostFindingsText = 1 << 20;
constexpr uint32_t kMostTasks = 4096;
constexpr char kRequestName[] = "placement.request";
constexpr char kVerdictName[] = "placement.verdict";
constexpr char kAccepted[] = "ok\n";
constexpr char kRefused[] = "refused\n";

std::string note_name(uint32_t local_rank) {
  return "placement." + std::to_string(local_rank);
}

// A regular file of this owner and at most `most` bytes, in a folder that may be a stranger's.
std::optional<std::string> read_file(int folder, const std::string& name, uid_t owner,
                                     size_t most) {
  const int file = openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat status;
  std::optional<std::string> text;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == owner &&
      status.st_size >= 0 && static_cast<size_t>(status.st_size) <= most) {
    std::string bytes(static_cast<size_t>(status.st_size), '\0');
    if (read(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) text = bytes;
  }
  close(file);
  return text;
}

std::string process_cpus() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size());
  }
  return "";
}

// A text of others on a line of its own.
std::string one_line(std::string text) {
  text.resize(std::min<size_t>(text.size(), 1024));
  std::replace_if(
      text.begin(), text.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return text;
}

bool is_noted(std::string_view name) {
  return std::find(std::begin(kNotedVariables), std::end(kNotedVariables), name) !=
         std::end(kNotedVariables);
}

std::optional<TaskNote> parse_note(std::string_view text, uint32_t local_rank) {
  TaskNote note;
  note.local_rank = local_rank;
  bool has_rank = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == line.npos) return std::nullopt;
    const std::string_view key = line.substr(0, equals);
    const std::string value = one_line(std::string(line.substr(equals + 1)));
    if (key == "rank") {
      const char* end = value.data() + value.size();
      const auto result = std::from_chars(value.data(), end, note.rank);
      has_rank = result.ec == std::errc() && result.ptr == end;
    } else if (key == "cpus") {
      note.cpus = value;
    } else if (key == "devices") {
      if (!is_gpu_list(value)) return std::nullopt;
      note.devices = value;
    } else if (is_noted(key)) {
      note.environment[std::string(key)] = value;
    } else {
      return std::nullopt;
    }
  }
  return has_rank ? std::optional<TaskNote>(note) : std::nullopt;
}

std::string request_text(const StepPlan& plan, const std::vector<TaskNote>& notes) {
  std::string text;
  const auto add = [&text](const char* key, const std::string& value) {
    if (!value.empty()) text.append(key).append("=").append(one_line(value)).append("\n");
  };
  add("node", plan.node);
  add("nodes", std::to_string(plan.nodes));
  add("allocated", plan.allocated);
  add("confined", !plan.confined ? "?" : *plan.confined ? "1" : "0");
  add("map", plan.site.node_map);
  add("cache", plan.site.spool + "/" + plan.node + "/node-map.xml");
  if (plan.node_id == 0 && plan.nodes > 1 && !plan.site.fabric.empty()) {
    add("fabric", plan.site.fabric);
    add("names", plan.site.fabric_names);
    text.append("hosts=").append(plan.node_list).append("\n");
  }
  for (const TaskNote& note : notes) {
    add("task", std::to_string(note.rank) + "," + std::to_string(note.local_rank));
    add("cpus", note.cpus);
    add("devices", note.devices);
    for (const auto& [name, value] : note.environment) add("env", name + "=" + value);
  }
  return text;
}

// The value of a setting in one of Slurm's files, in lower case; of several the last one. Several
// settings may stand on a line.
std::optional<std::string> setting_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::optional<std::string> value;
  for (std::string line; std::getline(file, line);) {
    std::string flat;
    for (const char byte : line.substr(0, line.find('#'))) {
      flat += static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
    }
    // "Key = value" and "Key=value".
    for (size_t at; (at = flat.find(" =")) != flat.npos;) flat.erase(at, 1);
    for (size_t at; (at = flat.find("= ")) != flat.npos;) flat.erase(at + 1, 1);
    std::istringstream words(flat);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals != word.npos && word.substr(0, equals) == key) value = word.substr(equals + 1);
    }
  }
  return value;
}

std::optional<Severity> severity_from_name(std::string_view name) {
  for (const Severity severity : {Severity::kInformation, Severity::kWarning, Severity::kHigh}) {
    if (name == severity_name(severity)) return severity;
  }
  return std::nullopt;
}

// Fills `fields` with what tabs divide; the last one has the rest. False: there are fewer.
bool divide(std::string_view line, std::span<std::string_view> fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = i + 1 < fields.size() ? line.find('\t') : line.size();
    if (end == line.npos) return false;
    fields[i] = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return true;
}

// False: the line tells no fact. Facts that this version does not know are passed over.
bool take_fact(std::string_view line, PlacementAudit* audit) {
  std::string_view fields[3];
  if (!divide(line, fields) || fields[0] != "fact") return false;
  if (fields[1] == "clique") audit->clique = one_line(std::string(fields[2]));
  return true;
}

std::optional<Finding> parse_finding(std::string_view line) {
  std::string_view fields[5];
  if (!divide(line, fields)) return std::nullopt;
  const auto severity = severity_from_name(fields[0]);
  const bool named = !fields[1].empty() && fields[1].size() <= kMostRule &&
                     std::all_of(fields[1].begin(), fields[1].end(), [](char b) {
                       return (b >= 'a' && b <= 'z') || (b >= '0' && b <= '9') || b == '-';
                     });
  if (!severity || !named) return std::nullopt;
  return Finding{std::string(fields[1]), *severity, one_line(std::string(fields[2])),
                 one_line(std::string(fields[3])), one_line(std::string(fields[4]))};
}

}  // namespace

bool leave_note(const StepPlan& plan, TaskNote note, const std::string& device_folder) {
  note.cpus = process_cpus();
  note.devices = openable_gpus(device_folder);
  std::string text = "rank=" + std::to_string(note.rank) + "\ncpus=" + note.cpus + "\n";
  if (!note.devices.empty()) text += "devices=" + note.devices + "\n";
  for (const auto& [name, value] : note.environment) {
    text += name + "=" + one_line(value) + "\n";
  }
  if (text.size() > kMostNote) return false;
  const std::string path = records_folder(plan.folder) + "/" + note_name(note.local_rank);
  return write_whole_file(path, text, Kept::kInMemory, 0600).empty();
}

std::vector<TaskNote> read_notes(const StepPlan& plan) {
  std::vector<TaskNote> notes;
  const std::string path = records_folder(plan.folder);
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return notes;
  for (uint32_t task = 0; task < std::min(plan.tasks, kMostTasks); ++task) {
    const auto text = read_file(folder, note_name(task), plan.uid, kMostNote);
    if (!text) continue;
    if (const auto note = parse_note(*text, task)) notes.push_back(*note);
  }
  close(folder);
  return notes;
}

uint32_t PlacementAudit::count(Severity severity) const {
  return static_cast<uint32_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.severity == severity; }));
}

bool PlacementAudit::whole() const {
  return fault.empty() &&
         std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
           return finding.rule == kGpusUnknown || finding.rule == kFabricUnknown;
         });
}

std::string PlacementAudit::rules(size_t most) const {
  std::vector<std::string> named;
  std::string text;
  for (const Severity severity : {Severity::kHigh, Severity::kWarning}) {
    for (const Finding& finding : findings) {
      if (finding.severity != severity) continue;
      if (std::find(named.begin(), named.end(), finding.rule) != named.end()) continue;
      if (text.size() + 1 + finding.rule.size() > most) continue;
      named.push_back(finding.rule);
      text.append(text.empty() ? "" : ",").append(finding.rule);
    }
  }
  return text;
}

std::optional<PlacementAudit> parse_step_audit(std::string_view output) {
  PlacementAudit audit;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    if (take_fact(line, &audit)) continue;
    auto finding = parse_finding(line);
    if (!finding) return std::nullopt;
    audit.findings.push_back(std::move(*finding));
  }
  return audit;
}

PlacementAudit audit_placement(const StepPlan& plan, const std::vector<TaskNote>& notes,
                               std::chrono::milliseconds limit) {
  PlacementAudit audit;
  if (notes.size() != plan.tasks) {
    audit.fault = std::to_string(notes.size()) + " of " + std::to_string(plan.tasks) +
                  " tasks have told their place";
    return audit;
  }
  const std::string path = plan.folder + "/" + kRequestName;
  if (!write_whole_file(path, request_text(plan, notes), Kept::kInMemory, 0600).empty()) {
    audit.fault = "cannot write " + path;
    return audit;
  }
  const auto output = child_output({plan.site.topo, "step", path}, limit, kMostFindingsText);
  unlink(path.c_str());
  if (!output) {
    audit.fault = output.error();
    return audit;
  }
  auto parsed = parse_step_audit(*output);
  if (!parsed) {
    audit.fault = plan.site.topo + ": no findings in what it prints: is it of another version?";
    return audit;
  }
  return std::move(*parsed);
}

void add_placement(const PlacementAudit& audit, bool whole, NodeSums* sums) {
  sums->placement_audited = whole ? 1 : 0;
  sums->placement_high = audit.count(Severity::kHigh);
  sums->placement_warnings = audit.count(Severity::kWarning);
  const std::string rules = audit.rules(kMostRules);
  memcpy(sums->placement_rules, rules.data(), rules.size());
  const std::string clique = audit.clique.substr(0, sizeof(sums->clique) - 1);
  memcpy(sums->clique, clique.data(), clique.size());
}

std::string placement_text(const StepPlan& plan, const PlacementAudit& audit,
                           size_t most_findings) {
  const uint32_t high = audit.count(Severity::kHigh);
  const uint32_t warnings = audit.count(Severity::kWarning);
  if (high + warnings == 0) return "";
  std::string text = "slurm-mfu: placement on " + plan.node + ": " + std::to_string(high) +
                     " of high severity, " + std::to_string(warnings) +
                     (warnings == 1 ? " warning" : " warnings") + "\n";
  size_t shown = 0;
  for (const Severity severity : {Severity::kHigh, Severity::kWarning}) {
    for (const Finding& finding : audit.findings) {
      if (finding.severity != severity) continue;
      if (++shown > most_findings) continue;
      text += "  " + std::string(severity_name(severity)) + " " + finding.rule + ": " +
              finding.place + ": " + finding.evidence + "\n    -> " + finding.remedy + "\n";
    }
  }
  if (shown > most_findings) {
    text += "  and " + std::to_string(shown - most_findings) + " more: mfu-topo audit, on " +
            plan.node + "\n";
  }
  return text;
}

bool refuses(const PlacementAudit& audit) {
  return std::any_of(audit.findings.begin(), audit.findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kHigh || finding.rule == "cpu-gpu-remote" ||
           finding.rule == "rank-gpu-map";
  });
}

void leave_verdict(const StepPlan& plan, const PlacementAudit& audit) {
  const bool refused = refuses(audit);
  std::string text = refused ? kRefused : kAccepted;
  text += placement_text(plan, audit, 6);
  if (text.size() > kMostVerdict) return;
  write_whole_file(plan.folder + "/" + kVerdictName, text, Kept::kInMemory, 0640,
                   {.gid = plan.gid});
}

void remove_verdict(const StepPlan& plan) {
  unlink((plan.folder + "/" + kVerdictName).c_str());
}

std::optional<Verdict> read_verdict(const StepPlan& plan) {
  const auto text = read_file(AT_FDCWD, plan.folder + "/" + kVerdictName, 0, kMostVerdict);
  if (!text) return std::nullopt;
  Verdict verdict;
  verdict.refused = text->starts_with(kRefused);
  if (!verdict.refused && !text->starts_with(kAccepted)) return std::nullopt;
  verdict.text = text->substr(text->find('\n') + 1);
  return verdict;
}

std::optional<bool> devices_are_confined() {
  std::vector<std::string> folders = {"/etc/slurm", "/run/slurm/conf"};
  if (const char* conf = std::getenv("SLURM_CONF")) {
    const std::string path = conf;
    folders = {path.substr(0, path.rfind('/'))};
  }
  for (const std::string& folder : folders) {
    const auto plugins = setting_of(folder + "/slurm.conf", "taskplugin");
    if (!plugins) continue;
    if (plugins->find("cgroup") == plugins->npos) return false;
    const auto word = setting_of(folder + "/cgroup.conf", "constraindevices");
    if (!word) return std::ifstream(folder + "/cgroup.conf") ? std::optional(false) : std::nullopt;
    // Slurm takes any of these words.
    return *word == "yes" || *word == "true" || *word == "up" || *word == "1";
  }
  return std::nullopt;
}

}  // namespace mfu
