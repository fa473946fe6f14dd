// libcudart.so.13, as far as graphs go: what the driver does. In words: see cublas_names.hh.
#define GRAPH_FUNCTIONS(X)                                                    \
  X(cudaGraphInstantiate, cuGraphInstantiateWithFlags)                        \
  X(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags)               \
  X(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams)             \
  X(cudaGraphLaunch, cuGraphLaunch)                                           \
  X(cudaGraphLaunch_ptsz, cuGraphLaunch)                                      \
  X(cudaGraphExecUpdate, cuGraphExecUpdate_v2)                                \
  X(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode)                     \
  X(cudaGraphClone, cuGraphClone)                                             \
  X(cudaGraphDestroy, cuGraphDestroy)                                         \
  X(cudaGraphExecDestroy, cuGraphExecDestroy)                                 \
  X(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams) \
  X(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled)

extern "C" {
#define FAKE_RUNTIME(name, driver)                                                             \
  int driver(void*, void*, void*, void*, void*, void*);                                        \
  __attribute__((visibility("default"))) int name(void* a, void* b, void* c, void* d, void* e, \
                                                  void* f) {                                   \
    return driver(a, b, c, d, e, f);                                                           \
  }
GRAPH_FUNCTIONS(FAKE_RUNTIME)
}
