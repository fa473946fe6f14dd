#include "tests/bench/activity_feed.hh"

#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "profiler/activity_buffers.hh"
#include "profiler/cupti_session.hh"
#include "profiler/process_record.hh"
#include "tests/bench/kernel_names.hh"

namespace mfu::bench {
namespace {

using Kernel = CUpti_ActivityKernel10;
constexpr size_t kPerBuffer = activity_buffers::kSize / sizeof(Kernel);
constexpr uint64_t kRoundNs = 160;  // eight operations

std::filesystem::path folder;

void remove_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::string real_cupti() {
  const char* path = std::getenv("MFU_REAL_CUPTI");
  return path != nullptr ? path : REAL_CUPTI_PATH;
}

void flush_from_caches([[maybe_unused]] const uint8_t* memory, [[maybe_unused]] size_t size) {
#if defined(__x86_64__)
  for (size_t at = 0; at < size; at += 64) __builtin_ia32_clflush(memory + at);
  __builtin_ia32_mfence();
#endif
}

}  // namespace

std::vector<Operation> operations(size_t count) {
  std::mt19937_64 random(1);
  std::vector<Operation> result;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t round = i / 8 * kRoundNs;
    const size_t place = i % 8;
    if (place == 6) {
      const uint64_t start = round + random() % 40;
      result.push_back(
          {start, start + 60, 9, false, kComputeNames[random() % std::size(kComputeNames)]});
    } else if (place == 7) {
      const uint64_t start = round + random() % 40;
      result.push_back({start, start + 110, 20, true,
                        kCommunicationNames[random() % std::size(kCommunicationNames)]});
    } else {
      const uint64_t start = round + place * 26;
      result.push_back({start, start + 18 + random() % 8, 7, false,
                        kComputeNames[random() % std::size(kComputeNames)]});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Operation& a, const Operation& b) { return a.end_ns < b.end_ns; });
  return result;
}

uint64_t block_span_ns(size_t count) {
  return (count + 7) / 8 * kRoundNs;
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

ActivityFeed* ActivityFeed::get(std::string* why) {
  static ActivityFeed feed;
  static std::string fault;
  static const bool opened = feed.open(&fault);
  *why = fault;
  return opened ? &feed : nullptr;
}

bool ActivityFeed::open(std::string* why) {
  const std::string shim = std::filesystem::absolute(BUILD_FOLDER "/tests/bench/libcupti.so.13");
  shim_ = dlopen(shim.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (shim_ == nullptr) {
    *why = dlerror();
    return false;
  }
  auto load = reinterpret_cast<bool (*)(const char*)>(dlsym(shim_, "bench_load_real"));
  if (real_cupti().empty() || !load(real_cupti().c_str())) {
    *why = "no real libcupti: install cuda-cupti-dev-13-0 or set MFU_REAL_CUPTI";
    return false;
  }
  operations_ = operations(kPerBuffer);
  block_.resize(kPerBuffer * sizeof(Kernel));
  for (size_t i = 0; i < kPerBuffer; ++i) {
    Kernel kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.streamId = operations_[i].stream;
    kernel.name = operations_[i].name;
    kernel.correlationId = static_cast<uint32_t>(i + 1);
    std::memcpy(block_.data() + i * sizeof(kernel), &kernel, sizeof(kernel));
  }
  folder = std::filesystem::temp_directory_path() / ("mfu-bench." + std::to_string(getpid()));
  static const std::string name = folder;  // the session keeps the pointer
  std::filesystem::create_directory(folder);
  std::atexit(remove_folder);
  mib_before_ = resident_mib();
  if (!cupti_session::open({name.c_str(), shim.c_str(), 0, [] {}})) {
    *why = "no record in " + name;
    return false;
  }
  cupti_session::arm();
  record_path_ = name + "/" + std::to_string(getpid()) + ".0" + kRecordSuffix;
  clock_ns_ = process_record::started_ns();
  return true;
}

uint64_t ActivityFeed::next_block_ns() {
  const uint64_t start_ns = clock_ns_;
  clock_ns_ += block_span_ns(kPerBuffer);
  return start_ns;
}

size_t ActivityFeed::fill(int buffers, bool cold) {
  using Tell = void (*)(CUpti_BuffersCallbackRequestFunc*, CUpti_BuffersCallbackCompleteFunc*);
  static const auto tell = reinterpret_cast<Tell>(dlsym(shim_, "bench_callbacks"));
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  tell(&requested, &completed);
  size_t records = 0;
  for (int i = 0; i < buffers; ++i) {
    uint8_t* memory = nullptr;
    size_t size = 0;
    size_t most = 0;
    requested(&memory, &size, &most);
    if (memory == nullptr) break;
    const uint64_t block_ns = next_block_ns();
    std::memcpy(memory, block_.data(), block_.size());
    auto* kernels = reinterpret_cast<Kernel*>(memory);
    for (size_t k = 0; k < kPerBuffer; ++k) {
      kernels[k].start = block_ns + operations_[k].start_ns;
      kernels[k].end = block_ns + operations_[k].end_ns;
    }
    if (cold) flush_from_caches(memory, size);
    completed(nullptr, 0, memory, size, block_.size());
    records += kPerBuffer;
  }
  return records;
}

Record ActivityFeed::published() const {
  unsigned char bytes[kRecordFileSize] = {};
  std::ifstream file(record_path_, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes), sizeof(bytes));
  Record record;
  return newest_record(bytes, &record) ? record : Record{};
}

}  // namespace mfu::bench
