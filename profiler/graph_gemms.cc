#include "profiler/graph_gemms.hh"

#include <sched.h>

#include <algorithm>

namespace mfu {
namespace {

constexpr uintptr_t kFreeAgain = 1;

size_t place_of(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle) * 0x9e3779b97f4a7c15 >> 32;
}

}  // namespace

// Does not wait for ever: the holder may be the thread that a signal handler has interrupted.
class GraphGemms::Lock {
 public:
  explicit Lock(GraphGemms* self) : self_(self) {
    constexpr int kPatience = 10'000;
    for (int i = 0; i < kPatience && !taken_; ++i) {
      taken_ = !self_->locked_.exchange(true, std::memory_order_acquire);
      if (!taken_ && i % 16 == 15) sched_yield();
    }
  }
  ~Lock() {
    if (taken_) self_->locked_.store(false, std::memory_order_release);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool taken() const { return taken_; }

 private:
  GraphGemms* self_;
  bool taken_ = false;
};

GraphGemms::Slot* GraphGemms::find(Slot (&slots)[kHandles], const void* handle) {
  const auto wanted = reinterpret_cast<uintptr_t>(handle);
  for (size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots[(place_of(handle) + i) % kHandles];
    const uintptr_t found = slot.handle.load(std::memory_order_acquire);
    if (found == wanted) return &slot;
    if (found == 0) break;
  }
  return nullptr;
}

GraphGemms::Slot* GraphGemms::find_or_make(Slot (&slots)[kHandles], const void* handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= kFreeAgain) return nullptr;
  if (Slot* known = find(slots, handle)) return known;
  for (size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots[(place_of(handle) + i) % kHandles];
    if (slot.handle.load(std::memory_order_relaxed) > kFreeAgain) continue;
    slot.launches.store(0, std::memory_order_relaxed);
    slot.capture_id = 0;
    slot.first = 0;
    slot.lived = false;
    slot.handle.store(reinterpret_cast<uintptr_t>(handle), std::memory_order_release);
    return &slot;
  }
  return nullptr;
}

bool GraphGemms::add(Slot* slot, const Node& more) {
  for (uint32_t at = slot->first; at != 0; at = nodes_[at - 1].next) {
    Node& node = nodes_[at - 1];
    if (node.number != more.number || node.thread != more.thread) continue;
    node.count += more.count;
    node.further += more.further;
    return true;
  }
  uint32_t at = free_;
  if (at != 0) {
    free_ = nodes_[at - 1].next;
  } else if (used_ < kNodes) {
    at = ++used_;
  } else {
    return false;
  }
  nodes_[at - 1] = more;
  nodes_[at - 1].next = slot->first;
  slot->first = at;
  return true;
}

bool GraphGemms::copy(Slot* to, const Slot& from) {
  bool whole = true;
  for (uint32_t at = from.first; at != 0; at = nodes_[at - 1].next) {
    const Node node = nodes_[at - 1];
    whole = add(to, node) && whole;
  }
  return whole;
}

void GraphGemms::release(Slot* slot) {
  while (slot->first != 0) {
    Node& node = nodes_[slot->first - 1];
    const uint32_t next = node.next;
    node.next = free_;
    free_ = slot->first;
    slot->first = next;
  }
}

uint64_t GraphGemms::held(const Slot& slot) const {
  uint64_t calls = 0;
  for (uint32_t at = slot.first; at != 0; at = nodes_[at - 1].next) calls += nodes_[at - 1].calls();
  return calls;
}

// Tells the table of the launches so far.
void GraphGemms::fold(Slot* exec) {
  const uint64_t launches = exec->launches.exchange(0, std::memory_order_relaxed);
  if (exec->first != 0) folded_launches_ += launches;
  for (uint32_t at = exec->first; at != 0 && launches != 0; at = nodes_[at - 1].next) {
    const Node& node = nodes_[at - 1];
    const uint64_t times = launches * node.count;
    if (node.number == GemmTable::kNoNumber) {
      table_->add_uncovered(times);
    } else {
      table_->add_replays(node.number, node.thread, times);
      if (node.further != 0) table_->add_further(node.precision, launches * node.further);
      folded_calls_ += launches * node.calls();
    }
  }
}

