// What a record tells of a process's NCCL communicators: calls, bytes, bus bytes.
//
// Bytes and bus bytes are those of nccl-tests (its PERFORMANCE.md), for one rank of n. `share` is
// count x size of an element as the rank hands it to NCCL:
//   all-reduce                        bytes = share      bus bytes = floor(2 x bytes x (n - 1) / n)
//   all-gather, reduce-scatter,
//   all-to-all, gather, scatter       bytes = share x n  bus bytes = share x (n - 1)
//   broadcast, reduce                 bytes = share      bus bytes = bytes
//   send, receive                     of one kernel: the larger of what it sends and what it
//                                     receives; as bus bytes without what a rank sends to itself
// Bus bandwidth = bus bytes / time of the kernels that moved them. The time is CUPTI's.
#ifndef MFU_PROFILER_COMMUNICATOR_SUMS_HH_
#define MFU_PROFILER_COMMUNICATOR_SUMS_HH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "profiler/kernel.hh"

namespace mfu {

inline constexpr uint32_t kCommunicatorTable = 64;   // kept apart in a process; the rest in one
inline constexpr uint32_t kCommunicatorsListed = 8;  // in a record, those of most bytes
inline constexpr uint32_t kMaxRanks = 1 << 20;       // of a communicator; what says more is unknown
inline constexpr uint32_t kSequences = 5;            // collectives that NCCL numbers
inline constexpr uint32_t kNcclAbis = 7;             // 0: no NCCL came; 1..6: profiler ABI

// No call of more than this is believed. The sums of a snapshot end at the other two: 2^62 bytes
// are 53 days at 1 TB/s.
inline constexpr uint64_t kMaxCallBytes = uint64_t{1} << 50;
inline constexpr uint64_t kMaxCalls = uint64_t{1} << 56;
inline constexpr uint64_t kMaxTrafficBytes = uint64_t{1} << 62;

struct CollectiveTraffic {
  uint64_t count = 0;      // calls. A send and a receive are one each
  uint64_t bytes = 0;      // of count - unsized calls
  uint64_t bus_bytes = 0;  // of count - unrated calls
  uint64_t unsized = 0;    // unknown element size, or number of ranks where it matters
  uint64_t unrated = 0;    // unsized, or number of ranks unknown: no bus bytes
  // Calls that were captured into a CUDA graph: not in the sums above, because NCCL does not say
  // how often the graph runs. Bytes are those of one run, sent and received ones added up. NCCL
  // before 2.28 (ABI 1 to 4) does not tell them apart.
  uint64_t captured = 0;
  uint64_t captured_bytes = 0;
  // Those of the sums above that copy engines did, without a kernel (ABI 6). For CUPTI they are
  // copies: their bus bytes do not belong over the time of kernels.
  uint64_t engine_count = 0;
  uint64_t engine_bytes = 0;
  uint64_t engine_bus_bytes = 0;

  // Every sum stops at its bound.
  void add(const CollectiveTraffic& other);

  uint64_t kernel_bus_bytes() const {
    return bus_bytes > engine_bus_bytes ? bus_bytes - engine_bus_bytes : 0;
  }
};

struct CommunicatorTraffic {
  char name[32] = {};   // the user's, NUL-terminated, printable, other characters as '?'
  uint64_t hash = 0;    // NCCL's, the same on all ranks; 0 when NCCL does not tell
  uint32_t number = 0;  // of its creation in this process, from 1 on
  uint32_t rank = 0;
  uint32_t ranks = 0;  // 0 when NCCL does not tell (2.26; 2.23 to 2.25 before a first all-gather)
  uint32_t nodes = 0;  // 0 when NCCL does not tell (before 2.27)
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t bus_bytes = 0;
  uint64_t captured = 0;
  // How many NCCL has numbered of each collective, kAllReduce to kReduce: equal on all ranks,
  // unless one is behind. Captured ones have no number.
  uint64_t sequence[kSequences] = {};
};

// The part of a record that NCCL fills.
struct CommunicatorSums {
  uint32_t abi = 0;
  uint32_t listed = 0;
  uint64_t communicators = 0;                           // created in this process
  CollectiveTraffic collectives[kCollectives] = {};     // over all communicators; kNone is not used
  CommunicatorTraffic list[kCommunicatorsListed] = {};  // most bytes first
};
static_assert(std::is_trivially_copyable_v<CommunicatorSums>);
static_assert(sizeof(CommunicatorSums) <= 2048);
static_assert(sizeof(CommunicatorSums) % sizeof(uint64_t) == 0);

// Both at most 2^62. The sum stops at `most`.
inline void add_traffic(uint64_t* sum, uint64_t value, uint64_t most) {
  *sum = *sum + value < most ? *sum + value : most;
}

// Why the bytes cannot be sums that a snapshot made, or nullptr. After it no sum of all list or
// collective entries overflows, all text ends and is printable, and rank < ranks where ranks is
// known.
const char* communicator_fault(const CommunicatorSums& sums);

// GB/s (10^9 bytes), as nccl-tests prints it: bytes and nanoseconds give it directly. 0 without
// time.
inline double bus_bandwidth(uint64_t bus_bytes, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(bus_bytes) / static_cast<double>(ns);
}

}  // namespace mfu

#endif
