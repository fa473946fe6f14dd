// mfu-analyze's speed and memory on generated traces, and beside HolisticTraceAnalysis on a
// recorded one, each as a process of its own.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/trace_writer.hh"

namespace mfu::bench {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  bool sound = false;
  double cpu_seconds = 0;
  double peak_mib = 0;
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Outcome run(std::vector<std::string> command, bool errors = true) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  if (!errors) posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  rusage used{};
  if (error != 0 || wait4(child, &status, 0, &used) != child) return {};
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0,
          seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024};
}

void measure(benchmark::State& state, const std::vector<std::string>& command, uint64_t bytes) {
  double peak_mib = 0;
  for (auto _ : state) {
    const Outcome outcome = run(command);
    if (!outcome.sound) return state.SkipWithError((command[0] + " failed").c_str());
    state.SetIterationTime(outcome.cpu_seconds);
    peak_mib = std::max(peak_mib, outcome.peak_mib);
  }
  state.counters["peak_mib"] = peak_mib;
  state.SetItemsProcessed(state.iterations());
  if (bytes != 0) state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

const char kAnalyze[] = BUILD_FOLDER "/mfu-analyze";

// `range(0)`: megabytes.
void analyze_written(benchmark::State& state, bool packed) {
  fs::path path = fs::temp_directory_path() / ("mfu-bench." + std::to_string(getpid()) + ".json");
  const WrittenTrace trace = write_trace(path, static_cast<uint64_t>(state.range(0)) * 1'000'000);
  bool sound = trace.bytes != 0;
  if (sound && packed) {
    sound = run({"gzip", "-f", path}).sound;
    path += ".gz";
  }
  if (!sound) {
    state.SkipWithError("no room for the trace");
  } else {
    measure(state, {kAnalyze, "--json", "--quiet", path}, trace.bytes);
  }
  std::error_code ignored;
  fs::remove(path, ignored);
}
void analyze(benchmark::State& state) {
  analyze_written(state, false);
}
// Of the unpacked bytes.
void analyze_packed(benchmark::State& state) {
  analyze_written(state, true);
}
// The longest one is far beyond what mfu-analyze sorts in memory.
void lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(30)->Arg(300);
  const char* more = std::getenv("MFU_BENCH_LONG");
  if (more != nullptr && *more == '1') benchmark->Arg(2000)->Arg(8000);
}
BENCHMARK(analyze)->Apply(lengths)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);
BENCHMARK(analyze_packed)->Arg(300)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

// A recorded trace of 35 MB, 109,123 events.
std::string recorded() {
  const char* shared = std::getenv("MFU_SHARED");
  const fs::path folder = fs::absolute(shared != nullptr ? shared : "../shared").lexically_normal();
  return folder / "data/traces/tracediff-control-a100/rank3.json.gz";
}

bool skip_without_trace(benchmark::State& state) {
  if (fs::exists(recorded())) return false;
  state.SkipWithError("skipped: no recorded traces, set MFU_SHARED");
  return true;
}

void analyze_recorded(benchmark::State& state) {
  if (skip_without_trace(state)) return;
  measure(state, {kAnalyze, "--json", "--quiet", recorded()}, 0);
}
BENCHMARK(analyze_recorded)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

void hta_recorded(benchmark::State& state) {
  if (skip_without_trace(state)) return;
  const char* python = std::getenv("MFU_HTA_PYTHON");
  if (python == nullptr) python = "python3";
  if (!run({python, "-c", "import hta"}, false).sound) {
    state.SkipWithError(
        "skipped: no HolisticTraceAnalysis; make one with python3 -m venv V && "
        "V/bin/pip install HolisticTraceAnalysis, then MFU_HTA_PYTHON=V/bin/python");
    return;
  }
  measure(state, {python, "tests/bench/holistic_trace_analysis.py", recorded()}, 0);
}
BENCHMARK(hta_recorded)->Iterations(1)->UseManualTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
