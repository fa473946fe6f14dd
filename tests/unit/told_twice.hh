// For differential_test: a trace read by mfu-analyze and replayed under the injected library, and
// the comparison of the two.
#ifndef MFU_TESTS_UNIT_TOLD_TWICE_HH_
#define MFU_TESTS_UNIT_TOLD_TWICE_HH_

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "profiler/record.hh"

namespace mfu {

using Json = nlohmann::json;

inline constexpr int64_t kLongestReplayNs = 3'000'000'000;
inline constexpr int kAtOnce =
    8;  // whatever the processors: a replay sleeps through its operations

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  while (const dirent* entry = open == nullptr ? nullptr : readdir(open)) {
    if (entry->d_name[0] != '.') names.push_back(folder + "/" + entry->d_name);
  }
  if (open != nullptr) closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

// A record in the words of mfu-analyze's JSON. It has no sums of compute and of copies.
inline Json in_words(const Record& record) {
  const TimeSums& time = record.time;
  const uint64_t(&part)[kMasks] = time.partition_ns;
  Json json = {{"span_ns", time.span_ns()},
               {"busy_ns", time.busy_ns()},
               {"idle_ns", time.idle_ns()},
               {"compute_ns", time.compute_ns()},
               {"communication_ns", part[2] + part[3] + part[6] + part[7]},
               {"exposed_communication_ns", time.exposed_communication_ns()},
               {"overlapped_communication_ns", time.overlapped_communication_ns()},
               {"memory_ns", part[4] + part[5] + part[6] + part[7]},
               {"exposed_memory_ns", time.exposed_memory_ns()},
               {"partition_ns",
                {{"C", part[1]},
                 {"N", part[2]},
                 {"CN", part[3]},
                 {"M", part[4]},
                 {"CM", part[5]},
                 {"NM", part[6]},
                 {"CNM", part[7]}}},
               {"collectives", Json::object()},
               {"gemm_ns", Json::object()},
               {"late", record.late}};
  uint64_t communication_ns = 0;
  for (int i = 0; i < kCollectives; ++i) {
    communication_ns += record.collective_ns[i];
    if (record.collective_count[i] == 0) continue;
    json["collectives"][collective_name(static_cast<Collective>(i))] = {
        {"count", record.collective_count[i]}, {"sum_ns", record.collective_ns[i]}};
  }
  for (int i = 0; i < kPrecisions; ++i) {
    if (record.gemm_ns[i] == 0) continue;
    json["gemm_ns"][precision_name(static_cast<Precision>(i))] = record.gemm_ns[i];
  }
  json["classes"] = {
      {"compute", {{"count", record.compute_kernels}}},
      {"communication", {{"count", record.communication_kernels}, {"sum_ns", communication_ns}}},
      {"memory", {{"count", record.copies}}}};
  return json;
}

// What mfu-analyze says of a device, less what no record has. Anything new there that is not in
// the record either is to be named here, or the comparison fails.
inline Json comparable(Json device) {
  for (const char* key : {"device", "name", "start_ns"}) device.erase(key);
  device["classes"]["compute"].erase("sum_ns");
  device["classes"]["memory"].erase("sum_ns");
  return device;
}

struct Twice {
  std::string trace;
  Json told;  // of the one file; null: mfu-analyze refuses it
  bool replayed = false;
  std::vector<Record> records;  // of devices that ran something, in their order
  std::string failure;
};

class Differential : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "mfu-differential-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }

  // `events` are separated by commas.
  void add(const std::string& events) {
    traces_.push_back(folder_ + "/" + std::to_string(traces_.size()) + ".json");
    std::ofstream(traces_.back(), std::ios::binary) << "{\"traceEvents\": [" << events << "]}";
  }

