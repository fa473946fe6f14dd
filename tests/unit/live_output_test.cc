#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/live_textfile.hh"
#include "tests/unit/live_samples.hh"

namespace mfu {
namespace {

using namespace live_samples;
namespace fs = std::filesystem;
using Json = nlohmann::json;

LiveReading at(uint64_t seconds, std::vector<Record> records, uint32_t gpus = 2) {
  const uint64_t now_ns = kStart + seconds * kSecond;
  return reading({live(running(gpus), std::move(records), now_ns)}, now_ns);
}

LiveReading two_ranks(uint64_t seconds) {
  return at(seconds, {counting(process(0, seconds, 1), seconds, 300),
                      counting(process(1, seconds, 2), seconds, 300)});
}

std::string metrics(const LiveReading* before, const LiveReading& now) {
  std::ostringstream out;
  write_live_metrics(out, before, now);
  return out.str();
}

// Samples by "name{labels}". Fails where the text is not Prometheus's.
std::map<std::string, double> samples(const std::string& text) {
  static const std::regex sample(
      R"re(([a-z_]+)(\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\})? ([0-9.e+-]+))re");
  std::map<std::string, double> found;
  std::set<std::string> families;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << "twice: " << line;
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      const bool counter = family.ends_with("_total");
      EXPECT_EQ(line, "# TYPE " + family + (counter ? " counter" : " gauge"));
      continue;
    }
    std::smatch parts;
    if (!std::regex_match(line, parts, sample)) {
      ADD_FAILURE() << "no sample: " << line;
      continue;
    }
    EXPECT_EQ(parts[1], family);
    EXPECT_TRUE(found.emplace(parts[1].str() + parts[2].str(), std::stod(parts[6])).second)
        << "twice: " << line;
  }
  return found;
}

const std::string kStep = R"({jobid="12",step="0",node="n1"})";
const std::string kGpu =
    R"({jobid="12",step="0",node="n1",uuid="GPU-02000000-0000-0000-0000-000000000000",rank="1"})";
const std::string kPrecise = kGpu.substr(0, kGpu.size() - 1) + R"(,precision="bf16"})";
const std::string kCounted = kGpu.substr(0, kGpu.size() - 1) + R"(,precision="bf16",basis="gemm"})";

TEST(LiveMetrics, AreTheFiguresOfTheReading) {
  const LiveReading before = two_ranks(60);
  const LiveReading now = two_ranks(70);
  auto found = samples(metrics(&before, now));
  EXPECT_EQ(found["mfu_step_gpus" + kStep], 2);
  EXPECT_EQ(found["mfu_step_attributed_gpu_seconds_total" + kStep], 140);
  EXPECT_NEAR(found["mfu_step_mfu_ratio" + kStep], 300 * 60.0 / 70 / 989.4, 1e-9);
  EXPECT_EQ(found["mfu_step_peak_flops" + kStep], 989.4e12);
  EXPECT_EQ(found["mfu_step_training_steps_total" + kStep], 600);
  EXPECT_NEAR(found[R"(mfu_step_model_flops_total{jobid="12",step="0",node="n1",basis="gemm"})"],
              2 * 60 * 300e12, 1);
  EXPECT_EQ(
      found
          [R"(mfu_step_model_flops_gpu_seconds_total{jobid="12",step="0",node="n1",basis="gemm"})"],
      140);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_model_flops_total" + kCounted], 60 * 300e12);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_model_peak_flops_total" + kCounted], 70 * 989.4e12);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_executed_flops_total" + kPrecise], 60 * 300e12);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_executed_peak_flops_total" + kPrecise], 70 * 989.4e12);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_elapsed_seconds_total" + kGpu], 70);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_compute_seconds_total" + kGpu], 48);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_communication_exposed_seconds_total" + kGpu], 3);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_energy_joules_total" + kGpu], 35000);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_power_watts" + kGpu], 500);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_clock_hertz" + kGpu], 1.5e9);
  EXPECT_DOUBLE_EQ(found["mfu_gpu_temperature_celsius" + kGpu], 60);
  EXPECT_DOUBLE_EQ(found["mfu_live_reading_time_seconds"], 1'700'000'070);
}

// rate(flops) / rate(peak) is what mfu-live itself says of the interval.
TEST(LiveMetrics, CountersOfAGpuGiveItsMfuOfAnyInterval) {
  const LiveReading before = two_ranks(60);
  const LiveReading now = two_ranks(70);
  auto earlier = samples(metrics(nullptr, before));
  auto later = samples(metrics(&before, now));
  const LiveGpu& gpu = now.steps[0].gpus[1];
  const auto interval = between(before.steps[0].gpus[1].figures, gpu.figures);
  ASSERT_TRUE(interval);
  const auto rise = [&](const std::string& name) { return later.at(name) - earlier.at(name); };
  EXPECT_NEAR(rise("mfu_gpu_model_flops_total" + kCounted) /
                  rise("mfu_gpu_model_peak_flops_total" + kCounted),
              live_figures(interval->line).mfu, 1e-9);
  EXPECT_NEAR(rise("mfu_gpu_executed_flops_total" + kPrecise) /
                  rise("mfu_gpu_executed_peak_flops_total" + kPrecise),
              live_figures(interval->line).hfu, 1e-9);
}

