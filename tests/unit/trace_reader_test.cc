// Reading traces: every shape of file, every place at which one can break, and the same events
// whatever the size of the window that moves over them.
#include "profiler/trace_reader.hh"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "profiler/json_scanner.hh"
#include "profiler/microseconds.hh"

namespace mfu {
namespace {

std::string own_path(const char* name) {
  return testing::TempDir() + "mfu-reader-" + std::to_string(getpid()) + "-" + name;
}

// A file that goes when the test does.
class File {
 public:
  explicit File(const std::string& bytes, const char* name = "trace.json") : path_(own_path(name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~File() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Everything that came in, as text.
class Seen : public TraceSink {
 public:
  void operation(const TraceOperation& operation) override {
    static constexpr const char* kKinds[] = {"kernel", "copy", "fill"};
    note(kKinds[static_cast<int>(operation.kind)] + (" " + std::string(operation.name)) + " " +
         std::to_string(operation.start_ns) + "+" + std::to_string(operation.duration_ns) +
         " gpu " + std::to_string(operation.device) + " stream " + std::string(operation.stream) +
         (operation.correlation ? " #" + std::to_string(*operation.correlation) : "") +
         (operation.out_of_range ? " out of range" : "") +
         (operation.group.empty() ? "" : " group " + std::string(operation.group)));
  }
  void launch(const TraceLaunch& launch) override {
    note("launch #" + std::to_string(launch.correlation) + " " + std::to_string(launch.start_ns) +
         (launch.kernel ? " kernel" : ""));
  }
  void step(const TraceStep& step) override {
    note("step " + std::string(step.name) + " " + std::to_string(step.start_ns) + ".." +
         std::to_string(step.end_ns) + (step.on_gpu ? " on gpu" : ""));
  }
  void untimed() override { note("untimed"); }

  std::vector<std::string> lines;

 private:
  void note(std::string line) { lines.push_back(std::move(line)); }
};

struct Result {
  std::vector<std::string> lines;
  TraceHead head;
  bool ok = false;
  TraceError error;
};

Result read_file(const std::string& path, size_t window = kTraceWindow) {
  Result result;
  Seen seen;
  const auto done = read_trace(
      path, &seen, &result.head, [](uint64_t, uint64_t) {}, window);
  result.ok = done.has_value();
  if (!done) result.error = done.error();
  result.lines = std::move(seen.lines);
  return result;
}

Result read_text(const std::string& bytes, size_t window = kTraceWindow) {
  const File file(bytes);
  return read_file(file.path(), window);
}

using Lines = std::vector<std::string>;

std::string kernel(const std::string& name, int start, const std::string& more = "") {
  return R"({"ph":"X","cat":"kernel","name":")" + name + R"(","ts":)" + std::to_string(start) +
         R"(,"dur":1,"pid":0,"tid":7,"args":{"device":0,"stream":7)" + more + "}}";
}
std::string trace_of(const std::string& events) {
  return R"({"schemaVersion":1,"traceEvents":[)" + events + R"(],"traceName":"x"})";
}

std::string gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// ---- numbers ----

TEST(Microseconds, ExactNanoseconds) {
  const std::pair<const char*, int64_t> kNumbers[] = {
      {"0", 0},
      {"-0", 0},
      {"1", 1000},
      {"-3", -3000},
      {"0.001", 1},
      {"0.0019", 1},
      {"1712195495507888.958", 1712195495507888958},
      {"2.080", 2080},
      {".5", 500},
      {"5.", 5000},
      {"1e3", 1000000},
      {"1.5E+3", 1500000},
      {"15e-1", 1500},
      {"1e-9", 0},
      {"-2.5e-3", -2},
      {"123456789e-10", 12},
      {"9223372036854775.807", INT64_MAX},
      {"0e999999999999", 0},
      {"7447680000000000", 7447680000000000000},
      {"0.000000000000000000000000000001e30", 1000}};
  for (const auto& [text, expected] : kNumbers) {
    int64_t value = 0;
    EXPECT_EQ(parse_microseconds(text, &value), NumberFault::kNone) << text;
    EXPECT_EQ(value, expected) << text;
  }
  for (const char* text : {"", "-", ".", "abc", "1.2.3", "1e", "1ex", "12a", "NaN", "+1", " 1"}) {
    int64_t value = 0;
    EXPECT_EQ(parse_microseconds(text, &value), NumberFault::kNoNumber) << text;
  }
  for (const char* text : {"9223372036854775.808", "1e30", "99999999999999999999", "1e999999999"}) {
    int64_t value = 0;
    EXPECT_EQ(parse_microseconds(text, &value), NumberFault::kOutOfRange) << text;
  }
}

// ---- the strict scanner ----

TEST(JsonScanner, AgreesWithAnotherParserInAnyPieces) {
  const char* kTexts[] = {"{}",
                          "[]",
                          "[1]",
                          "[1,]",
                          "[,1]",
                          "{\"a\":1}",
                          "{\"a\":1,}",
                          "{\"a\"}",
                          "{a:1}",
                          "[1 2]",
                          "[true,false,null]",
                          "[tru]",
                          "[nulll]",
                          "[01]",
                          "[1.]",
                          "[.5]",
                          "[-]",
                          "[-0.5e+10]",
                          "[1e]",
                          "[\"\\u00e9\\n\\/\"]",
                          "[\"\\x\"]",
                          "[\"\\u12g4\"]",
                          "[\"a\nb\"]",
                          "[\"\xc3\xa9\"]",
                          "[\"\xc3\"]",
                          "[\"\xed\xa0\x80\"]",
                          "[\"\xf4\x90\x80\x80\"]",
                          "[\"\xe0\x80\x80\"]",
                          "[\"\xff\"]",
                          "[[[]]]",
                          "[}",
                          "{]",
                          "[{\"a\":[1,{\"b\":null}]}]",
                          "  [ 1 , 2 ] ",
                          "{\"a\":}",
                          "{\"a\" 1}",
                          "{\"a\":1 \"b\":2}",
                          "[\"\xf0\x9f\x98\x80\"]",
                          "[1.5E3]",
                          "[1.5E+]",
                          "[+1]",
                          "[\"]"};
  for (const char* text : kTexts) {
    const std::string bytes(text);
    const bool expected = nlohmann::json::accept(bytes);
    for (size_t piece = 1; piece <= bytes.size() + 1; ++piece) {
      JsonScanner scanner;
      scanner.begin();
      JsonScanner::Status status = JsonScanner::Status::kMore;
      size_t taken = 0;
      while (taken < bytes.size() && status == JsonScanner::Status::kMore) {
        const char* at = bytes.data() + taken;
        status = scanner.scan(&at, bytes.data() + std::min(bytes.size(), taken + piece));
        taken = static_cast<size_t>(at - bytes.data());
      }
      EXPECT_EQ(status == JsonScanner::Status::kDone, expected) << text << " in " << piece;
      EXPECT_EQ(status == JsonScanner::Status::kBroken, scanner.fault() != nullptr);
    }
  }
}

// ---- what is an event ----

TEST(TraceReader, EventsByCategory) {
  const Result result = read_text(trace_of(
      R"({"ph":"X","cat":"Kernel","name":"k","ts":1.5,"dur":2,"tid":"stream 7","args":{"device":3,"correlation":9}},)"
      R"({"args":{"bytes":8,"streamId":4,"correlationId":10},"name":"Memcpy HtoD","dur":0.001,"ts":"5","ph":"X","cat":"gpu_memcpy","pid":1,"tid":2},)"
      R"({"ph":"X","cat":"gpu_memset","name":"Memset","ts":1e3,"dur":-1,"pid":"x","args":{}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":1,"dur":1,"args":{"correlation":9}},)"
      R"({"ph":"X","cat":"cuda_driver","name":"cuMemcpyAsync","ts":2,"dur":1,"args":{"correlation":10}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaMalloc","ts":2,"dur":1,"args":{}},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","ts":0,"dur":100},)"
      R"({"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#3","ts":0,"dur":50},)"
      R"({"ph":"X","cat":"gpu_user_annotation","name":"nccl:all_reduce","ts":0,"dur":50,"args":{"stream":7}},)"
      R"({"ph":"X","cat":"cuda_sync","name":"Stream Sync","ts":0,"dur":50,"args":{"stream":7}},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::add","ts":0,"dur":50,"args":{"stream":7}},)"
      R"({"ph":"X","cat":"kernel","name":"no times"},{"ph":"X","cat":"kernel","name":"far","ts":1e30,"dur":1},)"
      R"({"ph":"i","cat":"kernel","name":"instant","ts":1},{"ph":"M","name":"process_name"},{})"));
  EXPECT_TRUE(result.ok) << result.error.text();
  EXPECT_EQ(result.lines, (Lines{"kernel k 1500+2000 gpu 3 stream stream 7 #9",
                                 "copy Memcpy HtoD 5000+1 gpu 1 stream 4 #10",
                                 "fill Memset 1000000+-1000 gpu 0 stream ", "launch #9 1000 kernel",
                                 "launch #10 2000", "step ProfilerStep#3 0..100000",
                                 "step ProfilerStep#3 0..50000 on gpu", "untimed",
                                 "kernel far 0+0 gpu 0 stream  out of range"}));
}

