// Every matrix multiplication of cuBLAS and cublasLt, called through fake libraries: FLOPs,
// precision and shape are exact, and the library gets what the program handed over.

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "profiler/loaded_library.hh"
#include "tests/unit/gemm_client_process.hh"

namespace mfu {
namespace {

using fake::in_process;

// Every function, with arguments by chance: its FLOPs, its precision, and all that it hands over.
TEST(CublasGate, CountsEveryFunctionExactly) {
  in_process({}, [] {
    GemmClient client;
    uint32_t seed = 1;
    uint64_t entries = 0;
    for (const Gemm& gemm : all_gemms()) {
      for (int round = 0; round < 5; ++round) {
        SCOPED_TRACE(gemm.name);
        RandomCall call(++seed);
        call.client = &client;
        call.name = gemm.name;
        const Flops before = client.flops(call.precision());
        const uint64_t calls_before = client.calls();
        fake::CublasHandle* handle = client.handle;
        EXPECT_EQ(gemm.call(call), CUBLAS_STATUS_SUCCESS);
        const Flops counted = client.flops(call.precision()) - before;
        EXPECT_TRUE(counted == call.flops())
            << static_cast<double>(counted) << " instead of " << static_cast<double>(call.flops());
        EXPECT_EQ(client.calls(), calls_before + 1);  // also one of several groups
        if (call.words[0] == 0) continue;             // cublasXt has another handle
        for (size_t i = 0; i < call.words.size(); ++i) {
          const uint64_t mask = call.are_narrow[i] ? UINT32_MAX : UINT64_MAX;
          EXPECT_EQ(handle->last[i] & mask, call.words[i] & mask) << "argument " << i;
        }
      }
      ++entries;
    }
    EXPECT_GE(client.sums().entries, entries);
    EXPECT_EQ(client.sums().uncovered, 0u);
  });
}

// Which functions there are is up to the real library.
TEST(CublasGate, KnowsEveryFunctionOfTheRealLibrary) {
  std::string real = REAL_CUPTI_PATH;
  real = real.substr(0, real.rfind('/')) + "/libcublas.so.13";
  if (access(real.c_str(), R_OK) != 0) GTEST_SKIP() << "no libcublas in the toolkit";
  std::set<std::string> known = {"cublasSgemm", "cublasDgemm", "cublasCgemm", "cublasZgemm"};
  for (const Gemm& gemm : all_gemms()) known.insert(gemm.name);
  FILE* lines = popen(("nm -D --defined-only '" + real + "'").c_str(), "r");
  ASSERT_NE(lines, nullptr);
  char line[512];
  size_t found = 0;
  while (std::fgets(line, sizeof(line), lines) != nullptr) {
    std::string name = line;
    name = name.substr(name.rfind(' ') + 1);
    name = name.substr(0, name.find_first_of("@\n"));
    if (name.find("gemm") == name.npos && name.find("Gemm") == name.npos) continue;
    ++found;
    EXPECT_TRUE(known.contains(name)) << name;
  }
  pclose(lines);
  EXPECT_GT(found, 60u);
}

// Functions of the real libraries, by their own tables.
TEST(CublasGate, FindsTheRealLibrariesFunctions) {
  const std::string cupti = REAL_CUPTI_PATH;
  const std::string real = cupti.substr(0, cupti.rfind('/')) + "/libcublas.so.13";
  if (access(real.c_str(), R_OK) != 0) GTEST_SKIP() << "no libcublas in the toolkit";
  in_process({}, [&] {
    void* cublas = dlopen(real.c_str(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(cublas, nullptr) << dlerror();
    for (const Gemm& gemm : all_gemms()) {
      void* found = nullptr;
      const loaded_library::Function wanted = {gemm.name, &found};
      EXPECT_TRUE(loaded_library::find("libcublas", &wanted, 1));
      EXPECT_EQ(found, dlsym(cublas, gemm.name)) << gemm.name;
      EXPECT_NE(found, nullptr) << gemm.name;
    }
    void* found = nullptr;
    const loaded_library::Function matmul = {"cublasLtMatmul", &found};
    EXPECT_TRUE(loaded_library::find("libcublasLt", &matmul, 1));  // cuBLAS brings it
    EXPECT_EQ(found, dlsym(cublas, "cublasLtMatmul"));
    EXPECT_NE(found, nullptr);
    EXPECT_FALSE(loaded_library::find("libcublasL", &matmul, 1));
  });
}

TEST(CublasGate, CallsThatFailOrComputeNothingDoNotCount) {
  in_process({}, [] {
    GemmClient client;
    client.handle->status = CUBLAS_STATUS_EXECUTION_FAILED;
    EXPECT_EQ(client.multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
    client.handle->status = CUBLAS_STATUS_SUCCESS;
    for (const int m : {0, -1}) {
      EXPECT_EQ(client.call("cublasSgemm_v2", client.cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_N, m,
                            3, 5, nullptr, nullptr, 2, nullptr, 5, nullptr, nullptr, 2),
                0);
    }
    EXPECT_EQ(client.calls(), 0u);
    EXPECT_EQ(client.sums().shapes, 0u);
  });
}

// cuBLAS does its work by cublasLtMatmul: as if it were the program's own call.
TEST(CublasGate, CountsNestedCallsOnce) {
  in_process({}, [] {
    GemmClient client;
    client.handle->depth = 3;
    EXPECT_EQ(client.multiply(), 0);
    EXPECT_EQ(fake::function<long (*)()>(client.lt(), "fakeCublasLtCalls")(), 3);
    EXPECT_EQ(client.only().shape, (GemmShape{2, 3, 5, 1, Precision::kFp32}));
    EXPECT_EQ(client.calls(), 1u);
    // Also when it fails, and in the next call.
    client.handle->status = 1;
    client.multiply();
    client.handle->status = 0;
    client.multiply();
    EXPECT_EQ(client.calls(), 2u);
  });
}

TEST(CublasGate, TellsThePrecision) {
  struct Row {
    int a, b, compute, math;
    Precision expected;
  };
  constexpr int kHalf = CUDA_R_16F, kSingle = CUDA_R_32F, kF = CUBLAS_COMPUTE_32F;
  const Row rows[] = {
      {kHalf, kHalf, kF, 0, Precision::kFp16},
      {kHalf, kHalf, CUBLAS_COMPUTE_16F, 0, Precision::kFp16},
      {CUDA_R_16BF, CUDA_R_16BF, kF, 0, Precision::kBf16},
      {CUDA_R_16BF, kHalf, kF, 0, Precision::kUnknown},
      {kSingle, kSingle, kF, 0, Precision::kFp32},
      {kSingle, kSingle, kF, CUBLAS_TF32_TENSOR_OP_MATH, Precision::kTf32},
      {kSingle, kSingle, kF, CUBLAS_TF32_TENSOR_OP_MATH | 16, Precision::kTf32},
      {kSingle, kSingle, kF, CUBLAS_TENSOR_OP_MATH, Precision::kFp16},
      {kSingle, kSingle, kF, 4, Precision::kUnknown},  // emulated
      {kSingle, kSingle, kF, 12, Precision::kUnknown},
      {kSingle, kSingle, kF, 8, Precision::kFp32},  // double is
      {kSingle, kSingle, CUBLAS_COMPUTE_32F_PEDANTIC, 3, Precision::kFp32},
      {kSingle, kSingle, CUBLAS_COMPUTE_32F_FAST_TF32, 0, Precision::kTf32},
      {kSingle, kSingle, CUBLAS_COMPUTE_32F_FAST_16BF, 0, Precision::kBf16},
      {kSingle, kSingle, CUBLAS_COMPUTE_32F_FAST_16F, 0, Precision::kFp16},
      {kSingle, kSingle, 78, 0, Precision::kUnknown},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 0, Precision::kFp64},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 4, Precision::kFp64},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 8, Precision::kUnknown},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 12, Precision::kUnknown},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 8 | 16, Precision::kUnknown},
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F_PEDANTIC, 0, Precision::kFp64},
      {CUDA_R_64F, CUDA_R_64F, 79, 0, Precision::kUnknown},
      {CUDA_R_8I, CUDA_R_8I, CUBLAS_COMPUTE_32I, 0, Precision::kInt8},
      {CUDA_R_8I, CUDA_R_8I, kF, 0, Precision::kUnknown},
      {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, kF, 0, Precision::kFp8},
      {33, 33, kF, 0, Precision::kFp4},
      {63, 63, kF, 0, Precision::kUnknown},
  };
  for (const char* forbidden : {"", "0"}) {
    in_process({{"NVIDIA_TF32_OVERRIDE", forbidden}}, [&] {
      GemmClient client;
      int n = 0;
      for (const Row& row : rows) {
        Precision expected = row.expected;
        if (forbidden[0] == '0' && expected == Precision::kTf32) expected = Precision::kFp32;
        client.handle->math = row.math;
        const Flops before = client.flops(expected);
        EXPECT_EQ(client.call("cublasGemmEx", client.cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_T, 2,
                              3, 5, nullptr, nullptr, row.a, 2, nullptr, row.b, 3, nullptr, nullptr,
                              kSingle, 2, row.compute, CUBLAS_GEMM_DEFAULT),
                  0);
        EXPECT_TRUE(client.flops(expected) == before + 60) << "row " << n;
        ++n;
      }
    });
  }
}

