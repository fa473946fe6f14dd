// What NCCL calls, in the order of one kernel ("plan" in NCCL):
//   version 1 to 4: Group; Coll or P2p for each task; the stops. In the thread that launches, or in
//   a CUDA callback thread. Without a handle for Group, NCCL up to 2.27 sends no tasks.
//   version 5, 6: in the thread that calls NCCL, for each call GroupApi and CollApi or P2pApi,
//   which tell whether a CUDA graph is being captured. NCCL sends these unasked as the parents of
//   Coll and P2p. Then, at the launch, Group, Coll and P2p as above: for a captured call at each
//   replay if the kernel needs NCCL's proxy, else once.
// So collectives are counted by Coll in versions 1 to 4 and by CollApi in 5 and 6, where Coll has
// only the sequence number to add; symmetric kernels and copy-engine collectives have no Coll.
// Sends and receives are counted by P2p, which names the peer, and captured ones by P2pApi.
//
// Handles and contexts are numbers of ours, never addresses: NCCL may send any back, at any time.
#include "profiler/nccl_gate.hh"

#include <iterator>
#include <string_view>

#include "profiler/communicators.hh"

namespace mfu::nccl {

using communicators::Index;
using communicators::Operation;
using communicators::Traffic;

namespace {

enum EventType : uint64_t {
  kGroup = 1,
  kColl = 2,
  kP2p = 4,
  kCollApi = 512,
  kP2pApi = 1024,
  kCeColl = 4096,
};
constexpr int kWantedV1 = kColl | kP2p;
constexpr int kWantedV5 = kWantedV1 | kCollApi | kP2pApi;
constexpr int kWantedV6 = kWantedV5 | kCeColl;

// The handle of a captured call's CollApi or P2pApi. Not a kernel's: those count from 1.
void* const kCaptured = reinterpret_cast<void*>(UINTPTR_MAX);

void* pointer(uint64_t number) {
  return reinterpret_cast<void*>(number);
}

uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// Contexts are index + 1.
Index index_of(const void* context) {
  return communicators::at(number(context) - 1);
}

Operation operation_of(uint8_t function) {
  constexpr Operation kOperations[] = {
      Operation::kBroadcast, Operation::kReduce,  Operation::kAllGather, Operation::kReduceScatter,
      Operation::kAllReduce, Operation::kUnknown, Operation::kSend,      Operation::kReceive};
  return function < std::size(kOperations) ? kOperations[function] : Operation::kUnknown;
}

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};

// A NUL-terminated text of NCCL's, of which no more than what could match is read.
template <typename Value, size_t n>
Value find(const Named<Value> (&names)[n], const char* text, Value otherwise) {
  if (text == nullptr || text[0] == '\0') return otherwise;
  size_t length = 0;
  while (length < 16 && text[length] != '\0') ++length;
  for (const Named<Value>& named : names) {
    if (named.name.size() == length && named.name[length - 1] == text[length - 1] &&
        named.name == std::string_view(text, length)) {
      return named.value;
    }
  }
  return otherwise;
}

Operation operation_of(const char* function) {
  static constexpr Named<Operation> kNames[] = {
      {"AllReduce", Operation::kAllReduce},
      {"AllGather", Operation::kAllGather},
      {"ReduceScatter", Operation::kReduceScatter},
      {"Send", Operation::kSend},
      {"Recv", Operation::kReceive},
      {"Broadcast", Operation::kBroadcast},
      {"Reduce", Operation::kReduce},
      {"AlltoAll", Operation::kAllToAll},
      {"Gather", Operation::kGather},
      {"Scatter", Operation::kScatter},
  };
  return find(kNames, function, Operation::kUnknown);
}

// Bytes of an element; 0 for an unknown type.
uint32_t element_bytes(uint8_t datatype) {
  // int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return datatype < std::size(kBytes) ? kBytes[datatype] : 0;
}

uint32_t element_bytes(const char* datatype) {
  // NCCL's own list has no ncclUint8, the only type that it calls "Unknown".
  static constexpr Named<uint32_t> kNames[] = {
      {"ncclBfloat16", 2},   {"ncclFloat32", 4},    {"ncclInt8", 1},   {"ncclFloat16", 2},
      {"ncclInt64", 8},      {"ncclInt32", 4},      {"Unknown", 1},    {"ncclFloat64", 8},
      {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}, {"ncclUint64", 8}, {"ncclUint32", 4},
      {"ncclUint8", 1},
  };
  return find(kNames, datatype, uint32_t{0});
}

int init(int abi, int wanted, void** context, int* mask,
         const communicators::Identity& identity = {}) {
  bool counts = communicators::active() && communicators::owned();
  if (mask != nullptr) *mask = counts ? wanted : 0;
  if (context == nullptr) return 0;
  *context = counts ? pointer(uint64_t{communicators::add(abi, identity)} + 1) : nullptr;
  return 0;
}

template <typename Datatype>
Traffic traffic(Index index, Operation operation, size_t count, Datatype datatype) {
  return communicators::traffic_of(operation, count, element_bytes(datatype),
                                   communicators::ranks_of(index));
}

template <typename Coll>
void take_coll(Index index, const Coll& coll) {
  Operation operation = operation_of(coll.function);
  communicators::count(index, operation, traffic(index, operation, coll.count, coll.datatype));
  communicators::note_sequence(index, operation, coll.sequence);
}

template <typename P2p>
void take_p2p(Index index, const void* group, int rank, const P2p& p2p) {
  Operation operation = operation_of(p2p.function);
  communicators::count_transfer(index, number(group), operation,
                                traffic(index, operation, p2p.count, p2p.datatype),
                                p2p.peer == rank);
}

// Version 1 to 3 name the communicator with each task. Its number of ranks is never told; but
// before version 3 there is the traffic of an all-gather or a reduce-scatter: share x ranks.
template <typename Task>
void identify(Index index, int rank, const Task& task, int ranks) {
  communicators::identify(index, {task.name, task.hash, rank, ranks});
}

template <typename Coll>
int ranks_of(const Coll& coll) {
  Operation operation = operation_of(coll.function);
  if (operation != Operation::kAllGather && operation != Operation::kReduceScatter) return 0;
  uint32_t bytes = element_bytes(coll.datatype);
  if (bytes == 0 || coll.count == 0 || coll.count > kMaxCallBytes / bytes) return 0;
  uint64_t share = coll.count * bytes;
  uint64_t ranks = coll.traffic / share;
  return ranks <= kMaxRanks && ranks * share == coll.traffic ? static_cast<int>(ranks) : 0;
}

// True when the event is to be looked at.
template <typename Event>
bool begin_event(void** handle, const Event* event) {
  if (handle != nullptr) *handle = nullptr;
  return communicators::active() && event != nullptr;
}

// Kernels of NCCL: the same in all versions.
void begin_group(Index index, void** handle) {
  if (handle != nullptr) *handle = pointer(communicators::begin_kernel(index));
}

template <bool tells_traffic, typename Event>
int start_v1(void* context, void** handle, const Event* event) {
  if (!begin_event(handle, event)) return 0;
  Index index = index_of(context);
  if (event->type == kGroup) {
    begin_group(index, handle);
  } else if (event->type == kColl) {
    identify(index, event->rank, event->coll, tells_traffic ? ranks_of(event->coll) : 0);
    take_coll(index, event->coll);
  } else if (event->type == kP2p) {
    identify(index, event->rank, event->p2p, 0);
    take_p2p(index, event->parent, event->rank, event->p2p);
  }
  return 0;
}

int start_v4(void* context, void** handle, const EventV4* event) {
  if (!begin_event(handle, event)) return 0;
  Index index = index_of(context);
  if (event->type == kGroup) {
    begin_group(index, handle);
  } else if (event->type == kColl) {
    take_coll(index, event->coll);
  } else if (event->type == kP2p) {
    take_p2p(index, event->parent, event->rank, event->p2p);
  }
  return 0;
}

// Counts a captured call and marks it for what NCCL calls its children.
template <typename Api>
bool captured(Index index, void** handle, const Api& api) {
  if (!api.captured) return false;
  Operation operation = operation_of(api.function);
  communicators::count_captured(index, operation,
                                traffic(index, operation, api.count, api.datatype));
  if (handle != nullptr) *handle = kCaptured;
  return true;
}

void take_v5(Index index, void** handle, const EventV5* event) {
  if (event->type == kGroup) {
    begin_group(index, handle);
  } else if (event->type == kCollApi) {
    const auto& api = event->coll_api;
    if (captured(index, handle, api)) return;
    Operation operation = operation_of(api.function);
    communicators::count(index, operation, traffic(index, operation, api.count, api.datatype));
  } else if (event->type == kP2pApi) {
    captured(index, handle, event->p2p_api);
  } else if (event->parent == kCaptured) {
    return;
  } else if (event->type == kColl) {
    communicators::note_sequence(index, operation_of(event->coll.function), event->coll.sequence);
  } else if (event->type == kP2p) {
    take_p2p(index, event->p2p.group, event->rank, event->p2p);
  }
}

int start_v5(void* context, void** handle, const EventV5* event) {
  if (begin_event(handle, event)) take_v5(index_of(context), handle, event);
  return 0;
}

int start_v6(void* context, void** handle, const EventV6* event) {
  if (!begin_event(handle, event)) return 0;
  Index index = index_of(context);
  if (event->type != kCeColl) {
    take_v5(index, handle, event);
  } else if (event->parent != kCaptured) {
    const CollV4& coll = event->coll;
    Operation operation = operation_of(coll.function);
    communicators::count_engine(index, operation,
                                traffic(index, operation, coll.count, coll.datatype));
  }
  return 0;
}

int stop_event(void* handle) {
  if (handle != kCaptured && communicators::active()) communicators::end_kernel(number(handle));
  return 0;
}

int record_event_state(void*, int, const void*) {
  return 0;
}

// The sums of a communicator outlive it.
int finalize(void*) {
  return 0;
}

int init_v1(void** context, int* mask) {
  return init(1, kWantedV1, context, mask);
}

int init_v2(void** context, int* mask) {
  return init(2, kWantedV1, context, mask);
}

int init_v3(void** context, int* mask) {
  return init(3, kWantedV1, context, mask);
}

int init_v4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
            int rank, void (*)()) {
  return init(4, kWantedV1, context, mask, {name, hash, rank, ranks, nodes});
}

