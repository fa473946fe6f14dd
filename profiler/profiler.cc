// The entry point that the CUDA driver calls in the process's first cuInit, our worker thread, and
// what has to happen at fork and exit.
//
// Rules that everything here obeys: never throw, print, exit or abort; never touch CUPTI in a forked
// child; at exit wait a bounded time; leave every mapping and thread behind for the kernel to clean
// up, because CUPTI and the driver may still use them.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "profiler/cupti_session.hh"
#include "profiler/record.hh"

namespace mfu {
namespace {

constexpr time_t kTurnSeconds = 1;      // between two publications
constexpr time_t kExitWaitSeconds = 2;  // at most, for the last flush
constexpr size_t kStackSize = 256 << 10;

constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
constinit pthread_cond_t worker_wakes = PTHREAD_COND_INITIALIZER;
constinit pthread_cond_t worker_done = PTHREAD_COND_INITIALIZER;
constinit bool buffers_wait = false;
constinit bool stop = false;
constinit bool done = false;
constinit std::atomic<bool> started{false};
constinit std::atomic<bool> forked{false};

timespec deadline(time_t seconds, long nanoseconds) {
  timespec when;
  clock_gettime(CLOCK_REALTIME, &when);
  when.tv_sec += seconds;
  when.tv_nsec += nanoseconds;
  if (when.tv_nsec >= 1'000'000'000) {
    when.tv_nsec -= 1'000'000'000;
    ++when.tv_sec;
  }
  return when;
}

void wake_worker() {
  pthread_mutex_lock(&lock);
  buffers_wait = true;
  pthread_cond_signal(&worker_wakes);
  pthread_mutex_unlock(&lock);
}

void* work(void*) {
  // The first turns come early: the driver tells a device's name only after cuInit has returned, and
  // a short program would have ended before a full second.
  constexpr long kFirstTurnsNs[] = {20'000'000, 50'000'000, 200'000'000};
  size_t turns = 0;
  bool last = false;
  while (!last) {
    timespec until = turns < 3 ? deadline(0, kFirstTurnsNs[turns]) : deadline(kTurnSeconds, 0);
    ++turns;
    pthread_mutex_lock(&lock);
    int waited = 0;
    while (!stop && !buffers_wait && waited != ETIMEDOUT) {
      waited = pthread_cond_timedwait(&worker_wakes, &lock, &until);
    }
    buffers_wait = false;
    last = stop;
    pthread_mutex_unlock(&lock);
    cupti_session::turn(last);
  }
  pthread_mutex_lock(&lock);
  done = true;
  pthread_cond_signal(&worker_done);
  pthread_mutex_unlock(&lock);
  return nullptr;
}

bool start_worker() {
  // The application's signals are not ours to take.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackSize);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, work, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void on_exit() {
  if (forked) return;
  timespec until = deadline(kExitWaitSeconds, 0);
  pthread_mutex_lock(&lock);
  stop = true;
  pthread_cond_signal(&worker_wakes);
  int waited = 0;
  while (!done && waited != ETIMEDOUT) {
    waited = pthread_cond_timedwait(&worker_done, &lock, &until);
  }
  bool complete = done;
  pthread_mutex_unlock(&lock);
  if (!complete) cupti_session::publish_without_cupti();
}

void on_fork_in_child() { forked = true; }

double budget_percent() {
  const char* text = getenv(kBudgetVariable);
  return text != nullptr ? strtod(text, nullptr) : 0;
}

}  // namespace
}  // namespace mfu

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace mfu;
  if (started.exchange(true)) return 1;
  const char* folder = getenv(kRecordFolderVariable);
  if (folder == nullptr || folder[0] != '/') return 1;
  pthread_atfork(nullptr, nullptr, on_fork_in_child);
  if (!cupti_session::start({folder, getenv(kCuptiVariable), budget_percent(), wake_worker})) {
    return 1;
  }
  if (!start_worker()) {
    cupti_session::give_up_thread();
    return 1;
  }
  atexit(on_exit);
  return 1;
}
