// Real NVTX, C and C++ interface, with our gate as the library that NVTX_INJECTION64_PATH names.
// Each test runs in a process of its own: NVTX loads an injection once, and the gate never forgets.
// And the same ranges in reports of nsys.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <functional>
#include <nvtx3/nvtx3.hpp>
#include <string>
#include <thread>
#include <vector>

#include "profiler/nsys_reader.hh"
#include "profiler/steps.hh"

namespace mfu {
namespace {

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string library() {
  char path[PATH_MAX];
  const char* found = realpath(BUILD_FOLDER "/tests/fake/libnvtx_probe.so", path);
  return found == nullptr ? "" : found;
}

// The gate's count in this process, which NVTX must have loaded.
StepEstimate steps_here() {
  StepEstimate steps{};
  void* gate = dlopen(library().c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (gate == nullptr) return steps;
  auto* probe = reinterpret_cast<void (*)(StepEstimate*)>(dlsym(gate, "nvtxProbeSteps"));
  if (probe != nullptr) probe(&steps);
  return steps;
}

// What the gate has counted after `program` ran in a child process. `confidence` 1 of an empty
// estimate says that the child failed.
StepEstimate steps_of(const std::function<void()>& program, const char* declared = nullptr) {
  EXPECT_NE(library(), "");
  int pipes[2];
  StepEstimate steps{};
  steps.confidence = 1;
  if (pipe(pipes) != 0) return steps;
  const pid_t child = fork();
  if (child == 0) {
    setenv("NVTX_INJECTION64_PATH", library().c_str(), 1);
    if (declared != nullptr) setenv("MFU_STEP_RANGE", declared, 1);
    nvtxInitialize(nullptr);  // in threads' first calls, NVTX itself races
    program();
    const StepEstimate counted = steps_here();
    _exit(write(pipes[1], &counted, sizeof(counted)) == sizeof(counted) ? 0 : 1);
  }
  close(pipes[1]);
  EXPECT_EQ(read(pipes[0], &steps, sizeof(steps)), static_cast<ssize_t>(sizeof(steps)));
  close(pipes[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return steps;
}

void expect_nothing(const StepEstimate& steps) {
  EXPECT_EQ(steps.source, StepSource::kNone);
  EXPECT_EQ(steps.count, 0u);
  EXPECT_EQ(steps.confidence, 0u);
}

nvtxEventAttributes_t attributes(const char* name) {
  nvtxEventAttributes_t result = {};
  result.version = NVTX_VERSION;
  result.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  result.messageType = NVTX_MESSAGE_TYPE_ASCII;
  result.message.ascii = name;
  return result;
}

TEST(Nvtx, a_training_loop) {
  const uint64_t before = now_ns();
  const StepEstimate steps = steps_of([] {
    nvtxRangePushA("epoch 1");
    for (int i = 0; i < 20; ++i) {
      nvtxRangePushA(("step " + std::to_string(i)).c_str());
      nvtxRangePushA("forward");
      nvtxRangePop();
      nvtxRangePushA("optimizer_step");
      usleep(1000);
      nvtxRangePop();
      nvtxRangePop();
    }
    nvtxRangePop();
  });
  EXPECT_EQ(steps.source, StepSource::kNvtx);
  EXPECT_EQ(steps.confidence, 1000u);
  EXPECT_EQ(steps.count, 20u);
  EXPECT_GE(steps.first_ns, before);
  EXPECT_LE(steps.last_ns, now_ns());
  EXPECT_GE(steps.period_ns, 1'000'000u);
  EXPECT_EQ(steps.period_ns, (steps.last_ns - steps.first_ns) / 19);
  EXPECT_EQ(steps.productive_ns + steps.stalled_ns, steps.last_ns - steps.first_ns);
}

TEST(Nvtx, no_steps) {
  expect_nothing(steps_of([] {
    for (int i = 0; i < 20; ++i) {
      nvtxRangePushA("forward_step");
      nvtxMarkA("step");
      nvtxRangePop();
    }
  }));
}

TEST(Nvtx, a_step_that_still_runs_does_not_count) {
  EXPECT_EQ(steps_of([] {
              nvtxRangePushA("step");
              nvtxRangePop();
              nvtxRangePushA("step");
            }).count,
            1u);
}

TEST(Nvtx, of_nested_steps_the_outermost) {
  EXPECT_EQ(steps_of([] {
              for (int i = 0; i < 7; ++i) {
                nvtxRangePushA("iteration");
                for (int j = 0; j < 4; ++j) {
                  nvtxRangePushA("step");
                  nvtxRangePop();
                }
                nvtxRangePop();
              }
            }).count,
            7u);
}

TEST(Nvtx, every_way_to_push) {
  EXPECT_EQ(steps_of([] {
              nvtxRangePushA("step");
              nvtxRangePop();
              nvtxRangePushW(L"step");
              nvtxRangePop();
              const nvtxEventAttributes_t ascii = attributes("step");
              nvtxRangePushEx(&ascii);
              nvtxRangePop();
              nvtxEventAttributes_t wide = attributes("");
              wide.messageType = NVTX_MESSAGE_TYPE_UNICODE;
              wide.message.unicode = L"step";
              nvtxRangePushEx(&wide);
              nvtxRangePop();
              nvtxRangePushW(L"stepp");
              nvtxRangePop();
              nvtxRangePushW(L"st\u00e9p");
              nvtxRangePop();
            }).count,
            4u);
}

TEST(Nvtx, a_domain_with_registered_strings) {
  EXPECT_EQ(steps_of([] {
              nvtxDomainHandle_t domain = nvtxDomainCreateA("trainer");
              EXPECT_NE(domain, nullptr);
              nvtxEventAttributes_t step = attributes("");
              step.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
              step.message.registered = nvtxDomainRegisterStringA(domain, "train_step");
              nvtxEventAttributes_t other = step;
              other.message.registered = nvtxDomainRegisterStringW(domain, L"zero_grad");
              for (int i = 0; i < 9; ++i) {
                nvtxDomainRangePushEx(domain, &step);
                nvtxRangePushA("something in the default domain");
                nvtxDomainRangePushEx(domain, &other);
                nvtxDomainRangePop(domain);
                nvtxDomainRangePop(domain);
                nvtxRangePop();
              }
              nvtxDomainDestroy(domain);
            }).count,
            9u);
}

struct Trainer {
  static constexpr char const* name{"trainer"};
};
struct StepName {
  static constexpr char const* message{"training step"};
};

TEST(Nvtx, the_cpp_interface) {
  EXPECT_EQ(steps_of([] {
              for (int i = 0; i < 6; ++i) {
                nvtx3::scoped_range_in<Trainer> step{
                    nvtx3::registered_string_in<Trainer>::get<StepName>()};
                nvtx3::scoped_range inner{"forward"};
              }
              for (int i = 0; i < 3; ++i) nvtx3::scoped_range_in<Trainer> step{"Step#1"};
              for (int i = 0; i < 5; ++i) nvtx3::unique_range step{"iteration"};
            }).count,
            9u);
}

TEST(Nvtx, started_and_ended_ranges) {
  EXPECT_EQ(steps_of([] {
              // They overlap, and one thread ends what another has started.
              nvtxRangeId_t last = nvtxRangeStartA("step 0");
              for (int i = 1; i <= 10; ++i) {
                nvtxRangeId_t other = nvtxRangeStartA("copy");
                nvtxRangeId_t next = nvtxRangeStartA(("step " + std::to_string(i)).c_str());
                std::thread([last] { nvtxRangeEnd(last); }).join();
                nvtxRangeEnd(other);
                last = next;
              }
            }).count,
            10u);
}

TEST(Nvtx, ranges_that_never_end_or_end_twice) {
  EXPECT_EQ(steps_of([] {
              for (int i = 0; i < 1000; ++i) nvtxRangeStartA("step");
              const nvtxRangeId_t id = nvtxRangeStartA("step");
              nvtxRangeEnd(id);
              nvtxRangeEnd(id);
              nvtxRangeEnd(0);
              nvtxRangeEnd(~0ull);
            }).count,
            1u);
}

TEST(Nvtx, unbalanced_pops) {
  EXPECT_EQ(steps_of([] {
              for (int i = 0; i < 5; ++i) {
                nvtxRangePop();
                nvtxRangePop();
                nvtxRangePushA("step");
                nvtxRangePop();
              }
            }).count,
            5u);
}

TEST(Nvtx, unbalanced_pushes) {
  const StepEstimate steps = steps_of([] {
    for (int i = 0; i < 5; ++i) nvtxRangePushA("step");
  });
  expect_nothing(steps);
}

TEST(Nvtx, the_thread_with_most_steps) {
  const StepEstimate steps = steps_of([] {
    std::vector<std::thread> threads;
    for (int count : {100, 3000, 50}) {
      threads.emplace_back([count] {
        for (int i = 0; i < count; ++i) {
          nvtxRangePushA("loader");
          nvtxRangePushA("step");
          nvtxRangePop();
          nvtxRangePop();
          if (i % 100 == 0) steps_here();  // at any time
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(steps.count, 3000u);
}

TEST(Nvtx, more_threads_than_there_is_room_for) {
  const StepEstimate steps = steps_of([] {
    for (int i = 0; i < 20; ++i) {
      std::vector<std::thread> threads;
      for (int j = 0; j < 60; ++j) {
        threads.emplace_back([] {
          for (int domain = 0; domain < 5; ++domain) {
            nvtxDomainHandle_t handle = nvtxDomainCreateA("many");
            const nvtxEventAttributes_t step = attributes("step");
            nvtxDomainRangePushEx(handle, &step);
            nvtxDomainRangePop(handle);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  });
  EXPECT_GE(steps.count, 1u);
}

TEST(Nvtx, a_declared_name_is_the_only_one) {
  auto program = [] {
    for (int i = 0; i < 8; ++i) {
      nvtxRangePushA("step");
      for (int j = 0; j < 2; ++j) {
        nvtxRangePushA("My Update #1");
        nvtxRangePop();
      }
      nvtxRangePushA("my update #1");
      nvtxRangePop();
      nvtxRangePop();
    }
  };
  EXPECT_EQ(steps_of(program, "My Update #1").count, 16u);
  EXPECT_EQ(steps_of(program).count, 8u);
  EXPECT_EQ(steps_of(program, std::string(5000, 'x').c_str()).count, 8u);
}

TEST(Nvtx, broken_calls) {
  expect_nothing(steps_of([] {
    nvtxRangePushA(nullptr);
    nvtxRangePushW(nullptr);
    nvtxRangePushEx(nullptr);
    nvtxEventAttributes_t broken = attributes("step");
    broken.size = 4;
    nvtxRangePushEx(&broken);
    broken = attributes("step");
    broken.messageType = 77;
    nvtxRangePushEx(&broken);
    nvtxRangePushA(std::string(100'000, 's').c_str());
    nvtxRangeStartA(nullptr);
    for (int i = 0; i < 10; ++i) nvtxRangePop();
  }));
}

TEST(Nvtx, a_forked_child_goes_on_alone) {
  const StepEstimate steps = steps_of([] {
    nvtxRangePushA("step");
    nvtxRangePop();
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 10; ++i) {
        nvtxRangePushA("step");
        nvtxRangePop();
      }
      _exit(steps_here().count == 11 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (status != 0) _exit(3);
  });
  EXPECT_EQ(steps.count, 1u);
}

// ---- reports of nsys

class Steps : public TraceSink {
 public:
  void operation(const TraceOperation&) override {}
  void launch(const TraceLaunch&) override {}
  void step(const TraceStep& step) override {
    lines.push_back(std::string(step.name) + " " + std::to_string(step.start_ns) + ".." +
                    std::to_string(step.end_ns) + (step.on_gpu ? " on gpu" : ""));
  }
  void untimed() override {}
  std::vector<std::string> lines;
};

std::vector<std::string> steps_in_report(const std::string& sql) {
  const std::string path =
      testing::TempDir() + "/nvtx_test." + std::to_string(getpid()) + ".sqlite";
  unlink(path.c_str());
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  Steps steps;
  TraceHead head;
  EXPECT_EQ(read_nsys(path, &steps, &head, [](uint64_t, uint64_t) {}), "");
  unlink(path.c_str());
  return steps.lines;
}

// Processes 1 and 2 with threads 1 and 2: nsys's global thread ids.
constexpr char kReport[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES(1,'train_step'),(2,'forward');"
    "CREATE TABLE NVTX_EVENTS(start INT, end INT, eventType INT, text TEXT, globalTid INT,"
    " textId INT);";

TEST(NsysSteps, by_name_and_registered_name) {
  EXPECT_EQ(steps_in_report(std::string(kReport) + "INSERT INTO NVTX_EVENTS VALUES"
                                                   "(10,20,59,'step 1',16777217,NULL),"
                                                   "(20,30,59,NULL,16777217,1),"
                                                   "(30,40,60,'',16777217,1),"
                                                   "(30,35,59,NULL,16777217,2),"
                                                   "(40,50,59,'optimizer_step',16777217,NULL),"
                                                   "(40,NULL,59,'step 4',16777217,NULL),"
                                                   "(41,0,59,'step 5',16777217,NULL),"
                                                   "(42,NULL,34,'step',16777217,NULL),"
                                                   "(43,44,34,'step',16777217,NULL);"),
            (std::vector<std::string>{"step 1 10..20", "train_step 20..30", "train_step 30..40"}));
}

TEST(NsysSteps, outermost_of_the_thread_with_most) {
  EXPECT_EQ(steps_in_report(std::string(kReport) + "INSERT INTO NVTX_EVENTS VALUES"
                                                   "(60,90,59,'iteration 2',16777217,NULL),"
                                                   "(61,70,59,'step',16777217,NULL),"
                                                   "(71,90,59,'step',16777217,NULL),"
                                                   "(10,40,59,'iteration 1',16777217,NULL),"
                                                   "(10,39,59,'step',16777217,NULL),"
                                                   "(12,14,59,'step',16777218,NULL),"
                                                   "(15,18,59,'step',33554434,NULL);"),
            (std::vector<std::string>{"iteration 1 10..40", "iteration 2 60..90", "step 15..18"}));
}

TEST(NsysSteps, reports_of_other_versions) {
  const std::string strings = "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);";
  EXPECT_TRUE(steps_in_report(strings + "CREATE TABLE NVTX_EVENTS(x INT);").empty());
  EXPECT_TRUE(steps_in_report(strings).empty());
  EXPECT_EQ(steps_in_report(strings + "CREATE TABLE NVTX_EVENTS(start INT, end INT, text TEXT);"
                                      "INSERT INTO NVTX_EVENTS VALUES(1,2,'step'),(2,3,'stop');"),
            std::vector<std::string>{"step 1..2"});
}

}  // namespace
}  // namespace mfu
