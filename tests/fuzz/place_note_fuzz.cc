// Any bytes as the findings in a job's field, as findings of a node, and as the notes and the
// verdict of a job step's folder: no crash, no undefined behaviour; what is read comes back from
// the writer, whatever is found fits and is printable. The first byte chooses.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "plugin/node_findings.hh"
#include "plugin/place_note.hh"
#include "plugin/placement.hh"
#include "plugin/spool.hh"
#include "tests/fuzz/fuzz_input.hh"
#include "topology/step_command.hh"

namespace {

using mfu::is_printable;
using mfu::require;

void check_note(const mfu::PlaceNote& note) {
  const std::string text = mfu::format_place_note(note);
  require(text.size() <= mfu::kMostPlaceNote && is_printable(text));
  // Nobody who looks for our line finds one in a text of others.
  for (size_t at = text.find("mfu/"); at != text.npos; at = text.find("mfu/", at + 1)) {
    require(false);
  }
  if (text.empty()) return;
  const auto again = mfu::read_place_note(text);
  require(again.note && *again.note == note && again.text == text && again.fault.empty());
  mfu::PlaceNote twice = note;
  twice.join(note);
  require(mfu::format_place_note(twice) == text);
}

void check_field(std::string_view field) {
  const auto read = mfu::read_place_note(field);
  require(read.note.has_value() == (!read.text.empty() && read.fault.empty()));
  if (read.note) check_note(*read.note);
  const std::string fresh = "mfu-place/1 high rule {place}{evidence}{remedy} .";
  const auto replaced = mfu::replace_place_note(field, fresh, field.size() + fresh.size() + 2);
  require(replaced.has_value());
  const auto now = mfu::read_place_note(*replaced);
  require(now.note && now.text == fresh);
  require(mfu::replace_place_note(*replaced, fresh, replaced->size()) == *replaced);
}

void check_findings(mfu::FuzzInput in) {
  mfu::PlaceNote note;
  std::vector<mfu::Finding> findings;
  while (!in.empty() && findings.size() < 40) {
    mfu::Finding finding;
    finding.severity = static_cast<mfu::Severity>(in.take<uint8_t>() % 3);
    for (std::string* text : {&finding.rule, &finding.place, &finding.evidence, &finding.remedy}) {
      *text = in.take_bytes(in.take<uint8_t>());
    }
    findings.push_back(finding);
    note.add(finding);
  }
  check_note(note);
  const mfu::NodeFindings top = mfu::top_findings(findings);
  require(top.fault() == nullptr);
  mfu::PlaceNote other;
  for (const mfu::Finding& finding : top.findings()) other.add(finding);
  check_note(other);
}

// A step's folder as create_spool() makes it.
class Folder {
 public:
  Folder() {
    require(mkdtemp(path_) != nullptr);
    plan.folder = path_;
    plan.uid = getuid();
    plan.tasks = 1;
    require(mkdir(mfu::records_folder(plan.folder).c_str(), 0700) == 0);
  }
  ~Folder() { mfu::remove_spool(plan); }
  void write(const std::string& name, std::string_view text) const {
    const std::string path = plan.folder + "/" + name;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(file >= 0 && ::write(file, text.data(), text.size()) >= 0);
    close(file);
  }
  mfu::StepPlan plan;

 private:
  char path_[32] = "/dev/shm/mfu-fuzz.XXXXXX";
};

void check_task_note(const Folder& folder, std::string_view text) {
  folder.write("records/placement.0", text);
  for (const mfu::TaskNote& note : mfu::read_notes(folder.plan)) {
    require(note.local_rank == 0 && is_printable(note.cpus) && is_printable(note.devices));
    for (const auto& [name, value] : note.environment) {
      require(name.starts_with("CUDA_") || name.starts_with("NCCL_"));
      require(is_printable(value));
    }
  }
}

void check_verdict(const Folder& folder, std::string_view text) {
  folder.write("placement.verdict", text);
  const auto verdict = mfu::read_verdict(folder.plan);
  const bool sound = text.starts_with("ok\n") || text.starts_with("refused\n");
  require(verdict.has_value() == (sound && geteuid() == 0));
  if (verdict) require(verdict->refused == text.starts_with("refused\n"));
}

// What the collector asks mfu-topo, which has users' texts in it.
void check_request(std::string_view text) {
  const auto request = mfu::parse_step_request(text);
  if (!request) require(!request.error().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  mfu::FuzzInput in(data, size);
  switch (in.take<uint8_t>() % 5) {
    case 0:
      check_field(in.rest());
      break;
    case 1:
      check_findings(in);
      break;
    case 2:
      check_task_note(folder, in.rest());
      break;
    case 3:
      check_verdict(folder, in.rest());
      break;
    default:
      check_request(in.rest());
  }
  return 0;
}
