#include "plugin/step_log.hh"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mfu {
namespace {

TEST(StepLog, TroubleIsToldOnceHoweverItLooks) {
  StepPlan plan;
  plan.job = 12;
  plan.site.log = testing::TempDir() + "step-log-" + std::to_string(getpid());
  std::filesystem::remove(plan.site.log);
  StepLog log(plan);
  for (int i = 0; i < 10; ++i) {
    log.report("the same");
    log.report("another %s", "same");
  }
  for (unsigned i = 0; i < 10; ++i) log.report("%u files", i);
  std::ifstream file(plan.site.log);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(plan.site.log);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = 0; (at = all.find(text, at)) != all.npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("job 12 step 0: the same\n"), 1);
  EXPECT_EQ(count("another same\n"), 1);
  EXPECT_EQ(count("files\n"), static_cast<int>(StepLog::kMostTexts));
  EXPECT_EQ(count("\n"), 2 + static_cast<int>(StepLog::kMostTexts));
}

}  // namespace
}  // namespace mfu
