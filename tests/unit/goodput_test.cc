// The parts of a job's time: by hand, and at random, where they must always be the whole.
#include "plugin/goodput.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace mfu {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kOrigin = 1'700'000'000 * kSecond;

// 100 steps of 2 s from second 60 on, with stalls of 30 s in all, and 40 s after the last began.
DeviceTraining training() {
  DeviceTraining device;
  device.begin_ns = kOrigin;
  device.end_ns = kOrigin + (60 + 228 + 40) * kSecond;
  StepEstimate& steps = device.steps;
  steps.source = StepSource::kPeriodicity;
  steps.confidence = 1000;
  steps.count = 100;
  steps.first_ns = kOrigin + 60 * kSecond;
  steps.last_ns = steps.first_ns + 228 * kSecond;
  steps.median_ns = 2 * kSecond;
  steps.productive_ns = 99 * 2 * kSecond;
  steps.stalled_ns = 30 * kSecond;
  steps.stalls = 3;
  device.writing_ns = 20 * kSecond;
  device.reading_ns = 4 * kSecond;
  return device;
}

TEST(Goodput, NamesWhatTheTimeWentInto) {
  const GoodputSums sums = goodput_of(training());
  EXPECT_EQ(sums.productive_ns, 200 * kSecond);
  EXPECT_EQ(sums.start_up_ns, 60 * kSecond);
  EXPECT_EQ(sums.restart_ns, 0u);
  EXPECT_EQ(sums.writing_ns, 20 * kSecond);
  EXPECT_EQ(sums.reading_ns, 4 * kSecond);
  EXPECT_EQ(sums.stalled_ns, 6 * kSecond);
  EXPECT_EQ(sums.tail_ns, 38 * kSecond);
  EXPECT_EQ(sums.total_ns(), 328 * kSecond);
  const Goodput found = goodput(sums);
  EXPECT_DOUBLE_EQ(found.fraction, 200.0 / 328);
  EXPECT_STREQ(found.largest_loss, "start-up");
  EXPECT_STREQ(found.why_not, "");
}

// An optimizer's kernels end a step: the one that is split lies before the first of them.
TEST(Goodput, NOccurrencesAreNStepsWhereverTheyLie) {
  DeviceTraining device = training();
  device.end_ns = device.steps.last_ns + kSecond / 2;
  const GoodputSums sums = goodput_of(device);
  EXPECT_EQ(sums.productive_ns, 200 * kSecond);
  EXPECT_EQ(sums.start_up_ns, 58 * kSecond + kSecond / 2);
  EXPECT_EQ(sums.tail_ns, 0u);
}

TEST(Goodput, LossesComeInTheOrderOfTheirSize) {
  const GoodputSums sums = goodput_of(training());
  std::vector<std::string> names;
  for (const GoodputPart* part : losses(sums)) names.push_back(part->loss);
  EXPECT_EQ(names, (std::vector<std::string>{"start-up", "tail", "checkpoint", "stalled", "data"}));
  EXPECT_TRUE(losses({}).empty());
}

TEST(Goodput, WithoutStepsItIsNotKnown) {
  DeviceTraining device = training();
  device.steps = {};
  GoodputSums sums = goodput_of(device);
  EXPECT_EQ(sums.unknown_ns, 328 * kSecond);
  EXPECT_STREQ(goodput(sums).why_not, "no-steps");
  EXPECT_LT(goodput(sums).fraction, 0);
  EXPECT_STREQ(goodput({}).why_not, "no-time");

  // A short run that was killed before its fifth step does not hide the others.
  for (int i = 0; i < 19; ++i) sums += goodput_of(training());
  EXPECT_NEAR(goodput(sums).fraction, 0.95 * 200 / 328, 1e-9);
}

TEST(Goodput, TimesThatContradictEachOtherAreNotKnown) {
  for (int trick = 0; trick < 4; ++trick) {
    DeviceTraining device = training();
    if (trick == 0) device.steps.first_ns = device.begin_ns - 1;
    if (trick == 1) device.steps.last_ns = device.end_ns + 1;
    if (trick == 2) std::swap(device.steps.first_ns, device.steps.last_ns);
    if (trick == 3) device.steps.count = 1;
    const GoodputSums sums = goodput_of(device);
    EXPECT_EQ(sums.unknown_ns, 328 * kSecond) << trick;
    EXPECT_EQ(sums.total_ns(), 328 * kSecond) << trick;
  }
  DeviceTraining backwards = training();
  backwards.end_ns = backwards.begin_ns;
  EXPECT_EQ(goodput_of(backwards), GoodputSums{});
}

TEST(Goodput, TheAllocationOutsideOfJobStepsCounts) {
  GoodputSums sums = goodput_of(training());
  add_outside(400 * kSecond, &sums);
  EXPECT_EQ(sums.outside_ns, 72 * kSecond);
  EXPECT_EQ(sums.total_ns(), 400 * kSecond);
  EXPECT_STREQ(goodput(sums).largest_loss, "outside");
  add_outside(300 * kSecond, &sums);  // job steps that overlap
  EXPECT_EQ(sums.total_ns(), 400 * kSecond);
}

