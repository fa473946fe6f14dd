// The rules about tasks: their CPUs, and which rank has which GPU.
#include <algorithm>
#include <functional>
#include <optional>

#include "topology/node_audit.hh"
#include "topology/step_gpus.hh"

namespace mfu {
namespace {

bool remote(const CpuSet& cpus, const PciDevice& gpu) {
  return !cpus.empty() && !gpu.cpus.empty() && !cpus.intersects(gpu.cpus);
}

// NUMA nodes and sockets of CPUs: "NUMA 0,1".
std::string numa_text(const NodeMap& map, const CpuSet& cpus) {
  std::string text;
  for (const NumaNode& node : map.numa) {
    if (node.gpu_memory || !node.cpus.intersects(cpus)) continue;
    text += (text.empty() ? "NUMA " : ",") + std::to_string(node.os_index);
  }
  return text;
}

std::vector<const TaskPlacement*> by_local_rank(const StepPlacement& step) {
  std::vector<const TaskPlacement*> tasks;
  for (const TaskPlacement& task : step.tasks) tasks.push_back(&task);
  std::sort(tasks.begin(), tasks.end(), [](const TaskPlacement* a, const TaskPlacement* b) {
    return a->local_rank < b->local_rank;
  });
  return tasks;
}

// For srun, one for all tasks of the node.
std::string binding(const NodeMap& map, const StepPlacement& step) {
  std::string nodes;
  for (const TaskPlacement* task : by_local_rank(step)) {
    const std::vector<size_t> used = used_gpus(map, step, *task);
    if (used.size() != 1 || map.gpus[used[0]].pci.numa < 0) {
      return step.tasks.size() == 1
                 ? "give the task CPUs near to all of its GPUs: srun --cpu-bind=none, or a larger "
                   "--cpus-per-task"
                 : "srun --gpu-bind=closest --cpu-bind=cores";
    }
    nodes += (nodes.empty() ? "" : ",") + std::to_string(map.gpus[used[0]].pci.numa);
  }
  return "srun --cpu-bind=map_ldom:" + nodes + ", or --gpu-bind=closest";
}

// A matching of tasks to GPUs near to them; none: there is none for all. `gpu_of` is by task.
class Matching {
 public:
  Matching(size_t tasks, size_t gpus, std::function<bool(size_t, size_t)> fits)
      : task_of_(gpus, tasks), gpu_of_(tasks, gpus), fits_(std::move(fits)) {}

  // Keeps what is near already.
  void assign(size_t task, size_t gpu) {
    task_of_[gpu] = task;
    gpu_of_[task] = gpu;
  }
  bool complete() {
    for (size_t task = 0; task < gpu_of_.size(); ++task) {
      std::vector<bool> tried(task_of_.size(), false);
      if (gpu_of_[task] == task_of_.size() && !place(task, &tried)) return false;
    }
    return true;
  }
  size_t gpu_of(size_t task) const { return gpu_of_[task]; }

 private:
  bool place(size_t task, std::vector<bool>* tried) {
    for (size_t gpu = 0; gpu < task_of_.size(); ++gpu) {
      if ((*tried)[gpu] || !fits_(task, gpu)) continue;
      (*tried)[gpu] = true;
      if (task_of_[gpu] < gpu_of_.size() && !place(task_of_[gpu], tried)) continue;
      assign(task, gpu);
      return true;
    }
    return false;
  }

  std::vector<size_t> task_of_;
  std::vector<size_t> gpu_of_;
  std::function<bool(size_t, size_t)> fits_;
};

}  // namespace

std::vector<Finding> audit_cpu_affinity(const NodeMap& map, const StepPlacement& step,
                                        const NodeAuditOptions&) {
  std::vector<Finding> findings;
  for (const TaskPlacement& task : step.tasks) {
    std::vector<std::string> far;
    bool coherent = false;
    for (const size_t index : used_gpus(map, step, task)) {
      const Gpu& gpu = map.gpus[index];
      if (!remote(task.cpus, gpu.pci)) continue;
      far.push_back(short_name(gpu) + " (" + where_is(gpu.pci) + ", CPUs " + gpu.pci.cpus.text() +
                    ")");
      coherent = coherent || gpu.coherent;
    }
    if (far.empty()) continue;
    const std::string numa = numa_text(map, task.cpus);
    findings.push_back(
        {"cpu-gpu-remote", coherent ? Severity::kHigh : Severity::kWarning, place_of(step, task),
         "runs on CPUs " + task.cpus.text() + (numa.empty() ? "" : " of " + numa) +
             ", none of them near to " + listed(far) +
             (coherent ? "; its memory is reached by NVLink-C2C from there only" : ""),
         binding(map, step)});
  }
  return findings;
}

std::vector<Finding> audit_rank_map(const NodeMap& map, const StepPlacement& step,
                                    const NodeAuditOptions&) {
  const std::vector<const TaskPlacement*> tasks = by_local_rank(step);
  const std::vector<size_t> gpus = owned_gpus(map, step);
  if (tasks.size() < 2 || gpus.size() < 2) return {};
  auto place_in = [&gpus](size_t gpu) {
    return static_cast<size_t>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin());
  };
  std::vector<size_t> used;  // by task, a place in `gpus`
  std::vector<std::vector<uint32_t>> ranks(gpus.size());
  for (const TaskPlacement* task : tasks) {
    const std::vector<size_t> own = used_gpus(map, step, *task);
    if (own.size() != 1) return {};
    used.push_back(place_in(own[0]));
    ranks[used.back()].push_back(task->rank);
  }

  std::vector<Finding> findings;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const auto idle = std::find_if(ranks.begin(), ranks.end(),
                                   [](const std::vector<uint32_t>& of) { return of.empty(); });
    if (ranks[i].size() < 2 || idle == ranks.end()) continue;
    std::vector<std::string> sharing;
    for (const uint32_t rank : ranks[i]) sharing.push_back(std::to_string(rank));
    const Gpu& unused = map.gpus[gpus[static_cast<size_t>(idle - ranks.begin())]];
    findings.push_back(
        {"rank-gpu-map", Severity::kWarning, place_of(step, map.gpus[gpus[i]]),
         "ranks " + listed(sharing) + " share it while " + short_name(unused) + " is idle",
         "srun --gpus-per-task=1 --gpu-bind=closest, or choose the device by "
         "SLURM_LOCALID"});
  }

  auto fits = [&](size_t task, size_t gpu) {
    return !remote(tasks[task]->cpus, map.gpus[gpus[gpu]].pci);
  };
  size_t far = 0;
  Matching matching(tasks.size(), gpus.size(), fits);
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (fits(task, used[task])) {
      if (ranks[used[task]].size() == 1) matching.assign(task, used[task]);
    } else {
      ++far;
    }
  }
  if (far == 0 || !matching.complete()) return findings;
  std::string order, bindings;
  for (size_t task = 0; task < tasks.size(); ++task) {
    const Gpu& gpu = map.gpus[gpus[matching.gpu_of(task)]];
    order += (task == 0 ? "" : ", ") + std::to_string(tasks[task]->rank) + " " + short_name(gpu);
    bindings += (task == 0 ? "" : ",") + std::to_string(matching.gpu_of(task));
  }
  findings.push_back({"rank-gpu-map", Severity::kWarning, step.node,
                      std::to_string(far) + " of " + std::to_string(tasks.size()) +
                          " ranks are far from their GPUs; none would be with ranks and GPUs as " +
                          order,
                      "srun --gpu-bind=map_gpu:" + bindings + ", or --gpu-bind=closest"});
  return findings;
}

}  // namespace mfu
