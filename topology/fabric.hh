// An InfiniBand fabric as a graph: switches, channel adapters, and the links between their ports.
// Read from ibnetdiscover's text (fabric_text.hh) or from libibnetdisc (fabric_live.hh).
#ifndef MFU_TOPOLOGY_FABRIC_HH_
#define MFU_TOPOLOGY_FABRIC_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mfu {

enum class FabricKind : uint8_t { kSwitch, kAdapter, kRouter };

inline constexpr uint32_t kNoFabricNode = UINT32_MAX;

// Of a link, seen from one of its ends.
struct FabricPort {
  uint32_t number = 0;            // from 1
  uint32_t peer = kNoFabricNode;  // index into Fabric::nodes
  uint32_t peer_port = 0;
  uint8_t width = 0;       // lanes: 1, 2, 4, 8, 12; 0: unknown
  uint32_t lane_mbps = 0;  // signalling rate of a lane by its name: SDR 2500, DDR 5000, QDR
                           // 10000, FDR10 10312, FDR 14062, EDR 25781, HDR 53125, NDR
                           // 106250, XDR 212500; 0: unknown
  bool operator==(const FabricPort&) const = default;
};

struct FabricNode {
  FabricKind kind = FabricKind::kAdapter;
  uint64_t guid = 0;         // NodeGUID
  uint64_t system_guid = 0;  // SystemImageGUID; 0: unknown
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t lid = 0;               // of port 0 (switch) or of the first port; 0: unknown
  uint32_t port_count = 0;        // that it has
  std::string description;        // NodeDescription by clean_description(): not unique
  std::vector<FabricPort> ports;  // linked ones only, by number
  bool operator==(const FabricNode&) const = default;
};

// Vendors count GUIDs up in large strides: spreads them over a table.
struct GuidHash {
  size_t operator()(uint64_t guid) const {
    guid = (guid ^ (guid >> 32)) * 0x9e3779b97f4a7c15;
    return guid ^ (guid >> 29);
  }
};

struct Fabric {
  std::vector<FabricNode> nodes;
  std::unordered_map<uint64_t, uint32_t, GuidHash> by_guid;  // index of each

  // Index by NodeGUID, or kNoFabricNode.
  uint32_t find(uint64_t guid) const {
    const auto found = by_guid.find(guid);
    return found == by_guid.end() ? kNoFabricNode : found->second;
  }
};

// "4xNDR", "4x?", "?x?": of a port.
std::string link_name(const FabricPort& port);
// "NDR" -> 106250; 0: not known.
uint32_t lane_rate_mbps(std::string_view name);
// A NodeDescription as ibnetdiscover prints it: 63 bytes at most, blanks for what is not printable
// ASCII. Any user who is root on a node chooses its bytes.
std::string clean_description(std::string_view description);

}  // namespace mfu

#endif
