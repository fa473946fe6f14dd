// The command lines of `mfu-topo show` and `mfu-topo snapshot`.
#ifndef MFU_TOPOLOGY_SHOW_COMMAND_HH_
#define MFU_TOPOLOGY_SHOW_COMMAND_HH_

namespace mfu {

// Arguments from behind the command on. Exit status: 0, 1 (a file, the discovery, the output), 2
// (usage).
int run_show(int argc, char** argv);
int run_snapshot(int argc, char** argv);

}  // namespace mfu

#endif
