// Any bytes as a topology.conf, a topology.yaml, a hostlist or a map of names: no crash, no
// undefined behaviour; what is accepted comes back from our own writer with the same structure. The
// first byte chooses the format.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/host_list.hh"
#include "topology/slurm_nodes.hh"
#include "topology/topology_diff.hh"
#include "topology/topology_names.hh"
#include "topology/topology_yaml.hh"

namespace {

// Names that a writer can write: Slurm's.
bool writable(const mfu::Topology& topology) {
  auto all = [](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!mfu::is_node_name(name)) return false;
    }
    return true;
  };
  for (const auto& one : topology.switches) {
    if (!mfu::is_node_name(one.name) || !all(one.nodes) || !all(one.switches)) return false;
  }
  for (const auto& one : topology.blocks) {
    if (!mfu::is_node_name(one.name) || !all(one.nodes)) return false;
  }
  return mfu::is_node_name(topology.name) || topology.name.empty();
}

void same(const mfu::Topology& topology,
          const tl::expected<mfu::TopologyFile, std::string>& again) {
  if (!again || again->topologies.size() != 1) std::abort();
  if (!mfu::diff_topologies(topology, again->topologies[0]).empty()) std::abort();
}

void check(const mfu::TopologyFile& file) {
  if (!mfu::diff_topology_files(file, file).empty()) std::abort();
  for (mfu::Topology topology : file.topologies) {
    if (!writable(topology) || topology.kind == mfu::TopologyKind::kOther) continue;
    // Base blocks that are not said are the first block's, whose doubles a writer drops.
    if (topology.kind == mfu::TopologyKind::kBlock) continue;
    if (topology.kind == mfu::TopologyKind::kTree) {
      same(topology, mfu::parse_topology_conf(mfu::write_topology_conf(topology, {"x"}), "again"));
    }
    if (topology.name.empty()) topology.name = "t";
    same(topology, mfu::parse_topology_yaml(mfu::write_topology_yaml({topology}, {"x"}), "again"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      if (const auto file = mfu::parse_topology_conf(text, "f")) check(*file);
      break;
    case 1:
      if (const auto file = mfu::parse_topology_yaml(text, "f")) check(*file);
      break;
    case 2:
      if (const auto names = mfu::parse_node_list(text)) {
        const auto again = mfu::expand_hosts(mfu::compress_hosts(*names));
        if (!again) std::abort();
        auto sorted = *again;
        mfu::sort_hosts(&sorted);
        if (sorted != *names) std::abort();
      }
      break;
    default:
      if (const auto map = mfu::parse_name_map(text, "f")) {
        for (const auto& [key, name] : map->by_text) {
          if (key.empty() || !mfu::is_node_name(name)) std::abort();
        }
      }
  }
  return 0;
}
