// The entry point that the CUDA driver calls in the process's first cuInit, our worker thread, and
// what has to happen at fork and exit.
//
// Rules that everything here obeys: never throw, print, exit or abort; never touch CUPTI in a
// forked child; at exit wait a bounded time; leave every mapping and thread behind for the kernel
// to clean up, because CUPTI and the driver may still use them.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "profiler/clock_ns.hh"
#include "profiler/communicators.hh"
#include "profiler/cupti_session.hh"
#include "profiler/device_sensors.hh"
#include "profiler/gemm_counter.hh"
#include "profiler/object_walk.hh"
#include "profiler/record.hh"
#include "profiler/worker_thread.hh"

namespace mfu {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kTurnNs = kSecondNs;          // between two publications
constexpr uint64_t kExitWaitNs = 2 * kSecondNs;  // at most, for the last flush

constinit std::atomic<uint32_t> bell{0};   // changes when there is something to do for the worker
constinit std::atomic<uint32_t> done{0};   // 1: the worker has said the process's last word
constinit std::atomic<uint32_t> armed{0};  // 1: CUPTI is set up, the worker may begin
constinit std::atomic<bool> stop{false};
constinit std::atomic<bool> started{false};
constinit std::atomic<bool> forked{false};
constinit pid_t owner = 0;  // a child by a bare clone() does not run fork handlers

// Sleeps while `word` is `value`, until `deadline_ns` at most. May return early.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, uint64_t deadline_ns) {
  uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns < deadline_ns) sleep_by(word, value, deadline_ns - now_ns);
}

void wake_worker() {
  ring(bell);
}

// Until the next turn is due or the process ends, digests what comes back.
void await_turn(uint64_t deadline_ns) {
  static constinit uint32_t heard = 0;
  while (!stop && clock_ns(CLOCK_MONOTONIC) < deadline_ns) {
    uint32_t rung = bell;
    if (rung == heard) {
      sleep_while(bell, heard, deadline_ns);
    } else {
      heard = rung;
      cupti_session::drain();
    }
  }
}

void* work(void*) {
  // The first turns come early: the driver tells a device's name only after cuInit has returned,
  // and a short program would have ended before a full second.
  constexpr uint64_t kFirstTurnsNs[] = {20'000'000, 50'000'000, 200'000'000};
  size_t turns = 0;
  while (armed == 0) sleep_while(armed, 0, clock_ns(CLOCK_MONOTONIC) + kTurnNs);
  while (!stop) {
    await_turn(clock_ns(CLOCK_MONOTONIC) + (turns < 3 ? kFirstTurnsNs[turns] : kTurnNs));
    ++turns;
    if (stop) break;
    gemm_counter::apply();
    cupti_session::turn(false);
  }
  cupti_session::turn(true);
  ring(done);
  return nullptr;
}

void on_exit() {
  if (forked || getpid() != owner) return;
  uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + kExitWaitNs;
  stop = true;
  ring(bell);
  while (done == 0 && clock_ns(CLOCK_MONOTONIC) < deadline_ns) sleep_while(done, 0, deadline_ns);
  if (done == 0) cupti_session::publish_without_cupti();
}

// Whose locks a child would inherit and nobody would open: NVML's and the dynamic linker's.
void before_fork() {
  device_sensors::hold();
  object_walk::hold();
}

void after_fork() {
  object_walk::release();
  device_sensors::release();
}

void on_fork_in_child() {
  forked = true;
  object_walk::abandon();
  cupti_session::abandon();
  communicators::abandon();
  gemm_counter::abandon();
}

// A decimal number, whatever the application's locale is.
double budget_percent() {
  const char* text = getenv(kBudgetVariable);
  double value = 0;
  double unit = 1;
  bool point = false;
  for (; text != nullptr && *text != '\0'; ++text) {
    if (*text == '.') {
      point = true;
    } else if (*text < '0' || *text > '9') {
      return 0;
    } else if (point) {
      unit /= 10;
      value += unit * (*text - '0');
    } else {
      value = value * 10 + (*text - '0');
    }
  }
  return value;
}

void initialize() {
  const char* folder = getenv(kRecordFolderVariable);
  if (folder == nullptr || folder[0] != '/') return;
  owner = getpid();
  pthread_atfork(before_fork, after_fork, on_fork_in_child);
  communicators::open();
  gemm_counter::open();
  if (!cupti_session::open({folder, getenv(kCuptiVariable), budget_percent(), wake_worker})) return;
  // The thread first: where none can be had, CUPTI would have none for itself either.
  if (!start_thread(work)) return cupti_session::give_up_thread();
  cupti_session::arm();
  ring(armed);
  atexit(on_exit);
}

}  // namespace
}  // namespace mfu

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace mfu;
  if (started.exchange(true)) return 1;
  // The application's signals are not ours to take, nor our worker's or CUPTI's threads'.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  initialize();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return 1;
}
