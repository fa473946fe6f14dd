#include "plugin/job_field.hh"

namespace mfu {
namespace {

// The findings of this run that stand in the field already, and the step's.
std::string joined_findings(std::string_view field, const StepWords& words) {
  PlaceNote all = read_place_note(field).note.value_or(PlaceNote());
  if (all.run != words.step.run) all = {.run = words.step.run};
  all.join(*words.findings);
  return format_place_note(all);
}

}  // namespace

tl::expected<std::optional<std::string>, std::string> edit_job_field(std::string_view field,
                                                                     const StepWords& words) {
  Comment job;
  const std::string_view line = find_comment(field);
  if (!line.empty()) {
    if (auto parsed = parse_comment(line)) job = *parsed;
  }
  if (words.nothing_ran && (!words.ended || (job.run == words.step.run && !job.merged.empty()))) {
    return std::nullopt;
  }
  std::string text(field);
  const bool changed = words.ended ? merge_step(&job, words.step, words.step_id)
                                   : show_running(&job, words.step, words.step_id);
  if (changed) {
    auto replaced = replace_comment(field, format_comment(job), words.limit);
    if (!replaced) return tl::make_unexpected(replaced.error());
    text = std::move(*replaced);
  }
  // A later run's findings are not ours.
  if (words.findings != nullptr && job.run == words.step.run) {
    auto replaced = replace_place_note(text, joined_findings(text, words), words.limit);
    if (replaced) text = std::move(*replaced);
  }
  if (text == field) return std::nullopt;
  return text;
}

}  // namespace mfu