// Emulation that the environment switches on for all that does not say otherwise.
TEST(CublasGate, KnowsOfEmulationByTheEnvironment) {
  struct Row {
    const char* variable;
    const char* value;
    Precision single, tf32, real_double;
  };
  constexpr Precision kUnknown = Precision::kUnknown;
  const Row rows[] = {
      {"CUBLAS_EMULATE_SINGLE_PRECISION", "1", kUnknown, Precision::kTf32, Precision::kFp64},
      {"CUBLAS_EMULATE_DOUBLE_PRECISION", "1", Precision::kFp32, Precision::kTf32, kUnknown},
      {"CUBLAS_EMULATE_SINGLE_PRECISION", "0", Precision::kFp32, Precision::kTf32,
       Precision::kFp64},
      {"CUBLAS_EMULATE_DOUBLE_PRECISION", "0", Precision::kFp32, Precision::kTf32,
       Precision::kFp64},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.variable) + "=" + row.value);
    in_process({{row.variable, row.value}}, [&] {
      GemmClient client;
      auto multiply = [&](const char* name, int math, Precision expected) {
        client.handle->math = math;
        const Flops before = client.flops(expected);
        EXPECT_EQ(client.call(name, client.cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_N, 2, 3, 5,
                              nullptr, nullptr, 2, nullptr, 5, nullptr, nullptr, 2),
                  0);
        EXPECT_TRUE(client.flops(expected) == before + 60) << name << ", math mode " << math;
      };
      multiply("cublasSgemm_v2", CUBLAS_DEFAULT_MATH, row.single);
      multiply("cublasSgemm_v2", CUBLAS_PEDANTIC_MATH, Precision::kFp32);
      multiply("cublasSgemm_v2", CUBLAS_TF32_TENSOR_OP_MATH, row.tf32);
      multiply("cublasDgemm_v2", CUBLAS_DEFAULT_MATH, row.real_double);
    });
  }
}

