// CUDA graphs, as far as the counting of GEMMs must know them: whether a stream is being captured,
// and into which graph; and what becomes of graphs, told by the program's own calls of the runtime
// or the driver, which are redirected here (got_patch.hh) and passed on.
#ifndef MFU_PROFILER_GRAPH_GATE_HH_
#define MFU_PROFILER_GRAPH_GATE_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/got_patch.hh"

namespace mfu::graph_gate {

const GotPatch::Symbol* symbols(size_t* count);
// The functions themselves, in the libraries that are there by now.
void find_functions();

enum class Place {
  kRuns,      // what is launched on the stream
  kCaptured,  // becomes part of a graph
  kNowhere,   // the capture has failed already
  kUnknown,
};
struct Capture {
  Place place = Place::kUnknown;
  uint64_t id = 0;  // of the capture: unique in the process
  const void* graph = nullptr;
};
// Of a cudaStream_t. One call of the driver, two while the stream is being captured.
Capture capture_of(void* stream);

}  // namespace mfu::graph_gate

#endif
