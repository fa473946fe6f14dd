// Findings behind the line: their text, their merging, and what they do to a field of others.
#include "plugin/place_note.hh"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

constexpr size_t kNoLimit = 60000;

Finding finding(const std::string& rule, Severity severity, const std::string& place = "n1",
                const std::string& evidence = "seen") {
  return {rule, severity, place, evidence, "mend " + rule};
}

PlaceNote note_of(const std::vector<Finding>& findings, uint32_t run = 0) {
  PlaceNote note;
  note.run = run;
  for (const Finding& found : findings) note.add(found);
  return note;
}

// A note of two findings, with places and bytes that must be written otherwise.
PlaceNote sample() {
  return note_of({finding("cpu-gpu-remote", Severity::kWarning, "n1 rank 0"),
                  {"nic-down", Severity::kHigh, "n3 mlx5_2", "{50%; 'x'|\\", "ibstat"},
                  finding("cpu-gpu-remote", Severity::kWarning, "n2 rank 1")});
}
constexpr char kSample[] =
    "mfu-place/1 high nic-down {n3 mlx5_2}{%7B50%25%3B %27x%27%7C%5C}{ibstat} "
    "warning cpu-gpu-remote {n1 rank 0}{n2 rank 1}{seen}{mend cpu-gpu-remote} .";

std::vector<std::string> rules(const PlaceNote& note) {
  std::vector<std::string> names;
  for (const NotedFinding& found : note.findings) names.push_back(found.rule);
  return names;
}
using Texts = std::vector<std::string>;

PlaceNote parsed(std::string_view field) {
  const PlaceNoteReading reading = read_place_note(field);
  EXPECT_TRUE(reading.note) << reading.fault << ": " << field;
  return reading.note.value_or(PlaceNote());
}

void expect_sound(const PlaceNote& note) {
  const std::string text = format_place_note(note);
  EXPECT_LE(text.size(), kMostPlaceNote);
  for (const char byte : text) ASSERT_TRUE(byte == ' ' || is_value_byte(byte)) << text;
  if (!text.empty()) {
    EXPECT_EQ(parsed(text), note) << text;
  }
}

// --- The text.

TEST(PlaceNote, Text) {
  EXPECT_EQ(format_place_note({}), "");
  EXPECT_EQ(format_place_note(sample()), kSample);
  expect_sound(sample());
  PlaceNote more = sample();
  more.run = 4294967295;
  more.findings[1].more_places = true;
  more.left_out = true;
  EXPECT_EQ(
      format_place_note(more),
      "mfu-place/1 run=4294967295 high nic-down {n3 mlx5_2}{%7B50%25%3B %27x%27%7C%5C}{ibstat} "
      "warning cpu-gpu-remote {n1 rank 0}{n2 rank 1}+{seen}{mend cpu-gpu-remote} + .");
  expect_sound(more);
  EXPECT_EQ(more.findings[1].places_text(), "n1 rank 0, n2 rank 1, ...");
  EXPECT_EQ(sample().findings[1].places_text(), "n1 rank 0, n2 rank 1");
  expect_sound(note_of({{"a", Severity::kInformation, "", "", ""}}));
}

// NCCL_IB_HCA is the user's, and evidence quotes it.
TEST(PlaceNote, ATextCannotPassForALine) {
  const std::string forged = "mfu/1 mfu=99.9% s=0 sum=" + std::string(36, ',') + ". mfu-place/1 .";
  const PlaceNote note = note_of({finding("nccl-hca", Severity::kHigh, forged, forged)});
  const std::string text = format_place_note(note);
  EXPECT_EQ(text.find("mfu/1"), text.npos);
  EXPECT_EQ(text.find("mfu="), text.npos);
  EXPECT_EQ(text.find("mfu-place/1", 1), text.npos);
  EXPECT_TRUE(find_comment(text).empty());
  expect_sound(note);
  EXPECT_EQ(note.findings[0].evidence, forged);
  // The tools' names stay legible.
  EXPECT_NE(
      format_place_note(note_of({finding("x", Severity::kHigh, "mfu-topo")})).find("{mfu-topo}"),
      std::string::npos);
}

