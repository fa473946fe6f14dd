#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "tests/unit/report_samples.hh"

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
    step.peak_basis = PeakBasis::kTable;
    step.basis = Basis::kModel;
    sums.flops_ns = sums.elapsed_ns;
    sums.capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
    sums.model_flops = sums.capacity_flop / 1000 * permille;
  }
  Comment job;
  merge_step(&job, step, 0);
  return format_comment(job);
}

constexpr uint128 kMs = 1'000'000;

// A line with every figure: 4 MIG slices for 1000 s.
std::string full_line() {
  Comment step;
  step.gpus = 4;
  step.gpu = "A100-SXM";
  step.peak_gigaflops = 133700;
  step.precision = Precision::kBf16;
  step.peak_basis = PeakBasis::kMig;
  step.basis = Basis::kGemm;
  step.steps_by = StepsBy::kPeriod;
  step.slowest = 3;
  step.clock_limit_mhz = 1980;
  step.clock_reason = "power";
  Sums& sums = step.sums;
  const uint128 ms = 4'000'000;  // of all GPUs
  sums.elapsed_ns = sums.attributed_ns = sums.flops_ns = ms * kMs;
  sums.compute_ns = sums.elapsed_ns / 2;
  sums.capacity_flop = sums.executed_capacity_flop = sums.elapsed_ns * step.peak_gigaflops;
  sums.model_flops = sums.capacity_flop / 2;
  sums.executed_flops = sums.capacity_flop / 10 * 6;
  sums.executed_ns = sums.elapsed_ns;
  sums.kernel_ms = ms / 2;
  sums.counted_ms = ms / 100 * 45;
  sums.training_steps = 800;
  sums.training_ns = 800 * 1000 * kMs;
  sums.training_gpu_ms = 4 * 800 * 1000;
  sums.collective_ns = 1000;
  sums.wait_ns = 120;
  sums.energy_j = 4 * 1000 * 612;
  sums.energy_ms = ms;
  sums.clock_megacycles = 4 * 1000 * uint128{1755};
  sums.clock_ms = ms;
  sums.tensor_active_ms = ms / 4;
  sums.tensor_ms = ms;
  sums.read_mb = 4 * 1000 * 120;
  sums.written_mb = 4 * 1000 * 30;
  sums.io_ms = ms;
  sums.productive_ms = ms / 10 * 8;
  sums.writing_ms = ms / 10;
  sums.start_up_ms = ms / 20;
  sums.tail_ms = ms / 20;
  return line_of_step(step);
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
            "1  train  alice  ml  gpu  COMPLETED  00:00:10  1  8  -  -  -  -  -  -  -  -  -  -  "
            "no line\n");
  EXPECT_EQ(table_of(jobs, {.form = Form::kBars, .bare = true}),
            "1|train|alice|ml|gpu|COMPLETED|00:00:10|1|8|-|-|-|-|-|-|-|-|-|-|no line\n");
  EXPECT_EQ(lines_of(table_of(jobs, {.form = Form::kBars})).size(), 2U);
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
  const std::string bars = table_of({job}, {.form = Form::kBars, .bare = true});
  EXPECT_EQ(std::count(bars.begin(), bars.end(), '|'), 19);
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

std::string cells_of(const Job& job, std::string_view columns) {
  const auto chosen = parse_columns(columns, Subject::kRows);
  return table_of({job}, {.form = Form::kBars, .bare = true, .columns = chosen.value()});
}

TEST(Columns, EveryFigureOfTheLine) {
  const Job job = job_of("7", 4, 1000, full_line());
  EXPECT_EQ(cells_of(job, "mfu,hfu,basis,counted,gpu,peak,compute,idle,wait"),
            "50.0%|60.0%|gemm|90.0%|A100-SXM|133.7(bf16,mig)|50.0%|50.0%|12.0%(task3)\n");
  EXPECT_EQ(cells_of(job, "Steps,STEP,goodput,loss,power,energy"),
            "800(period)|1.00s|80.0%|checkpoint|612W|2.45kJ\n");
  EXPECT_EQ(cells_of(job, "clock,util,io,cover,run,partial"),
            "1755/1980(power)|25.0%|0.12+0.03GB/s|100.0%/100.0%|0|-\n");
  EXPECT_EQ(cells_of(job_of("7", 4, 1000, line_of(4, 1000, 0)),
                     "hfu,no-hfu,goodput,no-goodput,clock,energy,io"),
            "-|no-counts|-|no-steps|-|-|-\n");
  for (const auto& column : row_columns()) {
    if (column.title.starts_with("J")) continue;
    EXPECT_NE(cells_of(job_of("7", 4, 1000, ""), column.title), "\n") << column.title;
  }
}

