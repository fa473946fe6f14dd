#include "profiler/communicators.hh"

#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace mfu::communicators {
namespace {

using Counter = std::atomic<uint64_t>;

struct Counters {
  Counter count, bytes, bus_bytes, unsized, unrated;
  Counter captured, captured_bytes;
  Counter engine_count, engine_bytes, engine_bus_bytes;
};

enum Naming : uint32_t { kUnnamed, kBeingNamed, kNamed };

struct Entry {
  std::atomic<uint32_t> naming;
  char name[sizeof(CommunicatorTraffic::name)];
  Counter hash;
  std::atomic<uint32_t> rank, ranks, nodes;
  Counters collectives[kCollectives];
  Counter sequence[kSequences];
};

// The sends and receives of a kernel that NCCL is about to launch.
struct Kernel {
  Counter handle;  // 0: none
  std::atomic<Index> index;
  Counter bytes[2], bus_bytes[2];  // sent, received
};
// More than threads that launch at the same time.
constexpr uint64_t kKernels = 64;
constexpr uint64_t kEnding = UINT64_MAX;  // of Kernel::handle: is nobody's now

constinit std::atomic<bool> opened{false};
constinit pid_t owner = 0;
constinit std::atomic<uint32_t> newest_abi{0};
constinit Counter created{0};
constinit Counter kernels_begun{0};
constinit Entry table[kCommunicatorTable + 1] = {};  // the last one: kOthers
constinit Kernel kernels[kKernels] = {};

Entry& entry(Index index) {
  return table[std::min(index, kOthers)];
}

// Sums that others are compared with come first: who reads in the opposite order sees
// unsized <= unrated <= count and bus bytes <= 2 x bytes at any time.
void add(Counter& counter, uint64_t value) {
  if (value != 0) counter.fetch_add(value, std::memory_order_release);
}

uint64_t get(const Counter& counter, uint64_t most) {
  return std::min(counter.load(std::memory_order_acquire), most);
}

void raise(Counter& counter, uint64_t value) {
  uint64_t old = counter.load(std::memory_order_relaxed);
  while (old < value && !counter.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

Counters& counters(Index index, Operation operation) {
  return entry(index).collectives[static_cast<int>(collective_of(operation))];
}

void add_unknown(Counters& sums, const Traffic& traffic) {
  if (!traffic.rated) add(sums.unrated, 1);
  if (!traffic.sized) add(sums.unsized, 1);
}

uint32_t number_or_zero(int number, uint32_t most) {
  return number < 0 || static_cast<uint32_t>(number) > most ? 0 : static_cast<uint32_t>(number);
}

void flush(Kernel& kernel, Index index) {
  uint64_t bytes[2];
  uint64_t bus_bytes[2];
  for (int i = 0; i < 2; ++i) {
    bus_bytes[i] = kernel.bus_bytes[i].exchange(0, std::memory_order_relaxed);
    bytes[i] = kernel.bytes[i].exchange(0, std::memory_order_relaxed);
  }
  Counters& sums = counters(index, Operation::kSend);
  add(sums.bytes, std::max(bytes[0], bytes[1]));
  add(sums.bus_bytes, std::max(bus_bytes[0], bus_bytes[1]));
}

void read(const Counters& from, CollectiveTraffic* to) {
  to->unsized = get(from.unsized, kMaxCalls);
  to->unrated = get(from.unrated, kMaxCalls);
  to->engine_bus_bytes = get(from.engine_bus_bytes, kMaxTrafficBytes);
  to->engine_bytes = get(from.engine_bytes, kMaxTrafficBytes);
  to->engine_count = get(from.engine_count, kMaxCalls);
  to->bus_bytes = get(from.bus_bytes, kMaxTrafficBytes);
  to->bytes = get(from.bytes, kMaxTrafficBytes);
  to->captured_bytes = get(from.captured_bytes, kMaxTrafficBytes);
  to->captured = get(from.captured, kMaxCalls);
  to->count = get(from.count, kMaxCalls);
}

// Keeps the list in order of bytes, the earlier communicator first among equals.
void list(const CommunicatorTraffic& communicator, CommunicatorSums* sums) {
  CommunicatorTraffic* end = sums->list + sums->listed;
  CommunicatorTraffic* place = sums->list;
  while (place != end && place->bytes >= communicator.bytes) ++place;
  if (place == sums->list + kCommunicatorsListed) return;
  if (sums->listed == kCommunicatorsListed) {
    --end;
  } else {
    ++sums->listed;
  }
  std::copy_backward(place, end, end + 1);
  *place = communicator;
}

}  // namespace

Collective collective_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return Collective::kAllReduce;
    case Operation::kAllGather:
      return Collective::kAllGather;
    case Operation::kReduceScatter:
      return Collective::kReduceScatter;
    case Operation::kBroadcast:
      return Collective::kBroadcast;
    case Operation::kReduce:
      return Collective::kReduce;
    case Operation::kSend:
    case Operation::kReceive:
      return Collective::kSendReceive;
    case Operation::kAllToAll:
      return Collective::kAllToAll;
    case Operation::kGather:
    case Operation::kScatter:
    case Operation::kUnknown:
      break;
  }
  return Collective::kOther;
}

