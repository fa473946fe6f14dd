// Training steps from the program's own NVTX ranges; the only file that knows NVTX is nvtx_gate.cc.
//
// Opt-in: NVTX loads one injection library a process, which NVTX_INJECTION64_PATH names, and calls
// its InitializeInjectionNvtx2. Where that variable does not name ours, nothing of this runs.
//
// Counted are ranges whose name is a training step's (is_step_range()), or exactly the one that the
// variable MFU_STEP_RANGE names, if it is set: in any domain, pushed and popped, or started and
// ended. Of nested ones of a thread the outermost counts. Each thread and domain counts for itself,
// as do started ranges by domain and name (numbers aside); the series with most steps is the job's.
// A range counts when it ends.
//
// Any thread, no lock that can be waited for, no allocation; a range that is no step costs a look
// at its name and at the thread's depth.
#ifndef MFU_PROFILER_NVTX_GATE_HH_
#define MFU_PROFILER_NVTX_GATE_HH_

#include "profiler/steps.hh"

namespace mfu::nvtx_gate {

// From the start of the first step to that of the last one that ended; CLOCK_REALTIME. Source
// kNvtx, or kNone when no step has ended.
StepEstimate estimate();

}  // namespace mfu::nvtx_gate

#endif
