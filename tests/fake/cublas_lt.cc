// libcublasLt.so.13 without a GPU: cublasLtMatmul counts its calls and succeeds. Layouts and
// descriptions are the real library's, if the environment says where that is (REAL_CUBLASLT), or a
// few attributes of our own.
#include <cublasLt.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tests/fake/cublas_state.hh"

namespace {

// Written into the opaque structures: attributes 0 to 7, 8 bytes each.
constexpr size_t kAttributes = 8;
constexpr size_t attribute_size(bool layout, int attribute) {
  if (!layout) return sizeof(int32_t);
  return attribute == CUBLASLT_MATRIX_LAYOUT_TYPE || attribute == CUBLASLT_MATRIX_LAYOUT_ORDER ||
                 attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
             ? sizeof(int32_t)
             : sizeof(int64_t);
}

std::atomic<long> calls = 0;
std::atomic<int> status = CUBLAS_STATUS_SUCCESS;

void* real_library() {
  static void* const library = [] {
    const char* path = std::getenv("REAL_CUBLASLT");
    return path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  }();
  return library;
}

template <typename Function>
Function* real(const char* name) {
  void* library = real_library();
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

cublasStatus_t get(const uint64_t* data, bool layout, int attribute, void* out, size_t size,
                   size_t* written) {
  if (attribute < 0 || static_cast<size_t>(attribute) >= kAttributes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const size_t wanted = attribute_size(layout, attribute);
  if (size < wanted) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(out, data + attribute, wanted);
  if (written != nullptr) *written = wanted;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(uint64_t* data, bool layout, int attribute, const void* value, size_t size) {
  if (attribute < 0 || static_cast<size_t>(attribute) >= kAttributes ||
      size != attribute_size(layout, attribute)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(data + attribute, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int fakeCublasLtIsReal() {
  return real_library() != nullptr;
}
long fakeCublasLtCalls() {
  return calls;
}
void fakeCublasLtStatus(int next) {
  status = next;
}

#define FORWARD(name, ...)                                   \
  static auto* const function = real<decltype(name)>(#name); \
  if (function != nullptr) return function(__VA_ARGS__)

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  FORWARD(cublasLtMatrixLayoutCreate, out, type, rows, cols, ld);
  *out = new cublasLtMatrixLayoutOpaque_t{};
  uint64_t* data = (*out)->data;
  data[CUBLASLT_MATRIX_LAYOUT_TYPE] = static_cast<uint64_t>(type);
  data[CUBLASLT_MATRIX_LAYOUT_ROWS] = rows;
  data[CUBLASLT_MATRIX_LAYOUT_COLS] = cols;
  data[CUBLASLT_MATRIX_LAYOUT_LD] = static_cast<uint64_t>(ld);
  data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  FORWARD(cublasLtMatrixLayoutDestroy, layout);
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t size) {
  FORWARD(cublasLtMatrixLayoutSetAttribute, layout, attribute, value, size);
  return set(layout->data, true, attribute, value, size);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* out, size_t size, size_t* written) {
  FORWARD(cublasLtMatrixLayoutGetAttribute, layout, attribute, out, size, written);
  return get(layout->data, true, attribute, out, size, written);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  FORWARD(cublasLtMatmulDescCreate, out, compute, scale);
  *out = new cublasLtMatmulDescOpaque_t{};
  (*out)->data[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] = static_cast<uint64_t>(compute);
  (*out)->data[CUBLASLT_MATMUL_DESC_SCALE_TYPE] = static_cast<uint64_t>(scale);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  FORWARD(cublasLtMatmulDescDestroy, description);
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  FORWARD(cublasLtMatmulDescSetAttribute, description, attribute, value, size);
  return set(description->data, false, attribute, value, size);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* out,
                                              size_t size, size_t* written) {
  FORWARD(cublasLtMatmulDescGetAttribute, description, attribute, out, size, written);
  return get(description->data, false, attribute, out, size, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                              const void*, const void*, cublasLtMatrixLayout_t, void*,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t) {
  ++calls;
  return static_cast<cublasStatus_t>(status.load());
}
}
#pragma GCC visibility pop