// A step's idle GPUs are those as well that none of its processes has opened.
TEST(LiveMetrics, GpusThatNobodyUsesAreInTheStepsTime) {
  const LiveReading now = at(70, {process(0, 60, 1)});
  auto found = samples(metrics(nullptr, now));
  EXPECT_EQ(found["mfu_step_gpus" + kStep], 2);
  EXPECT_EQ(found["mfu_step_attributed_gpu_seconds_total" + kStep], 140);
}

TEST(LiveMetrics, WhatIsNotKnownHasNoSeries) {
  Record blind = process(0, 60, 1);
  blind.state = State::kDenied;
  blind.sensors = {};
  blind.steps = {};
  const LiveReading now = at(60, {blind});
  const std::string text = metrics(nullptr, now);
  samples(text);
  for (const char* name :
       {"mfu_ratio", "compute", "energy", "watts", "training", "tensor", "temperature", "clock",
        "model_flops", "model_peak", "executed", "goodput"}) {
    EXPECT_EQ(text.find(name), text.npos) << name;
  }
  EXPECT_NE(text.find(",state=\"denied\"} 1\n"), text.npos);
}

TEST(LiveMetrics, OfOneReadingThereIsNoInterval) {
  const std::string text = metrics(nullptr, two_ranks(60));
  EXPECT_NE(text.find("mfu_gpu_compute_seconds_total"), text.npos);
  EXPECT_EQ(text.find("mfu_gpu_power_watts"), text.npos);
}

TEST(LiveMetrics, AStepThatHasEndedHasNoSeries) {
  const LiveReading before = two_ranks(60);
  const LiveReading now = reading({}, kStart + 70 * kSecond);
  const std::string text = metrics(&before, now);
  EXPECT_EQ(text.find("jobid"), text.npos) << text;
  EXPECT_NE(text.find("mfu_live_steps 0\n"), text.npos);
}

TEST(LiveMetrics, SeriesAreBounded) {
  std::vector<LiveStep> steps;
  std::vector<Record> records;
  for (uint32_t i = 0; i < 200; ++i) records.push_back(process(i, 60, static_cast<uint8_t>(i)));
  for (uint32_t job = 0; job < 200; ++job) {
    RunningStep step = running(1);
    step.plan.job = job;
    if (job > 3) records.resize(1);
    steps.push_back(live(step, records, kStart + 60 * kSecond));
  }
  auto found = samples(metrics(nullptr, reading(std::move(steps), kStart + 60 * kSecond)));
  size_t gpus = 0;
  size_t all = 0;
  for (const auto& [name, value] : found) {
    gpus += name.starts_with("mfu_gpu_state_info");
    all += name.starts_with("mfu_step_gpus");
  }
  EXPECT_EQ(gpus, kMostMetricGpus);
  EXPECT_EQ(all, kMostMetricSteps);
  EXPECT_EQ(found["mfu_live_steps_left_out"], 200 - kMostMetricSteps);
  EXPECT_GT(found["mfu_live_gpus_left_out"], 500);
}

