#include <nlohmann/json.hpp>

#include "topology/fabric_picture.hh"
#include "topology/fabric_places.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

Json rates_json(const LinkRates& rates) {
  Json json = Json::object();
  for (const auto& [rate, links] : rates) json[rate] = links;
  return json;
}

Json rules_json(const FindingCount& findings) {
  Json json = Json::object();
  for (const auto& [rule, count] : findings.rules) json[rule] = count;
  return json;
}

Json unit_json(const FabricPicture& picture, uint32_t unit) {
  const FabricUnit& of = picture.roles.units[unit];
  Json leaves = Json::array();
  for (const uint32_t index : of.leaves) {
    const FabricLeaf& leaf = picture.roles.leaves[index];
    const LeafFigures& figures = picture.figures.leaves[index];
    leaves.push_back({{"name", figures.name},
                      {"guid", guid_text(picture.fabric.nodes[leaf.node].guid)},
                      {"rail", leaf.rail == kNoIndex ? Json() : Json(leaf.rail)},
                      {"device", leaf.device.empty() ? Json() : Json(leaf.device)},
                      {"host_ports", leaf.host_ports},
                      {"uplinks", leaf.uplinks},
                      {"host_links", rates_json(figures.host_links)},
                      {"uplink_rates", rates_json(figures.uplinks)},
                      {"findings", rules_json(figures.findings)}});
  }
  return {{"unit", unit},
          {"hosts", picture.figures.units[unit].hosts},
          {"host_count", of.hosts.size()},
          {"rails", of.rails},
          {"findings", rules_json(picture.figures.units[unit].findings)},
          {"leaves", std::move(leaves)}};
}

Json pod_json(const FabricPicture& picture, uint32_t pod) {
  const PodFigures& figures = picture.figures.pods[pod];
  Json units = Json::array();
  for (const uint32_t unit : picture.roles.pods[pod].units) {
    units.push_back(unit_json(picture, unit));
  }
  Json spines = Json::array();
  for (const uint32_t spine : figures.spines) {
    spines.push_back(switch_place(picture.fabric.nodes[spine]));
  }
  return {{"pod", pod},
          {"host_links", rates_json(figures.host_links)},
          {"uplinks", rates_json(figures.uplinks)},
          {"spine_uplinks", rates_json(figures.spine_uplinks)},
          {"spines", std::move(spines)},
          {"units", std::move(units)}};
}

}  // namespace

std::string fabric_json(const FabricPicture& picture) {
  const FabricFigures& figures = picture.figures;
  Json islands = Json::array();
  for (uint32_t pod = 0; pod < picture.roles.pods.size(); ++pod) {
    const uint32_t island = picture.roles.pods[pod].island;
    while (islands.size() <= island) {
      islands.push_back({{"island", islands.size()}, {"pods", Json::array()}});
    }
    islands[island]["pods"].push_back(pod_json(picture, pod));
  }
  const std::string time = time_text(picture.taken_at);
  const Json json = {{"fabric", picture.name},
                     {"taken_at", time.empty() ? Json() : Json(time)},
                     {"hosts", picture.roles.hosts.size()},
                     {"adapters", figures.adapters},
                     {"unnamed_adapters", figures.unnamed},
                     {"service_adapters", figures.service},
                     {"aggregation_nodes", figures.aggregation},
                     {"switches", figures.switches},
                     {"leaves", picture.roles.leaves.size()},
                     {"cores", figures.cores},
                     {"rails", picture.roles.rails},
                     {"findings", rules_json(figures.findings)},
                     {"islands", std::move(islands)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mfu