TEST(Goodput, SumsOfTheLargestJobsFit) {
  // 16,384 GPUs for a year, in runs of a day.
  DeviceTraining device = training();
  device.end_ns = device.begin_ns + uint64_t{86'400} * kSecond;
  GoodputSums sums;
  for (int day = 0; day < 365; ++day) {
    GoodputSums run = goodput_of(device);
    for (const GoodputPart& part : kGoodputParts) run.*part.member *= 16'384;
    sums += run;
  }
  EXPECT_EQ(sums.total_ns(), uint128{365} * 86'400 * kSecond * 16'384);
}

TEST(Runs, TheQueueBetweenThemIsTheGap) {
  Runs runs;
  EXPECT_EQ(runs.gap_ns(), 0u);
  runs.add(kOrigin, kOrigin + 100 * kSecond);
  EXPECT_EQ(runs.gap_ns(), 0u);
  runs.add(kOrigin + 130 * kSecond, kOrigin + 200 * kSecond);
  runs.add(kOrigin + 205 * kSecond, kOrigin + 300 * kSecond);
  EXPECT_EQ(runs.gap_ns(), 35 * kSecond);
  EXPECT_EQ(runs.elapsed_ns, 265 * kSecond);
  EXPECT_EQ(runs.count, 3u);
}

DeviceTraining any_training(std::mt19937_64* random) {
  auto any = [&](uint64_t below) { return (*random)() % below; };
  DeviceTraining device;
  device.begin_ns = kOrigin + any(1000 * kSecond);
  device.end_ns = device.begin_ns + any(1000 * kSecond);
  StepEstimate& steps = device.steps;
  steps.source = static_cast<StepSource>(any(4));
  steps.count = any(50);
  steps.first_ns = device.begin_ns + any(400 * kSecond);
  steps.last_ns = steps.first_ns + any(700 * kSecond);
  steps.median_ns = any(20 * kSecond);
  // Estimates of hostile records contradict themselves.
  steps.productive_ns = any(5) == 0 ? (*random)() : any(700 * kSecond);
  steps.stalled_ns = any(5) == 0 ? (*random)() : any(100 * kSecond);
  device.writing_ns = any(5) == 0 ? (*random)() : any(100 * kSecond);
  device.reading_ns = any(5) == 0 ? (*random)() : any(100 * kSecond);
  return device;
}

TEST(GoodputProperties, PartsAreAlwaysTheWhole) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const DeviceTraining device = any_training(&random);
    const GoodputSums sums = goodput_of(device);
    ASSERT_EQ(sums.total_ns(), device.end_ns - device.begin_ns);
    const Goodput found = goodput(sums);
    ASSERT_LE(found.fraction, 1);
    ASSERT_TRUE(found.fraction >= 0 || found.why_not[0] != '\0');
  }
}

// More of a loss, and the same steps: never a better goodput.
TEST(GoodputProperties, ALongerLossIsNeverBetter) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    DeviceTraining device = any_training(&random);
    const GoodputSums before = goodput_of(device);
    if (goodput(before).fraction < 0) continue;
    const uint64_t more = 1 + random() % (100 * kSecond);
    if (random() % 2 == 0) {
      device.begin_ns -= more;
    } else {
      device.end_ns += more;
    }
    const GoodputSums after = goodput_of(device);
    ASSERT_GE(after.productive_ns, before.productive_ns);
    // One more step's time at most, where a step that was cut off has become whole.
    ASSERT_LE(after.productive_ns, before.productive_ns + device.steps.median_ns);
    if (after.productive_ns == before.productive_ns) {
      ASSERT_LE(goodput(after).fraction, goodput(before).fraction);
    }
  }
}

TEST(GoodputProperties, TheOrderOfMergesDoesNotMatter) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<DeviceTraining> devices(12);
    for (DeviceTraining& device : devices) device = any_training(&random);
    auto merged = [&] {
      GoodputSums sums;
      Runs runs;
      GoodputSums half;
      Runs half_runs;
      for (size_t i = 0; i < devices.size(); ++i) {
        (i % 2 == 0 ? sums : half) += goodput_of(devices[i]);
        (i % 2 == 0 ? runs : half_runs).add(devices[i].begin_ns, devices[i].end_ns);
      }
      sums += half;
      runs += half_runs;
      return std::pair(sums, runs);
    };
    const auto [sums, runs] = merged();
    std::shuffle(devices.begin(), devices.end(), random);
    const auto [again, again_runs] = merged();
    ASSERT_EQ(sums, again);
    ASSERT_EQ(runs.gap_ns(), again_runs.gap_ns());
    ASSERT_EQ(runs.elapsed_ns, again_runs.elapsed_ns);
  }
}

}  // namespace
}  // namespace mfu
