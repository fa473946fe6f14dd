// The fake cuptiActivityGetNextRecord against the real library's on identical buffers: the same
// results and the same records. Skipped where the real libcupti is not installed.
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

using NextRecord = decltype(&cuptiActivityGetNextRecord);

constexpr uint32_t kKinds = CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS + 2;  // the last is undocumented
constexpr size_t kSlack = 256;  // bytes after the valid ones, which the real library may read

std::string real_path() {
  const char* path = std::getenv("MFU_REAL_CUPTI");
#ifdef REAL_CUPTI_PATH
  if (path == nullptr) path = REAL_CUPTI_PATH;
#endif
  return path != nullptr ? path : "";
}

class FakeCupti : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = real_path();
    void* real = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (real == nullptr) GTEST_SKIP() << "no real libcupti at \"" << path << '"';
    void* fake = dlopen(BUILD_FOLDER "/tests/fake/libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(fake, nullptr) << dlerror();
    real_ = reinterpret_cast<NextRecord>(dlsym(real, "cuptiActivityGetNextRecord"));
    fake_ = reinterpret_cast<NextRecord>(dlsym(fake, "cuptiActivityGetNextRecord"));
    ASSERT_NE(real_, nullptr);
    ASSERT_NE(fake_, nullptr);
  }

  // Both libraries' answer for one call; `record` moves on as the real one says.
  CUptiResult next(uint8_t* buffer, size_t size, CUpti_Activity** record) {
    CUpti_Activity* before = *record;
    CUpti_Activity* fakes = before;
    CUptiResult expected = real_(buffer, size, record);
    CUptiResult result = fake_(buffer, size, &fakes);
    auto offset = [buffer](const CUpti_Activity* at) {
      return at == nullptr ? -1 : reinterpret_cast<const uint8_t*>(at) - buffer;
    };
    EXPECT_EQ(result, expected) << "size " << size << ", after record at " << offset(before);
    EXPECT_EQ(fakes, *record) << "size " << size << ": " << offset(fakes) << " instead of "
                              << offset(*record);
    ++cases_;
    return expected;
  }

  // Reads the buffer to its end with both. Returns the number of records.
  size_t walk(uint8_t* buffer, size_t size) {
    size_t records = 0;
    CUpti_Activity* record = nullptr;
    while (next(buffer, size, &record) == CUPTI_SUCCESS) ++records;
    return records;
  }

  size_t step(uint32_t kind) {
    alignas(8) uint8_t buffer[2 * kSlack] = {};
    for (size_t at = 0; at < sizeof(buffer); at += 8) buffer[at] = CUPTI_ACTIVITY_KIND_MODULE;
    std::memcpy(buffer, &kind, sizeof(kind));
    CUpti_Activity* record = reinterpret_cast<CUpti_Activity*>(buffer);
    if (next(buffer, sizeof(buffer), &record) != CUPTI_SUCCESS) return 0;
    return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - buffer);
  }

  std::vector<uint32_t> valid_kinds() {
    std::vector<uint32_t> kinds;
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      if (step(kind) != 0) kinds.push_back(kind);
    }
    return kinds;
  }

  NextRecord real_ = nullptr;
  NextRecord fake_ = nullptr;
  size_t cases_ = 0;
};

TEST_F(FakeCupti, TwoDifferentLibrariesAreCompared) {
  Dl_info real, fake;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(real_), &real), 0);
  ASSERT_NE(dladdr(reinterpret_cast<void*>(fake_), &fake), 0);
  EXPECT_NE(real.dli_fbase, fake.dli_fbase);
  EXPECT_STRNE(real.dli_fname, fake.dli_fname);
}