// ---- cublasLt

std::string real_lt() {
  const std::string cupti = REAL_CUPTI_PATH;
  return cupti.substr(0, cupti.rfind('/')) + "/libcublasLt.so.13";
}

// Layouts as a program makes them, by the toolkit's own library or by the fake one.
struct LtCall {
  explicit LtCall(GemmClient* of) : client(of) {}
  cublasLtMatrixLayout_t layout(int type, uint64_t rows, uint64_t cols, int batch) {
    cublasLtMatrixLayout_t made = nullptr;
    void* lt = client->lt();
    EXPECT_EQ(FAKE(lt, cublasLtMatrixLayoutCreate)(&made, static_cast<cudaDataType>(type), rows,
                                                   cols, static_cast<int64_t>(rows)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(FAKE(lt, cublasLtMatrixLayoutSetAttribute)(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                         &batch, sizeof(batch)),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
  int call(uint64_t m, uint64_t n, uint64_t k, int batch, bool transposed_a, bool transposed_b,
           int type = CUDA_R_16BF, cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    void* lt = client->lt();
    cublasLtMatmulDesc_t description = nullptr;
    EXPECT_EQ(FAKE(lt, cublasLtMatmulDescCreate)(&description, compute, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    const int32_t operations[] = {transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                  transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N};
    const auto set = FAKE(lt, cublasLtMatmulDescSetAttribute);
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, &operations[0], sizeof(operations[0]));
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, &operations[1], sizeof(operations[1]));
    cublasLtMatrixLayout_t a = layout(type, transposed_a ? k : m, transposed_a ? m : k, batch);
    cublasLtMatrixLayout_t b = layout(type, transposed_b ? n : k, transposed_b ? k : n, batch);
    cublasLtMatrixLayout_t d = layout(CUDA_R_32F, m, n, batch);
    const int result = client->call("cublasLtMatmul", static_cast<cublasLtHandle_t>(nullptr),
                                    description, nullptr, nullptr, a, nullptr, b, nullptr, nullptr,
                                    d, nullptr, d, static_cast<cublasLtMatmulAlgo_t*>(nullptr),
                                    nullptr, size_t{0}, static_cast<cudaStream_t>(nullptr));
    for (auto each : {a, b, d}) FAKE(lt, cublasLtMatrixLayoutDestroy)(each);
    FAKE(lt, cublasLtMatmulDescDestroy)(description);
    return result;
  }
  GemmClient* client;
};

void count_lt_calls(bool real) {
  GemmClient client;
  ASSERT_EQ(fake::function<int (*)()>(client.lt(), "fakeCublasLtIsReal")(), real);
  LtCall lt(&client);
  std::mt19937 random(7);
  Flops expected = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t m = random() % 50'000 + 1, n = random() % 50'000 + 1, k = random() % 9000 + 1;
    const int batch = static_cast<int>(random() % 8 + 1);
    const bool a = random() % 2 == 0, b = random() % 2 == 0;
    EXPECT_EQ(lt.call(m, n, k, batch, a, b), 0);
    expected += Flops{2} * m * n * k * static_cast<uint64_t>(batch);
    const GemmShape shape{m, n, k, static_cast<uint64_t>(batch), Precision::kBf16, false, a, b};
    const auto& shapes = client.take().shapes;
    EXPECT_TRUE(std::any_of(std::begin(shapes), std::end(shapes), [&](const GemmCount& count) {
      return count.shape == shape && count.total() == 1;
    }));
  }
  EXPECT_TRUE(client.flops(Precision::kBf16) == expected);
  EXPECT_EQ(lt.call(16, 16, 16, 1, true, false, CUDA_R_8F_E4M3), 0);
  EXPECT_TRUE(client.flops(Precision::kFp8) == 8192);
  EXPECT_EQ(lt.call(16, 16, 16, 1, true, false, CUDA_C_32F), 0);
  EXPECT_TRUE(client.flops(Precision::kFp32) == 4 * 8192);
  EXPECT_EQ(lt.call(16, 16, 16, 1, true, false, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32), 0);
  EXPECT_TRUE(client.flops(Precision::kTf32) == 8192);
  fake::function<void (*)(int)>(client.lt(), "fakeCublasLtStatus")(15);
  EXPECT_EQ(lt.call(16, 16, 16, 1, true, false), 15);
  EXPECT_EQ(client.calls(), 103u);
  EXPECT_EQ(client.sums().uncovered, 0u);
}

TEST(CublasGate, ReadsLayouts) {
  in_process({}, [] { count_lt_calls(false); });
}

TEST(CublasGate, ReadsLayoutsOfTheRealLibrary) {
  if (access(real_lt().c_str(), R_OK) != 0) GTEST_SKIP() << "no libcublasLt in the toolkit";
  in_process({{"REAL_CUBLASLT", real_lt()}}, [] { count_lt_calls(true); });
}

// Numbers of a type that is to come: FLOPs of no precision that we know.
TEST(CublasGate, CountsTypesThatItDoesNotKnow) {
  in_process({}, [] {
    GemmClient client;
    LtCall lt(&client);
    EXPECT_EQ(lt.call(16, 16, 16, 1, false, false, 63), 0);
    EXPECT_TRUE(client.flops(Precision::kUnknown) == 8192);
  });
}

}  // namespace
}  // namespace mfu
