// Which adapters are of one machine, and what it is called.
//
// Nothing on the wire says it. In this order: the names given from outside; the description
// ("a08-p1-dgx-04-c01 mlx5_5": host and device); for an adapter without a name, another one of the
// same SystemImageGUID. A name that installers leave behind, or one that comes twice with the same
// device, is nobody's.
#ifndef MFU_TOPOLOGY_FABRIC_HOSTS_HH_
#define MFU_TOPOLOGY_FABRIC_HOSTS_HH_

#include <string>
#include <string_view>

#include "topology/fabric_roles.hh"

namespace mfu {

// "node1 HCA-5" -> "node1" and "mlx5_4". Both empty: a vendor's text.
struct DescribedAdapter {
  std::string host;
  std::string device;
};
DescribedAdapter described_adapter(std::string_view description);

// Fills adapters, devices, host_of, hosts and service_hosts (by name, without unit and ports) and
// host_by_name.
void find_hosts(const Fabric& fabric, const NodeNames& names, FabricRoles* roles);

}  // namespace mfu

#endif
