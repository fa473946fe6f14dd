// The one door to NCCL: the profiler plugin that NCCL loads when NCCL_PROFILER_PLUGIN names this
// library. NCCL looks for its newest table first: version 1 is NCCL 2.23's, 2 is 2.24's and 2.25's,
// 3 is 2.26's, 4 is 2.27's, 5 is 2.28's, 6 is 2.29's and later ones'. What it tells goes to
// profiler/communicators.hh. Nothing is linked, and nobody else knows NCCL's types.
//
// Every function returns 0, success, whatever happens: NCCL 2.23 to 2.27 follow a null pointer when
// they destroy a communicator whose plugin had reported an error. In a process that is not
// profiled, or in a forked child, the plugin asks for no events.
#ifndef MFU_PROFILER_NCCL_GATE_HH_
#define MFU_PROFILER_NCCL_GATE_HH_

#include <cstddef>
#include <cstdint>

namespace mfu::nccl {

// NCCL's descriptions of an event: their beginning, as far as it is read.

struct EventV1 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      uint64_t hash;
      uint64_t sequence;
      uint8_t function;
      const void* send;
      void* receive;
      size_t count;
      int root;
      uint8_t datatype;
      uint32_t reduction;
      size_t traffic;
    } coll;
    struct {
      const char* name;
      uint64_t hash;
      uint8_t function;
      void* buffer;
      uint8_t datatype;
      size_t count;
      int peer;
    } p2p;
  };
};
static_assert(offsetof(EventV1, parent) == 8 && offsetof(EventV1, rank) == 16);
static_assert(offsetof(EventV1, coll.hash) == 32 && offsetof(EventV1, coll.sequence) == 40);
static_assert(offsetof(EventV1, coll.function) == 48 && offsetof(EventV1, coll.count) == 72);
static_assert(offsetof(EventV1, coll.datatype) == 84 && offsetof(EventV1, coll.traffic) == 96);
static_assert(offsetof(EventV1, p2p.function) == 40 && offsetof(EventV1, p2p.datatype) == 56);
static_assert(offsetof(EventV1, p2p.count) == 64 && offsetof(EventV1, p2p.peer) == 72);

struct EventV2 {  // of version 3 as well
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      uint64_t hash;
      uint64_t sequence;
      const char* function;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* datatype;
      size_t traffic;  // version 2 only
    } coll;
    struct {
      const char* name;
      uint64_t hash;
      const char* function;
      void* buffer;
      const char* datatype;
      size_t count;
      int peer;
    } p2p;
  };
};
static_assert(offsetof(EventV2, parent) == 8 && offsetof(EventV2, rank) == 16);
static_assert(offsetof(EventV2, coll.hash) == 32 && offsetof(EventV2, coll.sequence) == 40);
static_assert(offsetof(EventV2, coll.function) == 48 && offsetof(EventV2, coll.count) == 72);
static_assert(offsetof(EventV2, coll.datatype) == 88 && offsetof(EventV2, coll.traffic) == 96);
static_assert(offsetof(EventV2, p2p.function) == 40 && offsetof(EventV2, p2p.datatype) == 56);
static_assert(offsetof(EventV2, p2p.count) == 64 && offsetof(EventV2, p2p.peer) == 72);

// Version 6 appended ceColl, which begins like coll.
struct CollV4 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
};
struct P2pV4 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* group;  // since version 5: there the parent is the API's event
};
struct EventV4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    CollV4 coll;
    P2pV4 p2p;
  };
};
static_assert(offsetof(EventV4, parent) == 8 && offsetof(EventV4, rank) == 16);
static_assert(offsetof(EventV4, coll.sequence) == 24 && offsetof(EventV4, coll.function) == 32);
static_assert(offsetof(EventV4, coll.count) == 56 && offsetof(EventV4, coll.datatype) == 72);
static_assert(offsetof(EventV4, p2p.function) == 24 && offsetof(EventV4, p2p.datatype) == 40);
static_assert(offsetof(EventV4, p2p.count) == 48 && offsetof(EventV4, p2p.peer) == 56);

struct EventV5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* function;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool captured;
    } coll_api;
    struct {
      const char* function;
      size_t count;
      const char* datatype;
      void* stream;
      bool captured;
    } p2p_api;
    CollV4 coll;
    P2pV4 p2p;
  };
};
struct EventV6 : EventV5 {};
static_assert(offsetof(EventV5, parent) == 8 && offsetof(EventV5, rank) == 16);
static_assert(offsetof(EventV5, coll_api.function) == 24 &&
              offsetof(EventV5, coll_api.count) == 32);
static_assert(offsetof(EventV5, coll_api.datatype) == 40);
static_assert(offsetof(EventV5, coll_api.captured) == 64);
static_assert(offsetof(EventV5, p2p_api.datatype) == 40 &&
              offsetof(EventV5, p2p_api.captured) == 56);
static_assert(offsetof(EventV5, coll.sequence) == 24 && offsetof(EventV5, coll.datatype) == 72);
static_assert(offsetof(EventV5, p2p.peer) == 56 && offsetof(EventV5, p2p.group) == 64);

// NCCL's tables of functions. `mask` is the process's, whatever the communicator. A state and its
// arguments are never looked at.
template <typename Init, typename Event>
struct Plugin {
  const char* name;
  Init* init;
  int (*start_event)(void* context, void** handle, const Event* event);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, const void* arguments);
  int (*finalize)(void* context);
};

using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
                   int rank, void (*log)());
using InitV5 = int(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks,
                   int rank, void (*log)());

}  // namespace mfu::nccl

extern "C" {
__attribute__((
    visibility("default"))) extern const mfu::nccl::Plugin<mfu::nccl::InitV1, mfu::nccl::EventV1>
    ncclProfiler_v1;
__attribute__((
    visibility("default"))) extern const mfu::nccl::Plugin<mfu::nccl::InitV1, mfu::nccl::EventV2>
    ncclProfiler_v2, ncclProfiler_v3;
__attribute__((
    visibility("default"))) extern const mfu::nccl::Plugin<mfu::nccl::InitV4, mfu::nccl::EventV4>
    ncclProfiler_v4;
__attribute__((
    visibility("default"))) extern const mfu::nccl::Plugin<mfu::nccl::InitV5, mfu::nccl::EventV5>
    ncclProfiler_v5;
__attribute__((
    visibility("default"))) extern const mfu::nccl::Plugin<mfu::nccl::InitV5, mfu::nccl::EventV6>
    ncclProfiler_v6;
}

#endif
