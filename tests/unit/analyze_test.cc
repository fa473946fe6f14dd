// mfu-analyze as a program: what it prints, says and returns.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "profiler/analysis.hh"

namespace {

using Json = nlohmann::json;

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A folder of a test's own.
class Analyze : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "mfu-analyze-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + folder_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  Ran run(const std::string& arguments, std::string out = "") {
    if (out.empty()) out = folder_ + ".out";
    const std::string command = std::string(BUILD_FOLDER) + "/mfu-analyze " + arguments + " >" +
                                out + " 2>" + folder_ + ".err";
    const int status = std::system(command.c_str());
    Ran ran{WEXITSTATUS(status), out == "/dev/full" ? "" : text_of(out), text_of(folder_ + ".err")};
    unlink((folder_ + ".out").c_str());
    unlink((folder_ + ".err").c_str());
    return ran;
  }
  std::string folder_;
};

std::string event(const std::string& name, int start, int duration, int stream = 7) {
  return R"({"ph":"X","cat":"kernel","name":")" + name + R"(","ts":)" + std::to_string(start) +
         R"(,"dur":)" + std::to_string(duration) + R"(,"args":{"device":0,"stream":)" +
         std::to_string(stream) + "}}";
}
std::string rank_trace(int rank, const std::string& events) {
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
         R"(,"world_size":2},"deviceProperties":[{"id":0,"name":"NVIDIA H100"}],"traceEvents":[)" +
         events + "]}";
}
constexpr char kAllReduce[] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";

TEST_F(Analyze, TableOfAFolder) {
  write("b.json",
        rank_trace(0, event("sm90_xmma_gemm_bf16", 0, 60) + "," + event(kAllReduce, 40, 60)));
  write("a.json",
        rank_trace(1, event("sm90_xmma_gemm_bf16", 0, 60) + "," + event(kAllReduce, 80, 20)));
  write("notes.txt", "not a trace");
  const Ran ran = run(folder_);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out.find("2 traces, 2 GPUs (NVIDIA H100)"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("  0       0  100.0 us    60.0%  40.0%      20.0%    0.0%   0.0%"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("slowest: 1, last at 1 of 1 collectives; the others waited 40.00 us"),
            std::string::npos)
      << ran.out;
  // Columns.
  for (size_t at = 0; at < ran.out.size();) {
    const size_t end = ran.out.find('\n', at);
    EXPECT_LE(end - at, 100u) << ran.out.substr(at, end - at);
    at = end + 1;
  }
}

TEST_F(Analyze, Json) {
  write("r0.json", rank_trace(0, event("k", 10, 5) + "," + event("k", 20, 5)));
  const Ran ran = run("--json --top 1 " + folder_);
  EXPECT_EQ(ran.code, 0);
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["files"][0]["rank"], 0);
  EXPECT_EQ(json["files"][0]["devices"][0]["span_ns"], 15000);
  EXPECT_EQ(json["files"][0]["devices"][0]["idle_ns"], 5000);
  EXPECT_EQ(json["files"][0]["devices"][0]["start_ns"], 10000);
  EXPECT_EQ(json["files"][0]["devices"][0]["name"], "NVIDIA H100");
  EXPECT_EQ(json["total"]["compute_ns"], 10000);
  EXPECT_EQ(json["top_kernels"][0]["count"], 2);
  EXPECT_EQ(json["partial"], false);
  EXPECT_TRUE(json["stragglers"].is_null());
}

// --- records: FLOPs that were counted