TEST(TraceReader, NamesAndGroups) {
  const Result result =
      read_text(trace_of(kernel(R"(f<\"a\", \\, \u00e9>)", 1,
                                R"(,"Process Group Name":"3","Process Group Ranks":"[0, 1]")") +
                         "," + kernel("}, {\\\"ph\\\": [", 2)));
  EXPECT_TRUE(result.ok) << result.error.text();
  EXPECT_EQ(result.lines,
            (Lines{"kernel f<\"a\", \\, \xc3\xa9> 1000+1000 gpu 0 stream 7 group 3 [0, 1]",
                   "kernel }, {\"ph\": [ 2000+1000 gpu 0 stream 7"}));
}

TEST(TraceReader, HeadBeforeAndAfterTheEvents) {
  const Result result = read_text(
      R"({"distributedInfo":{"backend":"nccl","rank":5,"world_size":8,"pg_config":[{"x":[1,2]}],"nccl_version":"2.27.5"},)"
      R"("metadata":{"environment":"]}, {[\""},"traceEvents":[)" +
      kernel("k", 1) +
      R"(],"deviceProperties":[{"id":0,"name":"NVIDIA H100"},7,{"id":1,"name":"B200","x":{}}],"baseTimeNanoseconds":1751410836000000000})");
  EXPECT_TRUE(result.ok) << result.error.text();
  EXPECT_EQ(result.lines.size(), 1u);
  EXPECT_EQ(result.head.rank, 5);
  EXPECT_EQ(result.head.world_size, 8);
  EXPECT_EQ(result.head.backend, "nccl");
  EXPECT_EQ(result.head.nccl_version, "2.27.5");
  EXPECT_EQ(result.head.base_time_ns, 1751410836000000000);
  EXPECT_EQ(result.head.gpus.at(0), "NVIDIA H100");
  EXPECT_EQ(result.head.gpus.at(1), "B200");
}

