// For tests of the fakes: a child process with its own environment and freshly loaded fakes, since
// they read their environment, and run an injection, once a process.
#ifndef MFU_TESTS_FAKE_FAKE_PROCESS_HH_
#define MFU_TESTS_FAKE_FAKE_PROCESS_HH_

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

using Environment = std::map<std::string, std::string>;

// Runs `body` in a child. What it expects, it expects in the child; the parent fails if any of it
// failed there.
template <typename Body>
void in_process(const Environment& environment, Body&& body) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    alarm(240);  // a hang: less than what a test program has in tests/run
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child failed";
}

inline void* load(const char* library) {
  void* handle = dlopen((std::string(BUILD_FOLDER "/tests/fake/") + library).c_str(), RTLD_NOW);
  EXPECT_NE(handle, nullptr) << dlerror();
  return handle;
}

// function<decltype(&cuInit)>(library, "cuInit")
template <typename Function>
Function function(void* library, const char* name) {
  auto found = reinterpret_cast<Function>(dlsym(library, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

#define FAKE(library, name) mfu::fake::function<decltype(&name)>(library, #name)

// The profiler's side: buffers of a chosen size, and all records that came back.
struct Client {
  struct Record {
    CUpti_ActivityKind kind;
    uint32_t device, context, stream, correlation;
    uint64_t start, end;
    size_t buffer;  // number of the buffer it came in
    std::string name;
  };

  static inline size_t buffer_size = 1 << 16;
  static inline size_t max_records = 0;
  static inline bool refuses = false;
  static inline std::mutex mutex;
  static inline std::vector<Record> records;
  static inline size_t buffers = 0;    // handed back
  static inline size_t requested = 0;  // handed out

  static void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* limit) {
    std::lock_guard lock(mutex);
    *buffer = refuses ? nullptr : static_cast<uint8_t*>(std::calloc(1, buffer_size));
    *size = buffer_size;
    *limit = max_records;
    requested += refuses ? 0 : 1;
  }

  static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
    auto next = FAKE(load("libcupti.so.13"), cuptiActivityGetNextRecord);
    std::lock_guard lock(mutex);
    CUpti_Activity* record = nullptr;
    while (next(buffer, valid, &record) == CUPTI_SUCCESS) add(record);
    ++buffers;
    std::free(buffer);
  }

  static std::vector<Record> taken() {
    std::lock_guard lock(mutex);
    return std::exchange(records, {});
  }

 private:
  template <typename Structure>
  static void add_as(const CUpti_Activity* record, const char* name) {
    auto* r = reinterpret_cast<const Structure*>(record);
    records.push_back({r->kind, r->deviceId, r->contextId, r->streamId, r->correlationId, r->start,
                       r->end, buffers, name});
  }
  static void add(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        return add_as<CUpti_ActivityMemcpy6>(record, "");
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return add_as<CUpti_ActivityMemcpyPtoP4>(record, "");
      case CUPTI_ACTIVITY_KIND_MEMSET:
        return add_as<CUpti_ActivityMemset4>(record, "");
      default:
        return add_as<CUpti_ActivityKernel10>(
            record, reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name);
    }
  }
};

// Driver and CUPTI loaded, cuInit called, primary contexts there, four kinds enabled, Client in
// charge of the buffers.
struct Session {
  Session() {
    EXPECT_EQ(FAKE(cuda, cuInit)(0), CUDA_SUCCESS);
    int count = 0;
    EXPECT_EQ(FAKE(cuda, cuDeviceGetCount)(&count), CUDA_SUCCESS);
    CUcontext context;
    for (int i = 0; i < count; ++i) FAKE(cuda, cuDevicePrimaryCtxRetain)(&context, i);
    FAKE(cupti, cuptiActivityRegisterCallbacks)(Client::request, Client::complete);
    for (CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
      FAKE(cupti, cuptiActivityEnable)(kind);
    }
  }

  CUresult submit(const GpuOperation& operation) { return FAKE(cuda, fakeGpuSubmit)(&operation); }
  // Kernels that ran in the past second, the i-th from base + 1000 i for 500 ns.
  void submit_kernels(int count) {
    for (int i = 0; i < count; ++i) submit(kernel(base_ns + static_cast<uint64_t>(i) * 1000, 500));
  }
  static GpuOperation kernel(uint64_t start_ns, uint64_t ns) {
    GpuOperation operation;
    operation.start_ns = start_ns;
    operation.end_ns = start_ns + ns;
    operation.name = "a_kernel";
    return operation;
  }
  CUptiResult flush(uint32_t flag = 0) { return FAKE(cupti, cuptiActivityFlushAll)(flag); }
  size_t dropped() {
    size_t count = ~size_t{0};
    FAKE(cupti, cuptiActivityGetNumDroppedRecords)(nullptr, 0, &count);
    return count;
  }
  static uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  }

  void* cuda = load("libcuda.so.1");
  void* cupti = load("libcupti.so.13");
  uint64_t base_ns = now_ns() - 1000000000;
};

}  // namespace mfu::fake

#endif
