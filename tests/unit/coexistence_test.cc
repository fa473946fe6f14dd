// The injected library next to others: clients of CUPTI that come, go, or were first; many contexts
// and devices; CUDA graphs; forks; and libcupti under other names. Every count is exact.
#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/unit/profiled_process.hh"

namespace mfu {
namespace {

using fake::kinetoCollect;
using fake::KinetoProfile;
using fake::kinetoResume;
using fake::kinetoStart;
using fake::kinetoStop;
using fake::kinetoSubscribe;
using fake::kinetoTeardown;
using fake::kinetoUnsubscribe;

// Another client of CUPTI, from a library of its own.
class Kineto {
 public:
  explicit Kineto(const char* library = "libkineto_client.so") {
    // It asks for the SONAME; the system may have a real one.
    if (dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD) == nullptr) fake::load("libcupti.so.13");
    library_ = fake::load(library);
  }

  void start() { EXPECT_EQ(FAKE(library_, kinetoStart)(), 0); }
  void resume() { EXPECT_EQ(FAKE(library_, kinetoResume)(), 0); }
  void stop() { EXPECT_EQ(FAKE(library_, kinetoStop)(), 0); }
  KinetoProfile collect() {
    KinetoProfile profile;
    FAKE(library_, kinetoCollect)(&profile);
    EXPECT_EQ(profile.failure, 0);
    EXPECT_EQ(profile.others, 0u);
    EXPECT_EQ(profile.foreign_clock, 0u);
    EXPECT_EQ(profile.foreign_buffers, 0u);
    EXPECT_EQ(profile.outstanding, 0u);
    return profile;
  }
  int subscribe() { return FAKE(library_, kinetoSubscribe)(); }
  int unsubscribe() { return FAKE(library_, kinetoUnsubscribe)(); }
  int tear_down() { return FAKE(library_, kinetoTeardown)(); }

 private:
  void* library_;
};

// A kernel of 3 ms every 20 ms; what is recorded must be all of them but those in the gap.
constexpr uint64_t kKernelNs = 3 * kMillisecond;
constexpr unsigned kPauseMs = 20;

// When kernels were submitted and when the other client was there, in memory that the parent sees.
// Threads may be stopped anywhere: what is expected follows from times read before and after, and
// from what the log of CUPTI's calls shows, never from how long something takes.
class Ticker {
 public:
  std::atomic<uint32_t> count;
  uint64_t at_ns[4096];
  // The other client comes between these two,
  uint64_t begin_ns;
  uint64_t taken_ns;
  uint64_t again_ns;  // it had come a second time
  // and has not left before this one.
  uint64_t end_ns;
  // When the profiler certainly was not yet back, and when it was.
  uint64_t away_ns;
  uint64_t back_ns;

