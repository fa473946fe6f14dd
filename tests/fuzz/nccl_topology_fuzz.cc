// Any bytes as an NCCL topology: no crash, no undefined behaviour; and what is read is a node whose
// distances are the same from both sides, and which every rule can judge. The same bytes are also
// tried as a CPU list and as NCCL_IB_HCA.
#include <cstdlib>
#include <string_view>

#include "topology/nccl_hca.hh"
#include "topology/nccl_topology.hh"
#include "topology/node_audit.hh"

namespace {

constexpr size_t kMostCompared = 64;

void require(bool holds) {
  if (!holds) std::abort();
}

void judge(const mfu::NodeMap& map, std::string_view text) {
  require(map.nvlinks.empty() || map.nvlinks.size() == map.gpus.size() * map.gpus.size());
  for (size_t i = 0; i < map.gpus.size() && i < kMostCompared; ++i) {
    for (size_t j = 0; j < map.nics.size() && j < kMostCompared; ++j) {
      const mfu::PciDevice& gpu = map.gpus[i].pci;
      const mfu::PciDevice& nic = map.nics[j].pci;
      require(mfu::distance(map, gpu, nic) == mfu::distance(map, nic, gpu));
    }
  }
  mfu::StepPlacement step;
  for (size_t i = 0; i < map.gpus.size() && i < kMostCompared; ++i) {
    mfu::TaskPlacement task;
    task.rank = task.local_rank = static_cast<uint32_t>(i);
    task.gpus = {map.gpus[i].pci.bus_id};
    task.cpus = map.gpus[map.gpus.size() - 1 - i].pci.cpus;
    task.environment["NCCL_IB_HCA"] = text.substr(0, 100);
    step.tasks.push_back(std::move(task));
  }
  for (const mfu::Finding& finding : mfu::audit_node(map, step)) {
    require(!finding.rule.empty() && !finding.evidence.empty() && !finding.remedy.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto map = mfu::parse_nccl_topology(text, "fuzz");
  if (map) judge(*map, text);
  if (const auto set = mfu::CpuSet::from_list(text)) {
    require(set->empty() || mfu::CpuSet::from_list(set->text()) == set);
  }
  mfu::CpuSet::from_mask(text);
  mfu::HcaFilter(text).takes("mlx5_0", 1);
  return 0;
}
