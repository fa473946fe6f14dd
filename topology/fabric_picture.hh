// A fabric for people's eyes: as text, as an SVG, and as JSON for their scripts.
#ifndef MFU_TOPOLOGY_FABRIC_PICTURE_HH_
#define MFU_TOPOLOGY_FABRIC_PICTURE_HH_

#include <cstddef>
#include <cstdint>
#include <string>

#include "topology/fabric_figures.hh"

namespace mfu {

struct FabricPicture {
  const Fabric& fabric;
  const FabricRoles& roles;
  const FabricFigures& figures;
  std::string name;      // of the file, for the title
  int64_t taken_at = 0;  // Unix time; 0: unknown
};

// Islands, pods, units, leaves. What is equal is told once: leaves of a unit, units of a pod, and
// pods, unless something was found in them; `all` tells every leaf. Names are cut so that lines
// have about `columns` characters.
std::string draw_fabric(const FabricPicture& picture, size_t columns, bool all = false);

// A self-contained SVG: spines and cores above, units with their leaves below, coloured by the most
// severe finding of each.
std::string draw_fabric_svg(const FabricPicture& picture);

// {"fabric": NAME, "taken_at": "2026-...Z", counts, "islands": [{"pods": [{"units": [{"hosts":
// HOSTLIST, "leaves": [...]}]}]}]}, what is unknown is null.
std::string fabric_json(const FabricPicture& picture);

// "2026-11-30T12:00:00Z", or empty for 0.
std::string time_text(int64_t seconds);
// "582 adapters (69 without a host's name, 40 in switches), 138 hosts, ...": what there is of each.
std::string fabric_summary(const FabricPicture& picture);

}  // namespace mfu

#endif
