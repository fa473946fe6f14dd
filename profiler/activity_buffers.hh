// The buffers that CUPTI writes activity records to: lent when it asks, taken back when they are
// full or flushed, digested in the order of their return, and lent again. Never freed: CUPTI may
// hold one at any time, also while the process ends.
//
// Many small ones instead of few large ones: CUPTI keeps one open per launching thread or context.
// Any thread may call; the lock is short and never held across a call of anybody else's code.
#ifndef MFU_PROFILER_ACTIVITY_BUFFERS_HH_
#define MFU_PROFILER_ACTIVITY_BUFFERS_HH_

#include <cstddef>
#include <cstdint>

namespace mfu::activity_buffers {

inline constexpr size_t kSize = 256 << 10;  // about 1,200 kernels
// So many may wait to be digested; with more a burst has outrun us, and requests are refused. Those
// that CUPTI holds open do not count: they are as many as the process has threads or contexts.
inline constexpr int kMostWaiting = 32;  // 8 MiB
// All together, for a CUPTI that copes with a refusal.
inline constexpr size_t kMostCount = 128;
// And for one that may crash: a buffer for each of so many launching threads, also in a burst. They
// are address space alone until CUPTI writes to them, and what lies beyond kMostWaiting gives its
// memory back after each use: 8 MiB stay, 4 KiB more for each thread that has just begun to launch,
// 256 MiB at the very most, where all of a thousand threads fill theirs in the same second.
inline constexpr size_t kMostWithoutRefusal = 1024;

struct Returned {
  uint8_t* memory;
  size_t valid;  // bytes of records
  void* context;
  uint32_t stream;
};

// `may_refuse`: this CUPTI copes with lend() returning nullptr. Call before the first lend().
void set_refusal(bool may_refuse);

// A zeroed buffer of kSize bytes, or nullptr, which counts as a refusal. A CUPTI that does not cope
// gets nullptr only where there is no more memory, or by its 1025th thread.
uint8_t* lend();

// False when the memory is not of this pool: another client's buffer.
bool take_back(const Returned& buffer);

// Many wait: digest before the pool runs dry.
bool scarce();

// The buffer that came back first. It stays the caller's until recycle().
bool oldest(Returned* out);
void recycle(uint8_t* memory);

// When the last buffer came back (CLOCK_MONOTONIC; before the first one, when it was lent), if one
// that is lent holds records; 0 if none does. Records that lie there and do not come, not even when
// CUPTI is flushed, have gone to another client that has put its callbacks in the place of ours.
uint64_t withheld_since_ns();

// Another client has had CUPTI since: what is lent now is not awaited any more. It stays CUPTI's,
// and is taken back if it comes.
void forget_lent();

// Requests refused since the last call.
uint64_t take_refusals();
uint64_t mapped_bytes();

}  // namespace mfu::activity_buffers

#endif
