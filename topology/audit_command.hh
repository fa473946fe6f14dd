// The command line of `mfu-topo audit`.
#ifndef MFU_TOPOLOGY_AUDIT_COMMAND_HH_
#define MFU_TOPOLOGY_AUDIT_COMMAND_HH_

namespace mfu {

// Arguments from behind "audit" on. Exit status: 0 nothing above information, 1 warnings, 2 high
// findings, 3 trouble or usage.
int run_audit(int argc, char** argv);

}  // namespace mfu

#endif
