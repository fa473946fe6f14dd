// Threads of our own in somebody else's process, and the bell that wakes them.
//
// No lock and no condition variable: a signal handler of the application may call exit() in the
// middle of a callback of ours, and whatever that callback held would never be released.
#ifndef MFU_PROFILER_WORKER_THREAD_HH_
#define MFU_PROFILER_WORKER_THREAD_HH_

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/clock_ns.hh"

namespace mfu {

// Changes the bell and wakes one who sleeps by it.
inline void ring(std::atomic<uint32_t>& bell) {
  ++bell;
  syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Sleeps while the bell is as it was `heard`, `ns` at most. May return early.
inline void sleep_by(std::atomic<uint32_t>& bell, uint32_t heard, uint64_t ns) {
  timespec left = timespec_of(ns);
  syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, &left, nullptr, 0);
}

// Detached, with the caller's signal mask. False when there can be none.
inline bool start_thread(void* (*work)(void*)) {
  constexpr size_t kStackSize = 1 << 20;  // glibc takes the static thread-local storage out of it
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackSize);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, work, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace mfu

#endif
