// The gate to CUPTI over buffers as one version of CUPTI writes them: cupti_layouts CHECK LIBRARY.
// cupti_versions_test.sh compiles it against the headers of each version, with that version's
// newest structures as KERNEL, MEMCPY, PEER, MEMSET, OVERHEAD and MARKER and all since CUDA 11.0 as
// KERNELS, MEMCPYS, PEERS and MEMSETS, and runs each check in a process of its own: the gate keeps
// one library. 0: as expected; 1: not, and why; 77: this libcupti cannot read without a driver.
#include <cupti_activity.h>
#include <cupti_version.h>
#include <dlfcn.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "profiler/cupti_gate.hh"

namespace {

using mfu::cupti::Activity;
using mfu::cupti::ActivityKind;

// What the gate reads lies at the same place in every structure, also in those of versions that
// can no longer be had.
template <typename... Records>
constexpr bool kernels_fit() {
  return ((offsetof(Records, kind) == 0 && offsetof(Records, start) == 16 &&
           offsetof(Records, end) == 24 && offsetof(Records, deviceId) == 40 &&
           offsetof(Records, streamId) == 48 && offsetof(Records, gridX) == 52 &&
           offsetof(Records, gridY) == 56 && offsetof(Records, gridZ) == 60 &&
           offsetof(Records, correlationId) == 92 && offsetof(Records, name) == 104) &&
          ...);
}
template <size_t kCorrelation, typename... Records>
constexpr bool copies_fit() {
  return ((offsetof(Records, kind) == 0 && offsetof(Records, start) == 16 &&
           offsetof(Records, end) == 24 && offsetof(Records, deviceId) == 32 &&
           offsetof(Records, streamId) == 40 && offsetof(Records, correlationId) == kCorrelation) &&
          ...);
}
static_assert(kernels_fit<KERNELS>());
static_assert(copies_fit<44, MEMCPYS>());
static_assert(copies_fit<60, PEERS>());
static_assert(copies_fit<44, MEMSETS>());

constexpr uint32_t kLastKind = 255;
constexpr size_t kSlack = 256;  // bytes after the valid ones, which the library may read
constexpr int kNeedsDriver = 77;

int failures = 0;

void expect(bool good, const char* what, uint64_t got, uint64_t expected) {
  if (good) return;
  ++failures;
  std::printf("%s: %" PRIu64 " instead of %" PRIu64 "\n", what, got, expected);
}
void expect_equal(const char* what, uint64_t got, uint64_t expected) {
  expect(got == expected, what, got, expected);
}

decltype(&cuptiActivityGetNextRecord) next_record;

// The size of a kind's records, by the library itself: how far it steps. 0: no such kind.
size_t step(uint32_t kind) {
  alignas(8) uint8_t buffer[4 * kSlack] = {};
  for (size_t at = 0; at < sizeof(buffer); at += 8) buffer[at] = CUPTI_ACTIVITY_KIND_RUNTIME;
  std::memcpy(buffer, &kind, sizeof(kind));
  auto* record = reinterpret_cast<CUpti_Activity*>(buffer);
  if (next_record(buffer, sizeof(buffer), &record) != CUPTI_SUCCESS) return 0;
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - buffer);
}

// Records with random contents, and what the gate has to say of each.
class Buffer {
 public:
  explicit Buffer(uint64_t seed) : random_(seed) {}

