#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// A line of `gpus` H100 for `seconds`, at the given MFU in permille; 0: no FLOPs declared.
std::string line_of(uint32_t gpus, uint64_t seconds, unsigned permille) {
  Comment step;
  step.gpus = gpus;
  step.gpu = "H100-SXM";
  Sums& sums = step.sums;
  sums.elapsed_ns = uint128{gpus} * seconds * 1'000'000'000;
  sums.attributed_ns = sums.elapsed_ns;
  sums.compute_ns = sums.elapsed_ns * 782 / 1000;
  sums.exposed_communication_ns = sums.elapsed_ns * 121 / 1000;
  sums.overlapped_communication_ns = sums.elapsed_ns * 93 / 1000;
  sums.exposed_memory_ns = sums.elapsed_ns * 2 / 1000;
  if (permille != 0) {
    step.peak_gigaflops = 989400;
    step.precision = Precision::kBf16;
    sums.flops_ns = sums.elapsed_ns;
    sums.capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
    sums.model_flops = sums.capacity_flop / 1000 * permille;
  }
  Comment job;
  merge_step(&job, step, 0);
  return format_comment(job);
}

Job job_of(std::string id, uint64_t gpus, uint64_t seconds, std::string comment) {
  Job job;
  job.id = std::move(id);
  job.name = "train";
  job.user = "alice";
  job.account = "ml";
  job.partition = "gpu";
  job.state = "COMPLETED";
  job.start = 1700000000;
  job.end = 1700000000 + static_cast<time_t>(seconds);
  job.elapsed_seconds = seconds;
  job.nodes = 1;
  job.gpus = gpus;
  job.comment = std::move(comment);
  return job;
}

std::string table_of(const std::vector<Job>& jobs, TableStyle style = {}) {
  std::ostringstream out;
  write_table(out, jobs, style);
  return out.str();
}

nlohmann::json json_of(const std::vector<Job>& jobs) {
  std::ostringstream out;
  write_json(out, jobs, "admin_comment");
  return nlohmann::json::parse(out.str());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, ColumnsAreAlignedAndTotalsAreExact) {
  EXPECT_EQ(
      table_of({job_of("12_3", 8, 7200, "note " + line_of(8, 7200, 519) + " more"),
                job_of("9", 16, 93784, line_of(16, 93784, 0)),
                job_of("10", 8, 7200, line_of(8, 7200, 319)), job_of("11", 0, 5, "")}),
      "JOBID  NAME   USER   ACCOUNT  PARTITION  STATE         ELAPSED  NODES  GPUS    MFU  "
      "COMPUTE        COMM   MEM  IDLE          COVER  WHY\n"
      " 12_3  train  alice  ml       gpu        COMPLETED    02:00:00      1     8  51.9%  "
      "  78.2%  12.1%+9.3%  0.2%  9.5%  100.0%/100.0%\n"
      "    9  train  alice  ml       gpu        COMPLETED  1-02:03:04      1    16      -  "
      "  78.2%  12.1%+9.3%  0.2%  9.5%    0.0%/100.0%  no-flops\n"
      "   10  train  alice  ml       gpu        COMPLETED    02:00:00      1     8  31.9%  "
      "  78.2%  12.1%+9.3%  0.2%  9.5%  100.0%/100.0%\n"
      "   11  train  alice  ml       gpu        COMPLETED    00:00:05      1     0      -  "
      "      -           -     -     -              -  no line\n"
      "\n"
      "4 jobs, 2 with MFU; 448.8 GPU-hours, 416.8 of them without MFU; MFU 41.9%, weighted by "
      "GPU time and peak\n");
}

TEST(Table, Styles) {
  const std::vector<Job> jobs = {job_of("1", 8, 10, "")};
  EXPECT_EQ(table_of(jobs, {.bare = true}),
            "1  train  alice  ml  gpu  COMPLETED  00:00:10  1  8  -  -  -  -  -  -  -  no line\n");
  EXPECT_EQ(table_of(jobs, {.bars = true, .bare = true}),
            "1|train|alice|ml|gpu|COMPLETED|00:00:10|1|8|-|-|-|-|-|-|-|no line\n");
  EXPECT_EQ(lines_of(table_of(jobs, {.bars = true})).size(), 2U);
}