TEST_F(FakeCupti, EveryKindHasTheSameSize) {
  for (uint32_t kind = 0; kind < kKinds + 3; ++kind) step(kind);
  for (uint32_t kind : {0x100u, 0x10001u, 0x7ffffffeu, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    step(kind);
  }
  EXPECT_EQ(step(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), sizeof(CUpti_ActivityKernel10));
  EXPECT_EQ(valid_kinds().size(), 39u);
}

TEST_F(FakeCupti, EveryTruncationOfEveryKind) {
  for (uint32_t second : {0u, 10u, 99u, 0x7fffffffu}) {
    for (uint32_t first = 0; first < kKinds + 3; ++first) {
      size_t size = step(first);
      std::vector<uint64_t> words(2 * kSlack / 8 + kSlack / 8);
      auto* buffer = reinterpret_cast<uint8_t*>(words.data());
      std::memcpy(buffer, &first, sizeof(first));
      if (size != 0) std::memcpy(buffer + size, &second, sizeof(second));
      for (size_t valid = 0; valid < 2 * kSlack; ++valid) {
        walk(buffer, valid);
        CUpti_Activity* record = reinterpret_cast<CUpti_Activity*>(buffer);
        next(buffer, valid, &record);
      }
    }
  }
  EXPECT_GT(cases_, 100000u);
}

TEST_F(FakeCupti, MixesOfValidRecords) {
  std::mt19937_64 random(1);
  std::vector<uint32_t> kinds = valid_kinds();
  std::vector<size_t> sizes;
  sizes.reserve(kinds.size());
  for (uint32_t kind : kinds) sizes.push_back(step(kind));
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> bytes(8192 + kSlack);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    size_t misalignment = random() % 4 == 0 ? random() % 8 : 0;
    size_t used = misalignment;
    size_t count = 0;
    while (used + kSlack < bytes.size() - kSlack && random() % 100 != 0) {
      size_t pick = random() % kinds.size();
      std::memcpy(&bytes[used], &kinds[pick], sizeof(kinds[pick]));
      used += sizes[pick];
      ++count;
    }
    EXPECT_EQ(walk(&bytes[misalignment], used - misalignment), count);
    // The same with a tail of rubbish.
    walk(&bytes[misalignment], used - misalignment + random() % kSlack);
  }
}

TEST_F(FakeCupti, RubbishWithKindsInIt) {
  std::mt19937_64 random(2);
  std::vector<uint64_t> words((1024 + 2 * kSlack) / 8);
  auto* buffer = reinterpret_cast<uint8_t*>(words.data());
  for (int round = 0; round < 50000; ++round) {
    for (uint64_t& word : words) word = random() % 2 != 0 ? random() % (kKinds + 3) : random();
    if (random() % 10 == 0) words[random() % 16] = CUPTI_ACTIVITY_KIND_FORCE_INT;
    size_t valid = random() % 1025;
    walk(buffer, valid);
    // The record before may also lie beyond the valid bytes, or at an odd address.
    size_t at = random() % 1200;
    CUpti_Activity* record = reinterpret_cast<CUpti_Activity*>(buffer + at);
    next(buffer, valid, &record);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(FakeCupti, SizesThatWrapAround) {
  std::vector<uint64_t> words(kSlack);
  auto* buffer = reinterpret_cast<uint8_t*>(words.data());
  for (uint32_t kind = 0; kind < kKinds + 3; ++kind) {
    std::memcpy(buffer, &kind, sizeof(kind));
    for (size_t valid : {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2}) {
      CUpti_Activity* record = nullptr;
      next(buffer, valid, &record);
      record = reinterpret_cast<CUpti_Activity*>(buffer);
      next(buffer, valid, &record);
    }
  }
}

TEST_F(FakeCupti, NullArguments) {
  alignas(8) uint8_t buffer[kSlack] = {CUPTI_ACTIVITY_KIND_MEMCPY};
  CUpti_Activity* record = nullptr;
  for (size_t size : {size_t{0}, size_t{1}, size_t{96}, kSlack}) {
    EXPECT_EQ(next(nullptr, size, &record), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(real_(buffer, size, nullptr), fake_(buffer, size, nullptr));
    EXPECT_EQ(real_(nullptr, size, nullptr), fake_(nullptr, size, nullptr));
  }
}

TEST_F(FakeCupti, ResultNames) {
  auto name = [](void* function, CUptiResult code) {
    const char* text = nullptr;
    auto get = reinterpret_cast<decltype(&cuptiGetResultString)>(function);
    CUptiResult result = get(code, &text);
    return std::to_string(result) + " " + (text != nullptr ? text : "(null)");
  };
  void* real = dlsym(dlopen(real_path().c_str(), RTLD_NOW | RTLD_NOLOAD), "cuptiGetResultString");
  void* fake = dlsym(dlopen(BUILD_FOLDER "/tests/fake/libcupti.so.13", RTLD_NOW | RTLD_NOLOAD),
                     "cuptiGetResultString");
  ASSERT_NE(real, fake);
  for (int code = -1; code < 1000; ++code) {
    EXPECT_EQ(name(fake, static_cast<CUptiResult>(code)),
              name(real, static_cast<CUptiResult>(code)))
        << code;
  }
}

}  // namespace
