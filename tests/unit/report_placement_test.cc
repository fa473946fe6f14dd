// What mfu-report says of placement.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/report_samples.hh"

namespace mfu {
namespace {

using Verdict = Place::Verdict;

std::string line_of(Place place, uint32_t run = 0) {
  Comment step;
  step.run = run;
  step.gpus = 8;
  step.place = std::move(place);
  Comment job;
  merge_step(&job, step, 0);
  return format_comment(job);
}

std::string note_text(uint32_t run = 0) {
  PlaceNote note;
  note.run = run;
  note.add({"cpu-gpu-remote", Severity::kWarning, "n1 rank 0", "far", "srun --cpu-bind=x|y"});
  note.add({"nic-down", Severity::kHigh, "n3 mlx5_2", "port 1 is \"DOWN\"", "ibstat mlx5_2"});
  note.add({"cpu-gpu-remote", Severity::kWarning, "n2 rank 1", "far", "srun --cpu-bind=x|y"});
  note.left_out = true;
  return format_place_note(note);
}

const Place kOk = {Verdict::kOk, 0, ""};
const Place kBad = {Verdict::kBad, 1, "nic-down,cpu-gpu-remote"};

Job placed(const std::string& id, std::string comment) {
  return job_of(id, 8, 3600, std::move(comment));
}

// A job with findings, one without any, and three of which nothing is known.
std::vector<Job> jobs() {
  return {placed("12_3", "note " + line_of(kBad) + " " + note_text() + " more"),
          placed("13", line_of(kOk)),
          placed("14", line_of({})),
          placed("15", ""),
          placed("16", line_of(kBad) + " mfu-place/1 high nic-down {n3"),
          placed("17", line_of(kBad))};
}

std::string told(const std::vector<Job>& of, TableStyle style = {}) {
  style.subject = Subject::kPlacement;
  return table_of(of, style);
}

TEST(PlacementReport, ABlockForEachJobWithFindings) {
  EXPECT_EQ(told(jobs()),
            "12_3: bad:1(nic-down,cpu-gpu-remote) (train, alice)\n"
            "  high nic-down: n3 mlx5_2: port 1 is \"DOWN\"\n"
            "    -> ibstat mlx5_2\n"
            "  warning cpu-gpu-remote: n1 rank 0, n2 rank 1: far\n"
            "    -> srun --cpu-bind=x|y\n"
            "  and more, which had no room\n"
            "\n"
            "6 jobs: 1 with findings, 1 audited without any, 1 broken findings, 1 no line, 1 not "
            "audited, 1 not in this field\n");
  EXPECT_EQ(told({}), "0 jobs: 0 with findings, 0 audited without any\n");
}

TEST(PlacementReport, Styles) {
  EXPECT_EQ(told({jobs()[0]}, {.form = Form::kBars}),
            "JOBID|PLACE|SEVERITY|RULE|PLACES|EVIDENCE|REMEDY\n"
            "12_3|bad:1(nic-down,cpu-gpu-remote)|high|nic-down|n3 mlx5_2|port 1 is \"DOWN\"|ibstat "
            "mlx5_2\n"
            "12_3|bad:1(nic-down,cpu-gpu-remote)|warning|cpu-gpu-remote|n1 rank 0, n2 rank "
            "1|far|srun --cpu-bind=x?y\n");
  EXPECT_EQ(told({jobs()[1]}, {.bare = true}), "");
  EXPECT_EQ(told({jobs()[1]}, {.form = Form::kBars, .bare = true}), "");
}

// The audit's own reason why it does not know is a finding too.
TEST(PlacementReport, WhyNothingIsKnown) {
  PlaceNote note;
  note.add({"gpus-unknown", Severity::kInformation, "n1", "not in the topology", "mfu-topo show"});
  const Job job = placed("9", line_of({}) + " " + format_place_note(note));
  EXPECT_TRUE(
      told({job}).starts_with("9: not known whether all is well (train, alice)\n"
                              "  information gpus-unknown: n1: not in the topology\n"));
}

TEST(PlacementReport, ForeignTextCannotBreakIt) {
  Job job = jobs()[0];
  job.name = "a\x1b[2J\n";
  job.user = "";
  for (const char byte : told({job})) EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~'));
}

TEST(PlacementReport, Json) {
  for (const Subject subject : {Subject::kRows, Subject::kPlacement}) {
    const nlohmann::json json = json_of(jobs(), {.subject = subject});
    EXPECT_EQ(json["format"], "mfu-report/1");
    const auto& rows = json["jobs"];
    EXPECT_EQ(rows[0]["findings"][0].dump(),
              R"({"evidence":"port 1 is \"DOWN\"","place":"n3 mlx5_2","remedy":"ibstat mlx5_2",)"
              R"("rule":"nic-down","severity":"high"})");
    EXPECT_EQ(rows[0]["findings"].size(), 2u);
    EXPECT_EQ(rows[0]["findings"][1]["place"], "n1 rank 0, n2 rank 1");
    EXPECT_EQ(rows[0]["findings_left_out"], true);
    EXPECT_TRUE(rows[0]["findings_reason"].is_null());
    EXPECT_EQ(rows[1]["findings"], nlohmann::json::array());
    EXPECT_EQ(rows[1]["findings_left_out"], false);
    const char* const reasons[] = {"not audited", "no line",
                                   "broken findings: byte 29: they were "
                                   "cut off or edited",
                                   "not in this field"};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(rows[2 + i]["findings"].is_null()) << i;
      EXPECT_TRUE(rows[2 + i]["findings_left_out"].is_null()) << i;
      EXPECT_EQ(rows[2 + i]["findings_reason"], reasons[i]);
    }
  }
}

// Slurm hands the field on to the next run of a requeued job.
TEST(PlacementReport, AnEarlierRunsFindingsAreNotThisRuns) {
  EXPECT_NE(told({placed("9", line_of(kOk, 1) + " " + note_text())}).find("0 with findings, 1 aud"),
            std::string::npos);
  EXPECT_NE(told({placed("9", line_of(kBad, 1) + " " + note_text(1))}).find("1 with findings"),
            std::string::npos);
}

TEST(PlacementReport, ALineThatWasHandedOnTellsNothing) {
  std::vector<Job> runs(2, placed("9", line_of(kBad) + " " + note_text()));
  runs[1].start = runs[0].end + 100;
  EXPECT_TRUE(told(runs).ends_with(
      "\n1 job in 2 runs: 1 with findings, 0 audited without any, 1 no line\n"))
      << told(runs);
}

}  // namespace
}  // namespace mfu