  void add(uint32_t kind) {
    switch (kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      case CUPTI_ACTIVITY_KIND_KERNEL: {
        auto record = filled<KERNEL>(kind);
        Activity expected = prefix(ActivityKind::kKernel, record);
        expected.grid[0] = static_cast<uint32_t>(record.gridX);
        expected.grid[1] = static_cast<uint32_t>(record.gridY);
        expected.grid[2] = static_cast<uint32_t>(record.gridZ);
        expected.name = record.name;
        return append(record, expected);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        return append_copy<MEMCPY>(kind, ActivityKind::kMemcpy);
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return append_copy<PEER>(kind, ActivityKind::kMemcpyPeer);
      case CUPTI_ACTIVITY_KIND_MEMSET:
        return append_copy<MEMSET>(kind, ActivityKind::kMemset);
      default: {
        std::vector<uint8_t> record(step(kind));
        fill(record.data(), record.size(), kind);
        bytes_.insert(bytes_.end(), record.begin(), record.end());
        expected_.push_back({ActivityKind::kOther});
      }
    }
  }

  // A kind that this version does not have, in the place of a record.
  void add_unknown(uint32_t kind) {
    bytes_.resize(bytes_.size() + 64);
    std::memcpy(&bytes_[bytes_.size() - 64], &kind, sizeof(kind));
  }

  size_t size() const { return bytes_.size(); }

  // Through the gate, over the first `valid` bytes: the first `count` records, then the end with
  // this result.
  void expect_read(size_t valid, size_t count, int end) {
    std::vector<uint64_t> aligned((bytes_.size() + kSlack) / 8 + 1);
    auto* memory = reinterpret_cast<uint8_t*>(aligned.data());
    if (!bytes_.empty()) std::memcpy(memory, bytes_.data(), bytes_.size());
    void* cursor = nullptr;
    int result = -2;
    size_t read = 0;
    Activity got = {};
    for (; mfu::cupti::next(memory, valid, &cursor, &got, &result); ++read, got = {}) {
      if (read < count) expect_same(got, expected_[read]);
      expect_equal("result of a record", static_cast<uint64_t>(result), 0);
    }
    expect_equal("records", read, count);
    expect_equal("result at the end", static_cast<uint64_t>(result), static_cast<uint64_t>(end));
    // The end stays the end.
    expect(!mfu::cupti::next(memory, valid, &cursor, &got, &result), "a record after the end", 1,
           0);
  }
  void expect_all() { expect_read(size(), expected_.size(), 0); }

  uint64_t draw(uint64_t below) { return random_() % below; }

 private:
  void fill(uint8_t* record, size_t size, uint32_t kind) {
    for (size_t i = 0; i < size; ++i) record[i] = static_cast<uint8_t>(random_());
    std::memcpy(record, &kind, sizeof(kind));
  }
  template <typename Record>
  Record filled(uint32_t kind) {
    Record record;
    fill(reinterpret_cast<uint8_t*>(&record), sizeof(record), kind);
    return record;
  }
  template <typename Record>
  static Activity prefix(ActivityKind kind, const Record& record) {
    Activity activity = {};
    activity.kind = kind;
    activity.start_ns = record.start;
    activity.end_ns = record.end;
    activity.device = record.deviceId;
    activity.stream = record.streamId;
    activity.correlation = record.correlationId;
    return activity;
  }
  template <typename Record>
  void append(const Record& record, const Activity& expected) {
    auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(record));
    expected_.push_back(expected);
  }
  template <typename Record>
  void append_copy(uint32_t kind, ActivityKind as) {
    auto record = filled<Record>(kind);
    append(record, prefix(as, record));
  }
  static void expect_same(const Activity& got, const Activity& expected) {
    expect_equal("kind", static_cast<uint64_t>(got.kind), static_cast<uint64_t>(expected.kind));
    if (expected.kind == ActivityKind::kOther) return;
    expect_equal("start", got.start_ns, expected.start_ns);
    expect_equal("end", got.end_ns, expected.end_ns);
    expect_equal("device", got.device, expected.device);
    expect_equal("stream", got.stream, expected.stream);
    expect_equal("correlation", got.correlation, expected.correlation);
    if (expected.kind != ActivityKind::kKernel) return;
    for (int i = 0; i < 3; ++i) expect_equal("grid", got.grid[i], expected.grid[i]);
    expect_equal("name", reinterpret_cast<uint64_t>(got.name),
                 reinterpret_cast<uint64_t>(expected.name));
  }

  std::mt19937_64 random_;
  std::vector<uint8_t> bytes_;
  std::vector<Activity> expected_;
};

constexpr uint32_t kOurs[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL,
                              CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                              CUPTI_ACTIVITY_KIND_MEMSET};

std::vector<uint32_t> kinds(bool valid) {
  std::vector<uint32_t> found;
  for (uint32_t kind = 0; kind <= kLastKind; ++kind) {
    if ((step(kind) != 0) == valid) found.push_back(kind);
  }
  return found;
}

