// Somebody sets the clock while a process runs under the injected library: this program's
// clock_gettime stands in the place of the C library's, also for the library and the fakes.
#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <filesystem>

#include "profiler/clock_ns.hh"
#include "tests/unit/profiled_process.hh"

namespace mfu {
namespace {

using GetTime = int (*)(clockid_t, timespec*);

std::atomic<int64_t> step_s = 0;

GetTime real_clock() {
  static const auto real = reinterpret_cast<GetTime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return real;
}
[[maybe_unused]] const GetTime found_early = real_clock();

std::string log_path() {
  return testing::TempDir() + "mfu-clock-step." + std::to_string(getpid());
}

// Waits for two whole turns of the worker. One that has stood down makes none.
void await_turns() {
  auto flushes = [] {
    std::ifstream file(std::getenv("FAKE_CUPTI_LOG"));
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    size_t found = 0;
    for (size_t at = 0; (at = all.find("cuptiActivityFlushAll", at)) != all.npos; ++at) ++found;
    return found;
  };
  const size_t before = flushes();
  for (int i = 0; i < 600 && flushes() < before + 3; ++i) sleep_ms(10);
}

// The budget is of the time that has passed, which is not yet enough to judge by.
TEST(ClockStep, CostsNoBudget) {
  const std::string log = log_path();
  const uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  std::vector<Record> records = profiled({{"MFU_BUDGET", "0.00001"}, {"FAKE_CUPTI_LOG", log}}, [] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    step_s = 11;
    await_turns();
  });
  std::filesystem::remove(log);
  if (clock_ns(CLOCK_MONOTONIC) - began_ns > 10 * kSecond) GTEST_SKIP() << "the machine is busy";
  EXPECT_EQ(records[0].state, State::kOk);
}

// Records that go missing after the clock was set cost the time since the last look, whichever way
// it was set.
void expect_loss_of_what_has_passed(int64_t set_by_s) {
  const std::string log = log_path();
  const uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  std::vector<Record> records =
      profiled({{"FAKE_CUPTI_FAULT", "drop=2"}, {"FAKE_CUPTI_LOG", log}}, [&] {
        fake::load("libcupti.so.13");
        Gpu gpu;
        await_turns();
        step_s = set_by_s;
        for (int i = 0; i < 10; ++i) gpu.run_kernel(1000);
        await_turns();
      });
  const uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
  std::filesystem::remove(log);
  EXPECT_EQ(records[0].dropped, 5u);
  EXPECT_GT(records[0].lost_ns, 0u);
  EXPECT_LT(records[0].lost_ns, took_ns);
}

TEST(ClockStep, BackLosesNoLoss) {
  expect_loss_of_what_has_passed(-3600);
}

TEST(ClockStep, ForwardLosesNoMoreThanPassed) {
  expect_loss_of_what_has_passed(3600);
}

}  // namespace
}  // namespace mfu

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* now) noexcept {
  const int result = mfu::real_clock()(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += mfu::step_s;
  return result;
}