TEST(PlaceNote, SlurmsSmallLettersAreRead) {
  std::string small = kSample;
  for (char& byte : small) byte = byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
  ASSERT_NE(small, kSample);
  EXPECT_EQ(parsed(small), sample());
}

TEST(PlaceNote, WhatIsBrokenIsRefused) {
  const std::string line = format_comment({});
  for (const char* text : {"mfu-place/1",
                           "mfu-place/1 ",
                           "mfu-place/1 .",
                           "mfu-place/1 + .",
                           "mfu-place/1 run=1 .",
                           "mfu-place/1 run=0 high a {p}{e}{r} .",
                           "mfu-place/1 run=01 high a {p}{e}{r} .",
                           "mfu-place/1 run=4294967296 high a {p}{e}{r} .",
                           "mfu-place/1 high a {e}{r} .",
                           "mfu-place/1 high a .",
                           "mfu-place/1 high  {p}{e}{r} .",
                           "mfu-place/1 grave a {p}{e}{r} .",
                           "mfu-place/1 high A {p}{e}{r} .",
                           "mfu-place/1 high a,b {p}{e}{r} .",
                           "mfu-place/1 high a{p}{e}{r} .",
                           "mfu-place/1 high a {p}{e}{r}.",
                           "mfu-place/1 high a {p}{e}{r}+ .",
                           "mfu-place/1 high a {p}+{e} .",
                           "mfu-place/1 high a {p}+{p}+{e}{r} .",
                           "mfu-place/1 high a {p}+{p}{e}{r} .",
                           "mfu-place/1 high a +{e}{r} .",
                           "mfu-place/1 high a {p}{e}{r} ++ .",
                           "mfu-place/1 high a {p}{e}{r} . .x",
                           "mfu-place/1 high a {p}{e}{r} .x",
                           "mfu-place/1 high a {p{}{e}{r} .",
                           "mfu-place/1 high a {p}}{e}{r} .",
                           "mfu-place/1 high a {p}{%}{r} .",
                           "mfu-place/1 high a {p}{%4}{r} .",
                           "mfu-place/1 high a {p}{%0A}{r} .",
                           "mfu-place/1 high a {p}{%7F}{r} .",
                           "mfu-place/1 high a {p}{%80}{r} .",
                           "mfu-place/1 high a {p}{%g0}{r} .",
                           "mfu-place/1 high a {p}{|}{r} .",
                           "mfu-place/1 high a {p}{\n}{r} .",
                           "mfu-place/1 high a {p}{\x80}{r} .",
                           "mfu-place/1 high a {1}{2}{3}{4}{5}{6}{7}{8}{9}{e}{r} .",
                           "mfu-place/1 high abcdefghijklmnopqrstuvwxyz012345 {p}{e}{r} ."}) {
    const std::string field = line + " " + text;
    const PlaceNoteReading reading = read_place_note(field);
    // ". .x" is a note with a stranger's text behind it.
    if (std::string_view(text).ends_with(". .x")) {
      EXPECT_TRUE(reading.note);
      continue;
    }
    EXPECT_FALSE(reading.note) << text;
    EXPECT_NE(reading.fault.find("broken findings: byte "), std::string::npos) << text;
    EXPECT_FALSE(reading.text.empty()) << text;
  }
  const std::string wide = "mfu-place/1 high a {p}{" + std::string(192, 'e') + "}{r} .";
  EXPECT_FALSE(read_place_note(line + " " + wide).note);
  const std::string place = "mfu-place/1 high a {" + std::string(96, 'e') + "}{e}{r} .";
  EXPECT_FALSE(read_place_note(line + " " + place).note);
}

// Longer than any that is written: nothing beyond the bound is looked at.
TEST(PlaceNote, AnOverlongOneIsRefused) {
  std::string text = "mfu-place/1";
  while (text.size() < kMostPlaceNote) text += " high a {p}{e}{r}";
  const std::string field = format_comment({}) + " " + text + " .";
  EXPECT_FALSE(read_place_note(field).note);
  EXPECT_LE(read_place_note(field).text.size(), kMostPlaceNote);
}

