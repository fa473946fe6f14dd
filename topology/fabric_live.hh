// An InfiniBand fabric as it is now: libibnetdisc asks every node in it.
//
// Needs the right to send subnet management packets (root), and takes its time: half a minute for
// 35,000 nodes, longer where nodes do not answer. There is no way to stop it, and the library
// writes to stderr: call it in a child process that may be killed, from an administrator's timer,
// never from a job.
#ifndef MFU_TOPOLOGY_FABRIC_LIVE_HH_
#define MFU_TOPOLOGY_FABRIC_LIVE_HH_

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "topology/fabric.hh"

namespace mfu {

struct LiveOptions {
  std::string adapter;      // "mlx5_0"; empty: the first with an active port
  uint32_t port = 0;        // 0: the first active one
  uint32_t timeout_ms = 0;  // for one packet; 0: the library's
  uint32_t packets = 0;     // on their way at a time; 0: the library's
};

// The same fabric as parse_fabric makes of ibnetdiscover's output.
tl::expected<Fabric, std::string> discover_fabric(const LiveOptions& options);

}  // namespace mfu

#endif
