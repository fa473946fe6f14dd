#include "topology/step_gpus.hh"

#include <algorithm>

namespace mfu {
namespace {

constexpr size_t kMostListed = 16;

std::string named_place(const StepPlacement& step, const std::string& name,
                        const std::string& bus_id) {
  std::string place = step.node.empty() ? name : step.node + " " + name;
  if (!bus_id.empty() && bus_id != name) place += " " + bus_id;
  return place;
}

// In any order.
bool same_gpus(const TaskPlacement& a, const TaskPlacement& b) {
  return std::is_permutation(a.gpus.begin(), a.gpus.end(), b.gpus.begin(), b.gpus.end());
}

std::vector<size_t> found_gpus(const NodeMap& map, const std::vector<std::string>& ids) {
  std::vector<size_t> indices;
  for (const std::string& id : ids) {
    if (const int index = map.find_gpu(id); index >= 0)
      indices.push_back(static_cast<size_t>(index));
  }
  return indices;
}

// In order of bus ids.
std::vector<size_t> each_once(const NodeMap& map, std::vector<size_t> indices) {
  std::sort(indices.begin(), indices.end(),
            [&map](size_t a, size_t b) { return map.gpus[a].pci.bus_id < map.gpus[b].pci.bus_id; });
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace

std::vector<size_t> seen_gpus(const NodeMap& map, const TaskPlacement& task) {
  return found_gpus(map, task.gpus);
}

std::vector<size_t> used_gpus(const NodeMap& map, const StepPlacement& step,
                              const TaskPlacement& task) {
  std::vector<size_t> seen = seen_gpus(map, task);
  const size_t tasks = step.tasks.size();
  const bool all_see_all =
      tasks > 1 && std::all_of(step.tasks.begin(), step.tasks.end(),
                               [&](const TaskPlacement& other) { return same_gpus(task, other); });
  if (!all_see_all || seen.size() != tasks || task.local_rank >= tasks) return seen;
  return {seen[task.local_rank]};
}

bool all_gpus_known(const NodeMap& map, const StepPlacement& step) {
  return !step.tasks.empty() &&
         std::all_of(step.tasks.begin(), step.tasks.end(), [&map](const TaskPlacement& task) {
           return !task.gpus.empty() && seen_gpus(map, task).size() == task.gpus.size();
         });
}

bool some_gpus_unknown(const NodeMap& map, const StepPlacement& step) {
  return !step.tasks.empty() && !all_gpus_known(map, step);
}

std::vector<size_t> step_gpus(const NodeMap& map, const StepPlacement& step) {
  std::vector<size_t> indices;
  for (const TaskPlacement& task : step.tasks) {
    for (const size_t index : seen_gpus(map, task)) indices.push_back(index);
  }
  if (step.tasks.empty()) {
    for (size_t i = 0; i < map.gpus.size(); ++i) indices.push_back(i);
  }
  return each_once(map, std::move(indices));
}

std::vector<size_t> owned_gpus(const NodeMap& map, const StepPlacement& step) {
  std::vector<size_t> indices = step_gpus(map, step);
  for (const size_t index : found_gpus(map, step.allocated)) indices.push_back(index);
  return each_once(map, std::move(indices));
}

std::string short_name(const Gpu& gpu) {
  return gpu.name.empty() || gpu.name.starts_with("pci:") ? gpu.pci.bus_id : gpu.name;
}

std::string place_of(const StepPlacement& step, const Gpu& gpu) {
  const bool named = short_name(gpu) != gpu.pci.bus_id;
  return named_place(step, named ? gpu.name : "GPU", gpu.pci.bus_id);
}

std::string place_of(const StepPlacement& step, const Nic& nic) {
  return named_place(step, nic.name, nic.pci.bus_id);
}

std::string place_of(const StepPlacement& step, const TaskPlacement& task) {
  return named_place(step, "rank " + std::to_string(task.rank), {});
}

std::string where_is(const PciDevice& pci) {
  std::string where;
  if (pci.numa >= 0) where = "NUMA " + std::to_string(pci.numa);
  if (pci.package >= 0) {
    where += (where.empty() ? "socket " : ", socket ") + std::to_string(pci.package);
  }
  return where.empty() ? "an unknown place" : where;
}

std::string listed(const std::vector<std::string>& names, const char* separator) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i) {
    text += (i == 0 ? "" : separator) + names[i];
  }
  if (names.size() > kMostListed) {
    text += " and " + std::to_string(names.size() - kMostListed) + " more";
  }
  return text;
}

}  // namespace mfu