  static Ticker* shared() {
    void* memory =
        mmap(nullptr, sizeof(Ticker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Ticker* ticker = new (memory) Ticker{};
    unlink(log().c_str());
    return ticker;
  }
  // `others` and the log of CUPTI's calls.
  static Environment environment(Environment others = {}) {
    others["FAKE_CUPTI_LOG"] = log();
    return others;
  }
  static size_t calls(std::string_view call) {
    std::ifstream file(log());
    std::string all{std::istreambuf_iterator<char>(file), {}};
    size_t found = 0;
    for (size_t at = 0; (at = all.find(call, at)) != all.npos; ++at) ++found;
    return found;
  }

  void tick(Gpu* gpu) {
    sleep_ms(kPauseMs);
    at_ns[count++ % std::size(at_ns)] = now_ns();
    gpu->run_kernel(kKernelNs);
  }
  void tick_for(Gpu* gpu, uint64_t ns) {
    for (uint64_t end_ns = now_ns() + ns; now_ns() < end_ns;) tick(gpu);
  }
  void begin() { begin_ns = now_ns(); }
  // The other client has CUPTI, and its last calls that the profiler makes as well are behind it.
  void taken() {
    taken_ns = now_ns();
    note_calls();
  }
  void taken_again() {
    again_ns = now_ns();
    note_calls();
  }
  void end() { end_ns = now_ns(); }
  // Until the profiler is back and has flushed once.
  template <typename Body>
  void await_return(Body&& meanwhile) {
    for (away_ns = now_ns(); meanwhile(), calls(kReturn) == returns_;) away_ns = now_ns();
    while (calls(kArrival) == arrivals_) meanwhile();
    for (size_t flushes = calls(kFlush); calls(kFlush) == flushes;) meanwhile();
    back_ns = now_ns();
  }
  void await_return() {
    await_return([] { sleep_ms(kPauseMs); });
  }
  void tick_until_back(Gpu* gpu) {
    await_return([&] { tick(gpu); });
    tick_for(gpu, kSecond / 10);
  }
  // Until the profiler has disabled a kind: it was there before away_ns, and not from back_ns on.
  void await_stand_down(Gpu* gpu) {
    while (calls(kDisable) == 0) {
      away_ns = now_ns();
      tick(gpu);
    }
    back_ns = now_ns();
  }
  // For a whole turn of the worker and what is left of the one before.
  template <typename Body>
  void await_turn(Body&& meanwhile) {
    for (size_t flushes = calls(kFlush); calls(kFlush) < flushes + 2;) meanwhile();
  }
  // Until CUPTI sees no call for a second: how many it has seen.
  static size_t await_silence() {
    for (size_t before = calls("\n");; before = calls("\n")) {
      sleep_ms(1000);
      if (calls("\n") == before) return before;
    }
  }
  uint64_t outside(uint64_t from_ns, uint64_t to_ns) const {
    EXPECT_LE(count, std::size(at_ns));
    return static_cast<uint64_t>(std::count_if(
        at_ns, at_ns + count, [&](uint64_t at) { return at < from_ns || at >= to_ns; }));
  }

 private:
  static constexpr const char* kReturn = "cuptiActivityRegisterCallbacks";
  static constexpr const char* kArrival = "cuptiActivityEnable:22";  // no kind of the other's
  static constexpr const char* kDisable = "cuptiActivityDisable";
  static constexpr const char* kFlush = "cuptiActivityFlushAll";
  void note_calls() {
    returns_ = calls(kReturn);
    arrivals_ = calls(kArrival);
  }
  static const std::string& log() {
    static const std::string path =
        testing::TempDir() + "coexistence-calls" + std::to_string(getpid());
    return path;
  }

  size_t returns_;
  size_t arrivals_;
};

// One gap, from when the other client came, or from our begin if it was there before us, to when
// the profiler came back. All that ran after it is in the record.
void expect_times(const Record& record, const Ticker& ticker) {
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.dropped + record.implausible + record.late, 0u);
  const uint64_t begin_ns = std::max(ticker.begin_ns, record.started_ns);
  const uint64_t taken_ns = std::max(ticker.taken_ns, record.started_ns);
  EXPECT_GE(record.lost_ns, std::max(ticker.end_ns, ticker.away_ns) - taken_ns);
  EXPECT_LE(record.lost_ns, ticker.back_ns - begin_ns);
  EXPECT_GE(record.compute_kernels, ticker.outside(begin_ns, taken_ns + record.lost_ns));
  EXPECT_GT(record.compute_kernels, ticker.outside(begin_ns, UINT64_MAX)) << "none after the gap";
}

// And nothing that ran in it is.
void expect_gap(const Record& record, const Ticker& ticker) {
  expect_times(record, ticker);
  EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown | kInCupti), kFinished);
  EXPECT_EQ(record.unfinished + record.zero_times + record.reversed, 0u);
  // One that was submitted while the profiler was coming back may be in it or not.
  EXPECT_LE(record.compute_kernels, ticker.outside(ticker.begin_ns, ticker.away_ns));
  // Times after the gap are by the other's clock: two readings of both clocks stand behind each.
  const double expected = static_cast<double>(record.compute_kernels * kKernelNs);
  EXPECT_NEAR(static_cast<double>(record.time.compute_ns()), expected, expected / 1000);
}

void kineto_session(Kineto* kineto, Ticker* ticker, Gpu* gpu) {
  ticker->begin();
  kineto->start();
  ticker->taken();
  const uint32_t before = ticker->count;
  ticker->tick_for(gpu, kSecond);
  gpu->run(GpuWork::kMemcpy, 1000);
  gpu->run(GpuWork::kMemset, 1000);
  gpu->run(GpuWork::kMemcpyPeer, 1000);  // not a kind of its own
  const uint32_t kernels = ticker->count - before;
  kineto->stop();
  ticker->tick(gpu);
  ticker->end();
  KinetoProfile profile = kineto->collect();
  EXPECT_EQ(profile.kernels, kernels);
  EXPECT_EQ(profile.copies, 1u);
  EXPECT_EQ(profile.fills, 1u);
  const double busy_ns = static_cast<double>(kernels * kKernelNs + 2000);
  EXPECT_NEAR(static_cast<double>(profile.busy_ns), busy_ns, busy_ns / 1000);
}