TEST(PlaceNote, EveryCutIsSeen) {
  const std::string line = format_comment({});
  const std::string text = kSample;
  for (size_t size = std::string("mfu-place/1").size(); size < text.size(); ++size) {
    const std::string field = line + " " + text.substr(0, size);
    EXPECT_FALSE(read_place_note(field).note) << field;
    // And what is left of it goes when it is replaced.
    const auto replaced = replace_place_note(field, kSample, kNoLimit);
    ASSERT_TRUE(replaced);
    EXPECT_EQ(replaced->substr(0, line.size() + 1 + text.size()), line + " " + text);
    EXPECT_LE(replaced->size(), line.size() + 1 + text.size() + std::string(" warning ").size());
    EXPECT_EQ(parsed(*replaced), sample());
  }
}

TEST(PlaceNote, HostileTextNeverCrashes) {
  std::mt19937 random(11);
  const std::string line = format_comment({});
  const std::string pieces[] = {" ",       "{", "}",    "+",           ".",     "high",
                                "warning", "%", "%7B",  "mfu-place/1", "run=1", "nic-down",
                                "\n",      "|", "\xff", line,          "mfu/1 "};
  for (int turn = 0; turn < 20000; ++turn) {
    std::string field = turn % 2 == 0 ? line + " " + kSample : "";
    for (int edits = 0; edits < 4; ++edits) {
      const std::string& piece = pieces[random() % std::size(pieces)];
      const size_t at = random() % (field.size() + 1);
      field.replace(at, random() % 3, piece);
    }
    const PlaceNoteReading reading = read_place_note(field);
    if (reading.note) {
      PlaceNote again;
      again.run = reading.note->run;
      again.join(*reading.note);
      expect_sound(again);
    }
    const auto replaced = replace_place_note(field, kSample, kNoLimit);
    ASSERT_TRUE(replaced);
    EXPECT_EQ(parsed(*replaced), sample()) << field;
  }
}

// --- Merging.

TEST(PlaceNote, TheMostSevereFirstThenInTheirOrder) {
  const PlaceNote note =
      note_of({finding("i1", Severity::kInformation), finding("w1", Severity::kWarning),
               finding("h1", Severity::kHigh), finding("w2", Severity::kWarning),
               finding("h2", Severity::kHigh)});
  EXPECT_EQ(rules(note), (Texts{"h1", "h2", "w1", "w2", "i1"}));
  EXPECT_FALSE(note.left_out);
}

TEST(PlaceNote, WhatIsEqualButForThePlaceIsOne) {
  PlaceNote note = note_of({finding("nic-down", Severity::kHigh, "n1"),
                            finding("nic-down", Severity::kHigh, "n2", "other"),
                            finding("nic-down", Severity::kHigh, "n3")});
  ASSERT_EQ(note.findings.size(), 2u);
  EXPECT_EQ(note.findings[0].places, (Texts{"n1", "n3"}));
  EXPECT_EQ(note.findings[1].places, (Texts{"n2"}));
  for (int i = 4; i < 12; ++i) {
    note.add(finding("nic-down", Severity::kHigh, "n" + std::to_string(i)));
    EXPECT_EQ(note.findings[0].more_places, i > 9) << i;
  }
  EXPECT_EQ(note.findings[0].places.size(), NotedFinding::kMostPlaces);
  EXPECT_EQ(note.findings[0].places.back(), "n9");
  expect_sound(note);
}

TEST(PlaceNote, ARuleSpeaksOnceOfAPlace) {
  PlaceNote note = note_of({finding("pcie-link", Severity::kWarning, "n1", "x8"),
                            finding("pcie-link", Severity::kWarning, "n2", "x8")});
  note.add(finding("pcie-link", Severity::kWarning, "n1", "x4"));
  note.add(finding("pcie-link", Severity::kInformation, "n1", "x2"));
  ASSERT_EQ(note.findings.size(), 1u);
  EXPECT_EQ(note.findings[0].places, (Texts{"n1", "n2"}));
  note.add(finding("pcie-link", Severity::kHigh, "n1", "x1"));
  ASSERT_EQ(note.findings.size(), 2u);
  EXPECT_EQ(note.findings[0].evidence, "x1");
  EXPECT_EQ(note.findings[1].places, (Texts{"n2"}));
  note.add(finding("pcie-link", Severity::kHigh, "n2", "x1"));
  ASSERT_EQ(note.findings.size(), 1u);
  EXPECT_EQ(note.findings[0].places, (Texts{"n1", "n2"}));
}

