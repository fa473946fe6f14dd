// For coexistence_test: a child process under the injected library and the fakes, and what its
// records say.
#ifndef MFU_TESTS_UNIT_PROFILED_PROCESS_HH_
#define MFU_TESTS_UNIT_PROFILED_PROCESS_HH_

#include <dirent.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "profiler/record.hh"
#include "tests/fake/fake_process.hh"
#include "tests/fake/kineto_client.hh"

namespace mfu {

using fake::Environment;
using fake::fakeGpuSubmit;
using fake::GpuOperation;
using fake::GpuWork;

inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

inline uint64_t now_ns() {
  return fake::Session::now_ns();
}

inline void sleep_ms(unsigned ms) {
  usleep(ms * 1000);
}

// The workload's side of the fake GPU.
class Gpu {
 public:
  // cuInit, which brings the profiler in. Libraries first: as a program that is linked with them.
  Gpu() {
    cuda_ = fake::load("libcuda.so.1");
    EXPECT_EQ(FAKE(cuda_, cuInit)(0), CUDA_SUCCESS);
    int count = 0;
    EXPECT_EQ(FAKE(cuda_, cuDeviceGetCount)(&count), CUDA_SUCCESS);
    CUcontext context;
    for (int i = 0; i < count; ++i) FAKE(cuda_, cuDevicePrimaryCtxRetain)(&context, i);
  }

  void* driver() const { return cuda_; }

  void submit(const GpuOperation& operation) {
    EXPECT_EQ(FAKE(cuda_, fakeGpuSubmit)(&operation), CUDA_SUCCESS);
  }
  // An operation that is over: it ended now.
  void run(GpuWork work, uint64_t ns, int device = 0) {
    GpuOperation operation = fake::Session::kernel(now_ns() - ns, ns);
    operation.work = work;
    operation.device = device;
    submit(operation);
  }
  void run_kernel(uint64_t ns) { run(GpuWork::kKernel, ns); }

 private:
  void* cuda_;
};

// Runs `body` in a child under the profiler, which ends by exit(0) or, if an expectation failed in
// it, otherwise. Its records, the primary one first.
template <typename Body>
std::vector<Record> profiled(const Environment& environment, Body&& body) {
  std::string folder = testing::TempDir() + "mfu-coexistence-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("CUDA_INJECTION64_PATH", BUILD_FOLDER "/libmfu_profiler.so", 1);
    setenv("MFU_RECORD_DIR", folder.c_str(), 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    alarm(120);
    body();
    std::fflush(nullptr);
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child failed";
  std::vector<Record> records;
  DIR* open = opendir(folder.c_str());
  while (const dirent* entry = readdir(open)) {
    if (strstr(entry->d_name, kRecordSuffix) == nullptr) continue;
    std::ifstream file(folder + "/" + entry->d_name, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    static unsigned char slots[kRecordFileSize];
    Record record;
    EXPECT_EQ(bytes.size(), sizeof(slots));
    std::memcpy(slots, bytes.data(), std::min(bytes.size(), sizeof(slots)));
    EXPECT_TRUE(newest_record(slots, &record)) << entry->d_name;
    records.push_back(record);
  }
  closedir(open);
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.device < b.device; });
  EXPECT_EQ(std::system(("rm -rf '" + folder + "'").c_str()), 0);
  EXPECT_FALSE(records.empty());
  if (records.empty()) records.emplace_back();
  return records;
}

// Nothing is missing, and nothing is odd.
inline void expect_whole(const Record& record) {
  EXPECT_EQ(record.state, State::kOk);
  EXPECT_EQ(record.flags & (kFinished | kFlushFailed | kDroppedUnknown | kInCupti), kFinished);
  EXPECT_EQ(record.zero_times + record.reversed + record.implausible + record.late_ns, 0u);
  EXPECT_EQ(record.dropped + record.unfinished + record.lost_ns, 0u);
}

}  // namespace mfu

#endif
