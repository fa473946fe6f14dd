// The counter in a process that calls cuBLAS as frameworks do: by a library that is opened
// RTLD_LOCAL, before and after the counter comes, by dlsym, in captured graphs, in threads and
// forked children. Counts are exact, and never more than ran.
#include "profiler/gemm_counter.hh"

#include <sys/wait.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/unit/gemm_client_process.hh"

namespace mfu {
namespace {

using fake::in_process;

constexpr const char* kClients[] = {"libgemm_client.so", "libgemm_client_now.so"};

TEST(GemmCounter, BeforeAndAfterTheLibraryHoweverBound) {
  for (const char* name : kClients) {
    for (const bool counter_first : {false, true}) {
      for (const bool called_before : {false, true}) {
        SCOPED_TRACE(name);
        in_process({}, [&] {
          if (called_before) {
            void* library = GemmClient::open(name);
            fake::CublasHandle handle;
            void* caller =
                fake::function<void* (*)(const char*)>(library, "gemmClient")("cublasSgemm_v2");
            reinterpret_cast<int (*)(...)>(caller)(&handle, 0, 0, 7, 7, 7, 0, 0, 7, 0, 7, 0, 0, 7);
          }
          GemmClient client(name, counter_first);
          for (int i = 0; i < 3; ++i) EXPECT_EQ(client.multiply(), 0);
          EXPECT_EQ(client.only().shape, (GemmShape{2, 3, 5, 1, Precision::kFp32}));
          EXPECT_EQ(client.only().total(), 3u);
          EXPECT_TRUE(client.flops(Precision::kFp32) == 180);
          // To look again patches nothing twice.
          const uint64_t entries = client.sums().entries;
          for (int i = 0; i < 3; ++i) client.apply();
          EXPECT_EQ(client.sums().entries, entries);
          client.multiply();
          EXPECT_EQ(client.only().total(), 4u);
        });
      }
    }
  }
}

// ---- dlsym

// The function itself: dlvsym is not redirected.
void* undisturbed(void* cublas, const char* name) {
  void* found = dlvsym(cublas, name, "libcublas.so.13");
  EXPECT_NE(found, nullptr) << name;
  return found;
}

TEST(GemmCounter, AnswersDlsym) {
  for (const char* name : kClients) {
    in_process({}, [&] {
      GemmClient client(name);
      void* real = undisturbed(client.cublas(), "cublasSgemm_v2");
      void* found = client.find(client.cublas(), "cublasSgemm_v2");
      ASSERT_NE(found, nullptr);
      EXPECT_NE(found, real);
      EXPECT_EQ(
          reinterpret_cast<int (*)(...)>(found)(client.cublas_handle(), 0, 0, 2, 3, 5, nullptr,
                                                nullptr, 2, nullptr, 5, nullptr, nullptr, 2),
          0);
      EXPECT_TRUE(client.flops(Precision::kFp32) == 60);
      EXPECT_EQ(client.find(client.cublas(), "cublasSgemm_v2"), found);
      void* matmul = dlvsym(client.lt(), "cublasLtMatmul", "libcublasLt.so.13");
      ASSERT_NE(matmul, nullptr);
      EXPECT_NE(client.find(client.lt(), "cublasLtMatmul"), matmul);
      // Everything else is as it was: other names, none, and the error that says so.
      EXPECT_EQ(client.find(client.cublas(), "cublasCreate_v2"),
                dlsym(client.cublas(), "cublasCreate_v2"));
      dlerror();
      EXPECT_EQ(client.find(client.driver(), "cublasSgemm_v2"), nullptr);
      const char* error = dlerror();
      ASSERT_NE(error, nullptr);
      EXPECT_NE(std::string(error).find("cublasSgemm_v2"), std::string::npos);
      // Those that depend on who asks: the library's own scope holds cuBLAS, the process's does
      // not.
      EXPECT_EQ(client.find(RTLD_DEFAULT, "cublasSgemm_v2"), real);
      EXPECT_EQ(client.find(RTLD_NEXT, "cublasSgemm_v2"), real);
      EXPECT_EQ(dlsym(RTLD_DEFAULT, "cublasSgemm_v2"), nullptr);
      ASSERT_NE(dlopen(BUILD_FOLDER "/tests/fake/libcublas.so.13", RTLD_NOW | RTLD_GLOBAL),
                nullptr);
      EXPECT_EQ(client.find(RTLD_DEFAULT, "cublasSgemm_v2"), real);
      EXPECT_EQ(client.find(RTLD_NEXT, "cublasSgemm_v2"), real);
    });
  }
}

// cuBLAS is opened after the counter has looked, and nobody is linked with it: XLA.
TEST(GemmCounter, AnswersDlsymOfWhatIsOpenedLater) {
  in_process({}, [] {
    GemmClient client("libgemm_client.so", true);
    const std::string copy =
        testing::TempDir() + "libcublas-" + std::to_string(getpid()) + ".so.13";
    std::string command = "cp " BUILD_FOLDER "/tests/fake/libcublas.so.13 " + copy;
    ASSERT_EQ(std::system(command.c_str()), 0);
    void* other = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(other, nullptr) << dlerror();
    unlink(copy.c_str());
    // A second cuBLAS in the process keeps its own functions.
    EXPECT_EQ(client.find(other, "cublasSgemm_v2"), undisturbed(other, "cublasSgemm_v2"));
  });
  in_process({}, [] {
    void* counter = fake::load("libgemm_probe.so");
    ASSERT_TRUE(fake::function<bool (*)()>(counter, "gemmProbeOpen")());
    void* library = fake::load("libgemm_client.so");
    fake::function<void (*)()>(counter, "gemmProbeApply")();
    void* cublas = fake::load("libcublas.so.13");
    void* found = fake::function<void* (*)(void*, const char*)>(library, "gemmClientFind")(
        cublas, "cublasDgemm_v2");
    EXPECT_NE(found, undisturbed(cublas, "cublasDgemm_v2"));
  });
}

// ---- graphs

struct Graphs {
  explicit Graphs(GemmClient* of, bool runtime) : client(of), prefix(runtime ? "cuda" : "cu") {
    FAKE(client->driver(), cuStreamCreate)(&stream, 0);
    client->handle->stream = stream;
  }
  std::string name(const char* rest) const { return prefix + rest; }
  template <typename... Arguments>
  void call(const char* rest, Arguments... arguments) {
    EXPECT_EQ(client->call(name(rest).c_str(), arguments...), 0) << rest;
  }
  CUgraph capture(int calls) {
    void* driver = client->driver();
    EXPECT_EQ(FAKE(driver, cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    for (int i = 0; i < calls; ++i) EXPECT_EQ(client->multiply(), 0);
    CUgraph graph = nullptr;
    EXPECT_EQ(FAKE(driver, cuStreamEndCapture)(stream, &graph), 0);
    return graph;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    call("GraphInstantiateWithFlags", &exec, graph, 0);
    return exec;
  }
  void launch(CUgraphExec exec, int times) {
    for (int i = 0; i < times; ++i) call("GraphLaunch", exec, stream);
  }
  GemmClient* client;
  std::string prefix;
  CUstream stream = nullptr;
};

TEST(GemmCounter, CapturedCallsTimesReplays) {
  for (const bool runtime : {false, true}) {
    for (const char* name : kClients) {
      in_process({}, [&] {
        GemmClient client(name);
        Graphs graphs(&client, runtime);
        EXPECT_EQ(client.multiply(), 0);  // not captured, on the same stream
        CUgraph graph = graphs.capture(3);
        EXPECT_EQ(client.calls(), 1u);
        EXPECT_EQ(client.sums().captured, 3u);
        CUgraphExec exec = graphs.instantiate(graph);
        graphs.launch(exec, 10);
        EXPECT_EQ(client.calls(), 31u);
        EXPECT_TRUE(client.flops(Precision::kFp32) == 31 * 60);
        EXPECT_EQ(client.sums().graph_launches, 10u);
        // A launch that fails is none.
        const auto invalidate =
            fake::function<void (*)(CUstream)>(client.driver(), "fakeGpuInvalidateCapture");
        CUstream invalid = nullptr;
        FAKE(client.driver(), cuStreamCreate)(&invalid, 0);
        invalidate(invalid);
        EXPECT_NE(client.call(graphs.name("GraphLaunch").c_str(), exec, invalid), 0);
        EXPECT_EQ(client.calls(), 31u);
        // Child, clone, update; the old ones go.
        CUgraph parent = nullptr, copy = nullptr;
        CUgraphNode node = nullptr;
        FAKE(client.driver(), cuGraphCreate)(&parent, 0);
        graphs.call("GraphAddChildGraphNode", &node, parent, nullptr, size_t{0}, graph);
        graphs.call("GraphAddChildGraphNode", &node, parent, nullptr, size_t{0}, graph);
        graphs.call("GraphClone", &copy, parent);
        graphs.call("GraphDestroy", graph);
        CUgraphExec both = graphs.instantiate(copy);
        graphs.launch(both, 2);
        EXPECT_EQ(client.calls(), 31u + 12);
        CUgraph small = graphs.capture(1);
        graphs.call(runtime ? "GraphExecUpdate" : "GraphExecUpdate_v2", both, small, nullptr);
        graphs.launch(both, 5);
        EXPECT_EQ(client.calls(), 31u + 12 + 5);
        graphs.call("GraphExecDestroy", both);
        graphs.call("GraphExecDestroy", exec);
        EXPECT_EQ(client.calls(), 31u + 12 + 5);
        EXPECT_EQ(client.sums().uncovered, 0u);
        EXPECT_EQ(client.multiply(), 0);
        EXPECT_EQ(client.calls(), 31u + 12 + 5 + 1);
      });
    }
  }
}

TEST(GemmCounter, CapturesThatCameToNothing) {
  in_process({}, [] {
    const auto unseen = FAKE(fake::load("libcuda.so.1"), cuGraphInstantiateWithFlags);
    GemmClient client;
    Graphs graphs(&client, true);
    void* driver = client.driver();
    // Invalidated in the middle.
    FAKE(driver, cuStreamBeginCapture_v2)(graphs.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    client.multiply();
    fake::function<void (*)(CUstream)>(driver, "fakeGpuInvalidateCapture")(graphs.stream);
    client.multiply();
    CUgraph graph = nullptr;
    EXPECT_NE(FAKE(driver, cuStreamEndCapture)(graphs.stream, &graph), 0);
    EXPECT_EQ(client.calls(), 0u);
    EXPECT_EQ(client.sums().in_no_graph, 1u);
    // Captured, and instantiated where nobody sees it: not covered, and never more than ran.
    graph = graphs.capture(2);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(unseen(&exec, graph, 0), 0);
    graphs.launch(exec, 3);
    EXPECT_EQ(client.calls(), 0u);
    EXPECT_EQ(client.sums().captured, 3u);
    EXPECT_EQ(client.sums().in_no_graph, 3u);
    // Changed inside.
    exec = graphs.instantiate(graph);
    graphs.call("GraphNodeSetEnabled", exec, nullptr, 0);
    graphs.launch(exec, 3);
    EXPECT_EQ(client.calls(), 0u);
    EXPECT_EQ(client.sums().uncovered, 6u);
  });
}

// ---- the process

TEST(GemmCounter, EveryThreadsCallsAreCounted) {
  in_process({}, [] {
    GemmClient client;
    client.multiply();  // the first thread
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) client.multiply();
      });
    }
    for (int i = 0; i < 50; ++i) client.apply();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(client.calls(), 8001u);
    EXPECT_EQ(client.only().calls[0], 1u);
    EXPECT_TRUE(client.flops(Precision::kFp32) == 8001 * 60);
  });
}

TEST(GemmCounter, ForkedChildOnlyPassesOn) {
  in_process({}, [] {
    GemmClient client;
    client.multiply();
    const pid_t child = fork();
    if (child == 0) {
      client.abandon();
      const bool passes = client.multiply() == 0 && client.handle->last[3] == 2;
      _exit(passes && client.calls() == 1 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    client.multiply();
    EXPECT_EQ(client.calls(), 2u);
  });
}

TEST(GemmCounter, CanBeSwitchedOff) {
  in_process({{"MFU_COUNT", "off"}}, [] {
    void* library = fake::load("libgemm_client_now.so");
    void* counter = fake::load("libgemm_probe.so");
    EXPECT_FALSE(fake::function<bool (*)()>(counter, "gemmProbeOpen")());
    fake::function<void (*)()>(counter, "gemmProbeApply")();
    using Take = const gemm_counter::Snapshot* (*)();
    EXPECT_EQ(fake::function<Take>(counter, "gemmProbeTake")(), nullptr);
    void* cublas = fake::load("libcublas.so.13");
    EXPECT_EQ(fake::function<void* (*)(void*, const char*)>(library, "gemmClientFind")(
                  cublas, "cublasSgemm_v2"),
              undisturbed(cublas, "cublasSgemm_v2"));
  });
}

}  // namespace
}  // namespace mfu
