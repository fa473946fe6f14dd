// The one door to CUPTI and to the CUDA driver. Both are found at run time in the process that we
// were injected into; nothing is linked. Nobody else includes cupti.h or cuda.h.
//
// Every CUPTI result is a plain int: 0 is success. No function here blocks by itself, but CUPTI's
// may: hold no lock across a call.
#ifndef MFU_PROFILER_CUPTI_GATE_HH_
#define MFU_PROFILER_CUPTI_GATE_HH_

#include <cstddef>
#include <cstdint>

namespace mfu::cupti {

// CUPTI results that we tell apart (CUptiResult).
inline constexpr int kInsufficientPrivileges = 35;
inline constexpr int kMultipleSubscribers = 39;
inline constexpr int kNoLibrary = -1;  // ours: the call does not exist in this libcupti

// Records of CUPTI before this version (CUDA 11.0) have another layout.
inline constexpr uint32_t kOldestVersion = 13;
// Since this version (CUDA 12.9) a refused buffer request is handled; older ones may crash.
inline constexpr uint32_t kRefusalVersion = 27;

enum class ActivityKind { kKernel, kMemcpy, kMemcpyPeer, kMemset, kOther };

// One activity record's part that matters here. Times in CLOCK_REALTIME ns as CUPTI gave them.
struct Activity {
  ActivityKind kind;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t device;  // CUDA ordinal
  uint32_t stream;
  uint32_t correlation;  // of the launching call; the kernels of one graph launch share it
  // Of kernels; 0 and null in others.
  uint32_t grid[3];
  uint64_t graph_node;  // 0: launched alone, or by a CUPTI that does not tell (CUDA 11.0)
  const char* name;     // CUPTI owns it
};

struct BufferCallbacks {
  // Hand out a buffer: *buffer 8-byte aligned, or nullptr to refuse.
  void (*requested)(uint8_t** buffer, size_t* size);
  // A buffer comes back: `valid` bytes of records.
  void (*completed)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
};

// Finds libcupti as open_library() does. False when there is none.
bool load(const char* path);
// A function of that library by its name, or nullptr. For those who want to see others call it.
void* function(const char* name);
// CUpti_ActivityKind.
uint32_t number_of(ActivityKind kind);

int version(uint32_t* out);
// One client per process: the callbacks are kept in a static.
int register_callbacks(const BufferCallbacks& callbacks);
// 0: nobody has subscribed to CUPTI's callbacks. kMultipleSubscribers: somebody has, or a tool
// outside of this process (nsys, ncu, compute-sanitizer, cuda-gdb) owns it.
int probe_subscription();
int enable(ActivityKind kind);
int disable(ActivityKind kind);
// Tells CUPTI whether buffers come zeroed: ours do. A refusal costs speed only. The promise holds
// for whoever hands out buffers: it is to be taken back before another client does.
void promise_zeroed_buffers(bool zeroed);
// forced: also returns records of running kernels, without their end, and never again.
int flush(bool forced);
// The dropped records since the last call.
int dropped(void* context, uint32_t stream, uint64_t* out);

// Steps through a completed buffer. `cursor` starts as nullptr. False at the end, with *result 0
// for a clean end or the CUPTI error.
bool next(uint8_t* buffer, size_t valid, void** cursor, Activity* out, int* result);

struct DeviceIdentity {
  char name[96];
  char pci_bus_id[24];
  uint8_t uuid[16];
  uint32_t sm_count;
  uint32_t compute_capability;  // 10 * major + minor
};
// From the driver that is in the process. False while the driver is not initialised.
bool identify(uint32_t ordinal, DeviceIdentity* out);

}  // namespace mfu::cupti

#endif
