// Counts the FLOPs of matrix multiplications, without changes to the program: calls of cuBLAS and
// cublasLt (cublas_gate.hh), and launches of CUDA graphs that hold some (graph_gate.hh), are
// redirected to us, wherever in the process they are made.
//
// Not counted, and not known to be missing but by their kernels: what was called before the
// library that calls was seen (it is looked for by apply()), GEMMs of other libraries (CUTLASS,
// Triton, cuDNN's own), of a cuBLAS that is linked statically, of the second one if a process has
// two, the calls of cuBLAS's first interface (cublasSgemm without a handle), which do not say
// whether they succeeded, and launches of graphs by a CUDA runtime that is linked statically.
#ifndef MFU_PROFILER_GEMM_COUNTER_HH_
#define MFU_PROFILER_GEMM_COUNTER_HH_

#include "profiler/gemm_calls.hh"
#include "profiler/graph_gemms.hh"

namespace mfu::gemm_counter {

// In the process's first cuInit. False: it is off.
bool open();
// Redirects what has been loaded since. For one thread at a time.
void apply();
// In a forked child: calls are passed on, and that is all.
void abandon();

// The shapes and their sums so far; valid until the next call. False: it is off, or not now, as
// somebody is in the middle of a change of graphs. For the thread that calls apply().
struct Snapshot {
  GemmCount shapes[GemmTable::kShapes];  // in no order; unused ones are empty()
  GemmSums sums;
  UnlistedGemms unlisted;
};
bool take(const Snapshot** out);

// For the gates.
bool counts();
GemmTable& table();
GraphGemms& graphs();

}  // namespace mfu::gemm_counter

#endif
