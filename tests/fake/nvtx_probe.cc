// Lets a test see what the NVTX gate counts: linked with the gate's objects into a library that
// NVTX loads as it would load ours.
#include "profiler/nvtx_gate.hh"

extern "C" __attribute__((visibility("default"))) void nvtxProbeSteps(mfu::StepEstimate* out) {
  *out = mfu::nvtx_gate::estimate();
}
