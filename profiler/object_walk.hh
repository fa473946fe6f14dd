// Walks over the objects that the dynamic linker has loaded: all of ours, in any thread, by
// for_each_object(). A walk holds the linker's list lock (glibc: _dl_load_write_lock), which fork()
// leaves as it is: a child that is forked while another thread walks could never load a library,
// nor unwind the stack before glibc 2.35. So no walk is under way at a fork.
//
// Of the linker's other locks, those that dlopen() and dlsym() take, fork() gives the child fresh
// ones.
#ifndef MFU_PROFILER_OBJECT_WALK_HH_
#define MFU_PROFILER_OBJECT_WALK_HH_

#include <link.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "profiler/clock_ns.hh"

namespace mfu::object_walk {

inline constexpr uint64_t kPollNs = 50'000;
// A walk takes milliseconds where thousands of objects are loaded.
inline constexpr uint64_t kForkWaitNs = 200'000'000;
// A fork takes seconds where the process has a terabyte. Beyond it waits perhaps for the very
// thread that is about to walk: then a walk is the lesser evil.
inline constexpr uint64_t kWalkWaitNs = 10'000'000'000;

// Whoever walks sees that somebody holds, or whoever holds sees that somebody walks: both are
// sequentially consistent. Several threads may fork at a time.
inline constinit std::atomic<uint32_t> walks{0};
inline constinit std::atomic<uint32_t> holds{0};

// While it is not 0, `most_ns` at most. False: it still is not.
inline bool await_none(const std::atomic<uint32_t>& count, uint64_t most_ns) {
  if (count == 0) return true;
  const uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
  while (count != 0 && clock_ns(CLOCK_MONOTONIC) - begin_ns < most_ns) pause_ns(kPollNs);
  return count == 0;
}

// Before a fork: waits for the walks under way, and no more begin. A walk that does not end is not
// waited for any longer: who forks has done so without us before.
inline void hold() {
  ++holds;
  await_none(walks, kForkWaitNs);
}
// After it, in the parent: as often as hold().
inline void release() {
  --holds;
}
// In the child, which has neither the threads that walked nor those that were about to fork.
inline void abandon() {
  walks = 0;
  holds = 0;
}

class Walk {
 public:
  Walk() {
    for (++walks; holds != 0; ++walks) {
      --walks;
      if (await_none(holds, kWalkWaitNs)) continue;
      ++walks;
      break;
    }
  }
  ~Walk() { --walks; }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;
};

}  // namespace mfu::object_walk

namespace mfu {

// Each object of the process, until function(const dl_phdr_info&) returns false: then it is false
// as well. The function holds no lock that a thread which forks may wait for.
template <typename Function>
bool for_each_object(Function&& function) {
  auto call = [](dl_phdr_info* info, size_t, void* data) {
    return (*static_cast<std::remove_reference_t<Function>*>(data))(*info) ? 0 : 1;
  };
  const object_walk::Walk walk;
  return dl_iterate_phdr(call, &function) == 0;
}

}  // namespace mfu

#endif
