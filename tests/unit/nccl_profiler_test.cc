// The plugin as NCCL sees it: a host that looks and calls like NCCL (tests/fake/nccl_host.hh), one
// process of its own for each case, because the plugin's sums are the process's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "profiler/communicators.hh"
#include "profiler/nccl_gate.hh"
#include "tests/fake/nccl_host.hh"

namespace mfu {
namespace {

using communicators::Operation;
using communicators::Traffic;
using communicators::traffic_of;
using fake::NcclCommunicator;
using fake::NcclHost;

// The tables of the code that is linked into this test.
const void* linked(const char* name) {
  const void* tables[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                          &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
  constexpr size_t kPrefix = sizeof("ncclProfiler_v") - 1;
  return tables[name[kPrefix] - '1'];
}

// Runs the body in a child and passes on whether it failed.
template <typename Body>
void in_process(Body body) {
  fflush(nullptr);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

CommunicatorSums snapshot() {
  CommunicatorSums sums;
  communicators::snapshot(&sums);
  EXPECT_STREQ(communicator_fault(sums) == nullptr ? "" : communicator_fault(sums), "");
  return sums;
}

const CollectiveTraffic& of(const CommunicatorSums& sums, Collective collective) {
  return sums.collectives[static_cast<int>(collective)];
}

// Count, bytes, bus bytes, unsized, unrated.
void expect_traffic(const CollectiveTraffic& traffic, const std::vector<uint64_t>& expected,
                    const std::string& what) {
  EXPECT_EQ((std::vector<uint64_t>{traffic.count, traffic.bytes, traffic.bus_bytes, traffic.unsized,
                                   traffic.unrated}),
            expected)
      << what;
}

// --- bytes

TEST(NcclTraffic, FollowsTheConventionOfNcclTests) {
  auto expect = [](Operation operation, uint32_t ranks, uint64_t bytes, uint64_t bus_bytes) {
    Traffic traffic = traffic_of(operation, 1000, 4, ranks);
    EXPECT_TRUE(traffic.sized && traffic.rated);
    EXPECT_EQ(traffic.bytes, bytes) << static_cast<int>(operation);
    EXPECT_EQ(traffic.bus_bytes, bus_bytes) << static_cast<int>(operation);
  };
  expect(Operation::kAllReduce, 8, 4000, 7000);
  expect(Operation::kAllReduce, 3, 4000, 5333);  // 8000 x 2 / 3 = 5333.3
  expect(Operation::kAllReduce, 1, 4000, 0);
  expect(Operation::kAllGather, 8, 32000, 28000);
  expect(Operation::kReduceScatter, 8, 32000, 28000);
  expect(Operation::kAllToAll, 8, 32000, 28000);
  expect(Operation::kGather, 8, 32000, 28000);
  expect(Operation::kScatter, 8, 32000, 28000);
  expect(Operation::kBroadcast, 8, 4000, 4000);
  expect(Operation::kReduce, 8, 4000, 4000);
  expect(Operation::kSend, 8, 4000, 4000);
}

TEST(NcclTraffic, RoundsDownForAnyNumberOfRanks) {
  for (uint32_t ranks = 1; ranks < 300; ++ranks) {
    for (uint64_t count : {uint64_t{1}, uint64_t{7}, uint64_t{12345}, kMaxCallBytes / 8}) {
      unsigned __int128 exact = static_cast<unsigned __int128>(count) * 8 * 2 * (ranks - 1) / ranks;
      Traffic traffic = traffic_of(Operation::kAllReduce, count, 8, ranks);
      ASSERT_EQ(traffic.bus_bytes, static_cast<uint64_t>(exact)) << ranks << " " << count;
    }
  }
}

TEST(NcclTraffic, KnowsWhatItDoesNotKnow) {
  EXPECT_FALSE(traffic_of(Operation::kAllReduce, 10, 0, 8).sized);
  EXPECT_FALSE(traffic_of(Operation::kUnknown, 10, 4, 8).sized);
  EXPECT_FALSE(traffic_of(Operation::kAllGather, 10, 4, 0).sized);
  EXPECT_TRUE(traffic_of(Operation::kAllReduce, 10, 4, 0).sized);
  EXPECT_FALSE(traffic_of(Operation::kAllReduce, 10, 4, 0).rated);
  for (uint64_t count : {UINT64_MAX, uint64_t{1} << 62, kMaxCallBytes / 8 + 1}) {
    EXPECT_FALSE(traffic_of(Operation::kAllReduce, count, 8, 2).sized) << count;
  }
  EXPECT_FALSE(traffic_of(Operation::kAllGather, kMaxCallBytes / 8, 8, 2).sized);
}

TEST(NcclTraffic, BusBandwidthIsInGigabytesPerSecond) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(450'000'000'000, 1'000'000'000), 450.0);
  EXPECT_EQ(bus_bandwidth(1, 0), 0);
}

// --- every version of the ABI

class NcclVersion : public testing::TestWithParam<int> {
 public:
  // NCCL tells the number of ranks at once (4 and later), by an all-gather (1, 2) or never (3).
  bool tells_ranks() const { return GetParam() >= 4; }
  bool tells_captured() const { return GetParam() >= 5; }
};
INSTANTIATE_TEST_SUITE_P(Abi, NcclVersion, testing::Range(1, 7));

TEST_P(NcclVersion, IsFoundUnderItsOwnName) {
  NcclHost host(linked, GetParam());
  ASSERT_NE(host.plugin(), nullptr);
  EXPECT_EQ(host.plugin()->abi(), GetParam());
  EXPECT_STREQ(host.plugin()->name(), "slurm-mfu");
}

TEST_P(NcclVersion, AsksForNothingWhereTheProcessIsNotProfiled) {
  in_process([] {
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 77, 3, 8, 1};
    EXPECT_EQ(host.create(world), 0) << "NCCL before 2.28 crashes after an error";
    EXPECT_EQ(host.mask(), 0);
    EXPECT_EQ(world.context, nullptr);
    EXPECT_EQ(host.plugin()->start(nullptr, fake::kGroup), nullptr);
    EXPECT_EQ(host.plugin()->start_task(world, {"AllReduce", 100}, nullptr, nullptr), nullptr);
    host.destroy(world);
    CommunicatorSums sums = snapshot();
    EXPECT_EQ(sums.communicators, 0u);
    EXPECT_EQ(of(sums, Collective::kAllReduce).count, 0u);
  });
}

TEST_P(NcclVersion, AsksForNoCostlyEvent) {
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 77, 3, 8, 1};
    EXPECT_EQ(host.create(world), 0);
    EXPECT_EQ(host.mask() & (fake::kColl | fake::kP2p), fake::kColl | fake::kP2p);
    // Group, proxy, kernel-channel, network, launch, copy-engine details.
    EXPECT_EQ(host.mask() & (1 | 8 | 16 | 32 | 64 | 128 | 2048 | 8192 | 16384), 0);
  });
}

