// What is wrong with a node, and with where a job step's tasks sit on it. Each rule is a function
// of what is known and nothing else; what is not known is no finding.
#ifndef MFU_TOPOLOGY_NODE_AUDIT_HH_
#define MFU_TOPOLOGY_NODE_AUDIT_HH_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topology/finding.hh"
#include "topology/node_map.hh"

namespace mfu {

// A task on this node.
struct TaskPlacement {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  CpuSet cpus;  // that it may run on; empty: unknown
  // What it sees, in the order of its CUDA device numbers, by bus id or UUID ("MIG-..." too);
  // empty: unknown. visible_gpus.hh makes it of the environment.
  std::vector<std::string> gpus;
  // Those of its variables that matter: NCCL_IB_HCA, NCCL_IB_DISABLE, CUDA_DEVICE_ORDER.
  std::map<std::string, std::string> environment;
};

struct StepPlacement {
  std::string node;              // its name, for Finding::place
  uint32_t nodes = 0;            // of the step; 1: its network is not judged; 0: unknown
  uint32_t tensor_parallel = 0;  // ranks of a tensor-parallel group; 0: unknown
  // Bus ids of the GPUs that Slurm gave it here, used or not; empty: unknown.
  std::vector<std::string> allocated;
  // Empty: the node itself is audited, all of it. Where those of some tasks are unknown, the rules
  // about single GPUs judge the known ones, and those about all of the step's GPUs nothing.
  std::vector<TaskPlacement> tasks;
};

struct NodeAuditOptions {
  std::vector<std::string> storage_nics;  // of the site, by name, beside those that look like it
  // Bus ids of GPUs that are computing now: only under load does a GPU's link run at full speed.
  std::vector<std::string> busy_gpus;
};

// All rules', in the order below, the most severe first.
std::vector<Finding> audit_node(const NodeMap& map, const StepPlacement& step,
                                const NodeAuditOptions& options = {});

using NodeRule = std::vector<Finding>(const NodeMap& map, const StepPlacement& step,
                                      const NodeAuditOptions& options);

// "cpu-gpu-remote", warning, high where the CPU is behind NVLink-C2C: none of a task's CPUs is near
// to a GPU of it.
NodeRule audit_cpu_affinity;
// "gpu-nic-remote": the nearest active RDMA adapter is on another socket. High where one of the
// GPU's own is not active; warning where there is none, since the node was built so.
// "no-active-nic", high: none of the node is active.
NodeRule audit_nearest_nic;
// "nic-down", high: an adapter that is the nearest to a GPU has no active port, nor has its card.
NodeRule audit_nic_ports;
// "nccl-hca", high: NCCL_IB_HCA takes none, leaves out a GPU's nearest, or names a storage adapter;
// or NCCL_IB_DISABLE is set.
NodeRule audit_nccl_hca;
// "pcie-link", high: slower lanes than both ends can, or fewer. Boards may be wired with fewer ones
// (Tesla M10: 8 of 16): a GPU's width is held against others of its model in the node, or where
// there are none, judged only below a quarter.
NodeRule audit_pcie;
// "no-nvlink": pairs of the step's GPUs on two sockets without NVLink. High inside a known
// tensor-parallel group; else warning, and only on nodes that have NVLinks, where as many other
// GPUs of the same models have no such pair, on nodes of at most 16: a step that could have no
// better ones, as one with all of the node's, is not told.
NodeRule audit_nvlinks;
// "nvlink-clique", high: GPUs of the step here are in several NVLink cliques, or some are in one
// and others have a fault in their NVLink fabric.
NodeRule audit_cliques;
// "gpu-order", warning: CUDA numbers the GPUs in another order than the PCI bus.
NodeRule audit_gpu_order;
// "rank-gpu-map", warning: ranks share a GPU while another is idle, or would all be near to their
// GPUs if they changed them among themselves.
NodeRule audit_rank_map;
// "mixed-gpus", information: GPUs of several models in one step.
NodeRule audit_gpu_models;
// "mig-multi-node", information: MIG slices in a step of several nodes.
NodeRule audit_mig;
// "fragmented-gpus", information: a step of several nodes uses a part of this node's GPUs. With the
// same share everywhere it fits into fewer: ceil(nodes * used / GPUs of the node) < nodes. Only
// where the GPUs of all tasks are known.
NodeRule audit_fragments;

// Gpu::clique of all GPUs of all tasks; empty where one is unknown, or they have several.
std::string clique_of(const NodeMap& map, const StepPlacement& step);

}  // namespace mfu

#endif