TEST(TraceReader, OddHeadsAreNoErrors) {
  for (const char* value : {"7", "[]", "{}", "[[{}]]", R"({"\ud800":1})", R"({"rank":{"a":1}})",
                            R"([{"id":"x","name":7},{"name":[]}])", "null"}) {
    const std::string text = std::string(R"({"distributedInfo":)") + value +
                             R"(,"deviceProperties":)" + value + R"(,"baseTimeNanoseconds":)" +
                             value + R"(,"traceEvents":[]})";
    const Result result = read_text(text);
    EXPECT_TRUE(result.ok) << text << result.error.text();
    EXPECT_FALSE(result.head.rank) << text;
  }
}

TEST(TraceReader, BareArrays) {
  const std::string one = kernel("k", 1);
  for (const std::string& text :
       {"[" + one + "]", "[" + one, "[" + one + ",", " [ " + one + " , \n", "[" + one + "]\n\n"}) {
    const Result result = read_text(text);
    EXPECT_TRUE(result.ok) << text << " " << result.error.text();
    EXPECT_EQ(result.lines.size(), 1u) << text;
  }
  EXPECT_TRUE(read_text("[]").ok);
  EXPECT_TRUE(read_text("[").ok);
  EXPECT_FALSE(read_text("[" + one + "," + one.substr(0, 20)).ok);
  EXPECT_FALSE(read_text("[" + one + "]]").ok);
}

// ---- what is broken, and where ----