TEST(Columns, AnEstimatedPeakAmongSeveralIsTold) {
  Comment step;
  step.gpus = 4;
  step.sums.elapsed_ns = 1000;
  step.peak_gigaflops = kMixedPeak;
  EXPECT_EQ(cells_of(job_of("7", 4, 1, line_of_step(step)), "peak"), "mixed\n");
  step.peak_basis = PeakBasis::kEstimated;
  const Job job = job_of("7", 4, 1, line_of_step(step));
  EXPECT_EQ(cells_of(job, "peak"), "mixed(estimated)\n");
  EXPECT_EQ(json_of({job})["jobs"][0]["peak_tflops"], "mixed");
  EXPECT_EQ(json_of({job})["jobs"][0]["peak_basis"], "estimated");
}

TEST(Columns, AreChosenByTitle) {
  const auto chosen = parse_columns("jobid,NAME%5,mfu", Subject::kRows);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->at(1).widest, 5u);
  const Job job = job_of("12", 8, 10, "");
  EXPECT_EQ(table_of({job}, {.bare = true, .columns = *chosen}), "12  train  -\n");
  EXPECT_EQ(*parse_columns("name%4", Subject::kRows), (std::vector<ChosenColumn>{{1, 4}}));
  EXPECT_EQ(table_of({job}, {.bare = true, .columns = {{1, 4}}}), "tra+\n");
  // Asked for, hence there, although no job fills it.
  EXPECT_EQ(lines_of(table_of({job}, {.columns = *parse_columns("hfu,why", Subject::kRows)}))[1],
            "  -  no line");
  EXPECT_EQ(parse_columns("mfu,gpuss", Subject::kRows).error().substr(0, 65),
            "there is no column 'gpuss'; those that there are: JOBID NAME USER");
  EXPECT_FALSE(parse_columns("restart", Subject::kRows));
  EXPECT_TRUE(parse_columns("restart", Subject::kGoodput));
  for (const char* text : {"", ",", "mfu,", "mfu%", "mfu%0", "mfu%-1", "mfu%x", "mfu%1x", "%",
                           "mfu%99999999999999999999", "mfu mfu", " mfu", "\x1b[2J"}) {
    EXPECT_FALSE(parse_columns(text, Subject::kRows)) << text;
  }
}

TEST(Columns, AreListed) {
  std::ostringstream out;
  write_columns(out, Subject::kRows);
  EXPECT_EQ(lines_of(out.str()).size(), row_columns().size());
  EXPECT_EQ(out.str().find("\nMFU         model FLOPs utilisation\n") == std::string::npos, false);
}

TEST(Json, SensorsAndGoodputOfARow) {
  const auto json = json_of({job_of("7", 4, 1250, full_line()), job_of("8", 4, 1, "")});
  const auto& job = json["jobs"][0];
  EXPECT_EQ(job["mfu"], 0.5);
  EXPECT_EQ(job["hfu"], 0.6);
  EXPECT_TRUE(job["hfu_reason"].is_null());
  EXPECT_EQ(job["basis"], "gemm");
  EXPECT_EQ(job["peak_basis"], "mig");
  EXPECT_EQ(job["counted_coverage"], 0.9);
  EXPECT_EQ(job["watts_per_gpu"], 612);
  EXPECT_EQ(job["joules_per_step"], 2448);
  EXPECT_EQ(job["energy_coverage"], 1);
  EXPECT_EQ(job["clock_mhz"], 1755);
  EXPECT_EQ(job["clock_limit_mhz"], 1980);
  EXPECT_EQ(job["clock_reason"], "power");
  EXPECT_EQ(job["tensor_activity"], 0.25);
  EXPECT_EQ(job["read_gb_per_s"], 0.12);
  EXPECT_EQ(job["written_gb_per_s"], 0.03);
  EXPECT_EQ(job["goodput"]["fraction"], 0.8);
  EXPECT_EQ(job["goodput"]["largest_loss"], "checkpoint");
  EXPECT_EQ(job["goodput"]["parts"]["tail_ns"], "200000000000");
  EXPECT_EQ(json["jobs"][1]["goodput"]["reason"], "no line");
  EXPECT_TRUE(json["jobs"][1]["goodput"]["parts"].is_null());
  EXPECT_TRUE(json["jobs"][1]["energy_coverage"].is_null());

  EXPECT_EQ(json["totals"]["energy_kwh"], 0.68);
  EXPECT_EQ(json["totals"]["energy_gpu_seconds"], "4000");
  // The allocation was 1250 s long, and that of the job without a line counts too.
  EXPECT_EQ(json["totals"]["goodput"]["fraction"], 3200.0 / 5004);
  EXPECT_EQ(json["totals"]["goodput"]["parts"]["outside_ns"], "1000000000000");
  EXPECT_EQ(json["totals"]["goodput"]["parts"]["unknown_ns"], "4000000000");
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
  for (int i = 0; i < 1000; ++i) totals.add(job, comment, figures(*comment));
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
