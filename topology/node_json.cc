#include <nlohmann/json.hpp>

#include "topology/fabric_places.hh"
#include "topology/node_picture.hh"
#include "topology/step_gpus.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}
Json known(uint64_t number) {
  return number == 0 ? Json() : Json(number);
}
Json index_json(int32_t index) {
  return index < 0 ? Json() : Json(index);
}
Json cpus_json(const CpuSet& cpus) {
  return cpus.empty() ? Json() : Json(cpus.text());
}

void add_pci(const PciDevice& pci, Json* json) {
  (*json)["bus_id"] = known(pci.bus_id);
  (*json)["numa"] = index_json(pci.numa);
  (*json)["socket"] = index_json(pci.package);
  (*json)["cpus"] = cpus_json(pci.cpus);
  (*json)["pcie"] = {{"lane_megatransfers", known(pci.link.speed_mts)},
                     {"lanes", known(pci.link.width)},
                     {"most_lane_megatransfers", known(pci.link.max_speed_mts)},
                     {"most_lanes", known(pci.link.max_width)}};
}

Json gpu_json(const NodeMap& map, size_t index) {
  const Gpu& gpu = map.gpus[index];
  Json json = {{"name", short_name(gpu)},        {"model", known(gpu.model)},
               {"uuid", known(gpu.uuid)},        {"cuda_index", index_json(gpu.cuda_index)},
               {"minor", index_json(gpu.minor)}, {"mig_instances", gpu.mig_instances},
               {"clique", known(gpu.clique)},    {"fabric_fault", known(gpu.fabric_fault)}};
  add_pci(gpu.pci, &json);
  Json gpus = Json::object();
  Json nics = Json::object();
  Json nvlinks = map.nvlinks.empty() ? Json() : Json::array();
  for (const size_t other : gpu_order(map)) {
    if (other == index) continue;
    gpus[short_name(map.gpus[other])] = distance_name(distance(map, gpu.pci, map.gpus[other].pci));
    if (!map.nvlinks.empty() && map.nvlinked(index, other)) {
      nvlinks.push_back(short_name(map.gpus[other]));
    }
  }
  for (const size_t nic : nic_order(map)) {
    if (!map.nics[nic].rdma) continue;
    nics[map.nics[nic].name] = distance_name(distance(map, gpu.pci, map.nics[nic].pci));
  }
  json["gpu_distances"] = std::move(gpus);
  json["nic_distances"] = std::move(nics);
  json["nvlinks"] = std::move(nvlinks);
  return json;
}

Json nic_json(const Nic& nic) {
  Json json = {{"name", nic.name},
               {"rdma", nic.rdma},
               {"state", nic_state(nic)},
               {"node_guid", nic.node_guid == 0 ? Json() : Json(guid_text(nic.node_guid))}};
  add_pci(nic.pci, &json);
  Json ports = Json::array();
  for (const NicPort& port : nic.ports) {
    constexpr const char* kLayers[] = {nullptr, "InfiniBand", "Ethernet"};
    const char* layer = kLayers[static_cast<size_t>(port.layer)];
    ports.push_back({{"number", port.number},
                     {"state", port_state_name(port.state)},
                     {"physical", known(port.physical)},
                     {"lid", port.lid == kNoLid ? Json() : known(port.lid)},
                     {"rate_mbps", known(port.rate_mbps)},
                     {"link_layer", layer == nullptr ? Json() : Json(layer)}});
  }
  json["ports"] = std::move(ports);
  return json;
}

}  // namespace

std::string node_json(const NodeMap& map, const std::string& name) {
  Json json = {{"node", name}, {"sockets", map.packages}, {"cpus", cpus_json(map.cpus)}};
  Json numa = Json::array();
  for (const NumaNode& node : map.numa) {
    numa.push_back({{"index", node.os_index},
                    {"cpus", cpus_json(node.cpus)},
                    {"bytes", known(node.bytes)},
                    {"gpu_memory", node.gpu_memory}});
  }
  Json gpus = Json::array();
  for (const size_t gpu : gpu_order(map)) gpus.push_back(gpu_json(map, gpu));
  Json nics = Json::array();
  for (const size_t nic : nic_order(map)) nics.push_back(nic_json(map.nics[nic]));
  json["numa"] = std::move(numa);
  json["gpus"] = std::move(gpus);
  json["nics"] = std::move(nics);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mfu