TEST(Table, ForeignTextCannotBreakIt) {
  Job job = job_of("1", 8, 10, "\x1b]0;owned\a mfu/1 mfu=\x1b[31m99%\n");
  job.name = "a|b\n\x1b[2J\xc3\xa9 a very long name";
  job.user = "";
  const std::string text = table_of({job});
  for (const char byte : text) EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~'));
  EXPECT_EQ(lines_of(text).size(), 4U);
  EXPECT_NE(text.find("  a?b??[2J?? a ve+  -     "), std::string::npos) << text;
  EXPECT_NE(text.find("broken line: byte 6: not a key=value token"), std::string::npos) << text;
  const std::string bars = table_of({job}, {.bars = true, .bare = true});
  EXPECT_EQ(std::count(bars.begin(), bars.end(), '|'), 16);
}

TEST(Table, SaysWhy) {
  Comment step;
  step.gpus = 1;
  step.no_mfu = "no-flops";
  step.no_time = "denied";
  step.partial = "node-lost";
  step.sums.elapsed_ns = 1000;
  Comment job;
  ASSERT_TRUE(show_running(&job, step, 0));
  Job row = job_of("1", 1, 1, format_comment(job));
  row.end = 0;
  EXPECT_NE(table_of({row}).find("no-flops; time: denied; partial: node-lost; running"),
            std::string::npos);
  row.end = 1;
  EXPECT_NE(table_of({row}).find("partial: node-lost; interim"), std::string::npos);
}

TEST(Json, EveryFigureOrNullWithAReason) {
  const std::string line = line_of(8, 7200, 519);
  const nlohmann::json json =
      json_of({job_of("12_3", 8, 7200, "note " + line), job_of("9", 16, 100, line_of(16, 100, 0)),
               job_of("11", 4, 5, "hello"), job_of("13", 4, 5, line.substr(0, line.size() - 1))});
  EXPECT_EQ(json["format"], "mfu-report/1");
  EXPECT_EQ(json["field"], "admin_comment");
  const auto& jobs = json["jobs"];
  ASSERT_EQ(jobs.size(), 4U);

  EXPECT_EQ(jobs[0]["job_id"], "12_3");
  EXPECT_EQ(jobs[0]["line"], line);
  EXPECT_EQ(jobs[0]["mfu"], 0.519);
  EXPECT_TRUE(jobs[0]["mfu_reason"].is_null());
  EXPECT_EQ(jobs[0]["basis"], "model");
  EXPECT_EQ(jobs[0]["peak_tflops"], 989.4);
  EXPECT_EQ(jobs[0]["precision"], "bf16");
  EXPECT_EQ(jobs[0]["sums"]["elapsed_ns"], "57600000000000");
  EXPECT_EQ(jobs[0]["sums"]["capacity_flop"], "56989440000000000000");
  EXPECT_EQ(jobs[0]["steps_merged"], "0");

  EXPECT_TRUE(jobs[1]["mfu"].is_null());
  EXPECT_EQ(jobs[1]["mfu_reason"], "no-flops");
  EXPECT_EQ(jobs[1]["compute"], 0.782);
  EXPECT_TRUE(jobs[1]["basis"].is_null());
  EXPECT_TRUE(jobs[1]["peak_tflops"].is_null());

  EXPECT_TRUE(jobs[2]["line"].is_null());
  EXPECT_EQ(jobs[2]["mfu_reason"], "no line");
  EXPECT_TRUE(jobs[2]["sums"].is_null());
  EXPECT_EQ(jobs[3]["line_fault"].get<std::string>().substr(0, 18), "broken line: byte ");

  EXPECT_EQ(json["totals"]["jobs"], 4);
  EXPECT_EQ(json["totals"]["jobs_with_mfu"], 1);
  EXPECT_EQ(json["totals"]["gpu_seconds"], "59240");
  EXPECT_EQ(json["totals"]["gpu_seconds_without_mfu"], "1640");
  EXPECT_EQ(json["totals"]["mfu"], 0.519);
}

