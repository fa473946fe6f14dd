// The command line of `mfu-analyze flops`.
#ifndef MFU_PROFILER_FLOPS_COMMAND_HH_
#define MFU_PROFILER_FLOPS_COMMAND_HH_

namespace mfu {

// Arguments from behind "flops" on. Prints; returns an exit status: 0, 1 (a file or the output),
// 2 (usage).
int run_flops(int argc, char** argv);

}  // namespace mfu

#endif
