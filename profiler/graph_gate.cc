// The functions' arguments are pointers and integers, six at most: in registers on every machine
// that we know. So one type passes on all of them, those of older versions with other arguments
// included, and cuda.h is not needed.
#include "profiler/graph_gate.hh"

#include <atomic>
#include <iterator>

#include "profiler/gemm_counter.hh"
#include "profiler/loaded_library.hh"
#include "profiler/thread_call.hh"

namespace mfu::graph_gate {
namespace {

using Words = int (*)(void*, void*, void*, void*, void*, void*);

enum class Operation {
  kInstantiate,   // (exec*, graph, ...)
  kLaunch,        // (exec, stream)
  kUpdate,        // (exec, graph, ...)
  kAddChild,      // (node*, graph, dependencies, number, child)
  kClone,         // (graph*, original)
  kDestroy,       // (graph)
  kDestroyExec,   // (exec)
  kChangeInside,  // (exec, node, ...)
};

// Every function's name and what it does. cudaX_ptsz is X where programs are compiled for
// per-thread default streams.
#define MFU_GRAPH_FUNCTIONS(X)                           \
  X(cudaGraphInstantiate, kInstantiate)                  \
  X(cudaGraphInstantiateWithFlags, kInstantiate)         \
  X(cudaGraphInstantiateWithParams, kInstantiate)        \
  X(cudaGraphInstantiateWithParams_ptsz, kInstantiate)   \
  X(cudaGraphLaunch, kLaunch)                            \
  X(cudaGraphLaunch_ptsz, kLaunch)                       \
  X(cudaGraphExecUpdate, kUpdate)                        \
  X(cudaGraphAddChildGraphNode, kAddChild)               \
  X(cudaGraphClone, kClone)                              \
  X(cudaGraphDestroy, kDestroy)                          \
  X(cudaGraphExecDestroy, kDestroyExec)                  \
  X(cudaGraphExecChildGraphNodeSetParams, kChangeInside) \
  X(cudaGraphNodeSetEnabled, kChangeInside)              \
  X(cuGraphInstantiate, kInstantiate)                    \
  X(cuGraphInstantiate_v2, kInstantiate)                 \
  X(cuGraphInstantiateWithFlags, kInstantiate)           \
  X(cuGraphInstantiateWithParams, kInstantiate)          \
  X(cuGraphInstantiateWithParams_ptsz, kInstantiate)     \
  X(cuGraphLaunch, kLaunch)                              \
  X(cuGraphLaunch_ptsz, kLaunch)                         \
  X(cuGraphExecUpdate, kUpdate)                          \
  X(cuGraphExecUpdate_v2, kUpdate)                       \
  X(cuGraphAddChildGraphNode, kAddChild)                 \
  X(cuGraphClone, kClone)                                \
  X(cuGraphDestroy, kDestroy)                            \
  X(cuGraphExecDestroy, kDestroyExec)                    \
  X(cuGraphExecChildGraphNodeSetParams, kChangeInside)   \
  X(cuGraphNodeSetEnabled, kChangeInside)

enum Function {
#define MFU_NUMBER(name, operation) k_##name,
  MFU_GRAPH_FUNCTIONS(MFU_NUMBER)
#undef MFU_NUMBER
      kFunctions
};
constinit void* originals[kFunctions] = {};

void before(Operation operation, void* first) {
  // Afterwards the handle may belong to somebody else.
  if (operation == Operation::kDestroy) gemm_counter::graphs().destroy(first);
  if (operation == Operation::kDestroyExec) gemm_counter::graphs().destroy_exec(first);
  if (operation == Operation::kChangeInside) gemm_counter::graphs().lose(first);
}

void after(Operation operation, void* first, void* second, void* fifth) {
  GraphGemms& graphs = gemm_counter::graphs();
  switch (operation) {
    case Operation::kInstantiate:
      return graphs.instantiate(*static_cast<void**>(first), second);
    case Operation::kLaunch:
      return graphs.launch(first);
    case Operation::kUpdate:
      return graphs.instantiate(first, second);
    case Operation::kAddChild:
      return graphs.add_child(second, fifth);
    case Operation::kClone:
      return graphs.clone(*static_cast<void**>(first), second);
    case Operation::kDestroy:
    case Operation::kDestroyExec:
    case Operation::kChangeInside:
      return;
  }
}

template <Function kNumber, Operation kOperation>
int call(void* a, void* b, void* c, void* d, void* e, void* f) {
  const auto original =
      reinterpret_cast<Words>(__atomic_load_n(&originals[kNumber], __ATOMIC_RELAXED));
  if (!gemm_counter::counts()) return original(a, b, c, d, e, f);
  // The runtime may reach the driver through us.
  const ThreadCall here;
  const bool outermost = here.kind() == ThreadCall::Kind::kOutermost;
  if (outermost) before(kOperation, a);
  const int result = original(a, b, c, d, e, f);
  if (outermost && result == 0) after(kOperation, a, b, e);
  return result;
}

const GotPatch::Symbol kSymbols[] = {
#define MFU_SYMBOL(name, operation) \
  {#name, reinterpret_cast<void*>(call<k_##name, Operation::operation>), &originals[k_##name]},
    MFU_GRAPH_FUNCTIONS(MFU_SYMBOL)
#undef MFU_SYMBOL
};

constexpr loaded_library::Function kFound[] = {
#define MFU_FOUND(name, operation) {#name, &originals[k_##name]},
    MFU_GRAPH_FUNCTIONS(MFU_FOUND)
#undef MFU_FOUND
};

// The driver's, to ask.
constinit void* is_capturing = nullptr;
constinit void* capture_info = nullptr;  // _v2 or _v3: the same but for a last pointer
constexpr loaded_library::Function kAsked[] = {
    {"cuStreamIsCapturing", &is_capturing},
    {"cuStreamGetCaptureInfo_v3", &capture_info},
    {"cuStreamGetCaptureInfo_v2", &capture_info},
};

enum CaptureStatus { kNone, kActive, kInvalidated };

}  // namespace

const GotPatch::Symbol* symbols(size_t* count) {
  for (void*& original : originals) original = GotPatch::nowhere();
  *count = std::size(kSymbols);
  return kSymbols;
}

void find_functions() {
  loaded_library::find("libcudart", kFound, std::size(kFound));
  loaded_library::find("libcuda", kFound, std::size(kFound));
  loaded_library::find("libcuda", kAsked, std::size(kAsked));
}

Capture capture_of(void* stream) {
  const auto ask =
      reinterpret_cast<int (*)(void*, int*)>(__atomic_load_n(&is_capturing, __ATOMIC_RELAXED));
  int status = kNone;
  if (ask == nullptr || ask(stream, &status) != 0) return {};
  if (status == kNone) return {Place::kRuns};
  if (status == kInvalidated) return {Place::kNowhere};
  const auto tell = reinterpret_cast<int (*)(void*, int*, uint64_t*, void**, void*, void*, void*)>(
      __atomic_load_n(&capture_info, __ATOMIC_RELAXED));
  Capture capture;
  void* graph = nullptr;
  if (tell == nullptr ||
      tell(stream, &status, &capture.id, &graph, nullptr, nullptr, nullptr) != 0 ||
      status != kActive || graph == nullptr) {
    return {};
  }
  capture.place = Place::kCaptured;
  capture.graph = graph;
  return capture;
}

}  // namespace mfu::graph_gate
