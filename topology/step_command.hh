// The command line of `mfu-topo step`: the audit of a job step's tasks on one node, for slurm-mfu's
// collector, which runs it as a child: discovery may hang or crash in a driver.
#ifndef MFU_TOPOLOGY_STEP_COMMAND_HH_
#define MFU_TOPOLOGY_STEP_COMMAND_HH_

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/finding.hh"
#include "topology/node_audit.hh"

namespace mfu {

// What is to be audited. A text of lines "key=value":
//   node=n1           the node's name         nodes=2        nodes of the step
//   allocated=0-1     its GPUs, as Slurm numbers them         confined=1   they alone can be opened
//                                                            (0: all can; ?: unknown)
//   map=FILE          how nodes of its kind are built, hwloc's or NCCL's XML: UUIDs, minor numbers
//                     and cliques of GPUs, ports and PCIe links as they are now are not taken from
//                     it; otherwise it is discovered, and kept in
//   cache=FILE        of a folder that only root writes to
//   fabric=FILE       the fabric's snapshot: the step's place in it is audited as well, of
//   hosts=n[1-2]      its nodes               names=FILE     NodeGUID or description -> node name
//   task=3,1          rank and local rank; the lines below are its
//   cpus=0-13         that it may run on
//   devices=0,2-3     N of each /dev/nvidiaN that it can open; `confined` does not count then: with
//                     --gpu-bind or --gpus-per-task each task may have a device cgroup of its own
//   env=NAME=VALUE    of its environment: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, NCCL_...
struct StepRequest {
  struct Task {
    TaskPlacement placement;
    CpuSet openable;  // minor numbers; empty: not told
    bool has_devices = false;
    std::string devices;  // CUDA_VISIBLE_DEVICES
  };
  std::string node, hosts, allocated, map, cache, fabric, names;
  uint32_t nodes = 0;
  std::optional<bool> confined;
  std::vector<Task> tasks;
};

// Errors name the line. Of a task's lines, those that make no sense are left out: the task's user
// wrote them.
tl::expected<StepRequest, std::string> parse_step_request(std::string_view text);

// Besides findings of the audits: tasks whose GPUs are not in the node's topology. Then no finding
// does not mean that all is well. Information.
inline constexpr char kGpusUnknown[] = "gpus-unknown";
// The same of a fabric that cannot be read, or that has none of the step's nodes.
inline constexpr char kFabricUnknown[] = "fabric-unknown";

struct StepAudit {
  std::vector<Finding> findings;
  // Gpu::clique that all GPUs of all tasks share: nodes of a step must have the same one to reach
  // each other by NVLink. Empty: a GPU or its clique is unknown, or there are several.
  std::string clique;
};

// Findings of the node and, with a fabric, of the step's place in it. `self`: mfu-topo's own path,
// for discovery. What the kernel says of ports, PCIe links and GPUs is read below `root` ("" or a
// capture).
tl::expected<StepAudit, std::string> audit_step(const StepRequest& request, const std::string& self,
                                                const std::string& root = {});

// "severity<TAB>rule<TAB>place<TAB>evidence<TAB>remedy", a line for each finding, and behind them
// "fact<TAB>clique<TAB>CLIQUE" where there is one; bytes that are not printable ASCII become '?'.
std::string write_step_findings(const StepAudit& audit);

// Arguments from behind "step" on: the request's file. 0, 1 (trouble, on standard error), 2
// (usage).
int run_step(int argc, char** argv);

}  // namespace mfu

#endif
