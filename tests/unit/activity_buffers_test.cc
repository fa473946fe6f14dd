// How many buffers CUPTI may have at a time, and what they cost.
#include "profiler/activity_buffers.hh"

#include <sys/mman.h>

#include <vector>

#include "tests/fake/fake_process.hh"

namespace mfu {
namespace {

using activity_buffers::kSize;

// Of those beyond the ones that stay.
size_t resident_pages(const std::vector<uint8_t*>& buffers) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(kSize / page);
  size_t count = 0;
  for (size_t i = activity_buffers::kMostWaiting; i < buffers.size(); ++i) {
    EXPECT_EQ(mincore(buffers[i], kSize, resident.data()), 0);
    for (const unsigned char each : resident) count += each & 1;
  }
  return count;
}

std::vector<uint8_t*> lend_all() {
  std::vector<uint8_t*> lent;
  while (uint8_t* memory = activity_buffers::lend()) lent.push_back(memory);
  return lent;
}

TEST(ActivityBuffers, EndWhereARefusalIsCopedWith) {
  fake::in_process({}, [] {
    activity_buffers::set_refusal(true);
    EXPECT_EQ(lend_all().size(), activity_buffers::kMostCount);
    EXPECT_EQ(activity_buffers::take_refusals(), 1u);
  });
}

// A thousand threads that launch have one each, and cost what they write.
TEST(ActivityBuffers, ReachForAThousandThreadsWhereItMayCrash) {
  fake::in_process({}, [] {
    activity_buffers::set_refusal(false);
    const std::vector<uint8_t*> lent = lend_all();
    EXPECT_EQ(lent.size(), activity_buffers::kMostWithoutRefusal);
    EXPECT_GE(lent.size(), 1000u);
    EXPECT_EQ(activity_buffers::mapped_bytes(), lent.size() * kSize);
    EXPECT_EQ(resident_pages(lent), 0u);
    for (uint8_t* memory : lent) std::memset(memory, 1, 100);
    EXPECT_EQ(resident_pages(lent), lent.size() - activity_buffers::kMostWaiting);

    // All come back at once, and are lent again as new.
    for (uint8_t* memory : lent) EXPECT_TRUE(activity_buffers::take_back({memory, 100, {}, 0}));
    activity_buffers::Returned buffer;
    size_t digested = 0;
    while (activity_buffers::oldest(&buffer)) {
      EXPECT_EQ(buffer.memory, lent[digested++]);
      activity_buffers::recycle(buffer.memory);
    }
    EXPECT_EQ(digested, lent.size());
    EXPECT_EQ(resident_pages(lent), 0u);
    const std::vector<uint8_t*> again = lend_all();
    EXPECT_EQ(again, lent);
    for (uint8_t* memory : again) EXPECT_EQ(memory[0], 0);
  });
}

}  // namespace
}  // namespace mfu
