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

// When kernels were submitted, in memory that the parent sees.
struct Ticker {
  std::atomic<uint32_t> count;
  uint64_t at_ns[4096];
  // The other client's time, from before its first call to after its last one.
  uint64_t begin_ns;
  uint64_t end_ns;

  static Ticker* shared() {
    void* memory =
        mmap(nullptr, sizeof(Ticker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) Ticker{};
  }
  void tick(Gpu* gpu) {
    sleep_ms(kPauseMs);
    at_ns[count++] = now_ns();
    gpu->run_kernel(kKernelNs);
  }
  void tick_for(Gpu* gpu, uint64_t ns) {
    for (uint64_t end_ns = now_ns() + ns; now_ns() < end_ns;) tick(gpu);
  }
  uint64_t outside(uint64_t from_ns, uint64_t to_ns) const {
    return static_cast<uint64_t>(std::count_if(
        at_ns, at_ns + count, [&](uint64_t at) { return at < from_ns || at >= to_ns; }));
  }
};

// One gap, from the other client's begin, or from ours if it was there before us, to when the
// profiler came back.
void expect_gap(const Record& record, const Ticker& ticker, uint64_t most_after_ns) {
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown | kInCupti), kFinished);
  EXPECT_EQ(record.dropped + record.unfinished + record.zero_times, 0u);
  EXPECT_EQ(record.reversed + record.implausible + record.late, 0u);
  const uint64_t others_ns = ticker.end_ns - ticker.begin_ns;
  EXPECT_GE(record.lost_ns, others_ns);
  EXPECT_LT(record.lost_ns, others_ns + most_after_ns);
  const uint64_t begin_ns = std::max(ticker.begin_ns, record.started_ns);
  const uint64_t kernels = ticker.outside(begin_ns, begin_ns + record.lost_ns);
  EXPECT_GT(kernels, ticker.outside(ticker.begin_ns, UINT64_MAX)) << "none after the gap";
  EXPECT_LT(kernels, ticker.count);
  EXPECT_EQ(record.compute_kernels, kernels);
  // Times after the gap are by the other's clock: two readings of both clocks stand behind each.
  const double expected = static_cast<double>(kernels * kKernelNs);
  EXPECT_NEAR(static_cast<double>(record.time.compute_ns()), expected, expected / 1000);
}

// A turn of the worker is a second; its first ones come sooner.
constexpr uint64_t kTurnNs = 1200 * kMillisecond;
constexpr uint64_t kQuietNs = 3000 * kMillisecond;

void kineto_session(Kineto* kineto, Ticker* ticker, Gpu* gpu) {
  ticker->begin_ns = now_ns();
  kineto->start();
  const uint32_t before = ticker->count;
  ticker->tick_for(gpu, kSecond);
  gpu->run(GpuWork::kMemcpy, 1000);
  gpu->run(GpuWork::kMemset, 1000);
  gpu->run(GpuWork::kMemcpyPeer, 1000);  // not a kind of its own
  const uint32_t kernels = ticker->count - before;
  kineto->stop();
  ticker->tick(gpu);
  KinetoProfile profile = kineto->collect();
  ticker->end_ns = now_ns();
  EXPECT_EQ(profile.kernels, kernels);
  EXPECT_EQ(profile.copies, 1u);
  EXPECT_EQ(profile.fills, 1u);
  const double busy_ns = static_cast<double>(kernels * kKernelNs + 2000);
  EXPECT_NEAR(static_cast<double>(profile.busy_ns), busy_ns, busy_ns / 1000);
}

class AnotherClient : public testing::TestWithParam<const char*> {};

TEST_P(AnotherClient, ComesAndLeaves) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto(GetParam());
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_for(&gpu, 2 * kSecond);
  });
  expect_gap(records[0], ticker, kTurnNs);
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
  std::vector<Record> records = profiled({}, [&] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    Kineto kineto;
    ticker.tick_for(&gpu, kTurnNs);
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_for(&gpu, 2 * kSecond);
  });
  expect_gap(records[0], ticker, kTurnNs);
}

