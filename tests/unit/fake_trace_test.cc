// trace_script's reading of traces, to the nanosecond, and the errors of trace_script and replay.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace {

struct Result {
  int exit_code;
  std::string output;  // both streams
};

Result run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Result result = {-1, ""};
  for (int c; (c = std::fgetc(pipe)) != EOF;) result.output += static_cast<char>(c);
  result.exit_code = WEXITSTATUS(pclose(pipe));
  return result;
}

class FakeTrace : public testing::Test {
 protected:
  FakeTrace() : path_(testing::TempDir() + "fake_trace" + std::to_string(getpid())) {}
  ~FakeTrace() override { unlink(path_.c_str()); }

  Result with(const char* program, const std::string& content) {
    std::ofstream(path_) << content;
    return run(
        std::string("LD_LIBRARY_PATH=" BUILD_FOLDER "/tests/fake " BUILD_FOLDER "/tests/fake/") +
        program + " " + path_);
  }

  Result convert(const std::string& events) {
    return with("trace_script", "{\"traceEvents\": [" + events + "]}");
  }

  // START END of the second operation, when the first starts at 0.
  std::string times(const std::string& ts, const std::string& dur) {
    auto event = [](const std::string& t, const std::string& d) {
      return R"({"ph":"X","cat":"kernel","name":"n","tid":7,"ts":)" + t + R"(,"dur":)" + d + "}";
    };
    std::string line = convert(event("0", "0") + "," + event(ts, dur)).output;
    line = line.substr(0, line.size() - 1);
    line = line.substr(line.rfind('\n') + 1);
    return line.substr(0, line.find(" 0 0 0 0 ")).substr(line.starts_with("k 0 ") ? 6 : 0);
  }

  std::string path_;
};

TEST_F(FakeTrace, MicrosecondsBecomeExactNanoseconds) {
  EXPECT_EQ(times("1", "2"), "1000 3000");
  EXPECT_EQ(times("0.001", "0.0019"), "1 2");
  EXPECT_EQ(times("1712195495507888.958", "2.080"), "1712195495507888958 1712195495507891038");
  EXPECT_EQ(times("9007199254740993", "0.3"), "9007199254740993000 9007199254740993300");
  EXPECT_EQ(times("1.5e3", "2E-3"), "1500000 1500002");
  EXPECT_EQ(times("\"12.3\"", "1"), "12300 13300");
  EXPECT_EQ(times("5", "-1"), "5000 5000");
}

TEST_F(FakeTrace, CountsGpuWorkOnly) {
  Result result =
      convert(R"({"ph":"X","cat":"Kernel","name":"a","ts":1,"dur":1,"args":{"device":2,"stream":9,)"
              R"("correlation":5,"grid":[3,2,1],"block":[64,1,1],"graph node id":77}},)"
              R"({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","ts":2,"dur":1,)"
              R"("pid":1,"tid":"stream 7","args":{"bytes":4096}},)"
              R"({"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP","ts":3,"dur":1,"args":{}},)"
              R"({"ph":"X","cat":"GPU_Memset","name":"b","ts":4,"dur":1},)"
              R"({"ph":"X","cat":"cuda_sync","name":"no","ts":0,"dur":1,"args":{"stream":7}},)"
              R"({"ph":"X","cat":"gpu_user_annotation","name":"no","ts":0,"dur":1},)"
              R"({"ph":"B","cat":"kernel","name":"no","ts":0,"dur":1},)"
              R"({"ph":"X","cat":"kernel","name":"no duration","ts":0})");
  EXPECT_EQ(result.output,
            "mfu-replay 1\n"
            "name 0 a\n"
            "k 2 9 0 1000 5 77 0 0 3,2,1 64,1,1 0\n"
            "name 1 Memcpy HtoD\n"
            "m 1 1000000 1000 2000 0 0 4096 1 0,0,0 0,0,0 1\n"
            "name 2 Memcpy PtoP\n"
            "p 0 1000001 2000 3000 0 0 0 10 0,0,0 0,0,0 2\n"
            "name 3 b\n"
            "s 0 1000001 3000 4000 0 0 0 0 0,0,0 0,0,0 3\n");
}

TEST_F(FakeTrace, BadTracesNameTheirPlace) {
  auto error = [this](const std::string& text) {
    Result result = with("trace_script", text);
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_TRUE(result.output.starts_with("trace_script: " + path_ + ": byte ")) << result.output;
    return result.output.substr(("trace_script: " + path_ + ": byte ").size());
  };
  EXPECT_TRUE(
      error(R"([{"ph":"X","cat":"kernel","name":"a","ts":"x","dur":1}])").starts_with("1:"));
  EXPECT_TRUE(error(R"([{"ph":"X","cat":"ker)").starts_with("21:"));
  error("");
  error("{}");
  error("[1]");
  error(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + "rubbish");
}

TEST_F(FakeTrace, BadScriptsNameTheirLine) {
  const std::string head = "mfu-replay 1\nname 0 a\n";
  const std::pair<const char*, const char*> cases[] = {
      {"q 0 0 0 1 0 0 0 0 1,1,1 1,1,1 0\n", "unknown kind"},
      {"k 0 0 0 1 0 0 0 0 1,1,1 1,1,1 1\n", "not declared"},
      {"k 0 0 5 4 0 0 0 0 1,1,1 1,1,1 0\n", "ends before"},
      {"k 0 4294967296 5 4 0 0 0 0 1,1,1 1,1,1 0\n", "out of range at column 5"},
      {"k 0 0 0 1 0 0 0 0 1,1 1,1,1 0\n", "expected ',' at column 22"},
      {"k 0 0 0 1 0 0 0 0 1,1,1 1,1,1 0 \n", "more than expected"},
      {"name 2 b\n", "expected name number 1"},
      {"name 1 b\\q\n", "unknown escape"},
  };
  for (const auto& [line, what] : cases) {
    Result result = with("replay", head + line);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(result.output.starts_with("replay: " + path_ + ":3: ")) << result.output;
    EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
  }
  EXPECT_EQ(with("replay", "mfu-replay 2\n").exit_code, 2);
}

TEST_F(FakeTrace, ReplaysEndAfterTheirLastOperation) {
  Result result = with("replay", "mfu-replay 1\nname 0 a\nk 0 7 0 1000 0 0 0 0 1,1,1 1,1,1 0\n");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