int init_v5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks,
            int rank, void (*)()) {
  return init(5, kWantedV5, context, mask, {name, hash, rank, ranks, nodes});
}

int init_v6(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks,
            int rank, void (*)()) {
  return init(6, kWantedV6, context, mask, {name, hash, rank, ranks, nodes});
}

// NCCL prints it (NCCL_DEBUG=INFO).
constexpr char kName[] = "slurm-mfu";

}  // namespace
}  // namespace mfu::nccl

extern "C" {
using namespace mfu::nccl;
constinit const Plugin<InitV1, EventV1> ncclProfiler_v1 = {
    kName, init_v1, start_v1<true, EventV1>, stop_event, record_event_state, finalize};
constinit const Plugin<InitV1, EventV2> ncclProfiler_v2 = {
    kName, init_v2, start_v1<true, EventV2>, stop_event, record_event_state, finalize};
constinit const Plugin<InitV1, EventV2> ncclProfiler_v3 = {
    kName, init_v3, start_v1<false, EventV2>, stop_event, record_event_state, finalize};
constinit const Plugin<InitV4, EventV4> ncclProfiler_v4 = {
    kName, init_v4, start_v4, stop_event, record_event_state, finalize};
constinit const Plugin<InitV5, EventV5> ncclProfiler_v5 = {
    kName, init_v5, start_v5, stop_event, record_event_state, finalize};
constinit const Plugin<InitV5, EventV6> ncclProfiler_v6 = {
    kName, init_v6, start_v6, stop_event, record_event_state, finalize};
}