class AnotherClient : public testing::TestWithParam<const char*> {};

TEST_P(AnotherClient, ComesAndLeaves) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto(GetParam());
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_until_back(&gpu);
  });
  expect_gap(records[0], ticker);
  EXPECT_EQ(records[0].copies, 0u);
}

INSTANTIATE_TEST_SUITE_P(Bound, AnotherClient,
                         testing::Values("libkineto_client.so", "libkineto_client_now.so",
                                         "libkineto_client_by_name.so"),
                         [](const auto& info) {
                           return info.index == 0   ? "Lazily"
                                  : info.index == 1 ? "WhenLoaded"
                                                    : "ByName";
                         });

// Its library is opened when the profiler has long been there.
TEST(Coexistence, ClientIsLoadedLater) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    Kineto kineto;
    ticker.await_turn([&] { ticker.tick(&gpu); });
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_until_back(&gpu);
  });
  expect_gap(records[0], ticker);
}

// The same of one that finds CUPTI by dlsym, whether or not calls of cuBLAS are counted, which is
// the other reason to look after dlsym.
TEST(Coexistence, ClientByNameIsLoadedLater) {
  for (const char* count : {"on", "off"}) {
    Ticker& ticker = *Ticker::shared();
    std::vector<Record> records = profiled(ticker.environment({{"MFU_COUNT", count}}), [&] {
      fake::load("libcupti.so.13");
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 2);
      Kineto kineto("libkineto_client_by_name.so");
      ticker.await_turn([&] { ticker.tick(&gpu); });
      kineto_session(&kineto, &ticker, &gpu);
      ticker.tick_until_back(&gpu);
    });
    SCOPED_TRACE(count);
    expect_gap(records[0], ticker);
  }
}

// While it is there CUPTI sees no call of ours, and after it has left all of ours again.
TEST(Coexistence, NoCallWhileTheOtherIsThere) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(400);
    kineto.start();
    ticker.taken();
    gpu.run_kernel(1000);
    const size_t before = ticker.await_silence();
    sleep_ms(2500);
    EXPECT_EQ(ticker.calls("\n"), before);
    kineto.stop();
    kineto.collect();
    ticker.await_return();
  });
  EXPECT_EQ(records[0].compute_kernels, 1u);
}

// It starts again and again, also before we are back.
TEST(Coexistence, ClientComesAgain) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 5);
    for (unsigned round = 0; round < 6; ++round) {
      kineto.start();
      ticker.taken();
      for (int i = 0; i < 5; ++i) gpu.run_kernel(1000);
      kineto.stop();
      EXPECT_EQ(kineto.collect().kernels, 5u);
      sleep_ms(300 * round);
    }
    ticker.await_return();
    ticker.tick_for(&gpu, kSecond / 2);
  });
  EXPECT_EQ(records[0].state, State::kOk);
  EXPECT_GT(records[0].lost_ns, 0u);
  EXPECT_EQ(records[0].implausible + records[0].dropped + records[0].reversed, 0u);
  EXPECT_EQ(records[0].compute_kernels, ticker.count);
}

// It comes back while we do: it waits until we are out of CUPTI, or not for ever.
TEST(Coexistence, ClientComesWhileWeComeBack) {
  for (std::string slow : {"cuptiActivityEnable@5", "cuptiActivityRegisterCallbacks@2"}) {
    const std::string called = slow.substr(0, slow.find('@'));
    Ticker& ticker = *Ticker::shared();
    Environment environment = ticker.environment({{"FAKE_CUPTI_FAULT", "slow=" + slow}});
    std::vector<Record> records = profiled(environment, [&] {
      Kineto kineto;
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 5);
      ticker.begin();
      kineto.start();
      ticker.taken();
      const size_t calls = ticker.calls(called);
      gpu.run_kernel(1000);
      kineto.stop();
      EXPECT_EQ(kineto.collect().kernels, 1u);
      while (ticker.calls(called) == calls) ticker.tick(&gpu);
      kineto.start();
      ticker.taken_again();
      const uint32_t before = ticker.count;
      ticker.tick_for(&gpu, kSecond / 5);
      const uint32_t kernels = ticker.count - before;
      kineto.stop();
      ticker.end();
      EXPECT_EQ(kineto.collect().kernels, kernels);
      ticker.tick_until_back(&gpu);
    });
    SCOPED_TRACE(slow);
    expect_times(records[0], ticker);
    // What runs while we come back the first time may be counted, and so is its time as lost.
    EXPECT_LE(records[0].compute_kernels, ticker.outside(ticker.again_ns, ticker.away_ns));
  }
}