TEST_P(NcclVersion, CountsEveryCollective) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 77, 3, 8, 2};
    host.create(world);
    for (int i = 0; i < 5; ++i) host.launch(world, {{"AllGather", 100, "ncclBfloat16"}});
    host.launch(world, {{"AllReduce", 1000, "ncclFloat32"}, {"AllReduce", 1000, "ncclFloat16"}});
    host.launch(world, {{"ReduceScatter", 10, "ncclInt64"}});
    host.launch(world, {{"Broadcast", 3, "ncclFloat64"}});
    host.launch(world, {{"Reduce", 9, "Unknown"}});  // NCCL's name of ncclUint8
    host.destroy(world);
    CommunicatorSums sums = snapshot();
    EXPECT_EQ(sums.abi, static_cast<uint32_t>(GetParam()));
    bool ranks = GetParam() != 3;
    // 5 x 200 bytes x 8 ranks; 1000 x (4 + 2) and 7/4 of it; 80 x 8 and 80 x 7.
    expect_traffic(
        of(sums, Collective::kAllGather),
        ranks ? std::vector<uint64_t>{5, 8000, 7000, 0, 0} : std::vector<uint64_t>{5, 0, 0, 5, 5},
        "all-gather");
    expect_traffic(of(sums, Collective::kAllReduce),
                   ranks ? std::vector<uint64_t>{2, 6000, 10500, 0, 0}
                         : std::vector<uint64_t>{2, 6000, 0, 0, 2},
                   "all-reduce");
    expect_traffic(
        of(sums, Collective::kReduceScatter),
        ranks ? std::vector<uint64_t>{1, 640, 560, 0, 0} : std::vector<uint64_t>{1, 0, 0, 1, 1},
        "reduce-scatter");
    expect_traffic(of(sums, Collective::kBroadcast), {1, 24, 24, 0, 0}, "broadcast");
    expect_traffic(of(sums, Collective::kReduce), {1, 9, 9, 0, 0}, "reduce");
    ASSERT_EQ(sums.listed, 1u);
    const CommunicatorTraffic& listed = sums.list[0];
    EXPECT_STREQ(listed.name, "world");
    EXPECT_EQ(listed.hash, 77u);
    EXPECT_EQ(listed.rank, 3u);
    EXPECT_EQ(listed.ranks, ranks ? 8u : 0u);
    EXPECT_EQ(listed.nodes, tells_ranks() ? 2u : 0u);
    EXPECT_EQ(listed.count, 10u);
    EXPECT_EQ(listed.bytes, ranks ? 8000u + 6000 + 640 + 24 + 9 : 6000u + 24 + 9);
    EXPECT_EQ(std::vector<uint64_t>(std::begin(listed.sequence), std::end(listed.sequence)),
              (std::vector<uint64_t>{2, 5, 1, 1, 1}));
  });
}

