// mfu-report's CSV, JSON, page and metrics of groups: what stands in them, and that no text of
// others can break out of its place.
#include <gtest/gtest.h>

#include "plugin/report_trend.hh"
#include "tests/unit/report_group_samples.hh"

namespace mfu {
namespace {

using enum GroupBy;

std::vector<Job> hostile_jobs() {
  std::vector<Job> jobs = group_jobs();
  jobs[0].user = jobs[0].account = jobs[0].partition = jobs[0].name = kHostile;
  return jobs;
}

TableStyle csv(TableStyle style) {
  style.form = Form::kCsv;
  return style;
}

std::string page_of(const std::vector<Job>& jobs, const PageStyle& style = {}) {
  return text_of(jobs, [&](std::ostream& out) { return make_page(out, style); });
}

std::string metrics_of(const std::vector<Job>& jobs, const MetricsStyle& style) {
  return text_of(jobs, [&](std::ostream& out) { return make_metrics(out, style); });
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Csv, GroupsHaveNumbersThatAreNotRounded) {
  TableStyle style = csv(grouped({kUser}));
  style.columns =
      *parse_columns("user,jobs,gpu-hours,mfu,mfu-of,basis,wasted,hfu", Subject::kGroups);
  EXPECT_EQ(table_of(group_jobs(), style),
            "user,jobs,gpu_hours,mfu,mfu_coverage,basis,wasted_gpu_hours,hfu\r\n"
            "alice,2,24,0.36363636363636365,0.9444444444444444,gemm,7.611111111111111,\r\n"
            "bob,1,4,,0,,,\r\n");
  // Without a choice all columns.
  const std::string all = table_of(group_jobs(), csv(grouped({kUser})));
  EXPECT_EQ(count_of(lines_of(all)[0], ","), group_columns().size() - kGroupBys);
}

TEST(Csv, TextsAreQuotedAndNoFormulas) {
  TableStyle style = csv({});
  style.columns = *parse_columns("jobid,name,mfu,user", Subject::kRows);
  style.bare = true;
  std::vector<Job> jobs = {hostile_jobs()[0], group_jobs()[2]};
  jobs[1].name = "-x, \"y\"";
  EXPECT_EQ(table_of(jobs, style),
            "1,\"'=1?</td><script>alert(1)</script>\"\"'&?[2J?,\\\",50.0%,"
            "\"'=1?</td><script>alert(1)</script>\"\"'&?[2J?,\\\"\r\n"
            "3,\"'-x, \"\"y\"\"\",,bob\r\n");
  jobs[1].user = "+1";
  style.columns = *parse_columns("user", Subject::kRows);
  EXPECT_EQ(lines_of(table_of(jobs, style))[1], "'+1\r");
}

// The WHY of a job with an MFU. A standard library that checks its callers aborts where a byte of
// it is read.
TEST(Csv, AnEmptyTextIsAnEmptyCell) {
  TableStyle style = csv({});
  style.columns = *parse_columns("jobid,why,mfu", Subject::kRows);
  style.bare = true;
  EXPECT_EQ(table_of({group_jobs()[0]}, style), "1,,50.0%\r\n");
}

TEST(GroupJson, FiguresDefinitionsAndTotals) {
  const auto json = json_of(hostile_jobs(), grouped({kUser, kGpu}));
  EXPECT_EQ(json["format"], "mfu-report-groups/1");
  EXPECT_EQ(json["by"], nlohmann::json({"user", "gpu"}));
  ASSERT_EQ(json["groups"].size(), 3u);
  EXPECT_EQ(json["groups"][0]["user"], "alice");
  EXPECT_EQ(json["groups"][0]["mfu"], 0.25);
  EXPECT_EQ(json["groups"][0]["mfu_coverage"], 1);
  EXPECT_EQ(json["groups"][0]["basis"], "gemm");
  EXPECT_EQ(json["groups"][1]["user"], kHostile);
  EXPECT_EQ(json["groups"][2]["gpu"], nullptr);
  EXPECT_EQ(json["groups"][2]["mfu"], nullptr);
  EXPECT_EQ(json["groups"][2]["wasted_gpu_hours"], nullptr);
  EXPECT_EQ(json["groups"][2]["unknown_gpu_hours"], 4);
  EXPECT_EQ(json["totals"]["gpu_hours"], 28);
  EXPECT_EQ(json["totals"]["jobs_left_out"], 1);
  for (const auto& [key, value] : json["groups"][0].items()) {
    EXPECT_TRUE(key == "user" || key == "gpu" || json["definitions"].contains(key)) << key;
  }
  EXPECT_TRUE(json_of({}, grouped({kUser}))["groups"].empty());
}

TEST(Metrics, OfTheGroups) {
  const std::string text = metrics_of(group_jobs(), {.by = {kUser, kAccount}, .now = 1700000000});
  for (const char* line : {"# TYPE mfu_report_mfu_ratio gauge\n",
                           "\nmfu_report_mfu_ratio{user=\"alice\",account=\"ml\",basis=\"gemm\"} "
                           "0.36363636363636365\n",
                           "\nmfu_report_mfu_gpu_seconds{user=\"alice\",account=\"ml\"} 81600\n",
                           "\nmfu_report_gpu_seconds{user=\"bob\",account=\"ml\"} 14400\n",
                           "\nmfu_report_wasted_gpu_seconds{user=\"alice\",account=\"ml\"} 27400\n",
                           "\nmfu_report_unknown_gpu_seconds{user=\"bob\",account=\"ml\"} 14400\n",
                           "\nmfu_report_model_flops{user=\"alice\",account=\"ml\"} 1.92e+19\n",
                           "\nmfu_report_groups_summed_up 0\n",
                           "\nmfu_report_last_run_timestamp_seconds 1700000000\n"}) {
    EXPECT_NE(text.find(line), text.npos) << line << text;
  }
  // Unknown is no sample.
  EXPECT_EQ(text.find("mfu_report_mfu_ratio{user=\"bob\""), text.npos);
  EXPECT_EQ(text.find("mfu_report_wasted_gpu_seconds{user=\"bob\""), text.npos);
}

TEST(Metrics, AreBounded) {
  std::vector<Job> jobs;
  for (int i = 0; i < 10; ++i) {
    jobs.push_back(job_of(std::to_string(i + 1), 1, static_cast<uint64_t>(100 + i), ""));
    jobs.back().user = "user" + std::to_string(i);
  }
  const std::string text = metrics_of(jobs, {.by = {kUser, kAccount}, .most_groups = 3});
  EXPECT_EQ(count_of(text, "\nmfu_report_gpu_seconds{"), 4u);
  EXPECT_NE(text.find("mfu_report_gpu_seconds{user=\"user9\",account=\"ml\"} 109\n"), text.npos);
  EXPECT_NE(text.find("mfu_report_gpu_seconds{user=\"_other\",account=\"_other\"} 721\n"),
            text.npos);
  EXPECT_NE(text.find("mfu_report_groups_summed_up 7\n"), text.npos);
}

TEST(Metrics, LabelsOfOthersAreEscaped) {
  const std::string text = metrics_of(hostile_jobs(), {.by = {kUser}});
  EXPECT_NE(text.find("{user=\"=1|</td><script>alert(1)</script>\\\"'&\xef\xbf\xbd[2J\\n,\\\\\"}"),
            text.npos)
      << text;
}

// The names of jobs with a user each, and the labels that they get.
std::vector<std::string> labels_of(const std::vector<std::string>& users) {
  std::vector<Job> jobs;
  for (const std::string& user : users) {
    // Each with more GPU time than the next one.
    jobs.push_back(job_of(std::to_string(jobs.size()), 1, 1000 - jobs.size(), ""));
    jobs.back().user = user;
  }
  std::vector<std::string> labels;
  for (const std::string& line : lines_of(metrics_of(jobs, {.by = {kUser}}))) {
    if (line.starts_with("mfu_report_jobs{")) labels.push_back(line.substr(16));
  }
  return labels;
}

TEST(Metrics, DifferentNamesAreDifferentSeries) {
  EXPECT_EQ(labels_of({"projet-\xc3\xa9", "projet-\xc3\xa8", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}),
            (std::vector<std::string>{"user=\"projet-\xc3\xa9\"} 1", "user=\"projet-\xc3\xa8\"} 1",
                                      "user=\"\xe2\x82\xac\"} 1", "user=\"\xf0\x9f\x98\x80\"} 1"}));
}

// Not the first byte of a character, one that is too long, half a surrogate, beyond the last
// character, a character that was cut off.
TEST(Metrics, WhatIsNoUtf8IsReplaced) {
  const std::string no = "\xef\xbf\xbd";
  const auto label = [](const std::string& text) { return "user=\"" + text + "\"} 1"; };
  EXPECT_EQ(labels_of({"a\x80z", "\xc0\xafz", "\xe0\x80\xafy", "\xed\xa0\x80x", "\xf4\x90\x80\x80w",
                       "\xf5v", "u\xe2\x82", "\xc2\x85t", "\x7fs"}),
            (std::vector<std::string>{label("a" + no + "z"), label(no + no + "z"),
                                      label(no + no + no + "y"), label(no + no + no + "x"),
                                      label(no + no + no + no + "w"), label(no + "v"),
                                      label("u" + no + no), label(no + "t"), label(no + "s")}));
}

// Prometheus refuses a file with one series twice.
TEST(Metrics, NamesThatBecomeTheSameAreOneSeries) {
  std::vector<Job> jobs = {job_of("1", 1, 100, ""), job_of("2", 1, 10, ""), job_of("3", 1, 1, "")};
  jobs[0].user = "a\xff";
  jobs[1].user = "b";
  jobs[2].user = "a\xfe";
  const std::string text = metrics_of(jobs, {.by = {kUser}, .most_groups = 1});
  EXPECT_NE(text.find("mfu_report_gpu_seconds{user=\"a\xef\xbf\xbd\"} 101\n"), text.npos) << text;
  EXPECT_NE(text.find("mfu_report_jobs{user=\"a\xef\xbf\xbd\"} 2\n"), text.npos);
  EXPECT_NE(text.find("mfu_report_gpu_seconds{user=\"_other\"} 10\n"), text.npos);
  EXPECT_NE(text.find("mfu_report_groups_summed_up 1\n"), text.npos);
}

TEST(Metrics, NobodysNameIsThatOfTheOthers) {
  EXPECT_EQ(
      labels_of({"_other", "__other", "other", "_another", "_others"}),
      (std::vector<std::string>{"user=\"__other\"} 1", "user=\"___other\"} 1", "user=\"other\"} 1",
                                "user=\"_another\"} 1", "user=\"_others\"} 1"}));
}

TEST(Page, HasTheFiguresWithTheirShareAndBasis) {
  const std::string page = page_of(group_jobs(), {.by = {kUser}});
  for (const char* part :
       {"<b>28.0</b><span>GPU-hours allocated</span>",
        "<b>36.4%</b><span>MFU (gemm)</span><span>of 80.9% of the GPU-hours</span>",
        "<b>7.6</b><span>GPU-hours wasted</span>", "<b>4.3</b><span>GPU-hours not known</span>",
        "<td class=\"left\">alice</td><td class=\"bar\">",
        "<td>7.6</td><td>0.3</td><td>2</td><td>24.0</td>"
        "<td>36.4% <span class=\"soft\">94.4%</span></td>",
        "3 jobs, 1 more without GPUs or time", "<h2>By user</h2>",
        "<h2>Jobs that wasted most GPU-hours</h2>", "<dt>WASTED</dt>"}) {
    EXPECT_NE(page.find(part), page.npos) << part;
  }
  EXPECT_EQ(page_of(group_jobs()).find("<h2>By gpu</h2>") == std::string::npos, false);
}

// The titles of the table under a heading.
std::string titles_of(std::string_view page, const std::string& heading) {
  std::string titles;
  const size_t start = page.find("<h2>" + heading + "</h2>");
  if (start == page.npos) return titles;
  const size_t end = page.find("</thead>", start);
  for (size_t at = page.find("<th ", start); at < end; at = page.find("<th ", at + 1)) {
    const size_t text = page.find('>', at) + 1;
    if (!titles.empty()) titles += '|';
    titles += page.substr(text, page.find('<', text) - text);
  }
  return titles;
}

TEST(Page, WhatItIsAboutStandsInFront) {
  const std::string page = page_of(group_jobs());
  EXPECT_EQ(
      titles_of(page, "By user"),
      "user|used, wasted, unknown|WASTED|UNKNOWN|JOBS|GPU-HOURS|MFU of|BASIS|COMM|IDLE|TIME-OF|"
      "PEAK-HOURS");
  EXPECT_EQ(titles_of(page, "Jobs that wasted most GPU-hours"),
            "job|name|user|state|used, wasted, unknown|WASTED|GPU-HOURS|MFU of|IDLE of|WHY");
}

TEST(Page, WhyIsOfAJobsLastRun) {
  Comment without = step_of({28'000, 1'000, 0, 0, 0, 0});
  without.no_mfu = "no-flops";
  Job first = group_jobs()[0];
  Comment line;
  merge_step(&line, without, 0);
  line.run = 1;
  Job last = job_of("1", 8, 3600, format_comment(line));
  last.start = last.end = first.end + 100;
  const std::string why = "<td class=\"why\">";
  EXPECT_NE(page_of({first}).find(why + "-</td>"), std::string::npos);
  EXPECT_NE(page_of({last}).find(why + "no-flops</td>"), std::string::npos);
  EXPECT_NE(page_of({first, last}).find(why + "no-flops</td>"), std::string::npos);
  // A line that Slurm has handed on is none.
  last.comment = first.comment;
  EXPECT_NE(page_of({first, last}).find(why + "no line</td>"), std::string::npos);
}

TEST(Page, NothingOfOthersIsMarkup) {
  std::vector<Job> jobs = hostile_jobs();
  jobs[0].state = jobs[0].id = kHostile;
  const std::string page = page_of(jobs);
  EXPECT_NE(page.find("&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;?[2J?,"),
            page.npos);
  EXPECT_EQ(page.find("<script"), page.npos);
  EXPECT_EQ(page.find("http"), page.find("http-equiv"));  // and no address
  for (const char byte : page) EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~'));
}

TEST(Page, TrendIsOfThePeriodThatFits) {
  std::vector<Job> jobs(3, group_jobs()[0]);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].id = std::to_string(i);
    jobs[i].end += static_cast<time_t>(i) * 86'400;
  }
  EXPECT_NE(page_of(jobs).find("<h2>By day</h2>"), std::string::npos);
  // The third day apart from the others: a line of two, and one mark.
  jobs[2].end += 5 * 86'400;
  std::string page = page_of(jobs);
  EXPECT_EQ(count_of(page, "<circle class=\"mfu full\""), 3u);
  EXPECT_EQ(count_of(page, "<polyline class=\"mfu\""), 2u);
  jobs[2].end += 200 * 86'400;
  EXPECT_NE(page_of(jobs).find("<h2>By week</h2>"), std::string::npos);
  jobs[2].end += time_t{3000} * 86'400;
  EXPECT_NE(page_of(jobs).find("<h2>By month</h2>"), std::string::npos);
}

