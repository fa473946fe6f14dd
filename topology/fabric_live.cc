#include "topology/fabric_live.hh"

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>

#include <memory>
#include <utility>

#include "topology/fabric_assembly.hh"

namespace mfu {
namespace {

constexpr uint32_t kExtendedSpeeds = 1U << 14;  // of PortInfo's CapabilityMask

FabricKind kind_of(const ibnd_node_t* node) {
  switch (node->type) {
    case IB_NODE_SWITCH:
      return FabricKind::kSwitch;
    case IB_NODE_ROUTER:
      return FabricKind::kRouter;
    default:
      return FabricKind::kAdapter;
  }
}

uint32_t field(const void* data, MAD_FIELDS name) {
  return mad_get_field(const_cast<void*>(data), 0, name);
}

uint8_t width_of(const ibnd_port_t* port) {
  switch (field(port->info, IB_PORT_LINK_WIDTH_ACTIVE_F)) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

// A switch says in its port 0 that its ports have the extended speeds.
bool has_extended_speeds(const ibnd_port_t* port) {
  const ibnd_port_t* says = port;
  if (port->node->type == IB_NODE_SWITCH) says = port->node->ports[0];
  return says != nullptr && (field(says->info, IB_PORT_CAPMASK_F) & kExtendedSpeeds) != 0;
}

uint32_t lane_mbps_of(const ibnd_port_t* port) {
  const uint32_t extended =
      has_extended_speeds(port) ? field(port->info, IB_PORT_LINK_SPEED_EXT_ACTIVE_F) : 0;
  switch (extended) {
    case 0:
      break;
    case 1:
      return lane_rate_mbps("FDR");
    case 2:
      return lane_rate_mbps("EDR");
    case 4:
      return lane_rate_mbps("HDR");
    case 8:
      return lane_rate_mbps("NDR");
    default:
      return 0;
  }
  switch (field(port->info, IB_PORT_LINK_SPEED_ACTIVE_F)) {
    case 1:
      return lane_rate_mbps("SDR");
    case 2:
      return lane_rate_mbps("DDR");
    case 4: {
      const uint32_t mellanox = field(port->ext_info, IB_MLNX_EXT_PORT_LINK_SPEED_ACTIVE_F);
      return lane_rate_mbps((mellanox & 1) != 0 ? "FDR10" : "QDR");
    }
    default:
      return 0;
  }
}

FabricNode node_of(const ibnd_node_t* from) {
  FabricNode node;
  node.kind = kind_of(from);
  node.guid = from->guid;
  node.system_guid = mad_get_field64(const_cast<uint8_t*>(from->info), 0, IB_NODE_SYSTEM_GUID_F);
  node.vendor = field(from->info, IB_NODE_VENDORID_F);
  node.device = field(from->info, IB_NODE_DEVID_F);
  node.port_count = static_cast<uint32_t>(from->numports);
  node.description = clean_description(from->nodedesc);
  if (node.kind == FabricKind::kSwitch) node.lid = from->smalid;
  return node;
}

}  // namespace

tl::expected<Fabric, std::string> discover_fabric(const LiveOptions& options) {
  ibnd_config_t config{};
  config.timeout_ms = options.timeout_ms;
  config.max_smps = options.packets;
  config.flags = IBND_CONFIG_MLX_EPI;
  std::string adapter = options.adapter;
  const std::unique_ptr<ibnd_fabric_t, void (*)(ibnd_fabric_t*)> found(
      ibnd_discover_fabric(adapter.empty() ? nullptr : adapter.data(),
                           static_cast<int>(options.port), nullptr, &config),
      ibnd_destroy_fabric);
  if (found == nullptr) {
    return tl::unexpected("InfiniBand discovery failed" +
                          (adapter.empty() ? std::string() : " from " + adapter) +
                          ": is a port active, and may this user open /dev/infiniband/umad*?");
  }
  FabricAssembly assembly;
  for (const ibnd_node_t* node = found->nodes; node != nullptr; node = node->next) {
    if (const auto added = assembly.add_node(node_of(node), 0); !added) {
      return tl::unexpected("InfiniBand discovery: " + added.error().text);
    }
  }
  for (const ibnd_node_t* node = found->nodes; node != nullptr; node = node->next) {
    ToldLink link;
    link.node = assembly.find(node->guid);
    for (int number = 1; number <= node->numports; ++number) {
      const ibnd_port_t* port = node->ports[number];
      if (port == nullptr || port->remoteport == nullptr) continue;
      uint32_t& lid = assembly.node(link.node).lid;
      if (node->type != IB_NODE_SWITCH && lid == 0) lid = port->base_lid;
      link.port.number = static_cast<uint32_t>(number);
      link.port.peer_port = static_cast<uint32_t>(port->remoteport->portnum);
      link.port.width = width_of(port);
      link.port.lane_mbps = lane_mbps_of(port);
      link.peer_guid = port->remoteport->node->guid;
      link.peer_kind = kind_of(port->remoteport->node);
      assembly.add_link(link);
    }
  }
  auto fabric = assembly.finish();
  if (!fabric) return tl::unexpected("InfiniBand discovery: " + fabric.error().text);
  return std::move(*fabric);
}

}  // namespace mfu