Traffic traffic_of(Operation operation, uint64_t count, uint32_t element_bytes, uint32_t ranks) {
  if (element_bytes == 0 || count > kMaxCallBytes / element_bytes) return {};
  uint64_t share = count * element_bytes;
  switch (operation) {
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kSend:
    case Operation::kReceive:
      return {true, true, share, share};
    case Operation::kAllReduce:
      if (ranks == 0) return {true, false, share, 0};
      return {true, true, share, 2 * share - (2 * share + ranks - 1) / ranks};
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
    case Operation::kGather:
    case Operation::kScatter:
      if (ranks == 0 || share > kMaxCallBytes / ranks) return {};
      return {true, true, share * ranks, share * (ranks - 1)};
    case Operation::kUnknown:
      break;
  }
  return {};
}

void open() {
  owner = getpid();
  opened = true;
}

void abandon() {
  opened = false;
}

bool active() {
  return opened.load(std::memory_order_acquire);
}

bool owned() {
  return getpid() == owner;
}

Index add(int abi, const Identity& identity) {
  newest_abi = static_cast<uint32_t>(abi);
  uint64_t number = created.fetch_add(1);
  if (number >= kCommunicatorTable) return kOthers;
  Index index = static_cast<Index>(number);
  // Older ones tell it with the events.
  if (abi >= 4) identify(index, identity);
  return index;
}

Index at(uint64_t place) {
  return place < std::min<uint64_t>(created, kCommunicatorTable) ? static_cast<Index>(place)
                                                                 : kOthers;
}

uint32_t ranks_of(Index index) {
  return entry(index).ranks.load(std::memory_order_relaxed);
}

void identify(Index index, const Identity& identity) {
  if (index >= kOthers) return;
  Entry& to = table[index];
  // The number of ranks may come later than the rest.
  uint32_t ranks = number_or_zero(identity.ranks, kMaxRanks);
  uint32_t unknown = 0;
  if (ranks != 0) to.ranks.compare_exchange_strong(unknown, ranks, std::memory_order_relaxed);
  if (to.naming.load(std::memory_order_relaxed) != kUnnamed) return;
  uint32_t unnamed = kUnnamed;
  if (!to.naming.compare_exchange_strong(unnamed, kBeingNamed, std::memory_order_relaxed)) return;
  to.hash.store(identity.hash, std::memory_order_relaxed);
  to.rank.store(number_or_zero(identity.rank, kMaxRanks - 1), std::memory_order_relaxed);
  to.nodes.store(number_or_zero(identity.nodes, kMaxRanks), std::memory_order_relaxed);
  const char* from = identity.name;
  for (size_t i = 0; from != nullptr && from[i] != '\0' && i + 1 < sizeof(to.name); ++i) {
    to.name[i] = from[i] >= 0x20 && from[i] <= 0x7e ? from[i] : '?';
  }
  to.naming.store(kNamed, std::memory_order_release);
}

void count(Index index, Operation operation, const Traffic& traffic) {
  Counters& sums = counters(index, operation);
  add(sums.count, 1);
  add(sums.bytes, traffic.bytes);
  add(sums.bus_bytes, traffic.bus_bytes);
  add_unknown(sums, traffic);
}

void count_captured(Index index, Operation operation, const Traffic& traffic) {
  Counters& sums = counters(index, operation);
  add(sums.captured, 1);
  add(sums.captured_bytes, traffic.bytes);
}

