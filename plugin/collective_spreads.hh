// Waiting told from transfer. The n-th collective of a name is the same operation on every rank
// that runs the same program; its shortest instance bounds the transfer (that rank came last and
// found the others there), and what the others spent beyond it was waiting. So a long communication
// time is told apart: a slow network makes the transfer long, a straggler makes the others wait.
//
// Every rank keeps the same sample of its collectives without asking anybody (see
// collective_samples.hh). Here the samples of a node's ranks become one of fixed size, and those of
// the nodes another.
#ifndef MFU_PLUGIN_COLLECTIVE_SPREADS_HH_
#define MFU_PLUGIN_COLLECTIVE_SPREADS_HH_

#include <cstdint>
#include <span>
#include <type_traits>

#include "profiler/record.hh"

namespace mfu {

struct CollectiveSpreads {
  static constexpr uint32_t kMost = CollectiveSamples::kMost;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  // A collective over the ranks that have it.
  struct Spread {
    uint64_t key;
    uint64_t shortest_ns;
    uint64_t sum_ns;
    uint32_t ranks;
    uint32_t last_rank;  // the one of the shortest instance
  };

  uint32_t count = 0;
  uint32_t halvings = 0;  // as in CollectiveSamples
  uint32_t ranks = 0;     // devices that ran collectives
  uint32_t unequal = 0;   // 1: not all ran the same number of them, or one was not wholly observed
  uint64_t collectives = 0;    // of one rank
  uint64_t kernel_ns = 0;      // of communication, of all ranks
  Spread spreads[kMost] = {};  // by key

  // All records of one process and device; `process` is the one with the process-wide fields.
  void add(const Record& record, const Record& process);
  void add(const CollectiveSpreads& other);

  // Why a peer's bytes are not to be believed, or nullptr.
  const char* fault() const;

 private:
  void join(std::span<const Spread> more, uint32_t more_halvings);
};
static_assert(std::is_trivially_copyable_v<CollectiveSpreads>);
static_assert(std::has_unique_object_representations_v<CollectiveSpreads>);

struct Waiting {
  bool known = false;    // at least two ranks, which ran the same collectives
  double share = 0;      // of communication time, 0..1
  uint64_t sampled = 0;  // collectives that this is told from
  // The rank (SLURM_PROCID) that the others waited for longest, where it accounts for at least
  // half of the waiting.
  uint32_t slowest = CollectiveSpreads::kNoRank;
};
Waiting waiting(const CollectiveSpreads& spreads);

}  // namespace mfu

#endif