// Sends and receives of one kernel go both ways at once; those of two do not.
TEST_P(NcclVersion, CountsSendsAndReceivesByKernel) {
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"pipeline", 5, 1, 4, 1};
    host.create(world);
    host.launch(world, {{"Send", 100, "ncclFloat32", 2}});
    host.launch(world, {{"Recv", 50, "ncclFloat32", 0}});
    expect_traffic(of(snapshot(), Collective::kSendReceive), {2, 600, 600, 0, 0}, "one by one");
    // All-to-all: 4 peers, one of them this rank.
    std::vector<fake::NcclTask> tasks;
    for (int peer = 0; peer < 4; ++peer) {
      tasks.push_back({"Send", 1000, "ncclInt8", peer});
      tasks.push_back({"Recv", 1000, "ncclInt8", peer});
    }
    host.launch(world, tasks);
    expect_traffic(of(snapshot(), Collective::kSendReceive), {10, 4600, 3600, 0, 0}, "all to all");
    EXPECT_STREQ(snapshot().list[0].name, "pipeline");
    EXPECT_EQ(snapshot().list[0].rank, 1u);
  });
}

TEST_P(NcclVersion, CountsCapturedCallsApart) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 5, 1, 4, 1};
    host.create(world);
    host.launch(world, {{"Broadcast", 100}, {"Broadcast", 100}}, true, 7);
    host.launch(world, {{"Send", 10, "ncclInt8", 2}, {"Recv", 10, "ncclInt8", 2}}, true, 7);
    host.launch(world, {{"Broadcast", 1}, {"Send", 1, "ncclInt8", 2}});
    CommunicatorSums sums = snapshot();
    const CollectiveTraffic& broadcast = of(sums, Collective::kBroadcast);
    const CollectiveTraffic& send = of(sums, Collective::kSendReceive);
    if (!tells_captured()) {
      expect_traffic(broadcast, {15, 14 * 400 + 4, 14 * 400 + 4, 0, 0}, "each replay");
      EXPECT_EQ(broadcast.captured, 0u);
      return;
    }
    expect_traffic(broadcast, {1, 4, 4, 0, 0}, "not captured");
    EXPECT_EQ(broadcast.captured, 2u);
    EXPECT_EQ(broadcast.captured_bytes, 800u);
    expect_traffic(send, {1, 1, 1, 0, 0}, "not captured");
    EXPECT_EQ(send.captured, 2u);
    EXPECT_EQ(send.captured_bytes, 20u);
    EXPECT_EQ(sums.list[0].captured, 4u);
    EXPECT_EQ(sums.list[0].sequence[3], 1u) << "NCCL does not number captured ones";
  });
}