// The library reads what the headers beside it say.
void check_sizes() {
  uint32_t version = 0;
  expect_equal("result of cuptiGetVersion", static_cast<uint64_t>(mfu::cupti::version(&version)),
               0);
  expect_equal("version", version, CUPTI_API_VERSION);
  expect(version >= mfu::cupti::kOldestVersion, "version", version, mfu::cupti::kOldestVersion);
  expect_equal("kernel", step(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), sizeof(KERNEL));
  expect_equal("serialised kernel", step(CUPTI_ACTIVITY_KIND_KERNEL), sizeof(KERNEL));
  expect_equal("copy", step(CUPTI_ACTIVITY_KIND_MEMCPY), sizeof(MEMCPY));
  expect_equal("peer copy", step(CUPTI_ACTIVITY_KIND_MEMCPY2), sizeof(PEER));
  expect_equal("fill", step(CUPTI_ACTIVITY_KIND_MEMSET), sizeof(MEMSET));
  expect_equal("runtime", step(CUPTI_ACTIVITY_KIND_RUNTIME), sizeof(CUpti_ActivityAPI));
  expect_equal("driver", step(CUPTI_ACTIVITY_KIND_DRIVER), sizeof(CUpti_ActivityAPI));
  expect_equal("overhead", step(CUPTI_ACTIVITY_KIND_OVERHEAD), sizeof(OVERHEAD));
  expect_equal("marker", step(CUPTI_ACTIVITY_KIND_MARKER), sizeof(MARKER));
}

void check_fields() {
  for (uint32_t kind : kOurs) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Buffer buffer(seed);
      buffer.add(kind);
      buffer.expect_all();
    }
  }
}

// Every kind of this version, among ours and alone: what other clients' buffers hold.
void check_mixes() {
  const std::vector<uint32_t> all = kinds(true);
  for (uint32_t kind : all) {
    Buffer buffer(kind);
    for (uint32_t ours : kOurs) {
      buffer.add(kind);
      buffer.add(ours);
    }
    buffer.expect_all();
  }
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Buffer buffer(seed);
    for (uint64_t i = 0, count = buffer.draw(200); i < count; ++i) {
      buffer.add(buffer.draw(2) != 0 ? kOurs[buffer.draw(std::size(kOurs))]
                                     : all[buffer.draw(all.size())]);
    }
    buffer.expect_all();
  }
}

// The records before it are read, and the result names it: CUPTI_ERROR_INVALID_KIND since CUDA
// 12.4, CUPTI_ERROR_UNKNOWN before.
void check_unknown() {
  const int error = CUPTI_API_VERSION >= 22 ? CUPTI_ERROR_INVALID_KIND : CUPTI_ERROR_UNKNOWN;
  std::vector<uint32_t> unknown = kinds(false);
  for (uint32_t kind : {0x10001u, 0x7ffffffeu, 0x80000000u, 0xffffffffu}) unknown.push_back(kind);
  for (uint32_t kind : unknown) {
    Buffer buffer(kind);
    for (uint32_t ours : kOurs) buffer.add(ours);
    buffer.add_unknown(kind);
    buffer.expect_read(buffer.size(), std::size(kOurs), error);
    Buffer alone(kind);
    alone.add_unknown(kind);
    alone.expect_read(alone.size(), 0, error);
  }
}

// A record that is cut off is none, and no error: at every byte of the last one.
void check_truncated() {
  for (uint32_t kind : kOurs) {
    Buffer buffer(kind);
    for (uint32_t ours : kOurs) buffer.add(ours);
    const size_t whole = buffer.size();
    buffer.add(kind);
    for (size_t valid = whole; valid < buffer.size(); ++valid) {
      buffer.expect_read(valid, std::size(kOurs), 0);
    }
    buffer.expect_all();
  }
}

void check_empty() {
  Buffer nothing(1);
  nothing.expect_all();
  Buffer buffer(1);
  buffer.add(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  buffer.expect_read(0, 0, 0);
}

constexpr struct {
  std::string_view name;
  void (*run)();
} kChecks[] = {{"sizes", check_sizes},     {"fields", check_fields},       {"mixes", check_mixes},
               {"unknown", check_unknown}, {"truncated", check_truncated}, {"empty", check_empty}};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const char* library = arguments[2];
  if (!mfu::cupti::load(library)) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  void* loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) {
    std::printf("the gate has found another library\n");
    return 1;
  }
  next_record =
      reinterpret_cast<decltype(next_record)>(dlsym(loaded, "cuptiActivityGetNextRecord"));
  uint32_t version = 0;
  if (mfu::cupti::version(&version) == CUPTI_ERROR_UNKNOWN) return kNeedsDriver;
  auto check = std::find_if(std::begin(kChecks), std::end(kChecks),
                            [&](const auto& known) { return known.name == arguments[1]; });
  if (check == std::end(kChecks)) return 2;
  check->run();
  return failures == 0 ? 0 : 1;
}
