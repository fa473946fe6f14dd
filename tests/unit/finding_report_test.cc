// What an audit prints, and the exit status it makes of its findings.
#include "topology/finding_report.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "topology/text_table.hh"

namespace mfu {
namespace {

Finding high(const std::string& place) {
  return {"rail-missing", Severity::kHigh, place, "3 of 4 rails", "look at its cable"};
}

TEST(FindingReport, TellsFindingsThatDifferInTheirPlaceTogether) {
  const FindingReport report = {
      "fabric f",
      {high("n1"),
       high("n2"),
       {"leaf-uplinks", Severity::kWarning, "leaf a port 1", "2 of 4", "iblinkinfo"},
       high("n3")},
      {"1 node is absent"}};
  EXPECT_EQ(write_findings(report, 80, 0),
            "fabric f: 3 high, 1 warning\n"
            "note: 1 node is absent\n"
            "\n"
            "high  rail-missing  3 places: n[1-3]\n"
            "    found  3 of 4 rails\n"
            "    to do  look at its cable\n"
            "\n"
            "warning  leaf-uplinks  leaf a port 1\n"
            "    found  2 of 4\n"
            "    to do  iblinkinfo\n");
}

TEST(FindingReport, LongTextsAreWrapped) {
  FindingReport report = {"node n", {high("n1 cuda2")}, {}};
  report.findings[0].evidence = "nearest active NIC mlx5_0 is SYS away; no NIC is on its socket";
  EXPECT_EQ(write_findings(report, 40, 0),
            "node n: 1 high\n\n"
            "high  rail-missing  n1 cuda2\n"
            "    found  nearest active NIC mlx5_0 is\n"
            "           SYS away; no NIC is on its\n"
            "           socket\n"
            "    to do  look at its cable\n");
}

TEST(FindingReport, ManyOfARuleAreCounted) {
  FindingReport report = {"f", {}, {}};
  for (int i = 0; i < 5; ++i) {
    report.findings.push_back(high("n" + std::to_string(i)));
    report.findings.back().evidence += std::to_string(i);
  }
  const std::string text = write_findings(report, 80, 2);
  EXPECT_NE(text.find("n1\n"), std::string::npos);
  EXPECT_EQ(text.find("n2\n"), std::string::npos);
  EXPECT_NE(text.find("\nhigh  rail-missing  3 more, --all tells them\n"), std::string::npos);
  EXPECT_EQ(write_findings(report, 80, 5).find("more"), std::string::npos);
}

TEST(FindingReport, NothingFound) {
  EXPECT_EQ(write_findings({"node n", {}, {}}, 80, 0), "node n: nothing found\n");
}

TEST(FindingReport, StatusIsThatOfTheMostSevere) {
  std::vector<Finding> findings;
  EXPECT_EQ(findings_status(findings), 0);
  findings.push_back({"mig-multi-node", Severity::kInformation, "", "", ""});
  EXPECT_EQ(findings_status(findings), 0);
  findings.push_back({"leaf-uplinks", Severity::kWarning, "", "", ""});
  EXPECT_EQ(findings_status(findings), 1);
  findings.push_back(high("n"));
  findings.push_back({"mig-multi-node", Severity::kInformation, "", "", ""});
  EXPECT_EQ(findings_status(findings), 2);
}

TEST(FindingReport, HostileTextsStayText) {
  const std::string hostile = "\x1b[2J\r\n\x80x";
  FindingReport report = {hostile, {high(hostile)}, {hostile}};
  report.findings[0].evidence = report.findings[0].remedy = report.findings[0].rule = hostile;
  for (const char c : write_findings(report, 80, 0)) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
  // JSON keeps them, but for what is no UTF-8.
  const auto json = nlohmann::json::parse(findings_json(report));
  EXPECT_EQ(json["findings"][0]["place"], "\x1b[2J\r\n\xef\xbf\xbdx");
}

TEST(FindingReport, JsonHasAll) {
  const auto json = nlohmann::json::parse(findings_json({"f", {high("n1")}, {"note"}}));
  EXPECT_EQ(json["subject"], "f");
  EXPECT_EQ(json["high"], 1);
  EXPECT_EQ(json["warning"], 0);
  EXPECT_EQ(json["findings"][0]["severity"], "high");
  EXPECT_EQ(json["findings"][0]["rule"], "rail-missing");
  EXPECT_EQ(json["findings"][0]["remedy"], "look at its cable");
  EXPECT_EQ(json["notes"][0], "note");
}

TEST(TextTable, ColumnsAreAsWideAsTheirCells) {
  TextTable table;
  table.add({"A", "", "NAME"});
  table.add({"100", "", "x"});
  table.add({"2"});
  EXPECT_EQ(table.text("", {0}), "  A  NAME\n100  x\n  2\n");
  EXPECT_EQ(table.width(), 9);
}

TEST(TextTable, Texts) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("abcdefg", 2), "..");
  EXPECT_EQ(wrapped("", 10), (std::vector<std::string>{""}));
  EXPECT_EQ(wrapped("aa bb averylongword c", 5),
            (std::vector<std::string>{"aa bb", "averylongword", "c"}));
}

}  // namespace
}  // namespace mfu