TEST(LiveMetrics, LabelsAreText) {
  RunningStep step = running(1);
  step.plan.node = "a\"b\\c\nd";
  Record record = process(0, 60, 1);
  std::snprintf(record.device_name, sizeof(record.device_name), "x\"} 1\nmfu_evil 1");
  const LiveReading now =
      reading({live(step, {record}, kStart + 60 * kSecond)}, kStart + 60 * kSecond);
  const std::string text = metrics(nullptr, now);
  samples(text);
  EXPECT_EQ(text.find("\nmfu_evil"), text.npos);
  EXPECT_NE(text.find(R"(node="a\"b\\c?d")"), text.npos);
}

TEST(LiveJson, HoldsTheFiguresOrTheReason) {
  const LiveReading before = two_ranks(60);
  const LiveReading now = two_ranks(70);
  std::ostringstream out;
  write_live_json(out, &before, now);
  const Json json = Json::parse(out.str());
  EXPECT_EQ(out.str().find('\n'), out.str().size() - 1);
  const Json& step = json.at("steps").at(0);
  EXPECT_EQ(step.at("step"), "12.0");
  EXPECT_EQ(step.at("so_far").at("training_steps"), 600);
  EXPECT_EQ(step.at("so_far").at("basis"), "gemm");
  EXPECT_EQ(step.at("gpu").size(), 2u);
  EXPECT_EQ(step.at("gpu").at(1).at("rank"), 1);
  EXPECT_DOUBLE_EQ(step.at("gpu").at(1).at("interval").at("seconds"), 10);
  EXPECT_DOUBLE_EQ(step.at("gpu").at(1).at("interval").at("compute"), 0.8);
  std::ostringstream first;
  write_live_json(first, nullptr, at(60, {process(0, 60, 1)}));
  const Json alone = Json::parse(first.str()).at("steps").at(0);
  EXPECT_TRUE(alone.at("interval").is_null());
  EXPECT_TRUE(alone.at("so_far").at("mfu").is_null());
  EXPECT_EQ(alone.at("so_far").at("mfu_reason"), "no-flops");
}

std::vector<std::string> lines_of(const LiveReading* before, const LiveReading& now) {
  std::ostringstream out;
  write_live_table(out, before, now);
  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(LiveTable, HasARowForTheStepAndOneAGpu) {
  const LiveReading before = two_ranks(60);
  const std::vector<std::string> lines = lines_of(&before, two_ranks(70));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[0].find("1 steps, 2 GPUs"), std::string::npos);
  EXPECT_NE(lines[0].find("of the last 10.0 s"), std::string::npos);
  EXPECT_EQ(words_of(lines[2]),
            (std::vector<std::string>{"12.0", "n1", "all", "2xH100-SXM", "26.0%", "gemm", "30.3%",
                                      "26.0%", "80.0%", "5.0%", "0.0%", "15.0%", "500W", "1500MHz",
                                      "-", "600", "0.1000s"}));
  EXPECT_EQ(words_of(lines[4]),
            (std::vector<std::string>{"12.0", "n1", "1", "GPU-02000000", "26.0%", "gemm", "30.3%",
                                      "26.0%", "80.0%", "5.0%", "0.0%", "15.0%", "500W", "1500MHz",
                                      "60C", "600", "0.1000s", "ok"}));
}

TEST(LiveTable, OneGpuIsOneRow) {
  EXPECT_EQ(lines_of(nullptr, at(60, {process(0, 60, 1)}, 1)).size(), 3u);
}

TEST(LiveTable, SaysWhatItMayNotShow) {
  LiveReading now = reading({}, kStart);
  now.closed = 3;
  const std::vector<std::string> lines = lines_of(nullptr, now);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "3 more steps are of other users: only root and their users may read them");
}

// --- the textfile

class LiveTextfile : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/mfu-live.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string content(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }
  std::string folder_;
};

TEST_F(LiveTextfile, IsReplacedAndReadableByAll) {
  const std::string path = folder_ + "/mfu.prom";
  const mode_t before = umask(077);
  EXPECT_EQ(replace_textfile(path, "one\n"), "");
  umask(before);
  EXPECT_EQ(replace_textfile(path, "two\n"), "");
  EXPECT_EQ(content(path), "two\n");
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
  EXPECT_EQ(files(), 1u);
}

// Readers of the old file go on reading it.
TEST_F(LiveTextfile, IsNeverHalfWritten) {
  const std::string path = folder_ + "/mfu.prom";
  ASSERT_EQ(replace_textfile(path, "one\n"), "");
  std::ifstream reader(path);
  ASSERT_EQ(replace_textfile(path, "two\n"), "");
  std::string seen;
  std::getline(reader, seen);
  EXPECT_EQ(seen, "one");
}

// node_exporter says nothing of files that it ignores.
TEST(LiveTextfileName, IsOneThatNodeExporterReads) {
  EXPECT_EQ(textfile_name_fault("/var/lib/node_exporter/mfu.prom"), "");
  EXPECT_EQ(textfile_name_fault("mfu.prom"), "");
  EXPECT_EQ(textfile_name_fault("x.txt"),
            "'x.txt' does not end in .prom: node_exporter would not see it");
  for (const char* name : {"", "x", "/", ".prom", "/folder/.prom", "/mfu.prom/", "x.prom.txt"}) {
    EXPECT_NE(textfile_name_fault(name), "") << name;
  }
}

TEST_F(LiveTextfile, ALinksTargetIsLeftAlone) {
  const std::string target = folder_ + "/target";
  std::ofstream(target) << "mine";
  fs::create_symlink(target, folder_ + "/mfu.prom");
  EXPECT_EQ(replace_textfile(folder_ + "/mfu.prom", "x\n"), "");
  EXPECT_EQ(content(target), "mine");
  EXPECT_EQ(content(folder_ + "/mfu.prom"), "x\n");
}

TEST_F(LiveTextfile, WhatFailsLeavesNothing) {
  const std::string taken = folder_ + "/taken.prom";
  fs::create_directories(taken + "/inside");
  EXPECT_NE(replace_textfile(taken, "x\n"), "");
  EXPECT_EQ(files(), 1u);
  EXPECT_NE(replace_textfile(folder_ + "/none/mfu.prom", "x\n"), "");
}

}  // namespace
}  // namespace mfu
