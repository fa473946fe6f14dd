// Times in nanoseconds. Runs inside the injected library: no C++ runtime.
#ifndef MFU_PROFILER_CLOCK_NS_HH_
#define MFU_PROFILER_CLOCK_NS_HH_

#include <time.h>

#include <cstdint>

namespace mfu {

inline uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline timespec timespec_of(uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

// May return early.
inline void pause_ns(uint64_t ns) {
  timespec pause = timespec_of(ns);
  nanosleep(&pause, nullptr);
}

}  // namespace mfu

#endif
