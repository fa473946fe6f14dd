#include "plugin/step_set.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace mfu {
namespace {

TEST(Steps, TextAndBack) {
  StepSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.text(64), "");
  for (const uint32_t step : {3U, 1U, 2U, 7U, 0U, kInteractiveStep, kBatchStep, 7U})
    set.insert(step);
  EXPECT_EQ(set.text(64), "0-3,7,b,i");
  EXPECT_EQ(*StepSet::parse("0-3,7,b,i"), set);
  for (const uint32_t step : {0U, 3U, 7U, kBatchStep, kInteractiveStep})
    EXPECT_TRUE(set.contains(step));
  for (const uint32_t step : {4U, 6U, 8U, kLastNumberedStep}) EXPECT_FALSE(set.contains(step));
  set.insert(0xfffffffc);  // extern: nothing to profile
  EXPECT_EQ(set.text(64), "0-3,7,b,i");
}

TEST(Steps, BeyondTheLimitTheLowestGapsAreClosed) {
  StepSet set;
  for (uint32_t step = 0; step < 200; step += 2) set.insert(step);
  set.insert(kBatchStep);
  const std::string text = set.text(30);
  EXPECT_EQ(text, "0-188,190,192,194,196,198,b");
  EXPECT_EQ(StepSet::parse(text)->text(30), text);
  EXPECT_EQ(set.text(8), "0-198,b");
  EXPECT_EQ(set.text(8, 5), "0-4,6-198,b");
  EXPECT_EQ(set.text(8, 6), "0-198,b");
  EXPECT_EQ(set.text(8, 199), "0-198,b");
}

TEST(Steps, AnyOrderAnyLimit) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint32_t> steps;
    for (size_t count = random() % 50 + 1; count > 0; --count) {
      steps.push_back(static_cast<uint32_t>(random() % (random() % 2 ? 60 : kLastNumberedStep)));
    }
    if (random() % 2) steps.push_back(kBatchStep);
    StepSet set;
    for (const uint32_t step : steps) set.insert(step);
    std::shuffle(steps.begin(), steps.end(), random);
    StepSet other;
    for (const uint32_t step : steps) other.insert(step);
    ASSERT_EQ(set, other);
    const size_t limit = StepSet::kLeastText + random() % 60;
    const std::string text = set.text(limit);
    ASSERT_LE(text.size(), limit);
    const auto read = StepSet::parse(text);
    ASSERT_TRUE(read) << read.error() << " " << text;
    ASSERT_EQ(read->text(limit), text);
    for (const uint32_t step : steps) ASSERT_TRUE(read->contains(step)) << text;
  }
}

}  // namespace
}  // namespace mfu