  // Both sides of every trace. Only traces for which the two must agree are replayed.
  std::vector<Twice> run() {
    std::vector<Twice> runs(traces_.size());
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&] {
        for (size_t at; (at = next++) < runs.size();) {
          runs[at].trace = traces_[at];
          run_one(folder_ + "/run" + std::to_string(at), &runs[at]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return runs;
  }

  void run_one(const std::string& base, Twice* run) {
    auto shell = [&](const std::string& command) {
      const int status = std::system(("(" + command + ") 2>'" + base + ".err'").c_str());
      if (status != 0) run->failure = command + "\n" + text_of(base + ".err");
      return status == 0;
    };
    const std::string fake = BUILD_FOLDER "/tests/fake";
    const std::string records = base + ".records";
    if (!shell(BUILD_FOLDER "/mfu-analyze --json '" + run->trace + "' >'" + base + ".told'")) {
      run->failure.clear();
      return;
    }
    run->told = Json::parse(text_of(base + ".told"))["files"][0];
    if (!replayable(run->told)) return;
    run->replayed =
        mkdir(records.c_str(), 0700) == 0 &&
        shell(fake + "/trace_script '" + run->trace + "' '" + base + ".script'") &&
        shell("MFU_RECORD_DIR='" + records + "' FAKE_CUDA_DEVICES=8 LD_LIBRARY_PATH=" + fake +
              " CUDA_INJECTION64_PATH=" BUILD_FOLDER "/libmfu_profiler.so " + fake + "/replay '" +
              base + ".script'");
    for (const std::string& path : names_in(records)) {
      std::string bytes = text_of(path);
      unsigned char file[kRecordFileSize];
      Record record;
      if (bytes.size() != sizeof(file)) {
        run->failure = path + " has " + std::to_string(bytes.size()) + " bytes";
        continue;
      }
      std::memcpy(file, bytes.data(), sizeof(file));
      if (!newest_record(file, &record)) run->failure = path + " has no sound slot";
      // The primary record is there also when nothing ran.
      if (record.compute_kernels + record.communication_kernels + record.copies == 0) continue;
      run->records.push_back(record);
    }
    std::sort(run->records.begin(), run->records.end(),
              [](const Record& a, const Record& b) { return a.device < b.device; });
  }

  // A replay takes as long as the trace, and moves it to now: an operation at 0 for 0, CUPTI's "not
  // measured", gets a time by that.
  static bool replayable(const Json& told) {
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (const Json& device : told["devices"]) {
      const int64_t start = device["start_ns"];
      first = std::min(first, start);
      last = std::max(last, start + device["span_ns"].get<int64_t>());
    }
    return told["kept_out"]["invalid"] == 0 && (last <= first || last - first < kLongestReplayNs);
  }

  static void expect_same(const Twice& run) {
    SCOPED_TRACE(run.trace);
    ASSERT_EQ(run.failure, "");
    const Json& devices = run.told["devices"];
    ASSERT_EQ(run.records.size(), devices.size());
    uint64_t operations = 0;
    for (size_t i = 0; i < devices.size(); ++i) {
      const Record& record = run.records[i];
      const Json theirs = comparable(devices[i]);
      const Json ours = in_words(record);
      EXPECT_EQ(Json::diff(theirs, ours), Json::array())
          << "device " << devices[i]["device"] << ", mfu-analyze: " << theirs.dump()
          << "\nthe record: " << ours.dump();
      // One clock for all devices, in the trace and in the records.
      EXPECT_EQ(static_cast<int64_t>(record.time.span_start_ns - run.records[0].time.span_start_ns),
                devices[i]["start_ns"].get<int64_t>() - devices[0]["start_ns"].get<int64_t>());
      operations += record.compute_kernels + record.communication_kernels + record.copies;
      // A record that admits to gaps would be no equal.
      EXPECT_EQ(record.state, State::kOk);
      EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown | kInCupti), kFinished);
      EXPECT_EQ(record.zero_times + record.reversed + record.implausible + record.late_ns, 0u);
      EXPECT_EQ(record.dropped + record.unfinished + record.lost_ns, 0u);
    }
    EXPECT_EQ(operations, run.told["operations"]);
  }

  std::vector<Twice> expect_all_same() {
    std::vector<Twice> runs = run();
    for (const Twice& run : runs) {
      EXPECT_TRUE(run.replayed) << run.trace << ": " << run.failure << run.told;
      if (run.replayed) expect_same(run);
    }
    return runs;
  }

  std::string folder_;
  std::vector<std::string> traces_;
};

}  // namespace mfu

#endif
