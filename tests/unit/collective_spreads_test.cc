// Waiting told from transfer, over ranks and nodes.
#include "plugin/collective_spreads.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace mfu {
namespace {

// A rank whose `n`-th all-reduce took duration(n).
template <typename Duration>
Record rank_of(uint32_t task, uint64_t collectives, Duration duration) {
  Record record;
  record.task = task;
  record.flags = kPrimary | kFinished;
  record.communication_kernels = collectives;
  for (uint64_t n = 0; n < collectives; ++n) {
    record.samples.add(77, n, duration(n));
    record.collective_ns[static_cast<int>(Collective::kAllReduce)] += duration(n);
  }
  return record;
}

CollectiveSpreads spreads_of(const std::vector<Record>& records) {
  CollectiveSpreads spreads;
  for (const Record& record : records) spreads.add(record, record);
  EXPECT_EQ(spreads.fault(), nullptr);
  return spreads;
}

TEST(CollectiveSpreads, AStragglerIsNamed) {
  // Rank 2 comes last every time: it finds the others there, who have waited 300.
  std::vector<Record> ranks;
  for (uint32_t task = 0; task < 4; ++task) {
    ranks.push_back(rank_of(task, 10, [&](uint64_t) { return task == 2 ? 100 : 400; }));
  }
  const CollectiveSpreads spreads = spreads_of(ranks);
  EXPECT_EQ(spreads.ranks, 4u);
  EXPECT_EQ(spreads.count, 10u);
  EXPECT_EQ(spreads.kernel_ns, 13'000u);
  const Waiting found = waiting(spreads);
  ASSERT_TRUE(found.known);
  EXPECT_EQ(found.sampled, 10u);
  EXPECT_DOUBLE_EQ(found.share, 900.0 / 1300);
  EXPECT_EQ(found.slowest, 2u);
}

TEST(CollectiveSpreads, TakingTurnsNamesNobody) {
  std::vector<Record> ranks;
  for (uint32_t task = 0; task < 4; ++task) {
    ranks.push_back(rank_of(task, 40, [&](uint64_t n) { return n % 4 == task ? 100 : 200; }));
  }
  const Waiting found = waiting(spreads_of(ranks));
  ASSERT_TRUE(found.known);
  EXPECT_DOUBLE_EQ(found.share, 300.0 / 700);
  EXPECT_EQ(found.slowest, CollectiveSpreads::kNoRank);
}

TEST(CollectiveSpreads, ASlowNetworkIsNoWaiting) {
  const Waiting found = waiting(spreads_of({rank_of(0, 10, [](uint64_t) { return 900; }),  //
                                            rank_of(1, 10, [](uint64_t) { return 900; })}));
  ASSERT_TRUE(found.known);
  EXPECT_DOUBLE_EQ(found.share, 0);
  EXPECT_EQ(found.slowest, CollectiveSpreads::kNoRank);
}

// More than the tables hold: the sample tells what all of them would have told.
TEST(CollectiveSpreads, ASampleStandsForAll) {
  constexpr uint64_t kCollectives = 100'000;
  constexpr uint32_t kRanks = 16;
  std::vector<std::vector<uint64_t>> durations(kRanks, std::vector<uint64_t>(kCollectives));
  std::mt19937_64 random(1);
  double transfer = 0;
  double total = 0;
  for (uint64_t n = 0; n < kCollectives; ++n) {
    uint64_t shortest = UINT64_MAX;
    for (auto& of_rank : durations) {
      of_rank[n] = 1000 + random() % 1000;
      shortest = std::min(shortest, of_rank[n]);
      total += static_cast<double>(of_rank[n]);
    }
    transfer += static_cast<double>(shortest) * kRanks;
  }
  std::vector<Record> ranks;
  for (uint32_t task = 0; task < kRanks; ++task) {
    ranks.push_back(rank_of(task, kCollectives, [&](uint64_t n) { return durations[task][n]; }));
  }
  const CollectiveSpreads spreads = spreads_of(ranks);
  EXPECT_GT(spreads.count, CollectiveSpreads::kMost / 3);
  const Waiting found = waiting(spreads);
  ASSERT_TRUE(found.known);
  EXPECT_EQ(found.sampled, spreads.count);
  EXPECT_NEAR(found.share, 1 - transfer / total, 0.01);
}

TEST(CollectiveSpreads, TheOrderOfRanksAndNodesDoesNotMatter) {
  std::mt19937_64 random(7);
  std::vector<Record> ranks;
  for (uint32_t task = 0; task < 12; ++task) {
    ranks.push_back(rank_of(task, 1000, [&](uint64_t n) { return 1 + (n * 31 + task * 17) % 97; }));
  }
  const CollectiveSpreads one = spreads_of(ranks);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    CollectiveSpreads nodes[3];
    for (size_t i = 0; i < ranks.size(); ++i) nodes[random() % 3].add(ranks[i], ranks[i]);
    CollectiveSpreads merged;
    for (const CollectiveSpreads& node : nodes) merged.add(node);
    ASSERT_EQ(merged.count, one.count);
    EXPECT_EQ(merged.halvings, one.halvings);
    EXPECT_EQ(merged.ranks, one.ranks);
    EXPECT_EQ(merged.kernel_ns, one.kernel_ns);
    for (uint32_t i = 0; i < one.count; ++i) {
      EXPECT_EQ(merged.spreads[i].key, one.spreads[i].key);
      EXPECT_EQ(merged.spreads[i].shortest_ns, one.spreads[i].shortest_ns);
      EXPECT_EQ(merged.spreads[i].sum_ns, one.spreads[i].sum_ns);
      EXPECT_EQ(merged.spreads[i].ranks, 12u);
    }
    EXPECT_EQ(waiting(merged).share, waiting(one).share);
  }
}

TEST(CollectiveSpreads, NothingIsSaidWhereRanksCannotBeCompared) {
  const auto same = [](uint64_t) { return 100; };
  EXPECT_FALSE(waiting(spreads_of({})).known);
  EXPECT_FALSE(waiting(spreads_of({rank_of(0, 10, same)})).known) << "a single rank";
  EXPECT_FALSE(waiting(spreads_of({rank_of(0, 10, same), rank_of(1, 11, same)})).known)
      << "another number of collectives";
  Record other_names = rank_of(1, 10, same);
  other_names.samples = {};
  for (uint64_t n = 0; n < 10; ++n) other_names.samples.add(78, n, 100);
  EXPECT_FALSE(waiting(spreads_of({rank_of(0, 10, same), other_names})).known) << "other names";
  for (int fault = 0; fault < 6; ++fault) {
    Record lossy = rank_of(1, 10, same);
    if (fault == 0) lossy.flags = kPrimary;
    if (fault == 1) lossy.dropped = 1;
    if (fault == 2) lossy.lost_ns = 1;
    if (fault == 3) lossy.state = State::kStoodDown;
    if (fault == 4) lossy.zero_times = 1;
    if (fault == 5) lossy.flags |= kDroppedUnknown;
    EXPECT_FALSE(waiting(spreads_of({rank_of(0, 10, same), lossy})).known) << fault;
  }
  // A helper process without collectives does not take part.
  EXPECT_TRUE(
      waiting(spreads_of({rank_of(0, 10, same), rank_of(1, 10, same), rank_of(2, 0, same)})).known);
}

TEST(CollectiveSpreads, NodesWithOtherNumbersCannotBeCompared) {
  const auto same = [](uint64_t) { return 100; };
  CollectiveSpreads merged;
  merged.add(spreads_of({rank_of(0, 10, same), rank_of(1, 10, same)}));
  EXPECT_TRUE(waiting(merged).known);
  merged.add(CollectiveSpreads{});
  EXPECT_TRUE(waiting(merged).known) << "a node without collectives";
  merged.add(spreads_of({rank_of(2, 9, same)}));
  EXPECT_FALSE(waiting(merged).known);
}

TEST(CollectiveSpreads, StrangeBytesAreSeenOrHarmless) {
  CollectiveSpreads sound = spreads_of({rank_of(0, 10, [](uint64_t n) { return n; })});
  auto spoiled = [&](auto spoil) {
    CollectiveSpreads copy = sound;
    spoil(&copy);
    return copy.fault() != nullptr;
  };
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->count = CollectiveSpreads::kMost + 1; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->halvings = 65; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->unequal = 2; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->kernel_ns = UINT64_MAX; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { std::swap(s->spreads[0], s->spreads[1]); }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->spreads[0].sum_ns = UINT64_MAX; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->spreads[3].shortest_ns = 1u << 30; }));
  EXPECT_TRUE(spoiled([](CollectiveSpreads* s) { s->spreads[3].ranks = 0; }));

  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    Record record = rank_of(0, 300, [&](uint64_t) { return random() % 2 ? 1 : uint64_t{1} << 56; });
    auto* bytes = reinterpret_cast<unsigned char*>(&record.samples);
    for (int i = 0; i < 20; ++i) bytes[random() % sizeof(record.samples)] ^= random() % 256;
    if (record.samples.fault() != nullptr) continue;
    CollectiveSpreads spreads = sound;
    for (int i = 0; i < 10; ++i) spreads.add(record, record);
    EXPECT_EQ(spreads.fault(), nullptr);
    waiting(spreads);
  }
}

}  // namespace
}  // namespace mfu