void GraphGemms::capture(const void* graph, uint64_t capture_id, const GemmShape& shape,
                         uint32_t thread, GemmPart part) {
  const uint32_t number = table_->note(shape);
  const Lock lock(this);
  Slot* slot = lock.taken() ? find_or_make(graphs_, graph) : nullptr;
  if (slot == nullptr) return table_->add_uncovered(1);
  const auto column = static_cast<uint16_t>(std::min<size_t>(thread, kGemmThreads - 1));
  const Node node{0, number, 1, part == GemmPart::kFurther, column, shape.precision};
  captured_.fetch_add(node.calls(), std::memory_order_relaxed);
  if (slot->capture_id != capture_id) {
    if (!slot->lived) in_no_graph_ += held(*slot);
    release(slot);
    slot->lived = false;
    slot->capture_id = capture_id;
  }
  if (add(slot, node)) return;
  captured_.fetch_sub(node.calls(), std::memory_order_relaxed);
  table_->add_uncovered(1);
}

void GraphGemms::add_child(const void* parent, const void* child) {
  const Lock lock(this);
  Slot* from = lock.taken() ? find(graphs_, child) : nullptr;
  if (from == nullptr) return;
  Slot* to = find_or_make(graphs_, parent);
  if (to != nullptr && copy(to, *from)) {
    // It is the parent's instantiation that matters now, and the parent counts for both.
    from->lived = true;
  }
}

void GraphGemms::clone(const void* graph, const void* original) {
  {
    const Lock lock(this);
    Slot* stale = lock.taken() ? find(graphs_, graph) : nullptr;
    if (stale != nullptr) release(stale);
  }
  add_child(graph, original);
}

void GraphGemms::destroy(const void* graph) {
  const Lock lock(this);
  Slot* slot = lock.taken() ? find(graphs_, graph) : nullptr;
  if (slot == nullptr) return;
  if (!slot->lived) in_no_graph_ += held(*slot);
  release(slot);
  slot->handle.store(kFreeAgain, std::memory_order_release);
}

void GraphGemms::instantiate(const void* exec, const void* graph) {
  const Lock lock(this);
  if (!lock.taken()) return;
  Slot* stale = find(execs_, exec);
  Slot* from = find(graphs_, graph);
  if (stale != nullptr) {
    fold(stale);
    release(stale);
  }
  if (from == nullptr || from->first == 0) return;
  Slot* to = stale != nullptr ? stale : find_or_make(execs_, exec);
  if (to == nullptr) return;
  if (!copy(to, *from)) return release(to);
  from->lived = true;
}

void GraphGemms::launch(const void* exec) {
  if (Slot* slot = find(execs_, exec)) slot->launches.fetch_add(1, std::memory_order_relaxed);
}

void GraphGemms::lose(const void* exec) {
  const Lock lock(this);
  Slot* slot = lock.taken() ? find(execs_, exec) : nullptr;
  if (slot == nullptr) return;
  fold(slot);
  for (uint32_t at = slot->first; at != 0; at = nodes_[at - 1].next) {
    nodes_[at - 1].number = GemmTable::kNoNumber;
  }
}

void GraphGemms::destroy_exec(const void* exec) {
  const Lock lock(this);
  Slot* slot = lock.taken() ? find(execs_, exec) : nullptr;
  if (slot == nullptr) return;
  fold(slot);
  release(slot);
  slot->handle.store(kFreeAgain, std::memory_order_release);
}

bool GraphGemms::sum(GemmCount (&counts)[GemmTable::kShapes], GemmSums* sums) {
  const Lock lock(this);
  if (!lock.taken()) return false;
  uint64_t further[kPrecisions];
  table_->further(further);
  table_->counts(counts);
  *sums = {};
  sums->replayed = folded_calls_;
  sums->graph_launches = folded_launches_;
  sums->captured = captured_.load(std::memory_order_relaxed);
  sums->in_no_graph = in_no_graph_;
  for (const Slot& exec : execs_) {
    if (exec.handle.load(std::memory_order_relaxed) <= kFreeAgain || exec.first == 0) continue;
    const uint64_t launches = exec.launches.load(std::memory_order_relaxed);
    sums->graph_launches += launches;
    for (uint32_t at = exec.first; at != 0; at = nodes_[at - 1].next) {
      const Node& node = nodes_[at - 1];
      const uint64_t times = launches * node.count;
      if (node.number == GemmTable::kNoNumber) {
        sums->uncovered += times;
        continue;
      }
      counts[node.number].calls[node.thread] += times;
      further[static_cast<size_t>(node.precision)] += launches * node.further;
      sums->replayed += launches * node.calls();
    }
  }
  for (const Slot& graph : graphs_) {
    const bool used = graph.handle.load(std::memory_order_relaxed) > kFreeAgain;
    if (used && !graph.lived) sums->in_no_graph += held(graph);
  }
  // What was added to two parents is held by both.
  sums->in_no_graph = std::min(sums->in_no_graph, sums->captured);
  table_->sum(counts, further, sums);
  return true;
}

}  // namespace mfu
