// Children that are forked while the injected library walks over the loaded objects, which is made
// slow here: the library's own entry for dl_iterate_phdr leads to this program.
#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>
#include <vector>

#include "profiler/loaded_object.hh"
#include "profiler/object_walk.hh"
#include "tests/unit/profiled_process.hh"

namespace mfu {
namespace {

using Look = int (*)(dl_phdr_info*, size_t, void*);

constexpr unsigned kWalkMs = 20;

std::atomic<decltype(&dl_iterate_phdr)> real_iterate = nullptr;
std::atomic<bool> walking = false;  // the linker's lock is held
std::atomic<int> walks = 0;         // that are over
std::atomic<int> awaited = 0;       // forks that did not give a walk up

struct SlowWalk {
  Look look;
  void* data;
  bool begun;
};

int look_slowly(dl_phdr_info* info, size_t size, void* data) {
  auto* walk = static_cast<SlowWalk*>(data);
  if (!walk->begun) {
    walk->begun = true;
    walking = true;
    sleep_ms(kWalkMs);
    walking = false;
  }
  return walk->look(info, size, walk->data);
}

int iterate_slowly(Look look, void* data) {
  SlowWalk walk{look, data, false};
  const int result = real_iterate.load()(look_slowly, &walk);
  ++walks;
  return result;
}

void slow_walks_down() {
  void** entry = nullptr;
  for_each_object([&](const dl_phdr_info& info) {
    if (!std::string(info.dlpi_name).ends_with("/libmfu_profiler.so")) return true;
    LoadedObject(info).for_each_import([&](const LoadedObject::Import& import) {
      if (std::string(import.name) == "dl_iterate_phdr") entry = import.entry;
    });
    return false;
  });
  ASSERT_NE(entry, nullptr);
  real_iterate = reinterpret_cast<decltype(&dl_iterate_phdr)>(*entry);
  const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(entry) & ~(size - 1));
  ASSERT_EQ(mprotect(page, size, PROT_READ | PROT_WRITE), 0);
  __atomic_store_n(entry, reinterpret_cast<void*>(iterate_slowly), __ATOMIC_RELEASE);
}

// Loads a library that this process does not have yet, and unwinds.
int forked_child() {
  alarm(20);
  if (dlopen(BUILD_FOLDER "/tests/fake/libinjection_probe.so", RTLD_NOW) == nullptr) return 2;
  try {
    throw 1;
  } catch (int) {
  }
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 3;
}

void fork_during_a_walk() {
  while (!walking) usleep(100);
  const uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
  const pid_t child = fork();
  const uint64_t fork_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
  if (child == 0) _exit(forked_child());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  // On a busy machine the walk of 20 ms may take longer than a fork waits for it.
  if (fork_ns >= object_walk::kForkWaitNs) return;
  ++awaited;
  EXPECT_EQ(status, 0) << (WIFSIGNALED(status) ? "it hung" : "it failed");
}

TEST(Fork, ChildrenLoadLibraries) {
  std::vector<Record> records = profiled({}, [] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    slow_walks_down();
    for (int i = 0; i < 10; ++i) fork_during_a_walk();
    EXPECT_GT(awaited, 0);
    gpu.run_kernel(1000);
  });
  EXPECT_EQ(records.size(), 1u);
  expect_whole(records[0]);
  EXPECT_EQ(records[0].compute_kernels, 1u);
}

TEST(Fork, ChildrenOfSeveralThreadsLoadLibraries) {
  std::vector<Record> records = profiled({}, [] {
    fake::load("libcupti.so.13");
    Gpu gpu;
    slow_walks_down();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int round = 0; round < 5; ++round) fork_during_a_walk();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(awaited, 0);
    // Nobody holds any more.
    const int before = walks;
    while (walks < before + 3) sleep_ms(1);
    gpu.run_kernel(1000);
  });
  expect_whole(records[0]);
  EXPECT_EQ(records[0].compute_kernels, 1u);
}

TEST(ObjectWalk, NoneBeginsWhileItIsHeld) {
  std::atomic<bool> walked = false;
  object_walk::hold();
  object_walk::hold();
  std::thread walker([&] {
    for_each_object([&](const dl_phdr_info&) {
      walked = true;
      return false;
    });
  });
  sleep_ms(50);
  object_walk::release();
  sleep_ms(50);
  EXPECT_FALSE(walked);
  object_walk::release();
  walker.join();
  EXPECT_TRUE(walked);
}

TEST(ObjectWalk, OneThatDoesNotEndIsNotWaitedForForEver) {
  std::atomic<bool> inside = false;
  std::atomic<bool> end = false;
  std::thread walker([&] {
    for_each_object([&](const dl_phdr_info&) {
      inside = true;
      while (!end) sleep_ms(1);
      return true;
    });
  });
  while (!inside) sleep_ms(1);
  object_walk::hold();
  EXPECT_EQ(object_walk::walks, 1u);
  object_walk::release();
  end = true;
  walker.join();
  EXPECT_EQ(object_walk::walks, 0u);
}

TEST(ObjectWalk, TellsWhetherItWasStopped) {
  size_t seen = 0;
  EXPECT_TRUE(for_each_object([&](const dl_phdr_info&) { return ++seen > 0; }));
  EXPECT_GT(seen, 1u);
  EXPECT_FALSE(for_each_object([](const dl_phdr_info&) { return false; }));
}

}  // namespace
}  // namespace mfu
