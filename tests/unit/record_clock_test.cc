// Times of another client's clock come back as CLOCK_REALTIME.
#include "profiler/record_clock.hh"

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <cmath>

namespace mfu {
namespace {

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Exact functions of the wall clock, so that the truth is known: 3 ticks a nanosecond from an
// origin of its own, and 1 tick in 2.
const uint64_t kOrigin = now_ns() - 5'000'000'000;
uint64_t ticks_at(uint64_t ns) {
  return (ns - kOrigin) * 3 + 77;
}
uint64_t fast() {
  return ticks_at(now_ns());
}
uint64_t slow() {
  return (now_ns() - kOrigin) / 2;
}

cupti::Activity converted(uint64_t start, uint64_t end) {
  cupti::Activity activity{};
  activity.start_ns = start;
  activity.end_ns = end;
  record_clock::convert(&activity, 1);
  return activity;
}

void expect_near(uint64_t value, uint64_t expected, uint64_t most) {
  EXPECT_LE(value > expected ? value - expected : expected - value, most)
      << value << " instead of " << expected;
}

constexpr uint64_t kErrorNs = 20'000;

TEST(RecordClock, Converts) {
  record_clock::open(kOrigin);
  uint64_t early = now_ns();
  // Until there is another clock, times are what they are.
  EXPECT_EQ(converted(5, early).start_ns, 5u);
  EXPECT_EQ(converted(5, early).end_ns, early);
  record_clock::read();
  EXPECT_EQ(converted(5, early).start_ns, 5u);

  record_clock::follow(fast);
  for (int i = 0; i < 4; ++i) {
    usleep(100'000);
    uint64_t now = now_ns();  // between two readings, whenever the second one comes
    record_clock::read();
    cupti::Activity activity = converted(ticks_at(now - 90'000'000), ticks_at(now - 1000));
    expect_near(activity.start_ns, now - 90'000'000, kErrorNs);
    expect_near(activity.end_ns, now - 1000, kErrorNs);
  }
  // Before the first reading, after the last one, and between.
  uint64_t now = now_ns();
  for (uint64_t back_ns : {2'000'000'000u, 350'000'000u, 150'000'000u, 0u}) {
    expect_near(converted(ticks_at(now - back_ns), 0).start_ns, now - back_ns, 2'000'000);
  }
  // "Not measured" stays so, and what CUPTI timed by its own clock.
  EXPECT_EQ(converted(0, 0).start_ns, 0u);
  EXPECT_EQ(converted(0, 0).end_ns, 0u);
  EXPECT_EQ(converted(now, now + 1).end_ns, now + 1);

  // The same again is no other clock; another is.
  record_clock::follow(fast);
  expect_near(converted(ticks_at(now - 150'000'000), 0).start_ns, now - 150'000'000, 2'000'000);
  record_clock::follow(slow);
  usleep(100'000);
  now = now_ns();
  record_clock::read();
  expect_near(converted((now - 50'000'000 - kOrigin) / 2, 0).start_ns, now - 50'000'000, kErrorNs);
}

}  // namespace
}  // namespace mfu
