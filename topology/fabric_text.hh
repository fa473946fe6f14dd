// An InfiniBand fabric as text: what ibnetdiscover prints, with and without --ports, -g and -f, and
// what an administrator's timer keeps of it as a snapshot.
//
// Forgiven: log lines of the tools, chassis lines, any text as a description (quotes and # too),
// links told by one end only, unknown widths and speeds. Nonsense is an error with its line.
#ifndef MFU_TOPOLOGY_FABRIC_TEXT_HH_
#define MFU_TOPOLOGY_FABRIC_TEXT_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "topology/fabric.hh"

namespace mfu {

struct FabricSnapshot {
  Fabric fabric;                // nodes in the file's order
  int64_t taken_at = 0;         // Unix time; 0: the file does not tell
  uint32_t contradictions = 0;  // links dropped because their other end tells of another one
};

// Errors: "line 12: what". ibnetdiscover's own time stamp is taken as local time.
tl::expected<FabricSnapshot, std::string> parse_fabric(std::string_view text);

// Errors: "PATH: line 12: what". Refuses more than 512 MiB.
tl::expected<FabricSnapshot, std::string> read_fabric(const std::string& path);

// ibnetdiscover's text without GUIDs of ports: switches, adapters, routers, each by GUID. The same
// fabric gives the same text, and parse_fabric gives the fabric back.
std::string write_fabric(const Fabric& fabric, int64_t taken_at);

}  // namespace mfu

#endif
