// One wrapper for all: the type of a function comes from cuBLAS's header, and a Form says where
// among its arguments the shape and the types are.
#include "profiler/cublas_gate.hh"

#include <cublasLt.h>
#include <cublasXt.h>
#include <cublas_api.h>

#include <iterator>
#include <tuple>
#include <type_traits>

#include "profiler/cublas_precision.hh"
#include "profiler/gemm_counter.hh"
#include "profiler/graph_gate.hh"
#include "profiler/loaded_library.hh"
#include "profiler/thread_call.hh"

namespace mfu::cublas_gate {
namespace {

// ---- how often it ran

// A call that succeeded, or one of its shapes.
void tell(const GemmShape& shape, const graph_gate::Capture& capture, uint32_t thread,
          GemmPart part = GemmPart::kCall) {
  if (shape.empty()) return;
  switch (capture.place) {
    case graph_gate::Place::kRuns:
      return gemm_counter::table().add(shape, thread, part);
    case graph_gate::Place::kCaptured:
      return gemm_counter::graphs().capture(capture.graph, capture.id, shape, thread, part);
    case graph_gate::Place::kNowhere:
      return;
    case graph_gate::Place::kUnknown:
      if (part == GemmPart::kCall) gemm_counter::table().add_uncovered(1);
      return;
  }
}

// ---- cuBLAS

enum Number { kReal, kDouble, kComplex, kDoubleComplex, kHalf, kByte };  // S, D, C, Z, H; Uint8

// Positions of arguments; -1: there is none. The operations stand before m, n and k behind it.
struct Form {
  Number number = kReal;
  bool typed = false;  // A's and B's types are arguments
  bool grouped = false;
  bool multi_gpu = false;  // cublasXt: synchronous, and of no stream that we could ask
  int m = 3;
  int a = 7;       // A, then its type
  int b = 10;      // B, then its type
  int batch = -1;  // grouped: the number of groups, then their sizes
  int compute = -1;
};

constexpr Form plain(Number number) {
  return {.number = number};
}
constexpr Form batched(Number number) {
  return {.number = number, .batch = 14};
}
constexpr Form strided(Number number) {
  return {.number = number, .batch = 17};
}
constexpr Form grouped(Number number) {
  return {.number = number, .grouped = true, .batch = 14};
}
constexpr Form typed(Number number) {
  return {.number = number, .typed = true};
}
constexpr Form multi_gpu(Number number) {
  return {.number = number, .multi_gpu = true};
}
constexpr Form kEx = {.typed = true, .compute = 17};
constexpr Form kBatchedEx = {.typed = true, .batch = 17, .compute = 18};
constexpr Form kStridedEx = {.typed = true, .b = 11, .batch = 20, .compute = 21};
constexpr Form kGroupedEx = {.typed = true, .grouped = true, .batch = 17, .compute = 19};
constexpr Form kUint8 = {.number = kByte, .m = 4};

// X(name, type, form). The header has three names twice, hence what says which is meant: the one
// with int for the int64_t of the other.
#define MFU_ONE(X, name, form) X(name, decltype(name), form)
#define MFU_BOTH(X, name, form) MFU_ONE(X, name, form) MFU_ONE(X, name##_64, form)
#define MFU_TWICE(X, name, form) \
  X(name, Narrow<decltype(name##_64)>::Type, form) MFU_ONE(X, name##_64, form)
#define MFU_GEMMS(X)                                              \
  MFU_BOTH(X, cublasSgemm_v2, plain(kReal))                       \
  MFU_BOTH(X, cublasDgemm_v2, plain(kDouble))                     \
  MFU_BOTH(X, cublasCgemm_v2, plain(kComplex))                    \
  MFU_BOTH(X, cublasZgemm_v2, plain(kDoubleComplex))              \
  MFU_BOTH(X, cublasHgemm, plain(kHalf))                          \
  MFU_BOTH(X, cublasCgemm3m, plain(kComplex))                     \
  MFU_BOTH(X, cublasZgemm3m, plain(kDoubleComplex))               \
  MFU_BOTH(X, cublasSgemmEx, typed(kReal))                        \
  MFU_BOTH(X, cublasCgemmEx, typed(kComplex))                     \
  MFU_BOTH(X, cublasCgemm3mEx, typed(kComplex))                   \
  MFU_TWICE(X, cublasGemmEx, kEx)                                 \
  MFU_BOTH(X, cublasSgemmBatched, batched(kReal))                 \
  MFU_BOTH(X, cublasDgemmBatched, batched(kDouble))               \
  MFU_BOTH(X, cublasCgemmBatched, batched(kComplex))              \
  MFU_BOTH(X, cublasZgemmBatched, batched(kDoubleComplex))        \
  MFU_BOTH(X, cublasHgemmBatched, batched(kHalf))                 \
  MFU_BOTH(X, cublasCgemm3mBatched, batched(kComplex))            \
  MFU_TWICE(X, cublasGemmBatchedEx, kBatchedEx)                   \
  MFU_BOTH(X, cublasSgemmStridedBatched, strided(kReal))          \
  MFU_BOTH(X, cublasDgemmStridedBatched, strided(kDouble))        \
  MFU_BOTH(X, cublasCgemmStridedBatched, strided(kComplex))       \
  MFU_BOTH(X, cublasZgemmStridedBatched, strided(kDoubleComplex)) \
  MFU_BOTH(X, cublasHgemmStridedBatched, strided(kHalf))          \
  MFU_BOTH(X, cublasCgemm3mStridedBatched, strided(kComplex))     \
  MFU_TWICE(X, cublasGemmStridedBatchedEx, kStridedEx)            \
  MFU_BOTH(X, cublasSgemmGroupedBatched, grouped(kReal))          \
  MFU_BOTH(X, cublasDgemmGroupedBatched, grouped(kDouble))        \
  MFU_BOTH(X, cublasGemmGroupedBatchedEx, kGroupedEx)             \
  MFU_ONE(X, cublasUint8gemmBias, kUint8)                         \
  MFU_ONE(X, cublasXtSgemm, multi_gpu(kReal))                     \
  MFU_ONE(X, cublasXtDgemm, multi_gpu(kDouble))                   \
  MFU_ONE(X, cublasXtCgemm, multi_gpu(kComplex))                  \
  MFU_ONE(X, cublasXtZgemm, multi_gpu(kDoubleComplex))

enum Function {
#define MFU_NUMBER(name, type, form) k_##name,
  MFU_GEMMS(MFU_NUMBER)
#undef MFU_NUMBER
      k_cublasLtMatmul,
  kFunctions
};
constinit void* originals[kFunctions] = {};

constinit void* get_stream = nullptr;
constinit void* get_math_mode = nullptr;
constexpr loaded_library::Function kAsked[] = {
    {"cublasGetStream_v2", &get_stream},
    {"cublasGetMathMode", &get_math_mode},
};

// A function of the library's own, with the type that the header declares.
template <typename Function>
Function* function(void* const& address) {
  return reinterpret_cast<Function*>(__atomic_load_n(&address, __ATOMIC_RELAXED));
}

constexpr cublas_precision::Types types_of(Number number) {
  switch (number) {
    case kDouble:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 0};
    case kComplex:
      return {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F, 0};
    case kDoubleComplex:
      return {CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F, 0};
    case kHalf:
      return {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F, 0};
    case kByte:
      return {CUDA_R_8U, CUDA_R_8U, CUBLAS_COMPUTE_32I, 0};
    default:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0};
  }
}

int math_of(cublasHandle_t handle) {
  const auto get = function<decltype(cublasGetMathMode)>(get_math_mode);
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
  constexpr int kUnknownMath = 0xf;
  if (get == nullptr || get(handle, &mode) != CUBLAS_STATUS_SUCCESS) return kUnknownMath;
  return mode;
}

graph_gate::Capture capture_of(cublasHandle_t handle) {
  const auto get = function<decltype(cublasGetStream_v2)>(get_stream);
  cudaStream_t stream = nullptr;
  if (get == nullptr || get(handle, &stream) != CUBLAS_STATUS_SUCCESS) return {};
  return graph_gate::capture_of(stream);
}

uint64_t size_from(int64_t value) {
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

template <Form kForm, typename Arguments>
void tell(const Arguments& arguments, uint32_t thread) {
  auto handle = static_cast<cublasHandle_t>(nullptr);
  graph_gate::Capture capture{graph_gate::Place::kRuns};
  if constexpr (!kForm.multi_gpu) {
    handle = std::get<0>(arguments);
    capture = capture_of(handle);
  }
  cublas_precision::Types types = types_of(kForm.number);
  if constexpr (kForm.typed) {
    types.a = std::get<kForm.a + 1>(arguments);
    types.b = std::get<kForm.b + 1>(arguments);
  }
  if constexpr (kForm.compute >= 0) types.compute = std::get<kForm.compute>(arguments);
  if (!kForm.multi_gpu && cublas_precision::depends_on_math(types.a)) types.math = math_of(handle);

  GemmShape shape;
  cublas_precision::set(types, &shape);
  const auto operation_a = std::get<kForm.m - (kForm.number == kByte ? 3 : 2)>(arguments);
  const auto operation_b = std::get<kForm.m - (kForm.number == kByte ? 2 : 1)>(arguments);
  const auto m = std::get<kForm.m>(arguments);
  const auto n = std::get<kForm.m + 1>(arguments);
  const auto k = std::get<kForm.m + 2>(arguments);
  if constexpr (kForm.grouped) {
    const auto groups = std::get<kForm.batch>(arguments);
    const auto sizes = std::get<kForm.batch + 1>(arguments);
    GemmPart part = GemmPart::kCall;
    for (auto i = groups - groups; i < groups; ++i) {
      shape.m = size_from(m[i]);
      shape.n = size_from(n[i]);
      shape.k = size_from(k[i]);
      shape.batch = size_from(sizes[i]);
      shape.transposed_a = operation_a[i] != CUBLAS_OP_N;
      shape.transposed_b = operation_b[i] != CUBLAS_OP_N;
      tell(shape, capture, thread, part);
      if (!shape.empty()) part = GemmPart::kFurther;
    }
  } else {
    shape.m = size_from(static_cast<int64_t>(m));
    shape.n = size_from(static_cast<int64_t>(n));
    shape.k = size_from(static_cast<int64_t>(k));
    if constexpr (kForm.batch >= 0) shape.batch = size_from(std::get<kForm.batch>(arguments));
    shape.transposed_a = operation_a != CUBLAS_OP_N;
    shape.transposed_b = operation_b != CUBLAS_OP_N;
    tell(shape, capture, thread);
  }
}

void tell_lost(const ThreadCall& here) {
  if (here.kind() == ThreadCall::Kind::kUnknown) gemm_counter::table().add_uncovered(1);
}

template <Function kNumber, Form kForm, typename Type>
struct Wrapper;
template <Function kNumber, Form kForm, typename... Arguments>
struct Wrapper<kNumber, kForm, cublasStatus_t(Arguments...)> {
  static cublasStatus_t call(Arguments... arguments) {
    const auto original = function<cublasStatus_t(Arguments...)>(originals[kNumber]);
    if (!gemm_counter::counts()) return original(arguments...);
    const ThreadCall here;
    const cublasStatus_t status = original(arguments...);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (here.kind() == ThreadCall::Kind::kOutermost) {
      tell<kForm>(std::tuple<Arguments...>(arguments...), here.thread());
    } else {
      tell_lost(here);
    }
    return status;
  }
};

// The same function with int where this one has int64_t. Strides are long long in both.
template <typename Type>
struct Narrow;
template <typename Result, typename... Arguments>
struct Narrow<Result(Arguments...)> {
  template <typename Argument>
  using Each = std::conditional_t<std::is_same_v<Argument, int64_t>, int, Argument>;
  using Type = Result(Each<Arguments>...);
};

// ---- cublasLt

// The attributes' numbers and types have been the same since the first cublasLt.
constinit void* get_layout = nullptr;
constinit void* get_description = nullptr;
constexpr loaded_library::Function kAskedLt[] = {
    {"cublasLtMatrixLayoutGetAttribute", &get_layout},
    {"cublasLtMatmulDescGetAttribute", &get_description},
};

template <typename Value>
bool read(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value* value) {
  const auto get = function<decltype(cublasLtMatrixLayoutGetAttribute)>(get_layout);
  size_t written = 0;
  return get != nullptr &&
         get(layout, attribute, value, sizeof(*value), &written) == CUBLAS_STATUS_SUCCESS;
}

template <typename Value>
bool read(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
          Value* value) {
  const auto get = function<decltype(cublasLtMatmulDescGetAttribute)>(get_description);
  size_t written = 0;
  return get != nullptr &&
         get(description, attribute, value, sizeof(*value), &written) == CUBLAS_STATUS_SUCCESS;
}

bool read_shape(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d, GemmShape* shape) {
  int32_t operation_a = 0;
  int32_t operation_b = 0;
  int32_t batch = 0;
  cublas_precision::Types types{};
  if (!read(description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &types.compute) ||
      !read(description, CUBLASLT_MATMUL_DESC_TRANSA, &operation_a) ||
      !read(description, CUBLASLT_MATMUL_DESC_TRANSB, &operation_b) ||
      !read(a, CUBLASLT_MATRIX_LAYOUT_TYPE, &types.a) ||
      !read(b, CUBLASLT_MATRIX_LAYOUT_TYPE, &types.b) ||
      !read(d, CUBLASLT_MATRIX_LAYOUT_ROWS, &shape->m) ||
      !read(d, CUBLASLT_MATRIX_LAYOUT_COLS, &shape->n) ||
      !read(d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch)) {
    return false;
  }
  shape->transposed_a = operation_a != CUBLAS_OP_N;
  shape->transposed_b = operation_b != CUBLAS_OP_N;
  shape->batch = size_from(batch);
  cublas_precision::set(types, shape);
  return read(a, shape->transposed_a ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS,
              &shape->k);
}

cublasStatus_t lt_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                         const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                         const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                         const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                         cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                         void* workspace, size_t workspace_size, cudaStream_t stream) {
  const auto original = function<decltype(cublasLtMatmul)>(originals[k_cublasLtMatmul]);
  auto pass_on = [&] {
    return original(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                    d_layout, algorithm, workspace, workspace_size, stream);
  };
  if (!gemm_counter::counts()) return pass_on();
  const ThreadCall here;
  const cublasStatus_t status = pass_on();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (here.kind() != ThreadCall::Kind::kOutermost) {
    tell_lost(here);
    return status;
  }
  GemmShape shape;
  if (read_shape(description, a_layout, b_layout, d_layout, &shape)) {
    tell(shape, graph_gate::capture_of(stream), here.thread());
  } else {
    gemm_counter::table().add_uncovered(1);
  }
  return status;
}

const GotPatch::Symbol kSymbols[kFunctions] = {
#define MFU_SYMBOL(name, type, form) \
  {#name, reinterpret_cast<void*>(Wrapper<k_##name, form, type>::call), &originals[k_##name]},
    MFU_GEMMS(MFU_SYMBOL)
#undef MFU_SYMBOL
        {"cublasLtMatmul", reinterpret_cast<void*>(lt_matmul), &originals[k_cublasLtMatmul]},
};

constexpr loaded_library::Function kFound[] = {
#define MFU_FOUND(name, type, form) {#name, &originals[k_##name]},
    MFU_GEMMS(MFU_FOUND)
#undef MFU_FOUND
};
constexpr loaded_library::Function kFoundLt[] = {
    {"cublasLtMatmul", &originals[k_cublasLtMatmul]},
};

}  // namespace

const GotPatch::Symbol* symbols(size_t* count) {
  for (void*& original : originals) original = GotPatch::nowhere();
  cublas_precision::read_environment();
  *count = std::size(kSymbols);
  return kSymbols;
}

void find_functions() {
  loaded_library::find("libcublas", kFound, std::size(kFound));
  loaded_library::find("libcublas", kAsked, std::size(kAsked));
  loaded_library::find("libcublasLt", kFoundLt, std::size(kFoundLt));
  loaded_library::find("libcublasLt", kAskedLt, std::size(kAskedLt));
}

}  // namespace mfu::cublas_gate
