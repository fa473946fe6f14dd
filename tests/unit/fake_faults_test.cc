// The fake CUPTI fails as it is told to, and where the real one does.
#include <fstream>
#include <iterator>
#include <set>

#include "tests/fake/fake_process.hh"

namespace mfu::fake {
namespace {

Environment fault(const char* list) {
  return {{"FAKE_CUPTI_FAULT", list}};
}

// 10 kernels through a session with this fault; what a plain flush brings.
std::vector<Client::Record> ten_kernels(Session* session) {
  session->submit_kernels(10);
  session->flush();
  return Client::taken();
}

TEST(FakeFaults, WithoutDriverMostCallsFail) {
  in_process({}, [] {
    void* cupti = load("libcupti.so.13");
    uint32_t version = 0;
    EXPECT_EQ(FAKE(cupti, cuptiGetVersion)(&version), CUPTI_SUCCESS);
    EXPECT_EQ(version, 130001u);
    EXPECT_EQ(FAKE(cupti, cuptiActivityRegisterCallbacks)(Client::request, Client::complete),
              CUPTI_SUCCESS);
    EXPECT_EQ(FAKE(cupti, cuptiActivityRegisterCallbacks)(nullptr, Client::complete),
              CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(FAKE(cupti, cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_ERROR_UNKNOWN);
    EXPECT_EQ(FAKE(cupti, cuptiActivityFlushAll)(0), CUPTI_ERROR_UNKNOWN);
    size_t dropped = 1;
    EXPECT_EQ(FAKE(cupti, cuptiActivityGetNumDroppedRecords)(nullptr, 0, &dropped), CUPTI_SUCCESS);
    EXPECT_EQ(dropped, 0u);
  });
}

TEST(FakeFaults, FlushNeedsCallbacksAndEnableAKind) {
  in_process({}, [] {
    void* cuda = load("libcuda.so.1");
    void* cupti = load("libcupti.so.13");
    FAKE(cuda, cuInit)(0);
    EXPECT_EQ(FAKE(cupti, cuptiActivityFlushAll)(0), CUPTI_ERROR_INVALID_OPERATION);
    EXPECT_EQ(FAKE(cupti, cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_INVALID),
              CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(FAKE(cupti, cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
  });
}

TEST(FakeFaults, RefusedBuffersAreDroppedRecords) {
  in_process({}, [] {
    Client::refuses = true;
    Session session;
    EXPECT_EQ(ten_kernels(&session).size(), 0u);
    EXPECT_EQ(session.dropped(), 10u);
    EXPECT_EQ(session.dropped(), 0u);
    Client::refuses = false;
    EXPECT_EQ(ten_kernels(&session).size(), 10u);
    EXPECT_EQ(session.dropped(), 0u);
  });
}

TEST(FakeFaults, Drop) {
  in_process(fault("drop=3"), [] {
    Session session;
    EXPECT_EQ(ten_kernels(&session).size(), 7u);
    EXPECT_EQ(session.dropped(), 3u);
  });
}

TEST(FakeFaults, NoBuffers) {
  in_process(fault("no-buffers"), [] {
    Session session;
    EXPECT_EQ(ten_kernels(&session).size(), 0u);
    EXPECT_EQ(Client::requested, 0u);
    EXPECT_EQ(session.dropped(), 10u);
  });
}

TEST(FakeFaults, Silence) {
  in_process(fault("silence"), [] {
    Session session;
    EXPECT_EQ(ten_kernels(&session).size(), 0u);
    EXPECT_EQ(session.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
    EXPECT_EQ(Client::taken().size(), 0u);
    EXPECT_EQ(session.dropped(), 0u);
  });
}

TEST(FakeFaults, ZeroTimesAndReversed) {
  in_process(fault("zero-times=5,reversed=3"), [] {
    Session session;
    std::vector<Client::Record> records = ten_kernels(&session);
    ASSERT_EQ(records.size(), 10u);
    for (size_t i = 1; i <= 10; ++i) {
      const Client::Record& record = records[i - 1];
      EXPECT_EQ(record.start == 0 && record.end == 0, i % 5 == 0) << i;
      EXPECT_EQ(record.end < record.start, i % 3 == 0) << i;
    }
  });
}

TEST(FakeFaults, Duplicate) {
  in_process(fault("duplicate=4"), [] {
    Session session;
    std::vector<Client::Record> records = ten_kernels(&session);
    ASSERT_EQ(records.size(), 12u);
    EXPECT_EQ(records[3].start, records[4].start);
    std::set<uint32_t> correlations;
    for (const Client::Record& record : records) correlations.insert(record.correlation);
    EXPECT_EQ(correlations.size(), 10u);
  });
}

TEST(FakeFaults, LateRecordsComeWithTheForcedFlush) {
  in_process(fault("late=4"), [] {
    Session session;
    EXPECT_EQ(ten_kernels(&session).size(), 8u);
    session.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::vector<Client::Record> late = Client::taken();
    ASSERT_EQ(late.size(), 2u);
    EXPECT_EQ(late[0].end, session.base_ns + 3500);
    EXPECT_EQ(session.dropped(), 0u);
  });
}

TEST(FakeFaults, FailuresByArgumentAndCall) {
  Environment environment = {{"FAKE_CUPTI_FAIL",
                              "cuptiActivityEnable:10=999,cuptiActivityFlushAll@3=35,"
                              "cuptiActivityEnable:1@2=39,cuptiGetVersion=15"}};
  in_process(environment, [] {
    void* cuda = load("libcuda.so.1");
    void* cupti = load("libcupti.so.13");
    FAKE(cuda, cuInit)(0);
    auto enable = FAKE(cupti, cuptiActivityEnable);
    EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_ERROR_UNKNOWN);
    EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_MEMSET), CUPTI_SUCCESS);
    EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
    EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    uint32_t version;
    EXPECT_EQ(FAKE(cupti, cuptiGetVersion)(&version), CUPTI_ERROR_NOT_INITIALIZED);
    FAKE(cupti, cuptiActivityRegisterCallbacks)(Client::request, Client::complete);
    auto flush = FAKE(cupti, cuptiActivityFlushAll);
    EXPECT_EQ(flush(0), CUPTI_SUCCESS);
    EXPECT_EQ(flush(0), CUPTI_SUCCESS);
    EXPECT_EQ(flush(0), CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
    EXPECT_EQ(flush(1), CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  });
}

TEST(FakeFaults, HangNeverReturns) {
  in_process(fault("hang=cuptiActivityFlushAll"), [] {
    Session session;
    signal(SIGALRM, [](int) { _exit(0); });
    ualarm(100000, 0);
    session.flush();
    ADD_FAILURE() << "returned";
  });
}

TEST(FakeFaults, SlowTakesLonger) {
  in_process(fault("slow=cuptiActivityFlushAll@2"), [] {
    Session session;
    auto took_ms = [&] {
      uint64_t before_ns = Session::now_ns();
      session.flush();
      return (Session::now_ns() - before_ns) / 1'000'000;
    };
    took_ms();
    EXPECT_GE(took_ms(), 199u);
    EXPECT_GE(took_ms(), 199u);
  });
}

TEST(FakeFaults, MistakesInTheListAbort) {
  for (const char* list : {"drop", "drop=0", "drop=x", "hang", "no-such=1", "silence=1"}) {
    in_process({}, [&] {
      EXPECT_EXIT(
          {
            setenv("FAKE_CUPTI_FAULT", list, 1);
            uint32_t version;
            FAKE(load("libcupti.so.13"), cuptiGetVersion)(&version);
          },
          testing::KilledBySignal(SIGABRT), "cannot read")
          << list;
    });
  }
}

TEST(FakeFaults, LogNamesProcessFunctionAndArgument) {
  std::string path = testing::TempDir() + "cupti_log" + std::to_string(getpid());
  unlink(path.c_str());
  in_process({{"FAKE_CUPTI_LOG", path}}, [&] {
    void* cupti = load("libcupti.so.13");
    FAKE(cupti, cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMCPY);
    FAKE(cupti, cuptiFinalize)();
    std::ifstream file(path);
    std::string pid = std::to_string(getpid());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
              pid + " cuptiActivityEnable:1\n" + pid + " cuptiFinalize\n");
  });
  unlink(path.c_str());
}

TEST(FakeFaults, OneSubscriberAtATime) {
  in_process({}, [] {
    void* cuda = load("libcuda.so.1");
    void* cupti = load("libcupti.so.13");
    FAKE(cuda, cuInit)(0);
    CUpti_SubscriberHandle first;
    CUpti_SubscriberHandle second;
    CUpti_SubscriberParams params = {sizeof(params), "other", nullptr, 0};
    auto subscribe = FAKE(cupti, cuptiSubscribe_v2);
    EXPECT_EQ(subscribe(&first, nullptr, nullptr, &params), CUPTI_SUCCESS);
    char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
    params = {sizeof(params), "ours", name, sizeof(name)};
    EXPECT_EQ(subscribe(&second, nullptr, nullptr, &params),
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    EXPECT_STREQ(name, "CUPTI for other");
    EXPECT_EQ(FAKE(cupti, cuptiUnsubscribe)(first), CUPTI_SUCCESS);
    EXPECT_EQ(FAKE(cupti, cuptiSubscribe)(&second, nullptr, nullptr), CUPTI_SUCCESS);
    EXPECT_EQ(FAKE(cupti, cuptiUnsubscribe)(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

TEST(FakeFaults, AttributesKeepTheirSizeAndValue) {
  in_process({}, [] {
    void* cuda = load("libcuda.so.1");
    void* cupti = load("libcupti.so.13");
    FAKE(cuda, cuInit)(0);
    auto set = FAKE(cupti, cuptiActivitySetAttribute);
    auto get = FAKE(cupti, cuptiActivityGetAttribute);
    size_t value = 0;
    size_t size = sizeof(value);
    EXPECT_EQ(get(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value), CUPTI_SUCCESS);
    EXPECT_EQ(value, 3200000u);
    value = 4096;
    EXPECT_EQ(set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value), CUPTI_SUCCESS);
    value = 0;
    EXPECT_EQ(get(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value), CUPTI_SUCCESS);
    EXPECT_EQ(value, 4096u);
    size = 4;
    EXPECT_EQ(set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value),
              CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
    EXPECT_EQ(set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, nullptr, &value),
              CUPTI_ERROR_INVALID_PARAMETER);
  });
}

}  // namespace
}  // namespace mfu::fake