TEST(Json, EveryJobHasTheSameKeys) {
  const nlohmann::json json = json_of(
      {job_of("1", 1, 1, line_of(1, 1, 500)), job_of("2", 1, 1, ""), job_of("3", 1, 1, "mfu/1 x")});
  std::set<std::vector<std::string>> shapes;
  for (const auto& job : json["jobs"]) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : job.items()) keys.push_back(key);
    shapes.insert(keys);
  }
  EXPECT_EQ(shapes.size(), 1U);
}

TEST(Json, NoJobs) {
  const nlohmann::json json = json_of({});
  EXPECT_TRUE(json["jobs"].empty());
  EXPECT_TRUE(json["totals"]["mfu"].is_null());
}

TEST(Json, ForeignBytesStayJson) {
  Job job = job_of("1", 1, 1, "mfu/1 \xff\xfe\"\\\x01");
  job.name = "\xc3\xa9\xff\"\n";
  const nlohmann::json json = json_of({job});
  EXPECT_EQ(json["jobs"][0]["name"], "\xc3\xa9\xef\xbf\xbd\"\n");
}

TEST(Totals, AreExactWhereADoubleIsNot) {
  const std::string line = line_of(16384, 2'592'000, 400);
  Totals totals;
  const auto comment = read_field(line).line;
  ASSERT_TRUE(comment);
  Job job = job_of("1", 16384, 2'592'000, line);
  for (int i = 0; i < 1000; ++i) totals.add(job, comment);
  EXPECT_TRUE(totals.model_flops == 1000 * comment->sums.model_flops);
  EXPECT_NEAR(totals.mfu(), 0.4, 1e-12);
}

TEST(Field, ALineThatWasCutOffIsToldFromNone) {
  EXPECT_EQ(read_field("").fault, "no line");
  EXPECT_EQ(read_field("JS1:Short").fault, "no line");
  EXPECT_EQ(read_field("xmfu/1 mfu=1").fault, "no line");
  EXPECT_EQ(read_field("note mfu/1 mfu=1").text, "mfu/1 mfu=1");
  EXPECT_EQ(read_field("mfu/1 mfu=1%").fault,
            "broken line: byte 12: the line is cut off: it must end with sum=");
}

TEST(JobIds, EveryForm) {
  using Ids = std::vector<JobId>;
  EXPECT_EQ(*parse_job_ids("12"), (Ids{{12, {}}}));
  EXPECT_EQ(*parse_job_ids("12,13"), (Ids{{12, {}}, {13, {}}}));
  EXPECT_EQ(*parse_job_ids("12_0"), (Ids{{12, 0}}));
  EXPECT_EQ(*parse_job_ids("12_[1-3,7],13"), (Ids{{12, 1}, {12, 2}, {12, 3}, {12, 7}, {13, {}}}));
  for (const char* text :
       {"", "0", "x", "12,", ",12", "12_", "12_[", "12_[]", "12_[1", "12_[3-1]", "12_[1-]", "12 ",
        "-1", "4294967296", "12_[0-4294967295]", "12_4294967295", "12.0", "12_[1-2]x"}) {
    EXPECT_FALSE(parse_job_ids(text)) << text;
  }
  std::string many = "1_[0-99999]";
  EXPECT_TRUE(parse_job_ids(many));
  EXPECT_FALSE(parse_job_ids(many + ",2"));
}

TEST(JobIds, HostileTextNeverCrashes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t count = random() % 16; count > 0; --count)
      text += "0123456789_[],-x"[random() % 16];
    parse_job_ids(text);
  }
}

}  // namespace
}  // namespace mfu
