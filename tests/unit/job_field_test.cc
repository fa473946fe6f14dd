// What a step writes into its job's field.
#include "plugin/job_field.hh"

#include <gtest/gtest.h>

#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

PlaceNote note_of(const std::string& rule, uint32_t run = 0) {
  PlaceNote note;
  note.run = run;
  if (!rule.empty()) note.add({rule, Severity::kHigh, "n1", "seen", "mend"});
  return note;
}

// The field after the step's last word; the same text when there was nothing to change.
std::string ended(std::string_view field, const Comment& step, uint32_t id, const PlaceNote* note,
                  size_t limit = 60000) {
  const auto edited = edit_job_field(field, {step, id, true, false, note, limit});
  EXPECT_TRUE(edited) << edited.error();
  if (!edited) return "";
  return edited->value_or(std::string(field));
}

Comment line_in(std::string_view field) {
  const auto line = parse_comment(find_comment(field));
  EXPECT_TRUE(line) << field;
  return line.value_or(Comment());
}

std::string rules_in(std::string_view field) {
  std::string rules;
  for (const NotedFinding& found : read_place_note(field).note.value_or(PlaceNote()).findings) {
    rules += (rules.empty() ? "" : ",") + found.rule;
  }
  return rules;
}

TEST(JobField, LineAndFindingsInOneEdit) {
  const Comment step = step_of(8, 22, 500);
  const PlaceNote note = note_of("nic-down");
  const std::string field = ended("note", step, 0, &note);
  EXPECT_EQ(field, "note " + format_comment(job_of(step)) + " " + format_place_note(note));
  EXPECT_FALSE(*edit_job_field(field, {step, 0, true, false, &note, 60000}));  // right already
  EXPECT_EQ(ended("", step, 0, nullptr), format_comment(job_of(step)));
  const PlaceNote none = note_of("");
  EXPECT_EQ(ended("", step, 0, &none), format_comment(job_of(step)));
}

TEST(JobField, LaterStepsJoin) {
  const PlaceNote first = note_of("nic-down");
  const PlaceNote second = note_of("pcie-link");
  const PlaceNote none = note_of("");
  const Comment step = step_of(8, 22, 500);
  std::string field = ended("", step, 0, &first);
  field = ended(field + " others", step, 1, &none);
  EXPECT_EQ(rules_in(field), "nic-down");
  field = ended(field, step, 2, &second);
  EXPECT_EQ(rules_in(field), "nic-down,pcie-link");
  EXPECT_TRUE(line_in(field).merged.contains(2));
  EXPECT_TRUE(field.ends_with(" others"));
  EXPECT_EQ(ended(field, step, 1, &first), field);
}

// Another writer's text took the place of ours, with our line in it, but without our findings.
TEST(JobField, FindingsThatWereOverwrittenComeBack) {
  const PlaceNote note = note_of("nic-down");
  const Comment step = step_of(8, 22, 500);
  const std::string field = ended("", step, 0, &note);
  EXPECT_EQ(ended(find_comment(field), step, 0, &note), field);
}

TEST(JobField, AnotherRunsFindingsAreReplaced) {
  const PlaceNote old = note_of("nic-down");
  Comment step = step_of(8, 22, 500);
  const std::string before = ended("a", step, 0, &old) + " b";
  step.run = 1;
  const PlaceNote now = note_of("pcie-link", 1);
  const std::string field = ended(before, step, 0, &now);
  EXPECT_EQ(rules_in(field), "pcie-link");
  EXPECT_EQ(read_place_note(field).note->run, 1u);
  EXPECT_TRUE(field.starts_with("a mfu/1 ") && field.ends_with(" b"));
  const PlaceNote none = note_of("", 1);
  EXPECT_EQ(rules_in(ended(before, step, 0, &none)), "");
  EXPECT_EQ(ended(before, step, 0, &none).find("mfu-place"), std::string::npos);
  // A word of the earlier run that comes late changes nothing.
  step.run = 0;
  EXPECT_EQ(ended(field, step, 1, &old), field);
}

TEST(JobField, WhatIsBrokenIsReplaced) {
  const PlaceNote note = note_of("nic-down");
  const Comment step = step_of(8, 22, 500);
  const std::string whole = ended("", step, 0, &note);
  EXPECT_EQ(ended(whole.substr(0, whole.size() - 5), step, 0, &note), whole);
  const PlaceNote none = note_of("");
  EXPECT_EQ(rules_in(ended(whole.substr(0, whole.size() - 5), step, 1, &none)), "");
}

TEST(JobField, WithoutRoomTheLineStaysAlone) {
  const PlaceNote note = note_of("nic-down");
  const Comment step = step_of(8, 22, 500);
  const std::string line = format_comment(job_of(step));
  EXPECT_EQ(ended("", step, 0, &note, line.size() + 10), line);
  const auto refused = edit_job_field("", {step, 0, true, false, &note, 10});
  EXPECT_FALSE(refused);
}

TEST(JobField, OfJobstatsIsNotTouched) {
  const PlaceNote note = note_of("nic-down");
  EXPECT_FALSE(edit_job_field("JS1:abc", {step_of(8, 22, 500), 0, true, false, &note, 60000}));
}

TEST(JobField, ARunningStepShowsItsFindings) {
  const PlaceNote note = note_of("nic-down");
  const Comment step = step_of(8, 22, 500);
  const auto field = edit_job_field("", {step, 3, false, false, &note, 60000});
  ASSERT_TRUE(field && *field);
  EXPECT_TRUE(line_in(**field).running());
  EXPECT_EQ(rules_in(**field), "nic-down");
}

TEST(JobField, ABatchStepOnlyWhereNobodyElseSpeaks) {
  const PlaceNote none = note_of("");
  const Comment step = step_of(8, 22, 0);
  const std::string field = ended("", step_of(8, 22, 500), 0, &none);
  EXPECT_FALSE(*edit_job_field(field, {step, kBatchStep, true, true, &none, 60000}));
  EXPECT_FALSE(*edit_job_field("", {step, kBatchStep, false, true, &none, 60000}));
  EXPECT_TRUE(*edit_job_field("", {step, kBatchStep, true, true, &none, 60000}));
}

}  // namespace
}  // namespace mfu
