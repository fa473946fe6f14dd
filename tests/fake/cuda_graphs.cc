// CUDA graphs of the fake driver: streams that can be captured, and graphs of which nothing is
// known but that they exist. Handles come from the heap, so that a new graph may well lie where a
// destroyed one lay.
#include <cuda.h>

#include <atomic>

struct CUstream_st {
  CUgraph captured = nullptr;  // nullptr: the stream is not being captured
  cuuint64_t capture_id = 0;
  bool owns = false;  // the graph is the capture's own
  bool invalid = false;
};
struct CUgraph_st {
  int unused = 0;
};
struct CUgraphExec_st {
  std::atomic<long> launches = 0;
};
struct CUgraphNode_st {
  int unused = 0;
};

namespace {

std::atomic<cuuint64_t> last_capture = 0;
CUgraphNode_st a_node;

CUresult begin(CUstream stream, CUgraph graph, bool owns) {
  if (stream == nullptr || stream->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *stream = {graph, ++last_capture, owns, false};
  return CUDA_SUCCESS;
}

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph) {
  const bool active = stream != nullptr && stream->captured != nullptr;
  *status = !active           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!active) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture_id;
  if (graph != nullptr) *graph = stream->captured;
  return CUDA_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

CUresult cuStreamCreate(CUstream* out, unsigned int) {
  *out = new CUstream_st;
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return begin(stream, new CUgraph_st, true);
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode*,
                                     const CUgraphEdgeData*, size_t, CUstreamCaptureMode) {
  return begin(stream, graph, false);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (stream == nullptr || stream->captured == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = stream->invalid ? nullptr : stream->captured;
  const CUresult result = stream->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (stream->invalid && stream->owns) delete stream->captured;
  *stream = {};
  return result;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return capture_info(stream, status, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode**, size_t*) {
  return capture_info(stream, status, id, graph);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode**, const CUgraphEdgeData**,
                                   size_t*) {
  return capture_info(stream, status, id, graph);
}
// Something that may not be captured was called.
void fakeGpuInvalidateCapture(CUstream stream) {
  stream->invalid = true;
}

CUresult cuGraphCreate(CUgraph* out, unsigned int) {
  *out = new CUgraph_st;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphClone(CUgraph* out, CUgraph) {
  return cuGraphCreate(out, 0);
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph, const CUgraphNode*, size_t, CUgraph) {
  *node = &a_node;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUgraphExec_st;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  return cuGraphInstantiateWithFlags(out, graph, 0);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return cuGraphInstantiateWithFlags(out, graph, 0);
}
CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  return graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}
CUresult cuGraphNodeSetEnabled(CUgraphExec, CUgraphNode, unsigned int) {
  return CUDA_SUCCESS;
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec, CUgraphNode, CUgraph) {
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream != nullptr && stream->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  ++exec->launches;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}
}
#pragma GCC visibility pop
