// Where a command has its fabric from: a snapshot's file, or the network as it is now.
#ifndef MFU_TOPOLOGY_FABRIC_SOURCE_HH_
#define MFU_TOPOLOGY_FABRIC_SOURCE_HH_

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "topology/fabric_live.hh"
#include "topology/fabric_text.hh"
#include "topology/slurm_nodes.hh"

namespace mfu {

inline constexpr uint32_t kFabricSeconds = 120;

struct FabricSource {
  std::string file;
  bool live = false;
  LiveOptions discovery;
  uint32_t seconds = 0;  // for the discovery; 0: kFabricSeconds
};

// Of the live fabric: another process of this program asks it, and is killed when it is not done in
// time. Errors say what to do.
tl::expected<FabricSnapshot, std::string> take_fabric(const FabricSource& source);

// That process, the command line of `mfu-topo discover ADAPTER PORT TIMEOUT-MS PACKETS`: prints the
// fabric as write_fabric has it, or "!" and what is wrong. Always 0: whoever asks gets the reason.
int answer_discovery(int argc, char** argv);

// A file of parse_name_map's; no names without a path.
tl::expected<NameMap, std::string> read_name_map(const std::string& path);

}  // namespace mfu

#endif
