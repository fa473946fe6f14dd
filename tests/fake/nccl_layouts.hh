// The descriptors and tables of NCCL's profiler plugins, whole, as NCCL 2.23 to 2.30 lay them out.
// A number behind a name: since this version.
#ifndef MFU_TESTS_FAKE_NCCL_LAYOUTS_HH_
#define MFU_TESTS_FAKE_NCCL_LAYOUTS_HH_

#include <cstddef>
#include <cstdint>

namespace mfu::fake {

struct ProxyOp {
  int pid;
  uint8_t channel;
  int peer, steps, chunk, is_send;
};

struct Coll1 {
  const char* name;
  uint64_t hash, sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t reduction;
  size_t traffic;
  uint8_t channels, warps, algorithm, protocol;
  int collnet, nvls;
};
struct P2p1 {
  const char* name;
  uint64_t hash;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct Coll2 {
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct P2p2 {
  const char* name;
  uint64_t hash;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct Coll3 {
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct Coll4 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct P2p4 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct GroupApi5 {
  bool captured;
  int depth;
};
struct CollApi5 {
  const char* function;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool captured;
};
struct P2pApi5 {
  const char* function;
  size_t count;
  const char* datatype;
  void* stream;
  bool captured;
};
struct Coll5 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;
};
struct P2p5 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* group;
};
struct CeColl6 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char *datatype, *strategy;
  bool intra_batch;
  uint32_t batch_size, batches, engine_sequence;
  void* stream;
};

struct None {};

template <typename Type, typename Coll, typename P2p, typename CollApi = None,
          typename P2pApi = None, typename CeColl = None>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    ProxyOp proxy;
    CollApi coll_api;
    P2pApi p2p_api;
    CeColl engine;
    GroupApi5 group_api;
  };
};
using Descriptor1 = Descriptor<uint8_t, Coll1, P2p1>;
using Descriptor2 = Descriptor<uint8_t, Coll2, P2p2>;
using Descriptor3 = Descriptor<uint8_t, Coll3, P2p2>;
using Descriptor4 = Descriptor<uint8_t, Coll4, P2p4>;
using Descriptor5 = Descriptor<uint64_t, Coll5, P2p5, CollApi5, P2pApi5>;
using Descriptor6 = Descriptor<uint64_t, Coll5, P2p5, CollApi5, P2pApi5, CeColl6>;
// Sizes and offsets as a compiler gives them for NCCL's headers.
static_assert(sizeof(Descriptor1) == 120 && sizeof(Descriptor2) == 128);
static_assert(sizeof(Descriptor3) == 120 && sizeof(Descriptor4) == 104);
static_assert(sizeof(Descriptor5) == 112 && sizeof(Descriptor6) == 112);
static_assert(offsetof(Descriptor1, coll) == 24 && offsetof(Descriptor1, coll.traffic) == 96);
static_assert(offsetof(Descriptor5, coll.group) == 104 && offsetof(Descriptor5, p2p.group) == 64);

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

template <typename Init, typename Event>
struct Table {
  const char* name;
  Init* init;
  int (*start)(void*, void**, Event*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finalize)(void*);
};
using Init1 = int(void**, int*);
using Init4 = int(void**, int*, const char*, uint64_t, int, int, int, Logger);
using Init5 = int(void**, uint64_t, int*, const char*, int, int, int, Logger);

}  // namespace mfu::fake

#endif