TEST_P(NcclVersion, CountsWhatCopyEnginesDid) {
  if (GetParam() < 5) GTEST_SKIP() << "these versions tell nothing of it";
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 5, 1, 4, 1};
    host.create(world);
    host.launch(world, {{"AllGather", 100, "ncclFloat16", 0, true}});
    host.launch(world, {{"AllGather", 100, "ncclFloat16"}});
    host.launch(world,
                {{"AlltoAll", 10, "ncclInt8", 0, true}, {"Gather", 10, "ncclInt8", 0, true}});
    host.launch(world, {{"AlltoAll", 10, "ncclInt8", 0, true}}, true);
    CommunicatorSums sums = snapshot();
    const CollectiveTraffic& gather = of(sums, Collective::kAllGather);
    expect_traffic(gather, {2, 1600, 1200, 0, 0}, "all-gather");
    expect_traffic(of(sums, Collective::kAllToAll), {1, 40, 30, 0, 0}, "all-to-all");
    expect_traffic(of(sums, Collective::kOther), {1, 40, 30, 0, 0}, "gather");
    bool told = GetParam() >= 6;
    EXPECT_EQ(gather.engine_count, told ? 1u : 0u);
    EXPECT_EQ(gather.engine_bytes, told ? 800u : 0u);
    EXPECT_EQ(gather.kernel_bus_bytes(), told ? 600u : 1200u);
    EXPECT_EQ(of(sums, Collective::kAllToAll).engine_count, told ? 1u : 0u) << "captured counted";
  });
}

TEST_P(NcclVersion, KeepsCommunicatorsApart) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator tensor{"tensor", 11, 1, 2, 1};
    NcclCommunicator data{"data", 22, 3, 4, 4};
    NcclCommunicator idle{"idle", 33, 0, 2, 1};
    host.create(tensor);
    host.create(idle);
    host.create(data);
    for (int i = 0; i < 3; ++i) {
      host.launch(tensor, {{"Broadcast", 10, "ncclInt8"}});
      host.launch(data, {{"Broadcast", 1000, "ncclInt8"}});
    }
    CommunicatorSums sums = snapshot();
    EXPECT_EQ(sums.communicators, 3u);
    ASSERT_EQ(sums.listed, 2u) << "the idle one has nothing to tell";
    EXPECT_STREQ(sums.list[0].name, "data");
    EXPECT_EQ(sums.list[0].bytes, 3000u);
    EXPECT_EQ(sums.list[0].number, 3u);
    EXPECT_STREQ(sums.list[1].name, "tensor");
    EXPECT_EQ(sums.list[1].bytes, 30u);
    EXPECT_EQ(sums.list[1].rank, 1u);
    EXPECT_EQ(of(sums, Collective::kBroadcast).bytes, 3030u);
  });
}

TEST_P(NcclVersion, UnknownThingsAreCountedAsSuch) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{nullptr, 5, 1, 4, 1};
    host.create(world);
    host.launch(world, {{"Broadcast", 10, "ncclFloat6"}, {"Broadcast", 10, "ncclInt8"}});
    host.launch(world, {{"Levitate", 10}, {"", 1}, {"AllReduceButLonger", 5}});
    host.launch(world, {{"Reduce", SIZE_MAX / 2, "ncclFloat64"}});
    CommunicatorSums sums = snapshot();
    // NCCL turns a broadcast to bytes first: version 1 to 4 hide that the type is unknown.
    if (tells_captured()) {
      expect_traffic(of(sums, Collective::kBroadcast), {2, 10, 10, 1, 1}, "broadcast");
    }
    expect_traffic(of(sums, Collective::kOther), {3, 0, 0, 3, 3}, "unknown functions");
    expect_traffic(of(sums, Collective::kReduce), {1, 0, 0, 1, 1}, "impossible size");
    EXPECT_STREQ(sums.list[0].name, "");
    host.launch(world, {{"Reduce", 1, "ncclFloat6"}});
    expect_traffic(of(snapshot(), Collective::kReduce), {2, 0, 0, 2, 2}, "unknown type");
  });
}