// 1 s of an H100 (989.4 TFLOP/s in bf16), of which kernels ran 0.8 s: GEMMs 0.5 s, attention 0.1 s.
mfu::Record counted_record(uint32_t task) {
  mfu::Record record;
  record.flags = mfu::kPrimary | mfu::kFinished;
  record.task = task;
  record.pid = 100 + task;
  record.started_ns = 1;
  record.published_ns = 2'000'000'000;
  std::snprintf(record.device_name, sizeof(record.device_name), "NVIDIA H100 80GB HBM3");
  record.time.span_start_ns = 500'000'000;
  record.time.span_end_ns = 1'500'000'000;
  record.time.partition_ns[mfu::kCompute] = 800'000'000;
  record.compute_kernels = 1000;
  record.compute_kernel_ns = 800'000'000;
  record.gemm_ns[static_cast<int>(mfu::Precision::kBf16)] = 500'000'000;
  record.counted = {.gemm_kernels = 100,
                    .gemm_ns = 500'000'000,
                    .attention_kernels = 10,
                    .attention_ns = 100'000'000};
  record.counted.attention_flops.add(70'000'000'000'000);
  record.counted.attention_model_flops.add(60'000'000'000'000);
  record.gemms.entries = 1;
  record.gemms.calls[static_cast<int>(mfu::Precision::kBf16)] = 100;
  record.gemms.flops[static_cast<int>(mfu::Precision::kBf16)].add(400'000'000'000'001);
  record.inferred.verdict = mfu::Inference::kKnown;
  record.inferred.flops.add(300'000'000'000'001);
  record.inferred.recomputed_permille = 750;
  return record;
}

std::string record_bytes(mfu::Record record) {
  record.size = sizeof(record);
  record.sequence = 1;
  record.checksum = mfu::record_checksum(record);
  EXPECT_EQ(mfu::record_fault(record), nullptr);
  std::string bytes(mfu::kRecordFileSize, '\0');
  std::memcpy(bytes.data(), &record, sizeof(record));
  return bytes;
}