void count_engine(Index index, Operation operation, const Traffic& traffic) {
  Counters& sums = counters(index, operation);
  add(sums.engine_count, 1);
  add(sums.engine_bytes, traffic.bytes);
  add(sums.engine_bus_bytes, traffic.bus_bytes);
}

void note_sequence(Index index, Operation operation, uint64_t number) {
  uint32_t place = static_cast<uint32_t>(collective_of(operation)) -
                   static_cast<uint32_t>(Collective::kAllReduce);
  if (place < kSequences && number < kMaxCalls) raise(entry(index).sequence[place], number + 1);
}

uint64_t begin_kernel(Index index) {
  uint64_t number = kernels_begun.fetch_add(1, std::memory_order_relaxed) + 1;
  for (uint64_t i = 0; i < kKernels; ++i) {
    uint64_t place = (number + i) % kKernels;
    uint64_t handle = number * kKernels + place;
    uint64_t none = 0;
    Kernel& kernel = kernels[place];
    if (kernel.handle.load(std::memory_order_relaxed) != 0) continue;
    if (!kernel.handle.compare_exchange_strong(none, handle)) continue;
    kernel.index = index;
    return handle;
  }
  uint64_t place = number % kKernels;
  uint64_t handle = number * kKernels + place;
  Kernel& kernel = kernels[place];
  kernel.handle = handle;
  flush(kernel, kernel.index.exchange(index));
  return handle;
}

void count_transfer(Index index, uint64_t handle, Operation operation, const Traffic& traffic,
                    bool self) {
  Counters& sums = counters(index, operation);
  add(sums.count, 1);
  add_unknown(sums, traffic);
  uint64_t bus_bytes = self ? 0 : traffic.bus_bytes;
  Kernel& kernel = kernels[handle % kKernels];
  if (handle == 0 || kernel.handle.load(std::memory_order_relaxed) != handle) {
    add(sums.bytes, traffic.bytes);
    add(sums.bus_bytes, bus_bytes);
    return;
  }
  int way = operation == Operation::kSend ? 0 : 1;
  add(kernel.bytes[way], traffic.bytes);
  add(kernel.bus_bytes[way], bus_bytes);
}

void end_kernel(uint64_t handle) {
  if (handle == 0 || handle == kEnding) return;
  Kernel& kernel = kernels[handle % kKernels];
  // Nobody may begin another kernel here before this one's bytes are taken out.
  if (!kernel.handle.compare_exchange_strong(handle, kEnding)) return;
  flush(kernel, kernel.index);
  kernel.handle = 0;
}

void snapshot(CommunicatorSums* out) {
  *out = {};
  out->abi = newest_abi;
  out->communicators = get(created, kMaxCalls);
  for (Index i = 0; i <= kOthers; ++i) {
    // Events without a known context need no communicator: kOthers is always looked at.
    if (i >= out->communicators && i != kOthers) continue;
    const Entry& from = table[i];
    CommunicatorTraffic communicator;
    for (int k = 0; k < kCollectives; ++k) {
      CollectiveTraffic traffic;
      read(from.collectives[k], &traffic);
      out->collectives[k].add(traffic);
      add_traffic(&communicator.count, traffic.count, kMaxCalls);
      add_traffic(&communicator.bytes, traffic.bytes, kMaxTrafficBytes);
      add_traffic(&communicator.bus_bytes, traffic.bus_bytes, kMaxTrafficBytes);
      add_traffic(&communicator.captured, traffic.captured, kMaxCalls);
    }
    if (i == kOthers || (communicator.count == 0 && communicator.captured == 0)) continue;
    communicator.number = i + 1;
    if (from.naming.load(std::memory_order_acquire) == kNamed) {
      std::copy_n(from.name, sizeof(from.name), communicator.name);
      communicator.hash = from.hash;
      communicator.ranks = from.ranks;
      uint32_t rank = from.rank;
      uint32_t nodes = from.nodes;
      // NCCL's word; a contradiction in it is not known either.
      bool possible = communicator.ranks == 0 || rank < communicator.ranks;
      communicator.rank = possible ? rank : 0;
      communicator.nodes = nodes <= communicator.ranks ? nodes : 0;
    }
    for (uint32_t k = 0; k < kSequences; ++k) {
      communicator.sequence[k] = get(from.sequence[k], kMaxCalls);
    }
    list(communicator, out);
  }
}

}  // namespace mfu::communicators
