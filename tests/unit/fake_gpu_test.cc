// The fake driver and CUPTI deliver what was submitted, exactly, and begin as the real ones do.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/fake/fake_process.hh"

namespace mfu::fake {
namespace {

constexpr uint64_t kLongNs = 3'600'000'000'000;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string fresh_path(const char* name) {
  std::string path = testing::TempDir() + name + std::to_string(getpid());
  unlink(path.c_str());
  return path;
}

// From here on CUPTI's own thread waits for longer than a test runs: only a flush delivers.
void leave_delivery_to_flush(const Session& session) {
  FAKE(session.cupti, cuptiActivityFlushPeriod)(3'600'000);
}

std::string uuid_of(CUdevice device) {
  CUuuid uuid = {};
  EXPECT_EQ(FAKE(load("libcuda.so.1"), cuDeviceGetUuid)(&uuid, device), CUDA_SUCCESS);
  return std::string(uuid.bytes, sizeof(uuid.bytes));
}

TEST(FakeDriver, InjectsOnceWhileInitRuns) {
  std::string log = fresh_path("injection");
  in_process({{"CUDA_INJECTION64_PATH", BUILD_FOLDER "/tests/fake/libinjection_probe.so"},
              {"FAKE_INJECTION_LOG", log}},
             [&] {
               void* cuda = load("libcuda.so.1");
               int version = 0;
               EXPECT_EQ(FAKE(cuda, cuDriverGetVersion)(&version), CUDA_SUCCESS);
               EXPECT_EQ(version, CUDA_VERSION);
               EXPECT_EQ(read_file(log), "");
               EXPECT_EQ(FAKE(cuda, cuInit)(0), CUDA_SUCCESS);
               EXPECT_EQ(FAKE(cuda, cuInit)(0), CUDA_SUCCESS);
               EXPECT_EQ(read_file(log), std::to_string(getpid()) + " " +
                                             std::to_string(CUDA_ERROR_NOT_INITIALIZED) + "\n");
             });
  unlink(log.c_str());
}

TEST(FakeDriver, MissingInjectionIsSilent) {
  in_process({{"CUDA_INJECTION64_PATH", "/nonexistent.so"}},
             [] { EXPECT_EQ(FAKE(load("libcuda.so.1"), cuInit)(0), CUDA_SUCCESS); });
}

TEST(FakeDriver, NeedsInitInThisProcess) {
  in_process({}, [] {
    void* cuda = load("libcuda.so.1");
    auto count = FAKE(cuda, cuDeviceGetCount);
    int devices = 0;
    EXPECT_EQ(count(&devices), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(FAKE(cuda, cuInit)(0), CUDA_SUCCESS);
    EXPECT_EQ(count(&devices), CUDA_SUCCESS);
    EXPECT_EQ(devices, 1);
    in_process({}, [&] {
      EXPECT_EQ(count(&devices), CUDA_ERROR_NOT_INITIALIZED);
      EXPECT_EQ(FAKE(cuda, cuInit)(0), CUDA_ERROR_NOT_INITIALIZED);
    });
  });
}

TEST(FakeDriver, DevicesComeFromTheEnvironment) {
  in_process(
      {{"CUDA_VISIBLE_DEVICES", "3,1"}, {"FAKE_CUDA_DEVICE_NAME", "NVIDIA A100-SXM4-80GB"}}, [] {
        void* cuda = load("libcuda.so.1");
        FAKE(cuda, cuInit)(0);
        int value = 0;
        FAKE(cuda, cuDeviceGetCount)(&value);
        EXPECT_EQ(value, 2);
        char text[64];
        FAKE(cuda, cuDeviceGetName)(text, sizeof(text), 1);
        EXPECT_STREQ(text, "NVIDIA A100-SXM4-80GB");
        auto attribute = FAKE(cuda, cuDeviceGetAttribute);
        attribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
        EXPECT_EQ(value, 108);
        attribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
        EXPECT_EQ(value, 8);
        EXPECT_EQ(attribute(&value, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 2), CUDA_ERROR_INVALID_DEVICE);
      });
  in_process({{"CUDA_VISIBLE_DEVICES", ""}},
             [] { EXPECT_EQ(FAKE(load("libcuda.so.1"), cuInit)(0), CUDA_ERROR_NO_DEVICE); });
}

TEST(FakeDriver, UuidNamesThePhysicalGpu) {
  auto uuid = [](const char* node, const char* visible, CUdevice device) {
    std::string path = fresh_path("uuid");
    in_process({{"SLURMD_NODENAME", node}, {"CUDA_VISIBLE_DEVICES", visible}}, [&] {
      FAKE(load("libcuda.so.1"), cuInit)(0);
      std::ofstream(path) << uuid_of(device);
    });
    std::string bytes = read_file(path);
    unlink(path.c_str());
    EXPECT_EQ(bytes.size(), 16u);
    return bytes;
  };
  EXPECT_EQ(uuid("n1", "3", 0), uuid("n1", "0,3", 1));
  EXPECT_NE(uuid("n1", "3", 0), uuid("n1", "2", 0));
  EXPECT_NE(uuid("n1", "3", 0), uuid("n2", "3", 0));
}

TEST(FakeDriver, ProcAddressFollowsTheVersion) {
  in_process({}, [] {
    void* cuda = load("libcuda.so.1");
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    auto get = FAKE(cuda, cuGetProcAddress_v2);
    EXPECT_EQ(get("cuCtxCreate", &found, 13000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(found, dlsym(cuda, "cuCtxCreate_v4"));
    EXPECT_EQ(get("cuCtxCreate", &found, 12000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(found, dlsym(cuda, "cuCtxCreate_v2"));
    EXPECT_EQ(get("cuCtxCreate", &found, 2000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(get("cuNothing", &found, 13000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(found, nullptr);
  });
}

TEST(FakeGpu, DeliversEveryKindExactly) {
  in_process({{"FAKE_CUDA_DEVICES", "2"}}, [] {
    Session session;
    GpuOperation kernel = Session::kernel(session.base_ns + 1, 77);
    kernel.correlation = 4711;
    kernel.stream = 13;
    GpuOperation copy = Session::kernel(session.base_ns + 100, 1);
    copy.work = GpuWork::kMemcpy;
    GpuOperation peer = Session::kernel(session.base_ns + 200, 2);
    peer.work = GpuWork::kMemcpyPeer;
    peer.peer = 1;
    GpuOperation fill = Session::kernel(session.base_ns + 300, 0);
    fill.work = GpuWork::kMemset;
    for (const GpuOperation& operation : {kernel, copy, peer, fill}) {
      EXPECT_EQ(session.submit(operation), CUDA_SUCCESS);
    }
    session.flush();
    std::vector<Client::Record> records = Client::taken();
    ASSERT_EQ(records.size(), 4u);
    const GpuOperation* sent[] = {&kernel, &copy, &peer, &fill};
    const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                        CUPTI_ACTIVITY_KIND_MEMSET};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(records[i].kind, kinds[i]);
      EXPECT_EQ(records[i].start, sent[i]->start_ns);
      EXPECT_EQ(records[i].end, sent[i]->end_ns);
      EXPECT_EQ(records[i].stream, sent[i]->stream);
      EXPECT_EQ(records[i].device, 0u);
      EXPECT_EQ(records[i].context, 1u);
    }
    EXPECT_EQ(records[0].name, "a_kernel");
    EXPECT_EQ(records[0].correlation, 4711u);
    EXPECT_NE(records[1].correlation, records[2].correlation);
    EXPECT_EQ(session.dropped(), 0u);
  });
}

TEST(FakeGpu, BuffersAreOfOneDeviceAndInOrder) {
  in_process({{"FAKE_CUDA_DEVICES", "3"}}, [] {
    Client::buffer_size = 1000;  // four kernels
    Session session;
    // All at once: what was delivered in between would come in the order of submission.
    leave_delivery_to_flush(session);
    for (uint64_t i = 0; i < 300; ++i) {
      GpuOperation operation = Session::kernel(session.base_ns + i, 10000 - 7 * (i % 50));
      operation.device = static_cast<CUdevice>(i % 3);
      session.submit(operation);
    }
    session.flush();
    std::vector<Client::Record> records = Client::taken();
    ASSERT_EQ(records.size(), 300u);
    EXPECT_EQ(Client::buffers, 75u);
    std::map<uint32_t, uint64_t> last;
    std::map<size_t, uint32_t> device_of_buffer;
    for (const Client::Record& record : records) {
      EXPECT_GE(record.end, last[record.device]);
      last[record.device] = record.end;
      EXPECT_EQ(device_of_buffer.emplace(record.buffer, record.device).first->second,
                record.device);
    }
  });
}

TEST(FakeGpu, HonoursTheClientsRecordLimit) {
  in_process({}, [] {
    Client::max_records = 3;
    Session session;
    leave_delivery_to_flush(session);  // which has no buffer of its own to hand back
    session.submit_kernels(10);
    session.flush();
    EXPECT_EQ(Client::taken().size(), 10u);
    EXPECT_EQ(Client::buffers, 4u);
  });
}

TEST(FakeGpu, OwnThreadHandsBackFullBuffersOnly) {
  in_process({}, [] {
    Client::buffer_size = 2 * sizeof(CUpti_ActivityKernel10);
    Session session;
    session.submit_kernels(5);
    for (int i = 0; i < 6000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::lock_guard lock(Client::mutex);
      if (Client::records.size() == 4) break;
    }
    EXPECT_EQ(Client::taken().size(), 4u);
    session.flush();
    EXPECT_EQ(Client::taken().size(), 1u);
  });
}

TEST(FakeGpu, ForcedFlushTakesRunningOperationsOnceAndForAll) {
  in_process({}, [] {
    Session session;
    session.submit_kernels(1);
    session.submit(Session::kernel(session.base_ns, kLongNs));
    session.submit(Session::kernel(Session::now_ns() + kLongNs, 1));
    session.flush();
    EXPECT_EQ(Client::taken().size(), 1u);
    session.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::vector<Client::Record> records = Client::taken();
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[0].start, session.base_ns);
    EXPECT_EQ(records[0].end, 0u);
    EXPECT_EQ(records[1].start, 0u);
    EXPECT_EQ(records[1].end, 0u);
    session.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    EXPECT_EQ(Client::taken().size(), 0u);
    EXPECT_EQ(Client::buffers, Client::requested);
  });
}

TEST(FakeGpu, SynchronizeWaitsForTheLastOperation) {
  in_process({}, [] {
    Session session;
    uint64_t end_ns = Session::now_ns() + 30'000'000;
    session.submit(Session::kernel(session.base_ns, end_ns - session.base_ns));
    CUcontext context;
    FAKE(session.cuda, cuDevicePrimaryCtxRetain)(&context, 0);
    EXPECT_EQ(FAKE(session.cuda, cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(FAKE(session.cuda, cuCtxSetCurrent)(context), CUDA_SUCCESS);
    EXPECT_EQ(FAKE(session.cuda, cuCtxSynchronize)(), CUDA_SUCCESS);
    EXPECT_GE(Session::now_ns(), end_ns);
  });
}

TEST(FakeGpu, RecordsOnlyWhatIsEnabled) {
  in_process({}, [] {
    Session session;
    CUcontext context;
    FAKE(session.cuda, cuDevicePrimaryCtxRetain)(&context, 0);
    auto kernels = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    FAKE(session.cupti, cuptiActivityDisable)(kernels);
    session.submit_kernels(1);
    FAKE(session.cupti, cuptiActivityEnableContext)(context, kernels);
    session.submit_kernels(2);
    FAKE(session.cupti, cuptiActivityDisableContext)(context, kernels);
    FAKE(session.cupti, cuptiActivityEnable)(kernels);
    session.submit_kernels(4);
    session.flush();
    EXPECT_EQ(Client::taken().size(), 2u);
  });
}

TEST(FakeGpu, TimestampsFollowTheClientsClock) {
  in_process({}, [] {
    Session session;
    // Twice as fast, and much behind.
    static const uint64_t origin_ns = session.base_ns - 1'000'000'000;
    auto clock = []() -> uint64_t { return (Session::now_ns() - origin_ns) * 2; };
    FAKE(session.cupti, cuptiActivityRegisterTimestampCallback)(clock);
    uint64_t now = 0;
    FAKE(session.cupti, cuptiGetTimestamp)(&now);
    EXPECT_LT(now, Session::now_ns() / 2);
    usleep(50000);
    session.submit(Session::kernel(session.base_ns, 1'000'000));
    session.flush();
    std::vector<Client::Record> records = Client::taken();
    ASSERT_EQ(records.size(), 1u);
    // To a thousandth: two readings of both clocks, 50 ms apart, and 1 s extrapolated.
    EXPECT_NEAR(static_cast<double>(records[0].start), 2e9, 2e6);
    EXPECT_NEAR(static_cast<double>(records[0].end - records[0].start), 2e6, 2e3);
  });
}

// A promise of zeroed buffers that is not kept shows.
TEST(FakeGpu, ZeroesAreNotWrittenIntoZeroedBuffers) {
  for (bool promised : {false, true}) {
    in_process({}, [promised] {
      Session session;
      alignas(8) static uint8_t buffer[4096];
      std::memset(buffer, 0xff, sizeof(buffer));
      static uint64_t start_ns = 0;
      FAKE(session.cupti, cuptiActivityRegisterCallbacks)
      (
          [](uint8_t** out, size_t* size, size_t*) {
            *out = buffer;
            *size = sizeof(buffer);
          },
          [](CUcontext, uint32_t, uint8_t* full, size_t, size_t) {
            start_ns = reinterpret_cast<CUpti_ActivityKernel10*>(full)->start;
          });
      uint8_t yes = promised ? 1 : 0;
      size_t size = sizeof(yes);
      FAKE(session.cupti, cuptiActivitySetAttribute)
      (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &yes);
      session.submit_kernels(1);
      session.flush();
      EXPECT_EQ(start_ns, promised ? ~uint64_t{0} : session.base_ns);
    });
  }
}

TEST(FakeGpu, FinalizeForgetsEverything) {
  in_process({}, [] {
    Session session;
    session.submit_kernels(3);
    EXPECT_EQ(FAKE(session.cupti, cuptiFinalize)(), CUPTI_SUCCESS);
    EXPECT_EQ(session.flush(), CUPTI_ERROR_INVALID_OPERATION);
    FAKE(session.cupti, cuptiActivityRegisterCallbacks)(Client::request, Client::complete);
    session.submit_kernels(5);
    EXPECT_EQ(session.flush(), CUPTI_SUCCESS);
    EXPECT_EQ(Client::taken().size(), 0u);
    FAKE(session.cupti, cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    session.submit_kernels(7);
    session.flush();
    EXPECT_EQ(Client::taken().size(), 7u);
  });
}

}  // namespace
}  // namespace mfu::fake
