#include "profiler/thread_call.hh"

#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace mfu {
namespace {

constexpr size_t kSlots = 512;  // power of two
constexpr size_t kProbes = 16;
constinit std::atomic<uint32_t> threads{0};

}  // namespace

// A cache line each. Beside the key only the thread itself reads and writes.
struct alignas(64) ThreadCall::Slot {
  std::atomic<uint64_t> key;  // 0: free
  uint32_t thread;
  bool inside;
};
constinit ThreadCall::Slot ThreadCall::slots[kSlots] = {};

ThreadCall::Slot* ThreadCall::slot_of_this_thread() {
  const uint64_t key = static_cast<uint64_t>(pthread_self()) * 0x9e3779b97f4a7c15 | 1;
  for (size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots[((key >> 40) + i) % kSlots];
    uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == key) return &slot;
    if (found != 0 || !slot.key.compare_exchange_strong(found, key)) continue;
    slot.thread = threads.fetch_add(1, std::memory_order_relaxed);
    return &slot;
  }
  return nullptr;
}

ThreadCall::ThreadCall() : slot_(slot_of_this_thread()) {
  if (slot_ == nullptr) return;
  kind_ = slot_->inside ? Kind::kNested : Kind::kOutermost;
  thread_ = slot_->thread;
  slot_->inside = true;
}

ThreadCall::~ThreadCall() {
  if (kind_ == Kind::kOutermost) slot_->inside = false;
}

}  // namespace mfu
