// mfu-analyze's figures over the shared sets of real traces and over the traps, to the nanosecond:
// every integer of the expected answers (an independent reference's), and, against what HTA printed
// for the same files, only differences that are known and explained.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/collective_skew.hh"
#include "profiler/trace_figures.hh"
#include "profiler/trace_reader.hh"

namespace mfu {
namespace {

using Json = nlohmann::json;

std::string shared() {
  const char* folder = std::getenv("MFU_SHARED");
  return std::string(folder == nullptr ? "../shared" : folder) + "/data/traces/";
}
bool present() {
  struct stat status;
  return stat(shared().c_str(), &status) == 0;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  while (const dirent* entry = open == nullptr ? nullptr : readdir(open)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  if (open != nullptr) closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

Json json_of(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

struct Read {
  TraceFigures figures;
  std::string error;
  bool has_byte = false;
};

Read read(const std::string& path, size_t memory = 16 << 20, CollectiveSkew* skew = nullptr,
          size_t participant = 0) {
  Read result;
  FigureBuilder::Options options;
  options.memory = memory;
  options.slices = 17;
  FigureBuilder builder(options);
  TraceHead head;
  const auto done = read_trace(path, &builder, &head, [](uint64_t, uint64_t) {});
  if (!done) {
    result.error = done.error().text();
    result.has_byte = done.error().has_byte;
  }
  std::string error;
  EXPECT_TRUE(builder.finish(head, skew, participant, &result.figures, &error)) << error;
  return result;
}

uint64_t number(const Json& object, const char* key) {
  return object.contains(key) ? object[key].get<uint64_t>() : 0;
}

// The reference names collectives as NCCL does; the record's classes are coarser.
Collective class_of(const std::string& reference_name) {
  const std::pair<const char*, Collective> kNames[] = {
      {"nccl:AllReduce", Collective::kAllReduce},
      {"nccl:AllGather", Collective::kAllGather},
      {"nccl:Broadcast", Collective::kBroadcast},
      {"nccl:SendRecv", Collective::kSendReceive},
      {"multimem_all_reduce", Collective::kAllReduce}};
  for (const auto& [name, collective] : kNames) {
    if (reference_name == name) return collective;
  }
  ADD_FAILURE() << "no class for the reference's " << reference_name;
  return Collective::kOther;
}

void expect_sums(const Attribution& sums, const Json& expected) {
  const TimeSums& time = sums.time;
  EXPECT_EQ(time.span_ns(), expected["span_ns"]);
  EXPECT_EQ(time.busy_ns(), expected["busy_ns"]);
  EXPECT_EQ(time.idle_ns(), expected["idle_ns"]);
  EXPECT_EQ(time.compute_ns(), expected["compute_union_ns"]);
  EXPECT_EQ(sums.communication_ns(), expected["comm_union_ns"]);
  EXPECT_EQ(sums.memory_ns(), expected["memory_union_ns"]);
  EXPECT_EQ(time.exposed_communication_ns(), expected["exposed_comm_ns"]);
  EXPECT_EQ(time.partition_ns[kCommunication], expected["exposed_comm_strict_ns"]);
  EXPECT_EQ(time.overlapped_communication_ns(), expected["overlapped_comm_ns"]);
  EXPECT_EQ(time.exposed_memory_ns(), expected["memory_only_ns"]);
  const char* kParts[] = {nullptr, "C", "N", "CN", "M", "CM", "NM", "CNM"};
  for (int mask = 1; mask < kMasks; ++mask) {
    EXPECT_EQ(time.partition_ns[mask], expected["partition_ns"][kParts[mask]]) << kParts[mask];
  }
  EXPECT_EQ(sums.compute.count, number(expected["count"], "compute"));
  EXPECT_EQ(sums.communication.count, number(expected["count"], "comm"));
  EXPECT_EQ(sums.memory.count, number(expected["count"], "memory"));
  EXPECT_EQ(sums.compute.ns, number(expected["sum_ns"], "compute"));
  EXPECT_EQ(sums.communication.ns, number(expected["sum_ns"], "comm"));
  EXPECT_EQ(sums.memory.ns, number(expected["sum_ns"], "memory"));
  EXPECT_EQ(sums.late, 0u);
  CountedTime collectives[kCollectives];
  for (const auto& [name, counted] : expected["collectives"].items()) {
    collectives[static_cast<int>(class_of(name))].add({counted["count"], counted["sum_ns"]});
  }
  for (int i = 0; i < kCollectives; ++i) {
    EXPECT_EQ(sums.collectives[i].count, collectives[i].count) << i;
    EXPECT_EQ(sums.collectives[i].ns, collectives[i].ns) << i;
  }
}

void expect_figures(const TraceFigures& figures, const Json& expected) {
  EXPECT_EQ(figures.operations, expected["gpu_events"]);
  EXPECT_EQ(figures.streams, expected["streams"]);
  EXPECT_EQ(figures.gpu_step_marks, expected["gpu_step_marks"]);
  EXPECT_EQ(figures.untimed, number(expected["malformed"], "no ts/dur"));
  EXPECT_EQ(figures.zero, number(expected["malformed"], "zero dur"));
  EXPECT_EQ(figures.reversed, number(expected["malformed"], "negative dur"));
  EXPECT_EQ(figures.invalid, 0u);
  if (expected["uncorrelated"].is_null()) {
    EXPECT_FALSE(figures.launches_known);
  } else {
    EXPECT_TRUE(figures.launches_known);
    EXPECT_EQ(figures.uncorrelated, expected["uncorrelated"]);
  }
  auto same = [](const Json& value, const std::optional<int64_t>& ours) {
    return value.is_null() ? !ours : ours && *ours == value.get<int64_t>();
  };
  EXPECT_TRUE(same(expected["base_time_ns"], figures.head.base_time_ns));
  EXPECT_TRUE(same(expected["distributed"].value("rank", Json()), figures.head.rank));
  EXPECT_TRUE(same(expected["distributed"].value("world_size", Json()), figures.head.world_size));
  EXPECT_EQ(figures.head.backend, expected["distributed"].value("backend", ""));
  EXPECT_EQ(figures.head.nccl_version, expected["distributed"].value("nccl_version", ""));

  ASSERT_EQ(figures.devices.size(), expected["devices"].size());
  for (const DeviceFigures& device : figures.devices) {
    const std::string key = std::to_string(device.device);
    ASSERT_TRUE(expected["devices"].contains(key));
    SCOPED_TRACE("device " + key);
    expect_sums(device.sums, expected["devices"][key]);
    // The slices are the same time, cut.
    TimeSums whole;
    for (const TimeSums& slice : device.series) {
      for (int i = 0; i < kMasks; ++i) whole.partition_ns[i] += slice.partition_ns[i];
      whole.span_end_ns += slice.span_ns();
    }
    EXPECT_EQ(whole.span_ns(), device.sums.time.span_ns());
    for (int i = 0; i < kMasks; ++i) {
      EXPECT_EQ(whole.partition_ns[i], device.sums.time.partition_ns[i]) << i;
    }
  }
  ASSERT_EQ(figures.steps.size(), expected["steps"].size());
  for (size_t i = 0; i < figures.steps.size(); ++i) {
    const StepFigures& step = figures.steps[i];
    const Json& wanted = expected["steps"][i];
    SCOPED_TRACE(step.name);
    EXPECT_EQ(step.name, wanted["step"]);
    EXPECT_EQ(step.start_ns, wanted["cpu_start_ns"]);
    EXPECT_EQ(step.duration_ns, wanted["cpu_dur_ns"]);
    EXPECT_EQ(step.operations, wanted["kernels_by_launch"]);
    if (!wanted["by_launch"].is_null()) expect_sums(step.sums, wanted["by_launch"]);
  }
}

// `memory` of a few records makes every sorter spill and merge.
void expect_all_sets(size_t memory) {
  size_t files = 0;
  for (const std::string& name : names_in(shared() + "expected")) {
    if (!name.ends_with(".ref.json")) continue;
    const Json expected = json_of(shared() + "expected/" + name);
    for (const auto& [file, wanted] : expected.items()) {
      const std::string path = wanted["file"];
      SCOPED_TRACE(path);
      const Read result = read(shared() + path, memory);
      EXPECT_EQ(result.error, "");
      expect_figures(result.figures, wanted);
      ++files;
    }
  }
  EXPECT_EQ(files, 42u);  // rows of INDEX.tsv
}

TEST(Traces, EveryIntegerOfEverySet) {
  if (!present()) GTEST_SKIP() << "no trace sets in " << shared();
  expect_all_sets(16 << 20);
}

TEST(Traces, SortedOnDiskTheSame) {
  if (!present()) GTEST_SKIP() << "no trace sets in " << shared();
  expect_all_sets(20'000);
}

TEST(Traces, CollectivesAlignedOverRanks) {
  if (!present()) GTEST_SKIP() << "no trace sets in " << shared();
  const Json all = json_of(shared() + "expected/collective_skew.json");
  for (const auto& [set, expected] : all.items()) {
    SCOPED_TRACE(set);
    CollectiveSkew skew(1 << 12);
    std::vector<std::string> ranks;
    for (const std::string& name : names_in(shared() + set)) {
      read(shared() + set + "/" + name, 16 << 20, &skew, ranks.size());
      ranks.push_back(name);
    }
    SkewFigures figures;
    std::string error;
    ASSERT_TRUE(skew.finish(&figures, &error)) << error;
    EXPECT_EQ(figures.all_aligned(), expected["same_name_sequence"]);
    uint64_t least_wait = UINT64_MAX;
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(figures.participants[i].collectives, expected["collectives_per_rank"][ranks[i]]);
      if (!figures.all_aligned()) continue;
      EXPECT_EQ(figures.participants[i].wait_ns, expected["wait_estimate_ns"][ranks[i]]);
      least_wait = std::min(least_wait, figures.participants[i].wait_ns);
    }
    if (!figures.all_aligned()) continue;
    EXPECT_EQ(figures.transfer_ns, expected["sum_of_min_duration_ns"]);
    EXPECT_EQ(figures.start_spread.median_ns, expected["start_time_spread_ns"]["median"]);
    EXPECT_EQ(figures.start_spread.largest_ns, expected["start_time_spread_ns"]["max"]);
    EXPECT_EQ(figures.end_spread.median_ns, expected["end_time_spread_ns"]["median"]);
    EXPECT_EQ(figures.end_spread.largest_ns, expected["end_time_spread_ns"]["max"]);
    EXPECT_TRUE(figures.has_slowest);
  }
}

uint64_t percent_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : part * 10'000 / whole;  // in 1/100 %
}

TEST(Traces, EveryTrap) {
  if (!present()) GTEST_SKIP() << "no traps in " << shared();
  const Json traps = json_of(shared() + "traps/expected.json");
  EXPECT_EQ(traps.size(), 20u);
  for (const Json& trap : traps) {
    const std::string file = trap["file"];
    SCOPED_TRACE(file);
    const Read result = read(shared() + "traps/" + file);
    const TraceFigures& figures = result.figures;
    const Attribution none;
    const Attribution& sums = figures.devices.empty() ? none : figures.devices[0].sums;
    EXPECT_LE(figures.devices.size(), 1u);
    if (!trap["expected"].contains("error")) {
      EXPECT_EQ(result.error, "");
    }
    for (const auto& [key, value] : trap["expected"].items()) {
      SCOPED_TRACE(key);
      if (key == "error") {
        EXPECT_NE(result.error, "");
        EXPECT_TRUE(result.has_byte);
      } else if (key == "message_must_give") {
        EXPECT_NE(result.error.find("byte "), std::string::npos);
      } else if (key == "or_partial_with_warning") {
        EXPECT_GT(figures.operations, 0u);  // what --partial would show
      } else if (key == "must_say") {
        EXPECT_EQ(figures.operations, 0u);  // the reports say so, see analyze_test.cc
      } else if (key == "step_compute_ns") {
        for (const auto& [step, ns] : value.items()) {
          auto found =
              std::find_if(figures.steps.begin(), figures.steps.end(),
                           [&step = step](const StepFigures& s) { return s.name == step; });
          ASSERT_NE(found, figures.steps.end());
          EXPECT_EQ(found->sums.time.compute_ns(), ns);
        }
      } else if (key == "overlap_pct") {
        EXPECT_EQ(percent_of(sums.time.overlapped_communication_ns(), sums.communication_ns()),
                  static_cast<uint64_t>(value.get<double>() * 100));
      } else {
        const std::map<std::string, uint64_t> ours = {
            {"busy_ns", sums.time.busy_ns()},
            {"comm_ns", sums.communication_ns()},
            {"comm_sum_ns", sums.communication.ns},
            {"comm_union_ns", sums.communication_ns()},
            {"compute_ns", sums.time.compute_ns()},
            {"compute_sum_ns", sums.compute.ns},
            {"compute_union_ns", sums.time.compute_ns()},
            {"exposed_comm_ns", sums.time.exposed_communication_ns()},
            {"idle_ns", sums.time.idle_ns()},
            {"invalid", figures.invalid},
            {"kernels", figures.kernel_count},
            {"launches_without_kernel", figures.launches_without_kernel},
            {"memcpy_ns", sums.memory_ns()},
            {"negative_launch_latency", figures.kernels_before_launch},
            {"span_ns", sums.time.span_ns()},
            {"steps", figures.steps.size()}};
        ASSERT_TRUE(ours.contains(key));
        EXPECT_EQ(ours.at(key), value.get<uint64_t>());
      }
    }
  }
}

}  // namespace
}  // namespace mfu