TEST(TraceReader, ErrorsNameTheByte) {
  const std::string head = R"({"traceEvents":[)";
  const struct {
    std::string text;
    size_t byte;
    const char* what;
  } kBroken[] = {
      {"", 0, "empty"},
      {"   ", 3, "empty"},
      {"hello", 0, "neither JSON nor"},
      {R"({"a":1})", 7, "no \"traceEvents\""},
      {R"({"traceEvents":7})", 15, "no array"},
      {head + "{}", head.size() + 2, "ends early"},
      {head + "{},]}", head.size() + 3, "expected a value"},
      {head + "{} {}]}", head.size() + 3, "expected ',' or ']'"},
      {head + R"({"name":"{"device": "cpu"}"}]})", head.size() + 11, "expected ',' or '}'"},
      {head + R"({"a":[1,2},{}]})", head.size() + 9, "expected ',' or ']'"},
      {head + R"({"a":"\q"},{},{}]})", head.size() + 7, "escape"},
      {head + R"({"\q":1},{},{}]})", head.size() + 3, "escape"},
      {head + R"({"a":{"b\u12":1}},{},{}]})", head.size() + 12, "hexadecimal"},
      {head + R"({},{"a":tru},{},{}]})", head.size() + 11, "no JSON value"},
      {head + "{},{\"a\":\"\x80\"},{}]}", head.size() + 9, "UTF-8"},
      {head + "{}]} x", head.size() + 5, "more text"},
      {head + "{}],}", head.size() + 4, "key in quotes"},
      {head + R"({"ph":"X","cat":"kernel","name":"k","ts":"x","dur":1}]})", head.size(),
       "no number"},
      {head + R"({},{},{"ph":"X","cat":"kernel","name":"k","ts":{},"dur":1},{}]})", 0, nullptr}};
  for (const auto& broken : kBroken) {
    for (size_t window : {size_t{64}, kTraceWindow}) {
      const Result result = read_text(broken.text, window);
      if (broken.what == nullptr) {
        EXPECT_TRUE(result.ok) << broken.text;  // an object says nothing: untimed
        continue;
      }
      EXPECT_FALSE(result.ok) << broken.text;
      EXPECT_TRUE(result.error.has_byte) << broken.text;
      EXPECT_EQ(result.error.byte, broken.byte) << broken.text << ": " << result.error.text();
      EXPECT_NE(result.error.what.find(broken.what), std::string::npos)
          << broken.text << ": " << result.error.text();
      EXPECT_NE(result.error.text().find(": byte "), std::string::npos);
    }
  }
}

TEST(TraceReader, EveryTruncationIsAnError) {
  const std::string whole = R"({"baseTimeNanoseconds": 5, "traceEvents": [)" + kernel("a", 1) +
                            ",\n " + kernel("b}, {", 2) + R"(], "x": {"y": [1.5, "z", null]}})";
  EXPECT_TRUE(read_text(whole).ok);
  for (size_t size = 0; size < whole.size(); ++size) {
    for (size_t window : {size_t{64}, kTraceWindow}) {
      const Result result = read_text(whole.substr(0, size), window);
      EXPECT_FALSE(result.ok) << size;
      EXPECT_EQ(result.error.byte, size);
      EXPECT_FALSE(result.error.unpacked);
    }
  }
}

// A changed byte is accepted only where another parser accepts it as well, and the other way round;
// what was read before the error, and the error itself, do not depend on the window.
TEST(TraceReader, DamageIsFoundAsAnotherParserFindsIt) {
  const std::string whole =
      R"({"a":[true,-1.5e2,{}],"traceEvents":[)" + kernel("a", 1) + "," + kernel("b,[", 2) +
      R"(,{"ph":"X","cat":"cpu_op","name":"\u0041\n","ts":1,"dur":0.5,"args":{"l":[{},{"m":[]}],"n":null}},)" +
      kernel("c", 3) + R"(],"z":""})";
  std::mt19937 random(7);
  const std::string bytes = "{}[],:\"0a-.e \x01\xff\n1";
  size_t accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = whole;
    const size_t at = random() % text.size();
    const char byte = bytes[random() % bytes.size()];
    switch (random() % 3) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text.erase(at, 1);
    }
    const nlohmann::json other = nlohmann::json::parse(text, nullptr, false);
    const Result result = read_text(text);
    const Result narrow = read_text(text, 64);
    EXPECT_EQ(result.ok, narrow.ok) << text;
    EXPECT_EQ(result.lines, narrow.lines) << text;
    EXPECT_EQ(result.error.text(), narrow.error.text()) << text;
    accepted += result.ok;
    if (result.ok) {
      // A bare array may lack its end.
      EXPECT_TRUE(!other.is_discarded() || text[0] == '[') << text;
    } else if (!other.is_discarded()) {
      // Well-formed, but no trace: the key was hit, or a time.
      const bool no_trace =
          !other.is_object() || !other.contains("traceEvents") || !other["traceEvents"].is_array();
      const bool no_event =
          result.error.what.find("no number of microseconds") != std::string::npos ||
          result.error.what.find("requested type") != std::string::npos;
      EXPECT_TRUE(no_trace || no_event) << text << " " << result.error.text();
    }
  }
  EXPECT_GT(accepted, 600u);
}

