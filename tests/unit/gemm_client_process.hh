// For cublas_gate_test: a process whose library was linked with (fake) cuBLAS, and the counter that
// is loaded into it; every matrix multiplication of cuBLAS called with arguments by their types.
#ifndef MFU_TESTS_UNIT_GEMM_CLIENT_PROCESS_HH_
#define MFU_TESTS_UNIT_GEMM_CLIENT_PROCESS_HH_

#include <cublasLt.h>
#include <cublasXt.h>
#include <cublas_api.h>

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "profiler/gemm_counter.hh"
#include "tests/fake/cublas_names.hh"
#include "tests/fake/cublas_state.hh"
#include "tests/fake/fake_process.hh"

namespace mfu {

using Flops = unsigned __int128;

// Libraries are opened RTLD_LOCAL. The counter is loaded before or after them.
class GemmClient {
 public:
  explicit GemmClient(const char* name = "libgemm_client_now.so", bool counter_first = false) {
    if (counter_first) load_counter();
    library_ = open(name);
    if (!counter_first) load_counter();
    apply();
    fake::function<int (*)(fake::CublasHandle**)>(cublas(), "cublasCreate_v2")(&handle);
  }

  // As the dynamic linker loads a program's libraries: each is bound as it was linked.
  static void* open(const char* name) {
    const std::string path = std::string(BUILD_FOLDER "/tests/fake/") + name;
    void* opened = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    EXPECT_NE(opened, nullptr) << dlerror();
    return opened;
  }
  void apply() { fake::function<void (*)()>(counter_, "gemmProbeApply")(); }
  void abandon() { fake::function<void (*)()>(counter_, "gemmProbeAbandon")(); }
  const gemm_counter::Snapshot& take() {
    using Take = const gemm_counter::Snapshot* (*)();
    const gemm_counter::Snapshot* taken = fake::function<Take>(counter_, "gemmProbeTake")();
    EXPECT_NE(taken, nullptr);
    EXPECT_EQ(gemm_sums_fault(taken->sums), nullptr);
    return *taken;
  }
  const GemmSums& sums() { return take().sums; }
  uint64_t calls() {
    uint64_t all = 0;
    for (const uint64_t each : sums().calls) all += each;
    return all;
  }
  Flops flops(Precision precision) { return sums().flops[static_cast<size_t>(precision)].value(); }
  // The only shape's count.
  GemmCount only() {
    GemmCount found;
    for (const GemmCount& count : take().shapes) {
      if (!count.shape.empty()) found = count;
    }
    EXPECT_EQ(sums().shapes, 1u);
    return found;
  }

  // A function that calls `name` from inside of the library.
  void* caller(const char* name) {
    void* found = fake::function<void* (*)(const char*)>(library_, "gemmClient")(name);
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    return reinterpret_cast<int (*)(Arguments...)>(caller(name))(arguments...);
  }
  // dlsym, called by the library.
  void* find(void* from, const char* name) {
    return fake::function<void* (*)(void*, const char*)>(library_, "gemmClientFind")(from, name);
  }

  void* library() const { return library_; }
  void* cublas() { return fake::load("libcublas.so.13"); }
  void* lt() { return fake::load("libcublasLt.so.13"); }
  void* driver() { return fake::load("libcuda.so.1"); }
  cublasHandle_t cublas_handle() { return reinterpret_cast<cublasHandle_t>(handle); }

  // 2 x 3 x 5 in single precision: 60 FLOPs.
  int multiply() {
    return call("cublasSgemm_v2", cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_N, 2, 3, 5, nullptr,
                nullptr, 2, nullptr, 5, nullptr, nullptr, 2);
  }

  fake::CublasHandle* handle = nullptr;

 private:
  void load_counter() {
    counter_ = fake::load("libgemm_probe.so");
    EXPECT_TRUE(fake::function<bool (*)()>(counter_, "gemmProbeOpen")());
  }

  void* counter_ = nullptr;
  void* library_ = nullptr;
};

// One call with random arguments, of whatever kinds a function's type says, and what it amounts to.
struct RandomCall {
  explicit RandomCall(uint32_t seed) : random(seed) {}

  std::mt19937 random;
  GemmClient* client = nullptr;
  std::string_view name;

  std::vector<uint64_t> words;   // as they were handed over
  std::vector<bool> are_narrow;  // 32 bits of it
  uint64_t integers[64] = {};    // in their order
  size_t integer_count = 0;
  std::vector<int> narrow_arrays[16];
  std::vector<int64_t> wide_arrays[16];
  size_t array_count = 0;
  size_t operations = 0;
  std::vector<cublasOperation_t> operation_arrays[2];
  static constexpr int kGroups = 3;

  uint64_t up_to(uint64_t most) { return random() % most + 1; }

