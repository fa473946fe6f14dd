// Any bytes as the field of a job that the line stands in: no crash, no undefined behaviour; a line
// that is read comes back from the writer; a step's words are merged in once, and leave what others
// have written as it was. The first byte chooses the step's words.
#include <string>

#include "plugin/job_field.hh"
#include "tests/fuzz/fuzz_input.hh"

namespace {

using mfu::require;

// The widest field that the line is written to.
constexpr size_t kFieldLimit = 60000;

bool is_clean(std::string_view line) {
  for (const char byte : line) {
    if (byte != ' ' && !mfu::is_value_byte(byte)) return false;
  }
  return true;
}

void check_written(const mfu::Comment& comment) {
  const std::string line = mfu::format_comment(comment);
  require(line.size() <= mfu::kMaxLine && is_clean(line));
  require(mfu::find_comment(line) == line);
  const auto again = mfu::parse_comment(line);
  require(again && mfu::format_comment(*again) == line);
}

// The field without our line and findings, and without the blanks around them.
std::string foreign_text(std::string_view field) {
  std::string text(field);
  const auto drop = [&text](std::string_view ours) {
    const auto at = static_cast<size_t>(ours.data() - text.data());
    text = text.substr(0, at) + text.substr(at + ours.size());
  };
  if (const auto found = mfu::read_place_note(text); !found.text.empty()) drop(found.text);
  if (const std::string_view line = mfu::find_comment(text); !line.empty()) drop(line);
  std::erase(text, ' ');
  return text;
}

size_t openings(std::string_view field) {
  constexpr std::string_view kOpening = "mfu-place/1";
  size_t count = 0;
  for (size_t at = field.find(kOpening); at != field.npos; at = field.find(kOpening, at + 1))
    ++count;
  return count;
}

mfu::Comment step_of(uint8_t how) {
  constexpr uint64_t kNs = 100'000'000'000;
  mfu::Comment step;
  step.run = how & 1;
  step.gpus = 8;
  step.gpu = "H100-SXM";
  step.no_mfu = (how & 2) != 0 ? "no-flops" : "";
  mfu::Sums& sums = step.sums;
  sums.elapsed_ns = sums.attributed_ns = 8 * kNs;
  sums.compute_ns = 6 * kNs;
  if ((how & 4) != 0) {
    sums.model_flops = sums.executed_flops = 1'000'000'000'000'000;
    sums.capacity_flop = sums.executed_capacity_flop = 2'000'000'000'000'000;
    sums.flops_ns = sums.executed_ns = sums.elapsed_ns;
    step.basis = mfu::Basis::kModel;
    step.peak_gigaflops = 989'400;
    step.precision = mfu::Precision::kBf16;
    step.peak_basis = mfu::PeakBasis::kTable;
  }
  return step;
}

void check_field(std::string_view field, uint8_t how) {
  const mfu::Comment step = step_of(how);
  mfu::PlaceNote note;
  note.run = step.run;
  if ((how & 8) != 0) note.add({"nic-down", mfu::Severity::kHigh, "n1", "port 1 is DOWN", "mend"});
  const bool has_note = (how & 16) != 0;
  const mfu::StepWords words = {
      step, how / 32u, (how & 32) != 0, false, has_note ? &note : nullptr, kFieldLimit};
  const auto edited = mfu::edit_job_field(field, words);
  if (!edited) {
    require(field.starts_with("JS") || field.size() > kFieldLimit - mfu::kMaxLine - 1);
    return;
  }
  if (!*edited) return;
  const std::string& text = **edited;
  require(text.size() <= kFieldLimit);
  const std::string_view line = mfu::find_comment(text);
  require(!line.empty() && is_clean(line));
  // Once more changes nothing; of several broken findings one goes each time.
  const size_t findings = openings(field);
  size_t changes = findings > 1 ? findings : 0;
  std::string settled = text;
  for (;; --changes) {
    const auto again = mfu::edit_job_field(settled, words);
    require(again.has_value());
    if (!*again) break;
    require(changes > 0);
    settled = **again;
  }
  if (findings <= 1) require(foreign_text(text) == foreign_text(field));
  const auto read = mfu::parse_comment(line);
  require(read.has_value());
  if (words.ended && read->run == step.run) require(read->merged.contains(words.step_id));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mfu::FuzzInput in(data, size);
  const uint8_t how = in.take<uint8_t>();
  const std::string_view field = in.rest();
  const std::string_view line = mfu::find_comment(field);
  require(line.size() <= mfu::kMaxLine);
  for (const std::string_view text : {field, line}) {
    const auto comment = mfu::parse_comment(text);
    if (!comment) {
      require(!comment.error().empty());
      continue;
    }
    check_written(*comment);
    mfu::figures(*comment);
    mfu::Comment job = *comment;
    const mfu::Comment step = step_of(how);
    if (mfu::merge_step(&job, step, how)) {
      require(!mfu::merge_step(&job, step, how) && !mfu::show_running(&job, step, how));
    }
    check_written(job);
  }
  check_field(field, how);
  return 0;
}
