#include "topology/fabric.hh"

namespace mfu {
namespace {

struct LaneRate {
  std::string_view name;
  uint32_t mbps;
};
constexpr LaneRate kLaneRates[] = {
    {"SDR", 2500},  {"DDR", 5000},  {"QDR", 10000},  {"FDR10", 10312}, {"FDR", 14062},
    {"EDR", 25781}, {"HDR", 53125}, {"NDR", 106250}, {"XDR", 212500},
};

}  // namespace

uint32_t lane_rate_mbps(std::string_view name) {
  for (const LaneRate& rate : kLaneRates) {
    if (rate.name == name) return rate.mbps;
  }
  return 0;
}

std::string link_name(const FabricPort& port) {
  std::string name = port.width == 0 ? "?" : std::to_string(port.width);
  name += 'x';
  for (const LaneRate& rate : kLaneRates) {
    if (rate.mbps == port.lane_mbps) return name.append(rate.name);
  }
  return name + '?';
}

std::string clean_description(std::string_view description) {
  constexpr size_t kMost = 63;
  std::string clean(description.substr(0, kMost));
  for (char& byte : clean) {
    if (byte < 0x20 || byte > 0x7e) byte = ' ';
  }
  return clean;
}

}  // namespace mfu