  template <typename Argument>
  Argument make() {
    if constexpr (std::is_same_v<Argument, cublasHandle_t>) {
      return client->cublas_handle();
    } else if constexpr (std::is_same_v<Argument, cublasXtHandle_t>) {
      return nullptr;
    } else if constexpr (std::is_same_v<Argument, cublasOperation_t>) {
      return static_cast<cublasOperation_t>(random() % 3);
    } else if constexpr (std::is_same_v<Argument, cudaDataType>) {
      return is_complex() ? CUDA_C_32F : CUDA_R_16BF;
    } else if constexpr (std::is_same_v<Argument, cublasComputeType_t>) {
      return CUBLAS_COMPUTE_32F;
    } else if constexpr (std::is_enum_v<Argument>) {
      return static_cast<Argument>(-1);  // the algorithm
    } else if constexpr (std::is_same_v<Argument, const cublasOperation_t*>) {
      auto& array = operation_arrays[operations++];
      for (int i = 0; i < kGroups; ++i) array.push_back(make<cublasOperation_t>());
      return array.data();
    } else if constexpr (std::is_same_v<Argument, const int*>) {
      auto& array = narrow_arrays[array_count++];
      for (int i = 0; i < kGroups; ++i) array.push_back(static_cast<int>(up_to(1000)));
      return array.data();
    } else if constexpr (std::is_same_v<Argument, const int64_t*>) {
      auto& array = wide_arrays[array_count++];
      for (int i = 0; i < kGroups; ++i) array.push_back(static_cast<int64_t>(up_to(1000)));
      return array.data();
    } else if constexpr (std::is_same_v<Argument, long long>) {
      return static_cast<long long>(up_to(1'000'000));  // a stride
    } else if constexpr (std::is_pointer_v<Argument>) {
      return reinterpret_cast<Argument>(up_to(UINT32_MAX) << 12);
    } else {
      const bool grouped = name.find("Grouped") != std::string_view::npos;
      uint64_t value = grouped ? kGroups : up_to(2000);
      // More than an int holds, where there is more room; m n k still has some.
      if (sizeof(Argument) == 8 && !grouped && integer_count == 0) value += uint64_t{5} << 32;
      integers[integer_count++] = value;
      return static_cast<Argument>(value);
    }
  }

  template <typename Argument>
  Argument next() {
    const Argument argument = make<Argument>();
    uint64_t word = 0;
    std::memcpy(&word, &argument, sizeof(argument));
    words.push_back(word);
    are_narrow.push_back(sizeof(argument) == 4);
    return argument;
  }

  template <typename... Arguments>
  int make_call(cublasStatus_t (*)(Arguments...)) {
    auto* function =
        reinterpret_cast<cublasStatus_t (*)(Arguments...)>(client->caller(name.data()));
    // Braces: from left to right.
    const std::tuple<Arguments...> arguments{next<Arguments>()...};
    return std::apply(function, arguments);
  }

  bool is_complex() const {
    return name.find("Cgemm") != name.npos || name.find("Zgemm") != name.npos;
  }
  Flops flops() {
    const Flops one = is_complex() ? 8 : 2;
    Flops sum = 0;
    if (name.find("Grouped") == name.npos) {
      const bool batched = name.find("Batched") != name.npos;
      sum = one * integers[0] * integers[1] * integers[2];
      return batched ? sum * integers[integer_count - 1] : sum;
    }
    for (size_t i = 0; i < kGroups; ++i) {
      Flops product = one;
      for (const size_t array : {size_t{0}, size_t{1}, size_t{2}, array_count - 1}) {
        product *= static_cast<Flops>(narrow_arrays[array].empty() ? wide_arrays[array][i]
                                                                   : narrow_arrays[array][i]);
      }
      sum += product;
    }
    return sum;
  }
  Precision precision() const {
    if (name.find("Ex") != name.npos) return is_complex() ? Precision::kFp32 : Precision::kBf16;
    if (name.find("Hgemm") != name.npos) return Precision::kFp16;
    if (name.find("Uint8") != name.npos) return Precision::kInt8;
    const bool is_double = name.find("Dgemm") != name.npos || name.find("Zgemm") != name.npos;
    return is_double ? Precision::kFp64 : Precision::kFp32;
  }
};

// The three functions that the header declares twice.
using GemmExType = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                  int, const void*, const void*, cudaDataType, int, const void*,
                                  cudaDataType, int, const void*, void*, cudaDataType, int,
                                  cublasComputeType_t, cublasGemmAlgo_t);
using GemmBatchedExType = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                         int, int, const void*, const void* const*, cudaDataType,
                                         int, const void* const*, cudaDataType, int, const void*,
                                         void* const*, cudaDataType, int, int, cublasComputeType_t,
                                         cublasGemmAlgo_t);
using GemmStridedBatchedExType = cublasStatus_t(cublasHandle_t, cublasOperation_t,
                                                cublasOperation_t, int, int, int, const void*,
                                                const void*, cudaDataType, int, long long,
                                                const void*, cudaDataType, int, long long,
                                                const void*, void*, cudaDataType, int, long long,
                                                int, cublasComputeType_t, cublasGemmAlgo_t);

struct Gemm {
  const char* name;
  std::function<int(RandomCall&)> call;
};
inline std::vector<Gemm> all_gemms() {
  auto of = [](auto* type) { return [type](RandomCall& call) { return call.make_call(type); }; };
#define MFU_TEST_GEMM(name) {#name, of(static_cast<decltype(name)*>(nullptr))},
  return {FAKE_CUBLAS_PLAIN(MFU_TEST_GEMM){"cublasGemmEx", of(static_cast<GemmExType*>(nullptr))},
          {"cublasGemmBatchedEx", of(static_cast<GemmBatchedExType*>(nullptr))},
          {"cublasGemmStridedBatchedEx", of(static_cast<GemmStridedBatchedExType*>(nullptr))}};
#undef MFU_TEST_GEMM
}

}  // namespace mfu

#endif
