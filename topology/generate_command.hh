// The command lines of `mfu-topo generate` and `mfu-topo diff`.
#ifndef MFU_TOPOLOGY_GENERATE_COMMAND_HH_
#define MFU_TOPOLOGY_GENERATE_COMMAND_HH_

namespace mfu {

// Arguments from behind "generate" on. Prints a topology.conf or topology.yaml, and what it left
// out on standard error; returns an exit status: 0, 1 (a file, the output, or nothing to generate),
// 2 (usage).
int run_generate(int argc, char** argv);

// Arguments from behind "diff" on. As diff(1): 0 the same, 1 different, 2 trouble.
int run_diff(int argc, char** argv);

}  // namespace mfu

#endif
