// What the gate makes of CUPTI's records: every field of an Activity is set, whatever lay there.
#include "profiler/cupti_gate.hh"

#include <algorithm>
#include <iterator>

#include "tests/fake/fake_process.hh"

namespace mfu {
namespace {

using cupti::Activity;
using cupti::ActivityKind;

template <typename Structure>
Activity read(CUpti_ActivityKind kind) {
  alignas(8) uint8_t buffer[1024] = {};
  Structure record = {};
  record.kind = kind;
  if constexpr (requires { record.start; }) {
    record.start = 11;
    record.end = 22;
    record.deviceId = 3;
    record.streamId = 4;
    record.correlationId = 5;
  }
  std::memcpy(buffer, &record, sizeof(record));
  Activity activity;
  std::memset(static_cast<void*>(&activity), 0xff, sizeof(activity));
  void* cursor = nullptr;
  int result = -1;
  EXPECT_TRUE(cupti::next(buffer, sizeof(record), &cursor, &activity, &result));
  EXPECT_EQ(result, 0);
  return activity;
}

void expect_no_kernel(const Activity& activity) {
  EXPECT_EQ(activity.grid[0] + activity.grid[1] + activity.grid[2], 0u);
  EXPECT_EQ(activity.graph_node, 0u);
  EXPECT_EQ(activity.name, nullptr);
}

TEST(CuptiGate, SetsEveryField) {
  fake::in_process({}, [] {
    ASSERT_TRUE(cupti::load(BUILD_FOLDER "/tests/fake/libcupti.so.13"));
    uint32_t version = 0;
    ASSERT_EQ(cupti::version(&version), 0);
    const Activity copies[] = {read<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY),
                               read<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2),
                               read<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET)};
    const ActivityKind kinds[] = {ActivityKind::kMemcpy, ActivityKind::kMemcpyPeer,
                                  ActivityKind::kMemset};
    for (size_t i = 0; i < std::size(copies); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(copies[i].kind, kinds[i]);
      EXPECT_EQ(copies[i].start_ns, 11u);
      EXPECT_EQ(copies[i].end_ns, 22u);
      EXPECT_EQ(copies[i].device, 3u);
      EXPECT_EQ(copies[i].stream, 4u);
      EXPECT_EQ(copies[i].correlation, 5u);
      expect_no_kernel(copies[i]);
    }
    const Activity kernel = read<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    EXPECT_EQ(kernel.kind, ActivityKind::kKernel);
    EXPECT_EQ(kernel.start_ns, 11u);
    expect_no_kernel(kernel);  // this one has a grid, a node and a name of zeros
    const Activity other = read<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
    EXPECT_EQ(other.kind, ActivityKind::kOther);
    EXPECT_EQ(other.start_ns + other.end_ns + other.device + other.stream, 0u);
    expect_no_kernel(other);
  });
}

}  // namespace
}  // namespace mfu
