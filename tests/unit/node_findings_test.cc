// A node's findings in a fixed size.
#include "plugin/node_findings.hh"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace mfu {
namespace {

Finding finding(const std::string& rule, Severity severity) {
  return {rule, severity, "n1", "evidence of " + rule, "mend " + rule};
}

std::vector<std::string> rules(const NodeFindings& top) {
  std::vector<std::string> names;
  for (const Finding& found : top.findings()) names.push_back(found.rule);
  return names;
}

using Rules = std::vector<std::string>;

TEST(NodeFindings, NothingComesOfNothing) {
  const NodeFindings top = top_findings({});
  EXPECT_EQ(top.fault(), nullptr);
  EXPECT_TRUE(top.findings().empty());
  EXPECT_EQ(top.left_out, 0u);
}

TEST(NodeFindings, ComeBackAsTheyWere) {
  const std::vector<Finding> all = {finding("nic-down", Severity::kHigh),
                                    {"gpu-order", Severity::kWarning, "n1 rank 3", "", ""}};
  const NodeFindings top = top_findings(all);
  EXPECT_EQ(top.fault(), nullptr);
  EXPECT_EQ(top.findings(), all);
}

TEST(NodeFindings, TheMostSevereFirstAndInformationWhereThereIsRoom) {
  std::vector<Finding> all = {finding("i1", Severity::kInformation),
                              finding("w1", Severity::kWarning), finding("h1", Severity::kHigh),
                              finding("w2", Severity::kWarning)};
  EXPECT_EQ(rules(top_findings(all)), (Rules{"h1", "w1", "w2", "i1"}));
  EXPECT_EQ(top_findings(all).left_out, 0u);
  all.push_back(finding("h2", Severity::kHigh));
  EXPECT_EQ(rules(top_findings(all)), (Rules{"h1", "h2", "w1", "w2"}));
  EXPECT_EQ(top_findings(all).left_out, 1u);
}

TEST(NodeFindings, LongTextsEndBehindAWord) {
  EXPECT_EQ(cut_text("one two three", 13), "one two three");
  EXPECT_EQ(cut_text("one two three", 12), "one two...");
  EXPECT_EQ(cut_text("one two three", 10), "one two...");
  EXPECT_EQ(cut_text("one two three", 9), "one...");
  EXPECT_EQ(cut_text("abcdefghijklm", 9), "abcdef...");
  EXPECT_EQ(cut_text("a bcdefghijklm", 9), "a bcde...");
  EXPECT_EQ(cut_text("abc", 2), "ab");
  EXPECT_EQ(cut_text("", 0), "");
  const std::string words(300, 'x');
  const Finding long_one = {"rule", Severity::kHigh, words, "word " + words, words + " end"};
  const NodeFindings top = top_findings(std::vector{long_one});
  EXPECT_EQ(top.fault(), nullptr);
  const Finding cut = top.findings()[0];
  EXPECT_EQ(cut.place, std::string(kMostPlace - 3, 'x') + "...");
  EXPECT_EQ(cut.evidence.size(), kMostEvidence);
  EXPECT_EQ(cut.remedy.size(), kMostRemedy);
  EXPECT_EQ(fit_finding(cut), cut);  // what fits stays
}

TEST(NodeFindings, ForeignBytesAreMadeToFit) {
  const Finding odd = {"Rule of\t1", Severity::kHigh, "n\n1", "\x1b[31m\x80",
                       std::string("\0x", 2)};
  const NodeFindings top = top_findings(std::vector{odd});
  EXPECT_EQ(top.fault(), nullptr);
  EXPECT_EQ(top.findings()[0], (Finding{"-ule-of-1", Severity::kHigh, "n?1", "?[31m?", "?x"}));
  EXPECT_EQ(top_findings(std::vector{Finding{}}).fault(), nullptr);
}

TEST(NodeFindings, APeersBytesAreChecked) {
  const NodeFindings sound = top_findings(
      std::vector{finding("nic-down", Severity::kHigh), finding("gpu-order", Severity::kWarning)});
  const auto fault = [&](auto&& change) {
    NodeFindings changed = sound;
    change(&changed);
    return std::string(changed.fault() == nullptr ? "" : changed.fault());
  };
  using Top = NodeFindings*;
  EXPECT_EQ(fault([](Top) {}), "");
  EXPECT_EQ(fault([](Top top) { top->count = NodeFindings::kMost + 1; }), "findings");
  EXPECT_EQ(fault([](Top top) { top->left_out = 2; }), "findings");
  EXPECT_EQ(fault([](Top top) { top->items[1].severity = 3; }), "severity");
  EXPECT_EQ(fault([](Top top) { top->items[0].rule[0] = '\0'; }), "rule");
  EXPECT_EQ(fault([](Top top) { top->items[1].rule[2] = '|'; }), "rule");
  EXPECT_EQ(fault([](Top top) { std::memset(top->items[0].rule, 'x', 32); }), "rule");
  EXPECT_EQ(fault([](Top top) { std::memset(top->items[0].place, 'x', 96); }), "finding's text");
  EXPECT_EQ(fault([](Top top) { std::memset(top->items[0].evidence, 'x', 192); }),
            "finding's text");
  EXPECT_EQ(fault([](Top top) { top->items[1].remedy[0] = '\n'; }), "finding's text");
  EXPECT_EQ(fault([](Top top) { top->items[3].remedy[0] = '\n'; }), "");  // nobody reads it
}

TEST(NodeFindings, PropertyWhateverIsFoundIsSound) {
  std::mt19937 random(5);
  const auto text = [&](size_t most) {
    std::string bytes(random() % (most + 1), ' ');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? ' ' : random());
    return bytes;
  };
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<Finding> all(random() % 8);
    for (Finding& found : all) {
      found = {text(40), static_cast<Severity>(random() % 3), text(120), text(250), text(250)};
    }
    const NodeFindings top = top_findings(all);
    ASSERT_EQ(top.fault(), nullptr);
    EXPECT_EQ(top.left_out != 0, all.size() > NodeFindings::kMost);
    for (const Finding& found : top.findings()) EXPECT_EQ(fit_finding(found), found);
  }
}

}  // namespace
}  // namespace mfu