TEST_P(NcclVersion, TakesAnyOrderAndAnyPointer) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    fake::NcclPlugin& plugin = *host.plugin();
    NcclCommunicator world{"world", 5, 1, 4, 1};
    int mask = 0;
    world.context = nullptr;
    EXPECT_EQ(plugin.init(world, nullptr), 0);
    EXPECT_EQ(plugin.init(world, &mask), 0);
    void* handle = &mask;
    EXPECT_EQ(plugin.start_raw(world.context, &handle, nullptr), 0);
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(plugin.start_raw(nullptr, nullptr, nullptr), 0);
    // Events that nobody asked for, and some that no version has.
    for (uint64_t type = 1; type != 0; type <<= 1) {
      plugin.stop(plugin.start(world.context, type));
      plugin.stop(plugin.start(world.context, type | 1));
    }
    for (void* odd : {static_cast<void*>(nullptr), static_cast<void*>(&mask),
                      reinterpret_cast<void*>(UINTPTR_MAX), reinterpret_cast<void*>(64),
                      reinterpret_cast<void*>(uintptr_t{kCommunicatorTable} + 5)}) {
      EXPECT_EQ(plugin.stop(odd), 0);
      EXPECT_EQ(plugin.stop(odd), 0);
      for (int state = -1; state < 40; ++state) EXPECT_EQ(plugin.record_state(odd, state), 0);
      EXPECT_EQ(plugin.finalize(odd), 0);
      NcclCommunicator stray = world;
      stray.context = odd;
      plugin.stop(plugin.start_task(stray, {"Reduce", 1, "ncclInt8"}, nullptr, odd));
      plugin.stop(plugin.start_task(stray, {"Send", 1, "ncclInt8", 2}, nullptr, odd));
    }
    // A group that is stopped before its tasks, twice, and after the communicator ended.
    void* group = plugin.start(world.context, fake::kGroup);
    plugin.stop(group);
    plugin.finalize(world.context);
    plugin.start_task(world, {"Send", 100, "ncclInt8", 2}, nullptr, group);
    plugin.record_state(group, 3);
    plugin.stop(group);
    const CommunicatorSums sums = snapshot();
    // Version 5 and 6 count collectives where they are called.
    EXPECT_EQ(of(sums, Collective::kReduce).count, tells_captured() ? 0u : 5u);
    EXPECT_GE(of(sums, Collective::kSendReceive).bytes, 100u) << "the late one";
  });
}

// What waits for a stop that never comes is counted when its place is needed.
TEST_P(NcclVersion, StopsThatNeverComeLoseNothing) {
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 5, 1, 4, 1};
    host.create(world);
    for (int i = 0; i < 1000; ++i) {
      void* group = host.plugin()->start(world.context, fake::kGroup);
      ASSERT_NE(group, nullptr);
      host.plugin()->start_task(world, {"Send", 10, "ncclInt8", 2}, nullptr, group);
      host.plugin()->start_task(world, {"Recv", 10, "ncclInt8", 2}, nullptr, group);
    }
    CommunicatorSums sums = snapshot();
    EXPECT_EQ(of(sums, Collective::kSendReceive).count, 2000u);
    EXPECT_GE(of(sums, Collective::kSendReceive).bytes, 9000u);
    for (int i = 0; i < 100; ++i) host.plugin()->start(world.context, fake::kGroup);
    expect_traffic(of(snapshot(), Collective::kSendReceive), {2000, 10000, 10000, 0, 0}, "all");
  });
}

