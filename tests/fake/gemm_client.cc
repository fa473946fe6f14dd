// A library that is linked with cuBLAS, cublasLt and the CUDA runtime, as PyTorch's are: calls any
// of their functions for whoever asks, from inside of itself. Its words are those of
// cublas_names.hh.
#include <dlfcn.h>

#include <cstring>

#include "tests/fake/cublas_names.hh"

#define GRAPH_NAMES(X)                    \
  X(cudaGraphInstantiate)                 \
  X(cudaGraphInstantiateWithFlags)        \
  X(cudaGraphInstantiateWithParams)       \
  X(cudaGraphLaunch)                      \
  X(cudaGraphLaunch_ptsz)                 \
  X(cudaGraphExecUpdate)                  \
  X(cudaGraphAddChildGraphNode)           \
  X(cudaGraphClone)                       \
  X(cudaGraphDestroy)                     \
  X(cudaGraphExecDestroy)                 \
  X(cudaGraphExecChildGraphNodeSetParams) \
  X(cudaGraphNodeSetEnabled)              \
  X(cuGraphInstantiateWithFlags)          \
  X(cuGraphInstantiate_v2)                \
  X(cuGraphLaunch)                        \
  X(cuGraphExecUpdate_v2)                 \
  X(cuGraphAddChildGraphNode)             \
  X(cuGraphClone)                         \
  X(cuGraphDestroy)                       \
  X(cuGraphExecDestroy)                   \
  X(cublasLtMatmul)

extern "C" {
#define DECLARE(name) int name(FAKE_WORDS(FAKE_WORD_TYPE));
FAKE_CUBLAS_GEMMS(DECLARE)
GRAPH_NAMES(DECLARE)
}

namespace {

#define CALL(name)                           \
  int call_##name(FAKE_WORDS(FAKE_WORD)) {   \
    return name(FAKE_WORDS(FAKE_WORD_NAME)); \
  }
FAKE_CUBLAS_GEMMS(CALL)
GRAPH_NAMES(CALL)

}  // namespace

// A function that calls the one of this name.
extern "C" __attribute__((visibility("default"))) void* gemmClient(const char* name) {
#define FIND(each) \
  if (std::strcmp(name, #each) == 0) return reinterpret_cast<void*>(call_##each);
  FAKE_CUBLAS_GEMMS(FIND)
  GRAPH_NAMES(FIND)
  return nullptr;
}

// dlsym, asked by this library.
extern "C" __attribute__((visibility("default"))) void* gemmClientFind(void* handle,
                                                                       const char* name) {
  void* found = dlsym(handle, name);
  __asm__ volatile("" : "+r"(found));  // no tail call: the caller is here
  return found;
}