TEST(Page, AxesEndJustAboveWhatTheyAreOf) {
  struct Case {
    double most, step;
    int steps;
  };
  for (const auto& [most, step, steps] : {Case{280, 100, 3},
                                          {250, 50, 5},
                                          {251, 100, 3},
                                          {1, 0.2, 5},
                                          {0.3, 0.1, 3},
                                          {11, 2.5, 5},
                                          {100, 20, 5},
                                          {52.1, 20, 3},
                                          {1.2e6, 250e3, 5},
                                          {0, 0.02, 5}}) {
    const Axis axis = axis_to(most);
    EXPECT_NEAR(axis.step, step, step * 1e-9) << most;
    EXPECT_EQ(axis.steps, steps) << most;
    EXPECT_GE(axis.top() * (1 + 1e-9), most);
  }
  // 280 and 100 GPU-hours on two days.
  std::vector<Job> jobs = {job_of("1", 280, 3600, ""), job_of("2", 100, 3600, "")};
  jobs[1].end += 86'400;
  const std::string page = page_of(jobs);
  for (const char* tick : {">0 h<", ">100 h<", ">200 h<", ">300 h<", ">0%<"}) {
    EXPECT_EQ(count_of(page, tick), 1u) << tick;
  }
  EXPECT_EQ(count_of(page, " h</text>"), 4u);
}

TEST(Page, OnlyTheJobsThatWastedMost) {
  std::vector<Job> jobs;
  for (unsigned i = 1; i <= 100; ++i) {
    jobs.push_back(job_of(std::to_string(i), 8, 1000,
                          line_of_step(step_of({8'000, 7'000 - 10 * i, 0, 0, 50, 1000}))));
    jobs.back().name = "name" + std::to_string(i);
  }
  const std::string page = page_of(jobs);
  EXPECT_EQ(count_of(page, "<td class=\"left\">name"), 25u);
  EXPECT_LT(page.find(">name100<"), page.find(">name99<"));
  EXPECT_NE(page.find(">name76<"), page.npos);
  EXPECT_EQ(page.find(">name75<"), page.npos);
  EXPECT_EQ(count_of(page_of({}), "<svg"), 0u);
}

}  // namespace
}  // namespace mfu