// ---- size ----

// Many events, with "}, {" wherever a cut could be taken for an event's end.
std::string long_trace(size_t events) {
  std::string text = "{\"traceEvents\": [\n";
  for (size_t i = 0; i < events; ++i) {
    text += i == 0 ? " " : " ,\n ";
    switch (i % 4) {
      case 0:
        text += kernel("}, {" + std::string(i % 97, 'x') + "}, {\\\"", static_cast<int>(i));
        break;
      case 1:
        text += R"({"ph": "X", "args": {"list": [{"a": {}}, {"b": "]"}, {"c": 1}], "device": 2}, )"
                R"("cat": "kernel", "name": "nested", "ts": )" +
                std::to_string(i) + R"(, "dur": 1})";
        break;
      case 2:
        text += R"({"ph": "X", "cat": "python_function", "name": "f(\"}, {\", [}, {)" +
                std::string(i % 211, '}') + R"(", "ts": 1, "dur": 1})";
        break;
      default:
        text += kernel("plain", static_cast<int>(i));
    }
  }
  return text + "\n]}\n";
}

TEST(TraceReader, TheWindowDoesNotShow) {
  const std::string text = long_trace(3000);
  const Result whole = read_text(text, 4 << 20);
  EXPECT_TRUE(whole.ok) << whole.error.text();
  EXPECT_EQ(whole.lines.size(), 2250u);
  for (size_t window : {1, 2, 3, 64, 100, 777, 4096, 65536}) {
    const Result result = read_text(text, window);
    EXPECT_TRUE(result.ok) << result.error.text();
    EXPECT_EQ(result.lines, whole.lines) << window;
  }
}

TEST(TraceReader, EventsLongerThanTheWindow) {
  const std::string text =
      trace_of(kernel("a", 1) + "," + kernel(std::string(3 << 20, 'n'), 2) + "," + kernel("b", 3));
  const Result result = read_text(text);
  EXPECT_TRUE(result.ok) << result.error.text();
  ASSERT_EQ(result.lines.size(), 3u);
  EXPECT_EQ(result.lines[2], "kernel b 3000+1000 gpu 0 stream 7");
}

TEST(TraceReader, DamageFarBehind) {
  const std::string text = long_trace(20000);
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    std::string broken = text;
    const size_t at = broken.find("\"ph\"", random() % (broken.size() - 1000));
    broken[at] = '?';
    const Result result = read_text(broken);
    EXPECT_FALSE(result.ok);
    // Within a string "ph" is not JSON's.
    EXPECT_EQ(result.error.byte, at) << result.error.text();
  }
}

// ---- packed ----

TEST(TraceReader, Gzip) {
  const std::string text = long_trace(2000);
  const Result plain = read_text(text);
  EXPECT_EQ(read_text(gzip(text)).lines, plain.lines);
  // A block that ends where the data does, and just before and behind it.
  for (size_t window :
       {text.size() - 1, text.size(), text.size() + 1, text.size() / 2, size_t{1}}) {
    EXPECT_EQ(read_text(gzip(text), window).lines, plain.lines) << window;
  }
  const size_t half = text.size() / 2;
  const Result members =
      read_text(gzip(text.substr(0, half)) + gzip(text.substr(half)) + std::string(512, '\0'));
  EXPECT_TRUE(members.ok) << members.error.text();
  EXPECT_EQ(members.lines, plain.lines);
}