TEST(PlaceNote, WhatHasNoRoomIsLeftOutAndStaysSo) {
  PlaceNote note;
  for (int i = 0; i < 40; ++i) {
    note.add(finding("w", Severity::kWarning, "n" + std::to_string(i),
                     std::to_string(i) + " " + std::string(150, 'x')));
  }
  EXPECT_TRUE(note.left_out);
  EXPECT_GT(format_place_note(note).size(), kMostPlaceNote / 2);
  expect_sound(note);
  const size_t before = note.findings.size();
  note.add(finding("h", Severity::kHigh));
  EXPECT_EQ(note.findings[0].rule, "h");
  EXPECT_GE(note.findings.size(), before);
  EXPECT_TRUE(note.left_out);
  expect_sound(note);
  // Of a note with room again it is still true.
  PlaceNote joined = note_of({finding("h", Severity::kHigh)});
  PlaceNote small = joined;
  small.left_out = true;
  joined.join(small);
  EXPECT_TRUE(joined.left_out);
  EXPECT_EQ(joined.findings.size(), 1u);
}

// Notes are measured without being written.
TEST(PlaceNote, PropertyTheBoundIsUsedToTheLastFinding) {
  std::mt19937 random(8);
  const std::string pieces[] = {"mfu/", "mfu=", "mfu-topo", "mmfu-place/1",
                                "{",    "%",    "plain ",   "|"};
  for (int turn = 0; turn < 200; ++turn) {
    PlaceNote note;
    std::string last;
    for (int i = 0; !note.left_out; ++i) {
      std::string text;
      for (int words = 0; words < 20; ++words) text += pieces[random() % std::size(pieces)];
      last = text.substr(0, 90);
      note.add({"r" + std::to_string(i), Severity::kHigh, "n", last, "mend"});
    }
    expect_sound(note);
    // The one that was left out had no room, however full of odd bytes it is.
    EXPECT_GT(format_place_note(note).size() + 3 * last.size() + 60, kMostPlaceNote);
  }
}

// Otherwise two writers would take turns for ever: the more severe one drives the other out and has
// no room itself, and the other one comes back.
TEST(PlaceNote, WhatHasNoRoomDrivesNothingOut) {
  PlaceNote full;
  for (int i = 10; i < 28; ++i) {
    full.add(finding("rule-" + std::to_string(i), Severity::kHigh, "n1", std::string(185, 'e')));
  }
  full.add(finding("odd", Severity::kWarning, "n2", "little"));
  ASSERT_FALSE(full.left_out);
  ASSERT_EQ(rules(full).back(), "odd");
  PlaceNote both = full;
  both.add(finding("odd", Severity::kHigh, "n2", std::string(185, 'f')));
  EXPECT_EQ(both.findings, full.findings);
  EXPECT_TRUE(both.left_out);
  // Where there is room the more severe one takes the other's place.
  both = note_of({finding("odd", Severity::kWarning), finding("odd", Severity::kHigh)});
  ASSERT_EQ(both.findings.size(), 1u);
  EXPECT_EQ(both.findings[0].severity, Severity::kHigh);
}

TEST(PlaceNote, MorePlacesStayMore) {
  PlaceNote more = note_of({finding("w", Severity::kWarning)});
  more.findings[0].more_places = true;
  PlaceNote note = note_of({finding("w", Severity::kWarning)});
  note.join(more);
  EXPECT_TRUE(note.findings[0].more_places);
  PlaceNote other;
  other.join(note);
  EXPECT_EQ(other, note);
}

