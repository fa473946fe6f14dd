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

// What mfu-analyze says of a device, less what can differ between a trace and its replay.
inline Json comparable(Json device) {
  // A record's steps are told from launch to launch as they come, with the kernels' grids.
  for (const char* key : {"device", "name", "start_ns", "steps_found"}) device.erase(key);
  return device;
}

// The kernels of a file, as far as a record lists them: names are cut, and have no odd bytes.
inline Json listed_kernels(const Json& file) {
  Json kernels = file["top_kernels"];
  for (Json& kernel : kernels) {
    std::string name = kernel["name"];
    name = name.substr(0, kKernelNameSize - 1);
    for (char& byte : name) {
      if (byte < ' ' || byte > '~') byte = '?';
    }
    kernel["name"] = name;
  }
  // Equal times stand in any order.
  std::sort(kernels.begin(), kernels.end(), [](const Json& a, const Json& b) {
    return a["sum_ns"] != b["sum_ns"] ? a["sum_ns"] > b["sum_ns"] : a["name"] < b["name"];
  });
  return kernels;
}

struct Twice {
  std::string trace;
  Json told;  // of the one file; null: mfu-analyze refuses it
  bool replayed = false;
  std::vector<Record> records;  // of devices that ran something, in their order
  std::vector<Json> recorded;   // what mfu-analyze says of these records' files
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
    const std::string analyze = BUILD_FOLDER "/mfu-analyze --json --top 1000 '";
    if (!shell(analyze + run->trace + "' >'" + base + ".told'")) {
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
      const std::string told = base + "." + std::to_string(run->records.size());
      if (!shell(analyze + path + "' >'" + told + "'")) continue;
      run->recorded.push_back(Json::parse(text_of(told))["files"][0]);
    }
    std::sort(run->records.begin(), run->records.end(),
              [](const Record& a, const Record& b) { return a.device < b.device; });
    std::sort(run->recorded.begin(), run->recorded.end(), [](const Json& a, const Json& b) {
      return a["devices"][0]["device"] < b["devices"][0]["device"];
    });
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
    ASSERT_EQ(run.recorded.size(), devices.size());
    uint64_t operations = 0;
    for (size_t i = 0; i < devices.size(); ++i) {
      const Record& record = run.records[i];
      const Json theirs = comparable(devices[i]);
      const Json ours = comparable(run.recorded[i]["devices"][0]);
      EXPECT_EQ(Json::diff(theirs, ours), Json::array())
          << "device " << devices[i]["device"] << ", mfu-analyze: " << theirs.dump()
          << "\nthe record: " << ours.dump();
      if (devices.size() == 1) expect_same_kernels(run.told, run.recorded[i]);
      // One clock for all devices, in the trace and in the records.
      EXPECT_EQ(static_cast<int64_t>(record.time.span_start_ns - run.records[0].time.span_start_ns),
                devices[i]["start_ns"].get<int64_t>() - devices[0]["start_ns"].get<int64_t>());
      operations += record.compute_kernels + record.communication_kernels + record.copies;
      // A record that admits to gaps would be no equal.
      EXPECT_EQ(record.state, State::kOk);
      EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown | kInCupti), kFinished);
      EXPECT_EQ(record.zero_times + record.reversed + record.implausible + record.late_ns, 0u);
      EXPECT_EQ(record.duplicates, 0u);
      EXPECT_EQ(record.dropped + record.unfinished + record.lost_ns, 0u);
    }
    EXPECT_EQ(operations, run.told["operations"]);
  }

  // mfu-analyze lists kernels by file, a record by device: the same where there is one.
  static void expect_same_kernels(const Json& told, const Json& recorded) {
    if (recorded["unlisted_kernels"] != 0) return;  // more names than the library keeps
    const Json theirs = listed_kernels(told);
    const Json ours = listed_kernels(recorded);
    ASSERT_EQ(ours.size(), std::min<size_t>(theirs.size(), kTopKernels));
    // Which of several with the time of the last one are listed is open.
    const Json last = ours.empty() ? Json() : ours.back()["sum_ns"];
    for (size_t i = 0; i < ours.size(); ++i) {
      if (theirs.size() > ours.size() && ours[i]["sum_ns"] == last) break;
      EXPECT_EQ(theirs[i], ours[i]);
    }
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