TEST(TraceReader, BrokenGzip) {
  const std::string text = long_trace(2000);
  const std::string packed = gzip(text);
  for (size_t size :
       {packed.size() - 1, packed.size() - 8, packed.size() / 2, size_t{30}, size_t{2}}) {
    const Result result = read_text(packed.substr(0, size));
    EXPECT_FALSE(result.ok) << size;
    EXPECT_TRUE(result.error.unpacked);
    // All that the packed bytes hold is read, in blocks of any size.
    const Result narrow = read_text(packed.substr(0, size), 7);
    EXPECT_EQ(narrow.error.byte, result.error.byte) << size;
    EXPECT_EQ(narrow.lines, result.lines) << size;
    EXPECT_NE(result.error.what.find("gzip data ends early"), std::string::npos)
        << result.error.text();
    EXPECT_LE(result.error.byte, text.size());
  }
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  EXPECT_NE(read_text(damaged).error.what.find("damaged"), std::string::npos);
  damaged = packed + "garbage";
  EXPECT_FALSE(read_text(damaged).ok);
  // What is read before the damage does not depend on how much is looked at at once.
  for (size_t at = 40; at < packed.size() - 8; at += packed.size() / 50) {
    std::string hurt = packed;
    hurt[at] ^= 4;
    const Result wide = read_text(hurt);
    const Result narrow = read_text(hurt, 7);
    EXPECT_EQ(wide.error.byte, narrow.error.byte) << at;
    EXPECT_EQ(wide.error.what, narrow.error.what) << at;
    EXPECT_EQ(wide.lines, narrow.lines) << at;
  }
  // A bare array may lack its end, but not when that is gzip's.
  const std::string array = gzip("[" + kernel("k", 1) + ",");
  EXPECT_TRUE(read_text(array).ok);
  EXPECT_FALSE(read_text(array.substr(0, array.size() - 4)).ok);
}

TEST(TraceReader, NoFile) {
  EXPECT_NE(read_file("/nonexistent/x").error.text().find("No such file"), std::string::npos);
  EXPECT_NE(read_file(testing::TempDir()).error.text().find("directory"), std::string::npos);
}

// ---- nsys ----

std::string database(const std::string& sql) {
  const std::string path = own_path("made.sqlite");
  unlink(path.c_str());
  sqlite3* opened = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &opened), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_close(opened);
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  unlink(path.c_str());
  return bytes;
}

constexpr char kNsys[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds "
    "VALUES(1,'k1'),(2,'ncclDevKernel_AllReduce'),(3,'cudaLaunchKernel_v7000');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, demangledName INT);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(10,30,0,7,1,282578800148480,1),"
    "(20,25,1,8,NULL,282578816925696,2),(5,9,0,7,2,282578800148480,99);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(1,2,0,7,3,282578800148480);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, globalTid INT, correlationId INT,"
    " nameId INT);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(3,4,282578800148485,1,3);"
    "CREATE TABLE TARGET_INFO_GPU(id INT, name TEXT);"
    "INSERT INTO TARGET_INFO_GPU VALUES(0,'NVIDIA H100');";

TEST(TraceReader, NsysReports) {
  const std::string bytes = database(kNsys);
  for (const std::string& file : {bytes, gzip(bytes)}) {
    const Result result = read_text(file);
    EXPECT_TRUE(result.ok) << result.error.text();
    // 282578800148480 is process 0x1010 << 24 of some host; ids of two processes never meet.
    const int64_t first = (282578800148480 >> 24) << 32;
    const std::string id = std::to_string(first + 1);
    EXPECT_EQ(result.lines, (Lines{"kernel k1 10+20 gpu 0 stream 7 #" + id,
                                   "kernel ncclDevKernel_AllReduce 20+5 gpu 1 stream 8",
                                   "kernel  5+4 gpu 0 stream 7 #" + std::to_string(first + 2),
                                   "copy Memcpy 1+1 gpu 0 stream 7 #" + std::to_string(first + 3),
                                   "launch #" + id + " 3 kernel"}));
    EXPECT_EQ(result.head.gpus.at(0), "NVIDIA H100");
  }
}

TEST(TraceReader, OtherAndBrokenDatabases) {
  EXPECT_NE(read_text(database("CREATE TABLE x(y INT)")).error.text().find("no nsys export"),
            std::string::npos);
  std::string damaged = database(kNsys);
  for (size_t i = 4096; i < damaged.size(); ++i) damaged[i] = static_cast<char>(i * 7);
  EXPECT_FALSE(read_text(damaged).ok);
  const std::string packed = gzip(database(kNsys));
  EXPECT_NE(read_text(packed.substr(0, packed.size() / 2)).error.what.find("ends early"),
            std::string::npos);
  const Result graphs =
      read_text(database(std::string(kNsys) +
                         "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INT); INSERT INTO "
                         "CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(1);"));
  EXPECT_TRUE(graphs.ok);
  EXPECT_NE(graphs.head.note.find("CUDA graphs"), std::string::npos);
}

}  // namespace
}  // namespace mfu
