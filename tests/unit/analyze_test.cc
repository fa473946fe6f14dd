// mfu-analyze as a program: what it prints, says and returns.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
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