TEST_F(Analyze, FlopsOfRecords) {
  for (uint32_t task : {0u, 1u}) {
    write(std::to_string(task) + ".mfu", record_bytes(counted_record(task)));
  }
  Ran ran = run("--json " + folder_);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out);
  const Json& flops = json["flops"];
  EXPECT_EQ(flops["gpus"], 2);
  EXPECT_EQ(flops["gemm"], "800000000000002");
  EXPECT_EQ(flops["attention"], "140000000000000");
  EXPECT_EQ(flops["executed"], "940000000000002");
  EXPECT_EQ(flops["model"], "720000000000002");
  EXPECT_EQ(flops["recomputed"], 0.75);
  EXPECT_EQ(flops["kernel_ns"], 1'600'000'000);
  EXPECT_EQ(flops["counted_ns"], 1'200'000'000);
  EXPECT_EQ(flops["uncounted_ns"], 0);
  EXPECT_EQ(flops["precision"], "bf16");
  EXPECT_EQ(flops["peak_gigaflops"], 989'400);
  EXPECT_EQ(flops["peak_basis"], "table");
  EXPECT_NEAR(flops["mfu"].get<double>(), 360.0 / 989.4, 1e-9);
  EXPECT_NEAR(flops["hfu"].get<double>(), 470.0 / 989.4, 1e-9);
  EXPECT_TRUE(flops["no_mfu"].is_null() && flops["no_hfu"].is_null());
  EXPECT_EQ(flops["processes"][1]["rank"], "1");
  EXPECT_EQ(flops["processes"][1]["model"], "360000000000001");
  const Json& record = json["files"][0]["record"];
  EXPECT_EQ(record["multiplying_kernels"]["attention"]["model_flops"], "60000000000000");
  EXPECT_EQ(record["gemms"]["by_precision"]["bf16"]["flops"], "400000000000001");
  ran = run(folder_);
  EXPECT_NE(ran.out.find("  0        1  400.0 T    70.00 T    75.0%  360.0 T       75.0%  36.4%  "
                         "47.5%  989.4 bf16\n"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("  all      2  800.0 T    140.0 T    75.0%  720.0 T"), std::string::npos)
      << ran.out;
}

// A process's FLOPs are told once, however many devices it has.
TEST_F(Analyze, FlopsOfAProcessOnTwoDevices) {
  mfu::Record first = counted_record(0);
  mfu::Record second = counted_record(0);
  second.flags = mfu::kFinished;
  second.device = 1;
  second.gemms = {};
  second.inferred = {};
  first.counted.gemm_kernels = second.counted.gemm_kernels = 50;
  write("a.mfu", record_bytes(second));
  write("b.mfu", record_bytes(first));
  const Json flops = Json::parse(run("--json " + folder_).out)["flops"];
  EXPECT_EQ(flops["processes"].size(), 1u);
  EXPECT_EQ(flops["gpus"], 2);
  EXPECT_EQ(flops["gemm"], "400000000000001");
  EXPECT_EQ(flops["executed"], "540000000000001");
  EXPECT_EQ(flops["counted_ns"], 1'200'000'000);
  EXPECT_NEAR(flops["mfu"].get<double>(), 210.0 / 989.4, 1e-9);
}

TEST_F(Analyze, FlopsThatAreNotKnownHaveAReason) {
  struct Case {
    const char* no_mfu;
    const char* no_hfu;
    std::function<void(mfu::Record*)> change;
  };
  const int bf16 = static_cast<int>(mfu::Precision::kBf16);
  const Case cases[] = {
      {"ambiguous-shapes", "",
       [](mfu::Record* r) { r->inferred = {.verdict = mfu::Inference::kAmbiguous}; }},
      {"few-steps", "", [](mfu::Record* r) { r->inferred = {}; }},
      {"uncounted-kernels", "",
       [](mfu::Record* r) {
         r->counted.uncounted_kernels = 1;
         r->counted.uncounted_ns = 8'000'001;
       }},
      {"", "",
       [](mfu::Record* r) {
         r->counted.uncounted_kernels = 1;
         r->counted.uncounted_ns = 8'000'000;  // 1% of the kernels' time
       }},
      // More GEMM kernels than calls: 90 of 100 are counted, the rest is not.
      {"uncounted-kernels", "", [bf16](mfu::Record* r) { r->gemms.calls[bf16] = 90; }},
      {"coverage", "coverage", [](mfu::Record* r) { r->compute_kernel_ns = 1'200'000'001; }},
      {"peak-unknown", "peak-unknown", [](mfu::Record* r) { r->device_name[0] = 'X'; }},
      {"few-steps", "peak-unknown",
       [](mfu::Record* r) {
         r->inferred = {};
         r->device_name[0] = 'X';
       }},
      {"no-flops", "no-flops",
       [](mfu::Record* r) {
         r->gemms = {};
         r->gemms.entries = 1;
         r->inferred = {};
         r->counted = {};
       }},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    mfu::Record record = counted_record(0);
    cases[i].change(&record);
    write("x.mfu", record_bytes(record));
    const Ran ran = run("--json " + folder_);
    const Json flops = Json::parse(ran.out)["flops"];
    const auto reason = [](const Json& json) {
      return json.is_null() ? std::string() : json.get<std::string>();
    };
    EXPECT_EQ(reason(flops["no_mfu"]), cases[i].no_mfu) << i;
    EXPECT_EQ(reason(flops["no_hfu"]), cases[i].no_hfu) << i;
    EXPECT_EQ(flops["mfu"].is_null(), cases[i].no_mfu[0] != '\0') << i;
    const std::string table = run(folder_).out;
    if (cases[i].no_mfu[0] == '\0') continue;
    EXPECT_NE(table.find("mfu n/a(" + std::string(cases[i].no_mfu) + "): 1 process\n"),
              std::string::npos)
        << table;
  }
  // Nobody counted: nothing is said.
  mfu::Record record = counted_record(0);
  record.gemms = {};
  record.inferred = {};
  record.counted = {};
  write("x.mfu", record_bytes(record));
  EXPECT_TRUE(Json::parse(run("--json " + folder_).out)["flops"].is_null());
  EXPECT_EQ(run(folder_).out.find("FLOPs"), std::string::npos);
}

TEST_F(Analyze, BrokenFiles) {
  const std::string whole = rank_trace(0, event("k", 10, 5) + "," + event("k", 20, 5));
  const std::string good = write("good.json", whole);
  const std::string cut = write("cut.json", whole.substr(0, whole.size() - 30));
  Ran ran = run(cut);
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(
      ran.err.find("cut.json: byte " + std::to_string(whole.size() - 30) + ": the file ends early"),
      std::string::npos)
      << ran.err;
  // The others' figures, and yet a failure.
  ran = run(good + " " + cut);
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("PARTIAL"), std::string::npos);
  EXPECT_NE(ran.out.find("left out: "), std::string::npos);
  ran = run("--partial --json " + cut);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["partial"], true);
  EXPECT_EQ(json["files"][0]["partial"], true);
  EXPECT_EQ(json["files"][0]["kernels"], 1);
  EXPECT_NE(json["files"][0]["error"].get<std::string>().find("ends early"), std::string::npos);
}

TEST_F(Analyze, NothingOnTheGpuIsSaid) {
  const std::string path = write(
      "cpu.json",
      R"({"traceEvents":[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":0,"dur":1,"args":{"correlation":1}}]})");
  const Ran ran = run(path);
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("no GPU activity (out-of-range or dropped buffers?)"), std::string::npos);
  EXPECT_EQ(ran.out.find('%'), std::string::npos) << ran.out;  // never "100% idle"
}

