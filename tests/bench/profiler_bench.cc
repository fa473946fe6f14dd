// What a GPU operation costs the thread that digests its record, from CUPTI's buffer to the
// published sums, and what the parts of it cost.
#include <benchmark/benchmark.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "profiler/cupti_gate.hh"
#include "profiler/cupti_session.hh"
#include "profiler/kernel.hh"
#include "profiler/process_record.hh"
#include "profiler/record.hh"
#include "profiler/timeline.hh"
#include "tests/bench/activity_feed.hh"
#include "tests/bench/kernel_names.hh"

namespace mfu::bench {
namespace {

// The thread's own time: what else runs on the machine counts less.
uint64_t thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t wall_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <typename Work>
double seconds(Work&& work) {
  const uint64_t begin_ns = thread_ns();
  work();
  return static_cast<double>(thread_ns() - begin_ns) / 1e9;
}

ActivityFeed* feed_or_skip(benchmark::State& state) {
  std::string why;
  ActivityFeed* feed = ActivityFeed::get(&why);
  if (feed == nullptr) state.SkipWithError(("skipped: " + why).c_str());
  return feed;
}

// A figure of records that were refused, or lost, would be a figure of nothing.
void check_published(benchmark::State& state, const Record& before, const Record& record,
                     size_t records) {
  const uint64_t taken = record.compute_kernels + record.communication_kernels -
                         before.compute_kernels - before.communication_kernels;
  if (taken != records) state.SkipWithError("the record does not count every kernel");
  if (record.late != before.late) state.SkipWithError("records came late");
}

// The worker's second: it digests what came back and publishes.
void turn(benchmark::State& state, bool cold) {
  ActivityFeed* feed = feed_or_skip(state);
  if (feed == nullptr) return;
  const Record before = feed->published();
  size_t records = 0;
  for (auto _ : state) {
    records += feed->fill(static_cast<int>(state.range(0)), cold);
    state.SetIterationTime(seconds([] { cupti_session::turn(false); }));
  }
  state.SetItemsProcessed(static_cast<int64_t>(records));
  check_published(state, before, feed->published(), records);
}
void consumer(benchmark::State& state) {
  turn(state, false);
}
void consumer_cold(benchmark::State& state) {
  turn(state, true);
}
BENCHMARK(consumer)->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(consumer_cold)->Arg(16)->UseManualTime();

// Its first part: CUPTI's GetNextRecord, and what we copy out of the record.
void get_next_record(benchmark::State& state) {
  ActivityFeed* feed = feed_or_skip(state);
  if (feed == nullptr) return;
  size_t records = 0;
  for (auto _ : state) {
    void* cursor = nullptr;
    int result = 0;
    cupti::Activity activity;
    while (cupti::next(feed->sample().data(), feed->sample().size(), &cursor, &activity, &result)) {
      benchmark::DoNotOptimize(activity);
      ++records;
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(records));
}
BENCHMARK(get_next_record);

// Its second part: the kernel's class (cached), the timeline, the folding.
void take(benchmark::State& state) {
  ActivityFeed* feed = feed_or_skip(state);
  if (feed == nullptr) return;
  const std::vector<Operation> block = operations(feed->records_per_buffer());
  std::vector<cupti::Activity> activities(block.size());
  uint32_t correlation = 1;
  for (auto _ : state) {
    const uint64_t start_ns = feed->next_block_ns();
    for (size_t i = 0; i < block.size(); ++i) {
      activities[i] = {.kind = cupti::ActivityKind::kKernel,
                       .start_ns = start_ns + block[i].start_ns,
                       .end_ns = start_ns + block[i].end_ns,
                       .stream = block[i].stream,
                       .correlation = correlation++,
                       .grid = {1, 1, 1},
                       .name = block[i].name};
    }
    const uint64_t now_ns = wall_ns();
    state.SetIterationTime(
        seconds([&] { process_record::take(activities.data(), activities.size(), now_ns); }));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(block.size()));
  cupti_session::turn(false);  // publishes: the next benchmark counts from here
}
BENCHMARK(take)->UseManualTime();

enum Order { kInOrder, kInterleaved, kShuffled };

void timeline(benchmark::State& state, Order order, bool with_series) {
  constexpr size_t kCapacity = 8192;
  constexpr size_t kBlock = 1024;  // as in a buffer
  constexpr size_t kCount = 64 * kBlock;
  std::vector<Operation> block = operations(kCount);
  if (order == kInOrder) {
    std::stable_sort(block.begin(), block.end(), [](const Operation& a, const Operation& b) {
      return a.start_ns < b.start_ns;
    });
  }
  std::mt19937_64 random(2);
  for (size_t at = 0; order == kShuffled && at < kCount; at += kBlock) {
    auto begin = block.begin() + static_cast<ptrdiff_t>(at);
    std::shuffle(begin, begin + kBlock, random);
  }
  std::vector<Interval> storage(2 * kCapacity);
  TimeSeries series;
  Timeline timeline(storage.data(), kCapacity, with_series ? &series : nullptr);
  uint64_t base_ns = 1;
  for (auto _ : state) {
    for (const Operation& operation : block) {
      timeline.add(base_ns + operation.start_ns, base_ns + operation.end_ns,
                   operation.communication ? kCommunication : kCompute);
    }
    base_ns += block_span_ns(kCount);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kCount));
  if (timeline.late() != 0) state.SkipWithError("intervals came late");
}
BENCHMARK_CAPTURE(timeline, in_order, kInOrder, false);
BENCHMARK_CAPTURE(timeline, interleaved, kInterleaved, false);
BENCHMARK_CAPTURE(timeline, series, kInterleaved, true);
BENCHMARK_CAPTURE(timeline, shuffled, kShuffled, false);

void classify(benchmark::State& state) {
  std::vector<std::string_view> names(std::begin(kComputeNames), std::end(kComputeNames));
  names.insert(names.end(), std::begin(kCommunicationNames), std::end(kCommunicationNames));
  for (auto _ : state) {
    for (std::string_view name : names) benchmark::DoNotOptimize(classify_kernel(name));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(names.size()));
}
BENCHMARK(classify);

void publish(benchmark::State& state) {
  char folder[] = "/tmp/mfu-bench.XXXXXX";
  RecordFile file;
  if (mkdtemp(folder) == nullptr || !file.create(folder, 1)) {
    return state.SkipWithError("no record file");
  }
  Record record;
  for (auto _ : state) benchmark::DoNotOptimize(file.publish(&record));
  state.SetItemsProcessed(state.iterations());
  std::filesystem::remove_all(folder);
}
BENCHMARK(publish);

// The pool is filled to its last buffer every time. What the process has grown by since before the
// session, at the most, and what the record says was mapped.
void memory(benchmark::State& state) {
  ActivityFeed* feed = feed_or_skip(state);
  if (feed == nullptr) return;
  const Record before = feed->published();
  const auto wanted = static_cast<size_t>(state.range(0));
  size_t records = 0;
  double most_mib = 0;
  double spent = 0;
  for (auto _ : state) {
    for (size_t turns = 0; records < wanted; ++turns) {
      records += feed->fill(32, false);
      spent += seconds([] { cupti_session::turn(false); });
      if (turns % 64 == 0 || records >= wanted) most_mib = std::max(most_mib, resident_mib());
    }
    state.SetIterationTime(spent);
  }
  const Record record = feed->published();
  state.SetItemsProcessed(static_cast<int64_t>(records));
  state.counters["grown_mib"] = most_mib - feed->mib_before();
  state.counters["mapped_mib"] = static_cast<double>(record.memory_bytes) / (1 << 20);
  check_published(state, before, record, records);
}
void lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(10'000'000)->Arg(100'000'000);
  const char* more = std::getenv("MFU_BENCH_LONG");
  if (more != nullptr && *more == '1') benchmark->Arg(1'000'000'000);
}
BENCHMARK(memory)->Apply(lengths)->Iterations(1)->Repetitions(1)->UseManualTime()->Unit(
    benchmark::kSecond);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
