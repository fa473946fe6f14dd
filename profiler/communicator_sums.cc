#include "profiler/communicator_sums.hh"

#include <algorithm>

namespace mfu {
namespace {

bool printable(const char* text, size_t size) {
  size_t length = std::find(text, text + size, '\0') - text;
  if (length == size) return false;
  return std::all_of(text, text + length, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool sound(const CollectiveTraffic& traffic) {
  uint64_t most_calls = std::max({traffic.count, traffic.captured, traffic.engine_count});
  uint64_t most_bytes = std::max({traffic.bytes, traffic.bus_bytes, traffic.captured_bytes,
                                  traffic.engine_bytes, traffic.engine_bus_bytes});
  return most_calls <= kMaxCalls && most_bytes <= kMaxTrafficBytes &&
         traffic.unsized <= traffic.unrated && traffic.unrated <= traffic.count;
}

const char* communicator_fault(const CommunicatorTraffic& communicator) {
  if (!printable(communicator.name, sizeof(communicator.name))) return "communicator name";
  if (communicator.number == 0 || communicator.number > kCommunicatorTable) return "number";
  if (communicator.ranks > kMaxRanks) return "ranks";
  if (communicator.rank >= (communicator.ranks == 0 ? kMaxRanks : communicator.ranks))
    return "rank";
  if (communicator.nodes > communicator.ranks) return "nodes";
  if (std::max(communicator.count, communicator.captured) > kMaxCalls) return "communicator calls";
  if (std::max(communicator.bytes, communicator.bus_bytes) > kMaxTrafficBytes) {
    return "communicator bytes";
  }
  for (uint64_t number : communicator.sequence) {
    if (number > kMaxCalls) return "sequence";
  }
  return nullptr;
}

template <typename Struct>
bool empty(const Struct& value) {
  const char* bytes = reinterpret_cast<const char*>(&value);
  return std::all_of(bytes, bytes + sizeof(value), [](char c) { return c == 0; });
}

}  // namespace

void CollectiveTraffic::add(const CollectiveTraffic& other) {
  add_traffic(&count, other.count, kMaxCalls);
  add_traffic(&bytes, other.bytes, kMaxTrafficBytes);
  add_traffic(&bus_bytes, other.bus_bytes, kMaxTrafficBytes);
  add_traffic(&unsized, other.unsized, kMaxCalls);
  add_traffic(&unrated, other.unrated, kMaxCalls);
  add_traffic(&captured, other.captured, kMaxCalls);
  add_traffic(&captured_bytes, other.captured_bytes, kMaxTrafficBytes);
  add_traffic(&engine_count, other.engine_count, kMaxCalls);
  add_traffic(&engine_bytes, other.engine_bytes, kMaxTrafficBytes);
  add_traffic(&engine_bus_bytes, other.engine_bus_bytes, kMaxTrafficBytes);
}

const char* communicator_fault(const CommunicatorSums& sums) {
  if (sums.abi >= kNcclAbis) return "NCCL ABI";
  if (sums.communicators > kMaxCalls) return "communicators";
  if (sums.listed > std::min<uint64_t>(kCommunicatorsListed, sums.communicators)) return "listed";
  for (const CollectiveTraffic& traffic : sums.collectives) {
    if (!sound(traffic)) return "collective traffic";
  }
  if (!empty(sums.collectives[static_cast<int>(Collective::kNone)]))
    return "traffic of no collective";
  for (uint32_t i = 0; i < kCommunicatorsListed; ++i) {
    const CommunicatorTraffic& communicator = sums.list[i];
    if (i >= sums.listed) {
      if (!empty(communicator)) return "beyond the list";
      continue;
    }
    if (const char* fault = communicator_fault(communicator)) return fault;
    if (i > 0 && sums.list[i - 1].bytes < communicator.bytes) return "order of the list";
  }
  return nullptr;
}

}  // namespace mfu