// Writers come back until nothing changes: steps of a job that write in turns must come to an end.
TEST(PlaceNote, PropertyJoiningComesToAnEnd) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 300; ++turn) {
    PlaceNote steps[3];
    for (PlaceNote& step : steps) {
      for (unsigned i = 0; i < random() % 30; ++i) {
        step.add({"r" + std::to_string(random() % 4), static_cast<Severity>(random() % 3),
                  "n" + std::to_string(random() % 20),
                  std::to_string(random() % 5) + std::string(random() % 190, 'e'), "mend"});
      }
    }
    PlaceNote all;
    int rounds = 0;
    for (bool changed = true; changed; ++rounds) {
      ASSERT_LT(rounds, 8);
      changed = false;
      for (const PlaceNote& step : steps) {
        const PlaceNote before = all;
        all.join(step);
        changed = changed || !(all == before);
      }
      expect_sound(all);
    }
    for (const PlaceNote& step : steps) {
      if (step.left_out) {
        EXPECT_TRUE(all.left_out);
      }
    }
    // None twice.
    std::set<std::string> told;
    for (const NotedFinding& found : all.findings) {
      for (const std::string& place : found.places) {
        EXPECT_TRUE(told.insert(found.rule + " " + place).second);
      }
    }
  }
}

// --- In a field.

TEST(PlaceNote, ForeignTextIsKeptByteForByte) {
  const std::string line = format_comment(job_of(step_of(8, 22, 500)));
  const std::string other = format_place_note(note_of({finding("pcie-link", Severity::kHigh)}));
  for (const std::string before :
       {"", "note ", "\xc3\xa9|\n", "mfu-place/1 was here ", "high a {} ", "xmfu-place/1 high "}) {
    for (const std::string between : {" ", "  ", " two words ", " |\n", " mfu-place/2 x "}) {
      for (const std::string after :
           {"", " ", " .", " high nic-down {a}{b}{c} .", "\nnext", " + x"}) {
        const std::string field = before + line + between + kSample + after;
        EXPECT_EQ(read_place_note(field).text, kSample) << field;
        EXPECT_EQ(parsed(field), sample());
        EXPECT_EQ(find_comment(field), line);
        EXPECT_EQ(replace_place_note(field, other, kNoLimit),
                  before + line + between + other + after);
        EXPECT_EQ(replace_place_note(field, kSample, kNoLimit), field);
        const std::string without =
            before + line + between.substr(0, between.size() - (between.back() == ' ')) + after;
        EXPECT_EQ(replace_place_note(field, "", kNoLimit), without);
        // The line's own replacement leaves it alone.
        const std::string second = format_comment(job_of(step_of(128, 7000, 333)));
        EXPECT_EQ(*replace_comment(field, second, kNoLimit),
                  before + second + between + kSample + after);
      }
    }
  }
}

TEST(PlaceNote, StandsBehindTheLine) {
  const std::string line = format_comment({});
  const std::string note = kSample;
  EXPECT_EQ(replace_place_note(line, note, kNoLimit), line + " " + note);
  EXPECT_EQ(replace_place_note("a " + line + " b", note, kNoLimit),
            "a " + line + " " + note + " b");
  EXPECT_EQ(replace_place_note(line + ";x", note, kNoLimit), line + " " + note + " ;x");
  EXPECT_EQ(replace_place_note(line, "", kNoLimit), line);
  EXPECT_EQ(replace_place_note(line + " " + note, "", kNoLimit), line);
  EXPECT_EQ(replace_place_note("a", "", kNoLimit), "a");
  EXPECT_EQ(replace_place_note(line, note, line.size() + 1 + note.size()), line + " " + note);
  EXPECT_EQ(replace_place_note(line, note, line.size() + note.size()), std::nullopt);
}

TEST(PlaceNote, ABrokenOneIsReplacedAndNotItsNeighbours) {
  const std::string line = format_comment({});
  EXPECT_EQ(
      replace_place_note(line + " mfu-place/1 high nic-down {n1 and no end", kSample, kNoLimit),
      line + " " + kSample);
  EXPECT_EQ(replace_place_note(line + " mfu-place/1 people write this", kSample, kNoLimit),
            line + " " + kSample + " people write this");
  EXPECT_EQ(replace_place_note(line + " mfu-place/1 high nic-down {n1}{e}{r}| other", "", kNoLimit),
            line + "| other");
  // Before the line it is nobody's.
  EXPECT_EQ(replace_place_note("mfu-place/1 x " + line, kSample, kNoLimit),
            "mfu-place/1 x " + line + " " + kSample);
  EXPECT_EQ(read_place_note("mfu-place/1 x " + line).fault, "");
}

}  // namespace
}  // namespace mfu