// The same of one that finds CUPTI by dlsym, whether or not calls of cuBLAS are counted, which is
// the other reason to look after dlsym.
TEST(Coexistence, ClientByNameIsLoadedLater) {
  for (const char* count : {"on", "off"}) {
    Ticker& ticker = *Ticker::shared();
    std::vector<Record> records = profiled({{"MFU_COUNT", count}}, [&] {
      fake::load("libcupti.so.13");
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 2);
      Kineto kineto("libkineto_client_by_name.so");
      ticker.tick_for(&gpu, kTurnNs);
      kineto_session(&kineto, &ticker, &gpu);
      ticker.tick_for(&gpu, 2 * kSecond);
    });
    SCOPED_TRACE(count);
    expect_gap(records[0], ticker, kTurnNs);
  }
}

// While it is there CUPTI sees no call of ours, and after it has left all of ours again.
TEST(Coexistence, NoCallWhileTheOtherIsThere) {
  std::string log = testing::TempDir() + "coexistence-calls" + std::to_string(getpid());
  auto calls = [&] {
    std::ifstream file(log);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::vector<Record> records = profiled({{"FAKE_CUPTI_LOG", log}}, [&] {
    Kineto kineto;
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(400);
    kineto.start();
    gpu.run_kernel(1000);
    sleep_ms(300);  // the worker digests what came back
    std::string before = calls();
    sleep_ms(2500);
    EXPECT_EQ(calls(), before);
    kineto.stop();
    kineto.collect();
    sleep_ms(1300);
    EXPECT_NE(calls().find("cuptiActivityEnable:22", before.size()), std::string::npos);
  });
  unlink(log.c_str());
  EXPECT_EQ(records[0].compute_kernels, 1u);
}

// It starts again and again, also before we are back.
TEST(Coexistence, ClientComesAgain) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 5);
    for (unsigned round = 0; round < 6; ++round) {
      kineto.start();
      for (int i = 0; i < 5; ++i) gpu.run_kernel(1000);
      kineto.stop();
      EXPECT_EQ(kineto.collect().kernels, 5u);
      sleep_ms(300 * round);
    }
    ticker.tick_for(&gpu, 2 * kSecond);
  });
  EXPECT_EQ(records[0].state, State::kOk);
  EXPECT_GT(records[0].lost_ns, 0u);
  EXPECT_EQ(records[0].implausible + records[0].dropped + records[0].reversed, 0u);
  EXPECT_EQ(records[0].compute_kernels, ticker.count);
}

// It comes back while we do: it waits until we are out of CUPTI, or not for ever.
TEST(Coexistence, ClientComesWhileWeComeBack) {
  for (const char* slow : {"cuptiActivityEnable@5", "cuptiActivityRegisterCallbacks@2"}) {
    std::string log = testing::TempDir() + "coexistence-slow" + std::to_string(getpid());
    unlink(log.c_str());
    std::string called = std::string(slow).substr(0, std::string(slow).find('@'));
    auto calls = [&] {
      std::ifstream file(log);
      std::string all{std::istreambuf_iterator<char>(file), {}};
      size_t count = 0;
      for (size_t at = 0; (at = all.find(called, at)) != all.npos; ++at) ++count;
      return count;
    };
    Environment environment = {{"FAKE_CUPTI_LOG", log},
                               {"FAKE_CUPTI_FAULT", std::string("slow=") + slow}};
    Ticker& ticker = *Ticker::shared();
    std::vector<Record> records = profiled(environment, [&] {
      Kineto kineto;
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 5);
      ticker.begin_ns = now_ns();
      kineto.start();
      gpu.run_kernel(1000);
      kineto.stop();
      EXPECT_EQ(kineto.collect().kernels, 1u);
      for (size_t before = calls(); calls() == before;) ticker.tick(&gpu);
      kineto.start();
      const uint32_t before = ticker.count;
      ticker.tick_for(&gpu, kSecond / 5);
      const uint32_t kernels = ticker.count - before;
      kineto.stop();
      EXPECT_EQ(kineto.collect().kernels, kernels);
      ticker.end_ns = now_ns();
      ticker.tick_for(&gpu, 3 * kSecond);
    });
    unlink(log.c_str());
    SCOPED_TRACE(slow);
    // What runs while we are coming back is counted, and so is its time as lost.
    const Record& record = records[0];
    EXPECT_EQ(record.state, State::kOk);
    EXPECT_EQ(record.dropped + record.implausible + record.late, 0u);
    EXPECT_GE(record.lost_ns, ticker.end_ns - ticker.begin_ns);
    const uint64_t back_ns = ticker.begin_ns + record.lost_ns;
    EXPECT_GE(record.compute_kernels, ticker.outside(ticker.begin_ns, back_ns));
    EXPECT_LE(record.compute_kernels, ticker.outside(ticker.begin_ns, back_ns - kSecond));
    EXPECT_GT(ticker.outside(0, back_ns), 0u) << "never came back";
  }
}