TEST_P(NcclVersion, ManyThreadsCountExactly) {
  in_process([this] {
    communicators::open();
    constexpr int kThreads = 8;
    constexpr uint64_t kRounds = 4000;
    std::atomic<bool> done{false};
    // Meanwhile a reader, whose snapshots are sound at any time.
    std::thread reader([&] {
      uint64_t seen = 0;
      while (!done) {
        CommunicatorSums sums = snapshot();
        uint64_t count = of(sums, Collective::kAllReduce).count;
        EXPECT_GE(count, seen);
        seen = count;
        const CollectiveTraffic& all_reduce = of(sums, Collective::kAllReduce);
        EXPECT_LE(all_reduce.bus_bytes, 2 * all_reduce.bytes);
      }
    });
    NcclHost host(linked, GetParam());
    NcclCommunicator shared{"shared", 99, 0, 4, 1};
    host.create(shared);
    // Every thread knows the number of ranks from its first all-gather.
    host.launch(shared, {{"AllGather", 1, "ncclInt8"}});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&host, &shared, t] {
        NcclCommunicator own{"own", static_cast<uint64_t>(t), 0, 2, 1};
        NcclCommunicator common = shared;
        int mask = 0;
        host.plugin()->init(own, &mask);
        for (uint64_t i = 0; i < kRounds; ++i) {
          host.launch(own, {{"Broadcast", 10, "ncclInt8"}});
          host.launch(common, {{"AllReduce", 100, "ncclInt8"}});
          host.launch(common, {{"Send", 30, "ncclInt8", 1}, {"Recv", 20, "ncclInt8", 1}});
        }
        host.destroy(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    done = true;
    reader.join();
    CommunicatorSums sums = snapshot();
    uint64_t n = kThreads * kRounds;
    expect_traffic(of(sums, Collective::kBroadcast), {n, 10 * n, 10 * n, 0, 0}, "own");
    expect_traffic(of(sums, Collective::kSendReceive), {2 * n, 30 * n, 30 * n, 0, 0}, "transfers");
    bool ranks = GetParam() != 3;
    expect_traffic(of(sums, Collective::kAllReduce),
                   {n, 100 * n, ranks ? 150 * n : 0, 0, ranks ? 0 : n}, "shared");
    EXPECT_EQ(sums.listed, kCommunicatorsListed);
    EXPECT_STREQ(sums.list[0].name, "shared");
    EXPECT_EQ(sums.list[0].sequence[0], kRounds) << "the highest of all threads";
  });
}

TEST_P(NcclVersion, MoreCommunicatorsThanTheTableHolds) {
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    constexpr uint64_t kMany = 3 * kCommunicatorTable;
    for (uint64_t i = 1; i <= kMany; ++i) {
      std::string name = "communicator " + std::to_string(i);
      NcclCommunicator one{name.c_str(), i, 0, 2, 1};
      host.create(one);
      host.launch(one, {{"Broadcast", i, "ncclInt8"}});
      host.destroy(one);
    }
    CommunicatorSums sums = snapshot();
    EXPECT_EQ(sums.communicators, kMany);
    expect_traffic(of(sums, Collective::kBroadcast),
                   {kMany, kMany * (kMany + 1) / 2, kMany * (kMany + 1) / 2, 0, 0}, "total");
    ASSERT_EQ(sums.listed, kCommunicatorsListed);
    for (uint32_t i = 0; i < kCommunicatorsListed; ++i) {
      EXPECT_EQ(sums.list[i].hash, kCommunicatorTable - i);
      EXPECT_EQ(sums.list[i].bytes, kCommunicatorTable - i);
    }
  });
}

TEST_P(NcclVersion, AForkedChildCountsNothing) {
  in_process([] {
    communicators::open();
    NcclHost host(linked, GetParam());
    NcclCommunicator world{"world", 5, 1, 4, 1};
    host.create(world);
    host.launch(world, {{"Broadcast", 1}});
    in_process([&] {  // as the library's fork handler does
      communicators::abandon();
      host.launch(world, {{"Broadcast", 1}});
      EXPECT_EQ(of(snapshot(), Collective::kBroadcast).count, 1u);
      NcclCommunicator another{"another", 6, 1, 4, 1};
      EXPECT_EQ(host.create(another), 0);
      EXPECT_EQ(host.mask(), 0);
    });
    in_process([&] {  // a child by a bare clone(): no handler ran
      NcclCommunicator another{"another", 6, 1, 4, 1};
      EXPECT_EQ(host.create(another), 0);
      EXPECT_EQ(host.mask(), 0);
    });
    host.launch(world, {{"Broadcast", 1}});
    EXPECT_EQ(of(snapshot(), Collective::kBroadcast).count, 2u);
  });
}