TEST_F(Analyze, Usage) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("--bogus x").code, 2);
  EXPECT_EQ(run("--top many x").code, 2);
  EXPECT_EQ(run("/nonexistent").code, 1);
  EXPECT_EQ(run(folder_).code, 1);  // an empty folder
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("--help").out.find("--partial"), std::string::npos);
  EXPECT_EQ(run("--version").out.find("mfu-analyze "), 0u);
}

// Names come from anyone: neither a page nor a terminal may take them for more than text.
TEST_F(Analyze, HostileNames) {
  write("x.json", rank_trace(0, event("</script><script>alert(1)</script>", 0, 5) + "," +
                                    event("a\\u001b[31mred\\n", 5, 5)));
  const std::string page = folder_ + "/page.html";
  const Ran ran = run("--html " + page + " " + folder_);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  const std::string html = text_of(page);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  size_t ends = 0;
  for (size_t at = html.find("</script>"); at != html.npos; at = html.find("</script>", at + 1))
    ++ends;
  EXPECT_EQ(ends, 2u);
  EXPECT_EQ(html.find("http://", html.find("<script type")),
            html.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(html.find("https://"), std::string::npos);  // self-contained
  EXPECT_EQ(run("-q --html /nonexistent/page.html " + folder_ + "/x.json").code, 1);
}

TEST_F(Analyze, QuietAndPipe) {
  const std::string path = write("x.json", rank_trace(0, event("k", 0, 5)));
  EXPECT_EQ(run("-q " + path).out, "");
  // A stream that cannot be looked at twice.
  const Ran ran = run("/dev/stdin < " + path);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("1 trace, 1 GPU"), std::string::npos);
  const Ran full = run(path, "/dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
}

TEST(ShortKernelName, WhatIsBetweenTypeAndParameters) {
  const std::pair<const char*, const char*> kNames[] = {
      {"sm90_xmma_gemm_bf16", "sm90_xmma_gemm_bf16"},
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
      {"void at::native::(anonymous namespace)::cat<float, 4>(float*, int)",
       "at::native::cat<float, 4>"},
      {"void f<at::op<int>::{lambda(int)#1}>(int, at::op<int>)", "f<at::op<int>::{lambda(int)#1}>"},
      {"std::enable_if<(((8)>(0))) && true, void>::type vllm::norm<bf16, 8>(bf16*)",
       "vllm::norm<bf16, 8>"},
      {"a name that is no signature", "a name that is no signature"},
      {"", ""},
      {"(", "("}};
  for (const auto& [name, expected] : kNames) EXPECT_EQ(mfu::short_kernel_name(name, 80), expected);
  EXPECT_EQ(mfu::short_kernel_name("abcdefghij", 8), "abcde...");
  EXPECT_EQ(mfu::short_kernel_name("abcd\xc3\xa9ghij", 8), "abcd...");
  EXPECT_EQ(mfu::short_kernel_name("a\x1b[31m", 80), "a?[31m");
}

}  // namespace