// It registers its callbacks once, and later enables its kinds alone.
TEST(Coexistence, ClientComesWithItsKindsAlone) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    kineto.start();
    gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 1u);
    sleep_ms(1300);
    ticker.tick_for(&gpu, kSecond / 2);
    kineto.resume();
    for (int i = 0; i < 8; ++i) gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 8u);
    sleep_ms(1300);
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
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    kineto_session(&kineto, &ticker, &gpu);
    ticker.tick_for(&gpu, kTurnNs);
    kineto.stop();
    kineto.collect();
    ticker.tick_for(&gpu, kSecond);
  });
  expect_gap(records[0], ticker, kTurnNs);
}

// It disables its kinds and never asks for its buffers: a pause without a call ends its stay, and
// its records go where they belong.
TEST(Coexistence, ClientForgetsItsBuffers) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin_ns = now_ns();
    kineto.start();
    for (int i = 0; i < 7; ++i) gpu.run_kernel(1000);
    kineto.stop();
    ticker.end_ns = now_ns();
    ticker.tick_for(&gpu, kQuietNs + 2 * kTurnNs);
    EXPECT_EQ(kineto.collect().kernels, 7u);
    ticker.tick_for(&gpu, kSecond / 5);
  });
  expect_gap(records[0], ticker, kQuietNs + kTurnNs);
}

TEST(Coexistence, ClientStaysToTheEnd) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin_ns = now_ns();
    kineto.start();
    uint32_t before = ticker.count;
    ticker.tick_for(&gpu, kSecond);
    ticker.end_ns = now_ns();
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, ticker.count - before);
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.compute_kernels, ticker.outside(ticker.begin_ns, UINT64_MAX));
  EXPECT_GE(record.lost_ns, ticker.end_ns - ticker.begin_ns);
  EXPECT_LE(record.lost_ns, record.published_ns - ticker.begin_ns + kMillisecond);
}

// After cuptiFinalize nobody can use CUPTI again without risk.
TEST(Coexistence, ClientTearsCuptiDown) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin_ns = now_ns();
    EXPECT_EQ(kineto.tear_down(), 0);
    ticker.tick_for(&gpu, kQuietNs + 2 * kTurnNs);
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown), kFinished);
  EXPECT_EQ(record.compute_kernels, ticker.outside(ticker.begin_ns, UINT64_MAX));
  EXPECT_GE(record.lost_ns, kQuietNs + 2 * kTurnNs);
}

// A kernel that runs when the other comes: its time up to then is told as missing, no more.
TEST(Coexistence, KernelRunsAcrossTheGap) {
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    gpu.run_kernel(1000);
    sleep_ms(300);
    gpu.submit(fake::Session::kernel(now_ns() - 100 * kMillisecond, 10 * kSecond));
    gpu.submit(fake::Session::kernel(now_ns() + 10 * kSecond, 1000));  // has not begun
    kineto.start();
    sleep_ms(1500);
    gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 1u);
    sleep_ms(1300);
    gpu.run_kernel(1000);
  });
  const Record& record = records[0];
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.compute_kernels, 2u);
  EXPECT_EQ(record.unfinished, 1u);
  EXPECT_EQ(record.zero_times, 0u);
  EXPECT_GE(record.late_ns, 100 * kMillisecond);
  EXPECT_LT(record.late_ns, 400 * kMillisecond);
}

