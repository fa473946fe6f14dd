// The communicators of this process, in a fixed table: NCCL's callbacks write, anyone takes
// snapshots.
//
// Runs inside the injected library, in NCCL's callbacks: no lock (a callback that a signal handler
// never returns to must hold up nobody), no allocation, no system call. Every sum is an atomic of
// its own; a snapshot during a call may have its count and not yet its bytes.
#ifndef MFU_PROFILER_COMMUNICATORS_HH_
#define MFU_PROFILER_COMMUNICATORS_HH_

#include <cstdint>

#include "profiler/communicator_sums.hh"
#include "profiler/kernel.hh"

namespace mfu::communicators {

// What a rank asks of NCCL.
enum class Operation : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSend,
  kReceive,
  kAllToAll,
  kGather,
  kScatter,
  kUnknown,
};
Collective collective_of(Operation operation);

struct Traffic {
  bool sized = false;  // bytes are known
  bool rated = false;  // bus bytes are known
  uint64_t bytes = 0;
  uint64_t bus_bytes = 0;
};
// count: elements that the rank hands in, as in NCCL's calls. element_bytes 0, ranks 0: not known.
Traffic traffic_of(Operation operation, uint64_t count, uint32_t element_bytes, uint32_t ranks);

// The process is profiled from now on. Before, and after abandon(), active() is false.
void open();
// In a forked child, whose memory is a copy: nothing is counted any more.
void abandon();
bool active();
// False in a child that no fork handler announced. A system call: not for every event.
bool owned();

struct Identity {
  const char* name = nullptr;  // may be null
  uint64_t hash = 0;
  int rank = -1;  // negative or impossible numbers are "not known"
  int ranks = 0;
  int nodes = 0;
};

// Names a communicator in all calls below. kOthers: beyond the table, or one that NCCL's context
// does not name; counted in the totals only.
using Index = uint32_t;
inline constexpr Index kOthers = kCommunicatorTable;

Index add(int abi, const Identity& identity);
// The communicator that add() gave this index, or kOthers: whatever the number.
Index at(uint64_t place);
uint32_t ranks_of(Index index);
// ABIs that tell these with the events: the first word stays.
void identify(Index index, const Identity& identity);

void count(Index index, Operation operation, const Traffic& traffic);
void count_captured(Index index, Operation operation, const Traffic& traffic);
void count_engine(Index index, Operation operation, const Traffic& traffic);
// NCCL's number of a collective, from 0 on.
void note_sequence(Index index, Operation operation, uint64_t number);

// The sends and receives of one kernel: their bytes are known at its end. A handle is never 0. One
// whose end never comes is ended when all places are taken.
uint64_t begin_kernel(Index index);
// kSend or kReceive. `self`: to or from this rank. Any handle is taken; one that is not of a
// running kernel makes it a kernel of its own.
void count_transfer(Index index, uint64_t kernel, Operation operation, const Traffic& traffic,
                    bool self);
void end_kernel(uint64_t kernel);

// Any thread, any time.
void snapshot(CommunicatorSums* out);

}  // namespace mfu::communicators

#endif