// It registers its callbacks once, and later enables its kinds alone.
TEST(Coexistence, ClientComesWithItsKindsAlone) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    kineto.start();
    ticker.taken();
    gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 1u);
    ticker.await_return();
    ticker.tick_for(&gpu, kSecond / 2);
    kineto.resume();
    ticker.taken();
    for (int i = 0; i < 8; ++i) gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 8u);
    ticker.await_return();
    ticker.tick_for(&gpu, kSecond / 2);
  });
  EXPECT_EQ(records[0].state, State::kOk);
  EXPECT_EQ(records[0].dropped + records[0].implausible, 0u);
  EXPECT_GT(records[0].lost_ns, 0u);
  EXPECT_EQ(records[0].compute_kernels, ticker.count);
}

// It disables its kinds once more when we are back: ours stay.
TEST(Coexistence, ClientDisablesOurKinds) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_until_back(&gpu);
    kineto.stop();
    kineto.collect();
    ticker.tick_for(&gpu, kSecond / 5);
  });
  expect_gap(records[0], ticker);
}

// It disables its kinds and never asks for its buffers: a pause without a call ends its stay, and
// its records go where they belong.
TEST(Coexistence, ClientForgetsItsBuffers) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin();
    kineto.start();
    ticker.taken();
    for (int i = 0; i < 7; ++i) gpu.run_kernel(1000);
    kineto.stop();
    ticker.end();
    ticker.tick_until_back(&gpu);
    EXPECT_EQ(kineto.collect().kernels, 7u);
    ticker.tick_for(&gpu, kSecond / 5);
  });
  expect_gap(records[0], ticker);
}

TEST(Coexistence, ClientStaysToTheEnd) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin();
    kineto.start();
    ticker.taken();
    uint32_t before = ticker.count;
    ticker.tick_for(&gpu, kSecond);
    ticker.end();
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, ticker.count - before);
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.compute_kernels, ticker.outside(ticker.begin_ns, UINT64_MAX));
  EXPECT_GE(record.lost_ns, ticker.end_ns - ticker.taken_ns);
  EXPECT_LE(record.lost_ns, record.published_ns - ticker.begin_ns);
}

// After cuptiFinalize nobody can use CUPTI again without risk.
TEST(Coexistence, ClientTearsCuptiDown) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin();
    EXPECT_EQ(kineto.tear_down(), 0);
    ticker.taken();
    ticker.tick_for(&gpu, 5 * kSecond);  // longer than the quiet after which others are gone
    ticker.end();
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown), kFinished);
  EXPECT_EQ(record.compute_kernels, ticker.outside(ticker.begin_ns, UINT64_MAX));
  EXPECT_GE(record.lost_ns, ticker.end_ns - ticker.taken_ns);
}

// A kernel that runs when the other comes: its time up to then is told as missing, no more.
TEST(Coexistence, KernelRunsAcrossTheGap) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(300);
    const uint64_t runs_since_ns = now_ns() - 100 * kMillisecond;
    gpu.submit(fake::Session::kernel(runs_since_ns, 100 * kSecond));
    gpu.submit(fake::Session::kernel(now_ns() + 100 * kSecond, 1000));  // has not begun
    ticker.begin_ns = runs_since_ns;
    kineto.start();
    ticker.taken();
    sleep_ms(1500);
    gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 1u);
    ticker.await_return();
    gpu.run_kernel(1000);
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.compute_kernels, 2u);
  EXPECT_EQ(record.unfinished, 1u);
  EXPECT_EQ(record.zero_times, 0u);
  EXPECT_GE(record.late_ns, 100 * kMillisecond);
  EXPECT_LE(record.late_ns, ticker.taken_ns - ticker.begin_ns);
}

// --- a subscriber that was first

TEST(Coexistence, SubscriberWasFirstAndLeaves) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    fake::load("libcuda.so.1");
    Kineto tool;
    EXPECT_EQ(tool.subscribe(), 0);
    ticker.begin();
    ticker.taken();
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond);
    ticker.end();
    EXPECT_EQ(tool.unsubscribe(), 0);
    ticker.tick_until_back(&gpu);
  });
  expect_gap(records[0], ticker);
}