// --- a subscriber that was first

TEST(Coexistence, SubscriberWasFirstAndLeaves) {
  Ticker& ticker = *Ticker::shared();
  std::vector<Record> records = profiled({}, [&] {
    fake::load("libcuda.so.1");
    Kineto tool;
    EXPECT_EQ(tool.subscribe(), 0);
    ticker.begin_ns = now_ns();
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond);
    EXPECT_EQ(tool.unsubscribe(), 0);
    ticker.end_ns = now_ns();
    ticker.tick_for(&gpu, kQuietNs + 2 * kTurnNs);
  });
  expect_gap(records[0], ticker, kQuietNs + kTurnNs);
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
  std::vector<Record> records = profiled({}, [&] {
    Kineto tool;
    Gpu gpu;
    ticker.tick_for(&gpu, kSecond / 2);
    ticker.begin_ns = now_ns();
    EXPECT_EQ(tool.subscribe(), 0);
    ticker.tick_for(&gpu, kSecond);
    EXPECT_EQ(tool.unsubscribe(), 0);
    ticker.end_ns = now_ns();
    ticker.tick_for(&gpu, kQuietNs + 2 * kTurnNs);
  });
  expect_gap(records[0], ticker, kQuietNs + kTurnNs);
}

// --- its own budget

TEST(Coexistence, StoodDownForGood) {
  std::vector<Record> records = profiled({{"MFU_BUDGET", "0.00001"}}, [&] {
    Kineto kineto;
    Gpu gpu;
    for (int i = 0; i < 120; ++i) {
      sleep_ms(100);
      gpu.run_kernel(1000);
    }
    // Also what was left in CUPTI has gone: the other's records are its own from the first on.
    kineto.start();
    for (int i = 0; i < 9; ++i) gpu.run_kernel(1000);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, 9u);
    sleep_ms(1500);
    gpu.run_kernel(1000);
  });
  EXPECT_EQ(records[0].state, State::kStoodDown);
  EXPECT_GT(records[0].compute_kernels, 90u);
  EXPECT_LT(records[0].compute_kernels, 120u);
}

// --- contexts, devices, graphs, children

// More contexts at a time than buffers wait at most, and each with one of its own.
TEST(Coexistence, ManyContexts) {
  constexpr int kContexts = 64;
  std::vector<Record> records = profiled({}, [&] {
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
      sleep_ms(1200);  // a flush
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
  std::vector<Record> records = profiled({}, [&] {
    Kineto kineto;
    Gpu gpu;
    auto fork_child = [&] {
      pid_t child = fork();
      if (child == 0) {
        alarm(5);
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
    ticker.begin_ns = now_ns();
    kineto.start();
    uint32_t before = ticker.count;
    ticker.tick_for(&gpu, kSecond / 5);
    fork_child();
    ticker.tick_for(&gpu, kSecond / 5);
    kineto.stop();
    EXPECT_EQ(kineto.collect().kernels, ticker.count - before);
    ticker.end_ns = now_ns();
    ticker.tick_for(&gpu, 2 * kSecond);
    fork_child();
  });
  ASSERT_EQ(records.size(), 1u);
  expect_gap(records[0], ticker, kTurnNs);
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
    std::vector<Record> records = profiled({}, [&] {
      // The client asks for a SONAME, which both have: the first one is its own.
      if (!decoy_first) fake::load("libcupti.so.13");
      void* other = dlopen(decoy.c_str(), RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(other, nullptr) << dlerror();
      Kineto kineto("libkineto_client_now.so");
      Gpu gpu;
      ticker.tick_for(&gpu, kSecond / 2);
      kineto_session(&kineto, &ticker, &gpu);
      ticker.tick_for(&gpu, 2 * kSecond);
    });
    SCOPED_TRACE(decoy_first);
    expect_gap(records[0], ticker, kTurnNs);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mfu