TEST_P(NcclVersion, HostileIdentities) {
  in_process([this] {
    communicators::open();
    NcclHost host(linked, GetParam());
    std::string name = "a\nb\x01\x7f\xff\"|" + std::string(100, 'x');
    NcclCommunicator odd{name.c_str(), UINT64_MAX, -7, -1, 1 << 30};
    host.create(odd);
    host.launch(odd, {{"Broadcast", 10}});
    NcclCommunicator contradiction{"contradiction", 1, 9, 4, 5};
    host.create(contradiction);
    host.launch(contradiction, {{"Broadcast", 1}});
    CommunicatorSums sums = snapshot();
    ASSERT_EQ(sums.listed, 2u);
    EXPECT_EQ(std::string(sums.list[0].name), "a?b???\"|" + std::string(23, 'x'));
    EXPECT_EQ(sums.list[0].rank, 0u);
    EXPECT_EQ(sums.list[0].ranks, 0u);
    EXPECT_EQ(sums.list[0].nodes, 0u);
    EXPECT_EQ(sums.list[1].rank, tells_ranks() ? 0u : 9u);
    EXPECT_EQ(sums.list[1].nodes, 0u);
  });
}

// --- the library itself

TEST(NcclLibrary, IsFoundByItsNameOnceItIsLoadedAndAsksForNothingAlone) {
  in_process([] {
    ASSERT_EQ(dlopen("libmfu_profiler.so", RTLD_NOW | RTLD_LOCAL), nullptr);
    // As the CUDA driver does.
    void* injected = dlopen(BUILD_FOLDER "/libmfu_profiler.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(injected, nullptr) << dlerror();
    // As NCCL does with NCCL_PROFILER_PLUGIN=libmfu_profiler.so.
    void* library = dlopen("libmfu_profiler.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_EQ(library, injected);
    for (int version = 1; version <= 6; ++version) {
      NcclHost host([&](const char* name) { return dlsym(library, name); }, version);
      ASSERT_NE(host.plugin(), nullptr);
      EXPECT_EQ(host.plugin()->abi(), version);
      NcclCommunicator world{"world", 5, 1, 4, 1};
      EXPECT_EQ(host.create(world), 0);
      EXPECT_EQ(host.mask(), 0) << "InitializeInjection never ran";
      host.plugin()->stop(host.plugin()->start(world.context, fake::kGroup));
      host.destroy(world);
    }
    dlclose(library);
    dlclose(injected);
  });
}

// --- hostile bytes

CommunicatorSums sound_sums() {
  CommunicatorSums sums;
  sums.abi = 4;
  sums.communicators = 2;
  sums.listed = 2;
  CollectiveTraffic& traffic = sums.collectives[static_cast<int>(Collective::kAllReduce)];
  traffic = {10, 1000, 1500, 1, 2, 3, 300, 1, 100, 150};
  sums.list[0] = {"data", 1, 1, 3, 4, 2, 8, 900, 1350, 2, {8}};
  sums.list[1] = {"tensor", 2, 2, 1, 2, 1, 2, 100, 150, 1, {2}};
  return sums;
}

template <typename Change>
void expect_fault(Change change, const char* what) {
  CommunicatorSums sums = sound_sums();
  ASSERT_EQ(communicator_fault(sums), nullptr);
  change(sums);
  EXPECT_NE(communicator_fault(sums), nullptr) << what;
}

TEST(NcclFault, EveryFieldIsBounded) {
  auto reduce = [](CommunicatorSums& s) -> CollectiveTraffic& {
    return s.collectives[static_cast<int>(Collective::kAllReduce)];
  };
  expect_fault([](auto& s) { s.abi = kNcclAbis; }, "abi");
  expect_fault([](auto& s) { s.listed = 9; }, "listed");
  expect_fault([](auto& s) { s.communicators = 1; }, "more listed than created");
  expect_fault([](auto& s) { s.communicators = kMaxCalls + 1; }, "communicators");
  expect_fault([](auto& s) { s.listed = 1; }, "something beyond the list");
  expect_fault([](auto& s) { s.collectives[0].count = 1; }, "no collective");
  expect_fault([&](auto& s) { reduce(s).count = kMaxCalls + 1; }, "count");
  expect_fault([&](auto& s) { reduce(s).unrated = 11; }, "unrated");
  expect_fault([&](auto& s) { reduce(s).unsized = 3; }, "unsized");
  expect_fault([&](auto& s) { reduce(s).captured = UINT64_MAX; }, "captured");
  expect_fault([&](auto& s) { reduce(s).engine_count = UINT64_MAX; }, "engine count");
  expect_fault([&](auto& s) { reduce(s).bytes = kMaxTrafficBytes + 1; }, "bytes");
  expect_fault([&](auto& s) { reduce(s).bus_bytes = kMaxTrafficBytes + 1; }, "bus bytes");
  expect_fault([&](auto& s) { reduce(s).captured_bytes = UINT64_MAX; }, "captured bytes");
  expect_fault([&](auto& s) { reduce(s).engine_bytes = UINT64_MAX; }, "engine bytes");
  expect_fault([&](auto& s) { reduce(s).engine_bus_bytes = UINT64_MAX; }, "engine bus bytes");
  expect_fault([](auto& s) { std::memset(s.list[0].name, 'x', 32); }, "endless name");
  expect_fault([](auto& s) { s.list[0].name[1] = '\n'; }, "newline");
  expect_fault([](auto& s) { s.list[0].name[1] = '\x80'; }, "not ASCII");
  expect_fault([](auto& s) { s.list[0].number = 0; }, "number");
  expect_fault([](auto& s) { s.list[0].number = kCommunicatorTable + 1; }, "number");
  expect_fault([](auto& s) { s.list[0].rank = 4; }, "rank");
  expect_fault([](auto& s) { s.list[0].ranks = kMaxRanks + 1; }, "ranks");
  expect_fault([](auto& s) { s.list[0].nodes = 5; }, "nodes");
  expect_fault([](auto& s) { s.list[0].count = UINT64_MAX; }, "calls");
  expect_fault([](auto& s) { s.list[0].captured = UINT64_MAX; }, "captured");
  expect_fault([](auto& s) { s.list[0].bytes = UINT64_MAX; }, "bytes");
  expect_fault([](auto& s) { s.list[0].bus_bytes = UINT64_MAX; }, "bus bytes");
  expect_fault([](auto& s) { s.list[0].sequence[4] = UINT64_MAX; }, "sequence");
  expect_fault([](auto& s) { std::swap(s.list[0], s.list[1]); }, "order");
}

// What the check lets pass keeps its promise, whatever the bytes were.
TEST(NcclFault, MutatedBytesKeepThePromiseOrAreRefused) {
  std::mt19937_64 random(7);
  int passed = 0;
  for (int round = 0; round < 200'000; ++round) {
    CommunicatorSums sums = sound_sums();
    unsigned char bytes[sizeof(sums)];
    std::memcpy(bytes, &sums, sizeof(sums));
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      bytes[random() % sizeof(bytes)] = static_cast<unsigned char>(random());
    }
    std::memcpy(static_cast<void*>(&sums), bytes, sizeof(sums));
    if (communicator_fault(sums) != nullptr) continue;
    ++passed;
    ASSERT_LE(sums.listed, kCommunicatorsListed);
    unsigned __int128 total = 0;
    for (const CollectiveTraffic& traffic : sums.collectives) total += traffic.count;
    ASSERT_LE(total, UINT64_MAX);
    for (uint32_t i = 0; i < sums.listed; ++i) {
      const CommunicatorTraffic& one = sums.list[i];
      ASSERT_LT(strnlen(one.name, sizeof(one.name)), sizeof(one.name));
      for (const char* c = one.name; *c != '\0'; ++c) ASSERT_TRUE(*c >= 0x20 && *c <= 0x7e);
      ASSERT_TRUE(one.ranks == 0 || one.rank < one.ranks);
    }
  }
  EXPECT_GT(passed, 1000);
  EXPECT_LT(passed, 199'000);
}

}  // namespace
}  // namespace mfu
