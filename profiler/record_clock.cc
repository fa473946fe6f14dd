#include "profiler/record_clock.hh"

#include <pthread.h>

#include <atomic>

#include "profiler/clock_ns.hh"

namespace mfu::record_clock {
namespace {

constexpr int kReadings = 64;
constexpr uint64_t kApartNs = 250'000'000;  // of the readings that are kept: 16 s of history
constexpr int kTries = 5;                   // the quickest counts

struct Reading {
  uint64_t stamp;
  uint64_t real_ns;
};

constinit std::atomic<uint64_t (*)()> source{nullptr};
constinit uint64_t realtime_since_ns = 0;
constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
constinit Reading readings[kReadings] = {};                  // a ring, from the oldest kept to now
constinit uint64_t count = 0;

Reading read_both(uint64_t (*clock)()) {
  Reading best{};
  uint64_t quickest_ns = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    uint64_t before_ns = clock_ns(CLOCK_REALTIME);
    uint64_t stamp = clock();
    uint64_t took_ns = clock_ns(CLOCK_REALTIME) - before_ns;
    if (took_ns >= quickest_ns) continue;
    quickest_ns = took_ns;
    best = {stamp, before_ns + took_ns / 2};
  }
  return best;
}

Reading& reading(uint64_t number) {
  return readings[number % kReadings];
}

// The newest one moves on until it is kApartNs from the one before.
void keep(const Reading& fresh) {
  bool moves = count >= 2 && reading(count - 1).real_ns - reading(count - 2).real_ns < kApartNs;
  if (!moves) ++count;
  reading(count - 1) = fresh;
}

uint64_t realtime(uint64_t stamp) {
  if (stamp == 0 || stamp >= realtime_since_ns || count < 2) return stamp;
  uint64_t oldest = count > kReadings ? count - kReadings : 0;
  uint64_t before = count - 2;
  while (before > oldest && stamp < reading(before).stamp) --before;
  const Reading& a = reading(before);
  const Reading& b = reading(before + 1);
  if (a.stamp == b.stamp) return b.real_ns;
  double rate = static_cast<double>(static_cast<int64_t>(b.real_ns - a.real_ns)) /
                static_cast<double>(static_cast<int64_t>(b.stamp - a.stamp));
  double since_ns = rate * static_cast<double>(static_cast<int64_t>(stamp - a.stamp));
  return a.real_ns + static_cast<uint64_t>(static_cast<int64_t>(since_ns));
}

}  // namespace

void open(uint64_t since_ns) {
  realtime_since_ns = since_ns;
}

void follow(uint64_t (*clock)()) {
  bool changed = source.exchange(clock) != clock;
  Reading first = read_both(clock);
  pthread_mutex_lock(&lock);
  if (changed) count = 0;
  keep(first);
  pthread_mutex_unlock(&lock);
}

void read() {
  uint64_t (*clock)() = source;
  if (clock == nullptr) return;
  Reading fresh = read_both(clock);
  pthread_mutex_lock(&lock);
  if (source == clock) keep(fresh);
  pthread_mutex_unlock(&lock);
}

void convert(cupti::Activity* activities, size_t size) {
  if (source == nullptr) return;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < size; ++i) {
    activities[i].start_ns = realtime(activities[i].start_ns);
    activities[i].end_ns = realtime(activities[i].end_ns);
  }
  pthread_mutex_unlock(&lock);
}

}  // namespace mfu::record_clock
