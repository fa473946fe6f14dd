// How findings call the parts of a fabric.
#ifndef MFU_TOPOLOGY_FABRIC_PLACES_HH_
#define MFU_TOPOLOGY_FABRIC_PLACES_HH_

#include <string>

#include "topology/fabric_roles.hh"

namespace mfu {

// "0x2c5eab0300b87b40".
std::string guid_text(uint64_t guid);
// "A09-P1-IBLEAF-04-04"; with the GUID where the description is a vendor's.
std::string switch_place(const FabricNode& node);
// "node7 mlx5_4", or the description where there is no host.
std::string adapter_place(const Fabric& fabric, const FabricRoles& roles, uint32_t adapter);
// "4 adapters", "1 adapter".
std::string counted(uint64_t count, const char* noun);

}  // namespace mfu

#endif