TEST(Coexistence, SubscriberWasFirstAndStays) {
  std::vector<Record> records = profiled({}, [&] {
    fake::load("libcuda.so.1");
    Kineto tool;
    EXPECT_EQ(tool.subscribe(), 0);
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(1200);
  });
  EXPECT_EQ(records[0].state, State::kCuptiBusy);
  EXPECT_EQ(records[0].cupti_result, 39);
  EXPECT_EQ(records[0].compute_kernels, 0u);
}

// nsys and the like are outside of the process.
TEST(Coexistence, ToolOutsideOfTheProcess) {
  std::vector<Record> records = profiled({{"FAKE_CUPTI_FAIL", "cuptiSubscribe=39"}}, [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(100);
    _exit(0);  // no last word
  });
  EXPECT_EQ(records[0].state, State::kCuptiBusy);
}

TEST(Coexistence, SubscriberComesLater) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto tool;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin();
    EXPECT_EQ(tool.subscribe(), 0);
    ticker.taken();
    ticker.tick_for(&gpu, kSecond);
    ticker.end();
    EXPECT_EQ(tool.unsubscribe(), 0);
    ticker.tick_until_back(&gpu);
  });
  expect_gap(records[0], ticker);
}

// --- its own budget

TEST(Coexistence, StoodDownForGood) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment({{"MFU_BUDGET", "0.00001"}}), [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.await_stand_down(&gpu);
    ticker.tick_for(&gpu, kSecond);
    // Also what was left in CUPTI has gone: the other's records are its own from the first on.
    kineto.start();
    for (int i = 0; i < 9; ++i) gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 9u);
    ticker.tick_for(&gpu, 2 * kSecond);
  });
  EXPECT_EQ(records[0].state, State::kStoodDown);
  EXPECT_GE(records[0].compute_kernels, ticker.outside(ticker.away_ns, UINT64_MAX));
  EXPECT_LE(records[0].compute_kernels, ticker.outside(ticker.back_ns, UINT64_MAX));
  EXPECT_GE(ticker.back_ns - records[0].started_ns, 10 * kSecond);
}

// --- contexts, devices, graphs, children

// More contexts at a time than buffers wait at most, and each with one of its own.
TEST(Coexistence, ManyContexts) {
  constexpr int kContexts = 64;
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    auto create = FAKE(gpu.driver(), cuCtxCreate_v4);
    auto destroy = FAKE(gpu.driver(), cuCtxDestroy_v2);
    for (int round = 0; round < 3; ++round) {
      std::vector<CUcontext> contexts(kContexts);
      for (CUcontext& context : contexts) EXPECT_EQ(create(&context, nullptr, 0, 0), CUDA_SUCCESS);
      for (int i = 0; i < 10; ++i) {
        uint64_t start_ns = now_ns() - kContexts * 1000;
        for (CUcontext context : contexts) {
          GpuOperation operation = fake::Session::kernel(start_ns, 1000);
          operation.context = context;
          gpu.submit(operation);
          start_ns += 1000;
        }
      }
      for (CUcontext context : contexts) EXPECT_EQ(destroy(context), CUDA_SUCCESS);
      ticker.await_turn([] { sleep_ms(kPauseMs); });
    }
  });
  expect_whole(records[0]);
  EXPECT_EQ(records[0].compute_kernels, 3u * 10 * kContexts);
}

TEST(Coexistence, SeveralDevices) {
  std::vector<Record> records = profiled({{"FAKE_CUDA_DEVICES", "8"}}, [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    for (uint64_t i = 0; i < 50; ++i) {
      uint64_t start_ns = now_ns() - kMillisecond;
      for (int device = 0; device < 8; ++device) {
        GpuOperation kernel =
            fake::Session::kernel(start_ns, 1000 * static_cast<uint64_t>(device + 1));
        kernel.device = device;
        gpu.submit(kernel);
      }
      sleep_ms(5);
    }
  });
  ASSERT_EQ(records.size(), 8u);
  for (uint32_t device = 0; device < 8; ++device) {
    expect_whole(records[device]);
    EXPECT_EQ(records[device].device, device);
    EXPECT_EQ(records[device].compute_kernels, 50u);
    EXPECT_EQ(records[device].time.compute_ns(), 50u * 1000 * (device + 1));
  }
}

