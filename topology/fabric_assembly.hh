// Puts a fabric together from nodes and from links as their ends tell them.
//
// A link may be told by one end only (the other end did not answer, or was cut out of the file):
// the other end is added, and a node that nobody described too. Two ends that tell different
// stories are an error.
#ifndef MFU_TOPOLOGY_FABRIC_ASSEMBLY_HH_
#define MFU_TOPOLOGY_FABRIC_ASSEMBLY_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/fabric.hh"

namespace mfu {

// A port number is a byte, and 255 is none of a single port.
inline constexpr uint32_t kMostFabricPorts = 254;
// Two full subnets have fewer. Bounds what a hostile file can cost.
inline constexpr size_t kMostFabricNodes = 262144;

// Where something was told: a line of a file, or 0. The text is empty if all went well.
struct FabricError {
  uint32_t line = 0;
  std::string text;
};

// A link as one end tells it.
struct ToldLink {
  uint32_t node = 0;  // this end
  FabricPort port;    // its `peer` is not used
  uint64_t peer_guid = 0;
  FabricKind peer_kind = FabricKind::kSwitch;
  uint32_t peer_lid = 0;
  std::string_view peer_description;  // must live until finish()
  uint32_t line = 0;
};

class FabricAssembly {
 public:
  // Index of the node, or an error: it was there before.
  tl::expected<uint32_t, FabricError> add_node(FabricNode node, uint32_t line);
  // For formats that tell a node with each of its ports.
  uint32_t find(uint64_t guid) const { return fabric_.find(guid); }
  FabricNode& node(uint32_t index) { return fabric_.nodes[index]; }
  size_t nodes() const { return fabric_.nodes.size(); }

  // Room for about so many.
  void expect(size_t nodes, size_t links) {
    fabric_.nodes.reserve(nodes);
    fabric_.by_guid.reserve(nodes);
    links_.reserve(links);
  }
  void add_link(const ToldLink& link) { links_.push_back(link); }

  tl::expected<Fabric, FabricError> finish();
  // Links that finish() dropped.
  uint32_t contradictions() const { return contradictions_; }

 private:
  FabricError resolve_peers();
  FabricError sort_links();
  void add_other_ends();

  Fabric fabric_;
  std::vector<ToldLink> links_;  // peer resolved by resolve_peers()
  uint32_t contradictions_ = 0;
};

}  // namespace mfu

#endif