// The kernels of a graph launch have one correlation id, and some run at the same time on other
// streams: each counts.
TEST(Coexistence, CudaGraphs) {
  constexpr uint64_t kLaunches = 200;
  constexpr uint64_t kNodes = 12;
  std::vector<Record> records = profiled({}, [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    for (uint64_t launch = 0; launch < kLaunches; ++launch) {
      uint64_t start_ns = now_ns() - kMillisecond;
      for (uint64_t node = 0; node < kNodes; ++node) {
        GpuOperation operation = fake::Session::kernel(start_ns + node / 2 * 10'000, 10'000);
        operation.stream = 7 + static_cast<uint32_t>(node % 2);
        operation.correlation = 1000 + static_cast<uint32_t>(launch);
        operation.graph_node = 1 + node;
        gpu.submit(operation);
      }
      sleep_ms(2);
    }
  });
  expect_whole(records[0]);
  EXPECT_EQ(records[0].compute_kernels, kLaunches * kNodes);
  EXPECT_EQ(records[0].time.compute_ns(), kLaunches * kNodes / 2 * 10'000);
}

// A child that is forked in the middle of it touches nothing, and may even call CUPTI itself.
TEST(Coexistence, ForkWhileAnotherClientIsThere) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled(ticker.environment(), [&] {
    Kineto kineto;
    Gpu gpu;
    auto fork_child = [&] {
      pid_t child = fork();
      if (child == 0) {
        alarm(60);
        kineto.subscribe();
        kineto.unsubscribe();
        std::exit(0);
      }
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    };
    ticker.tick_for(&gpu, kSecond / 2);
    fork_child();
    ticker.tick_for(&gpu, kSecond / 5);
    ticker.begin();
    kineto.start();
    ticker.taken();
    uint32_t before = ticker.count;
    ticker.tick_for(&gpu, kSecond / 5);
    fork_child();
    ticker.tick_for(&gpu, kSecond / 5);
    kineto.stop();
    ticker.end();
    EXPECT_EQ(kineto.collect().kernels, ticker.count - before);
    ticker.tick_until_back(&gpu);
    fork_child();
  });
  ASSERT_EQ(records.size(), 1u);
  expect_gap(records[0], ticker);
}

// --- which libcupti

// Copies the fake under another name. Its users ask for its SONAME, which stays.
std::string renamed(const std::filesystem::path& folder, const char* name) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(BUILD_FOLDER "/tests/fake/libcupti.so.13", folder / name,
                             std::filesystem::copy_options::overwrite_existing);
  return folder / name;
}

class OtherName : public testing::TestWithParam<const char*> {};

TEST_P(OtherName, IsFound) {
  std::string folder = testing::TempDir() + "coexistence-names" + std::to_string(getpid());
  std::string path = renamed(folder, GetParam());
  std::vector<Record> records = profiled({}, [&] {
    ASSERT_NE(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    Gpu gpu;
    for (int i = 0; i < 5; ++i) gpu.run_kernel(1000);
    EXPECT_EQ(dlopen(BUILD_FOLDER "/tests/fake/libcupti.so.13", RTLD_NOW | RTLD_NOLOAD), nullptr);
  });
  std::filesystem::remove_all(folder);
  expect_whole(records[0]);
  EXPECT_EQ(records[0].compute_kernels, 5u);
}

INSTANTIATE_TEST_SUITE_P(Of, OtherName,
                         testing::Values("libcupti.so.12", "libcupti.so.2025.3.1",
                                         "libcupti-1a2b3c4d.so.13"),
                         [](const auto& info) { return std::to_string(info.index) + "Libcupti"; });

// Two are mapped. The one that the application's profiler is bound to is ours as well, whichever
// came first: only there do we see it come, and give it what is its own.
TEST(Coexistence, TwoLibrariesAndOneIsUsed) {
  std::string folder = testing::TempDir() + "coexistence-two" + std::to_string(getpid());
  std::string decoy = renamed(folder, "libcupti-decoy.so.13");
  for (bool decoy_first : {false, true}) {
    Ticker& ticker = *Ticker::shared();
    std::vector<Record> records = profiled(ticker.environment(), [&] {
      // The client asks for a SONAME, which both have: the first one is its own.
      if (!decoy_first) fake::load("libcupti.so.13");
      void* other = dlopen(decoy.c_str(), RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(other, nullptr) << dlerror();
      Kineto kineto("libkineto_client_now.so");
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 2);
      kineto_session(&kineto, &ticker, &gpu);
      ticker.tick_until_back(&gpu);
    });
    SCOPED_TRACE(decoy_first);
    expect_gap(records[0], ticker);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mfu
