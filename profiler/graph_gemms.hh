// GEMM calls that went into a CUDA graph while a stream was being captured: which graphs hold them,
// what was instantiated from those, and how often it was launched.
//
// What a graph holds is what was captured into it, what its child graphs held when they were added,
// and what the graph held that it was cloned from. A graph that runs its body an unknown number of
// times (conditional nodes) or whose instantiation or launch was not seen gives no calls: never
// more than ran. The same handle captured into by a second capture begins anew, as its old owner
// may have been destroyed by a call that was not seen. Not followed: kernel nodes that somebody
// adds, removes or changes one by one, which nobody does to cuBLAS's.
//
// Fixed memory; what finds no place is counted as uncovered. Any thread; the lock is held for
// microseconds, and who does not get it in time gives up what it has to say as uncovered.
#ifndef MFU_PROFILER_GRAPH_GEMMS_HH_
#define MFU_PROFILER_GRAPH_GEMMS_HH_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/gemm_calls.hh"

namespace mfu {

class GraphGemms {
 public:
  GraphGemms() = default;
  GraphGemms(const GraphGemms&) = delete;
  GraphGemms& operator=(const GraphGemms&) = delete;

  // Before anything else: the table that numbers the shapes.
  void attach(GemmTable* table) { table_ = table; }

  // A call that this capture put into `graph`, or a further shape of it.
  void capture(const void* graph, uint64_t capture_id, const GemmShape& shape, uint32_t thread,
               GemmPart part = GemmPart::kCall);
  void add_child(const void* parent, const void* child);
  void clone(const void* graph, const void* original);
  void destroy(const void* graph);

  void instantiate(const void* exec, const void* graph);  // also an update of the whole exec
  void launch(const void* exec);                          // no lock
  // Somebody changes it in a way that is not followed: further launches count no more.
  void lose(const void* exec);
  void destroy_exec(const void* exec);

  // The table's counts with all launches so far, by number, and the sums of them but `entries`.
  // False, and nothing is written, when the lock is taken.
  bool sum(GemmCount (&counts)[GemmTable::kShapes], GemmSums* sums);

 private:
  static constexpr size_t kHandles = 8192;  // of either kind; power of two
  static constexpr size_t kNodes = 32768;
  static constexpr size_t kProbes = 64;

  // A shape in a graph; a list of them is what it holds.
  struct Node {
    uint32_t next;    // index + 1
    uint32_t number;  // of the shape; kNoNumber: uncovered
    uint32_t count;
    uint32_t further;  // of `count`: further shapes of grouped calls
    uint16_t thread;   // as the table tells them apart
    Precision precision;
    uint32_t calls() const { return count - further; }
  };
  struct Slot {
    std::atomic<uintptr_t> handle;  // 0: never used, 1: free again
    std::atomic<uint64_t> launches;
    uint64_t capture_id;
    uint32_t first;  // index + 1 of its nodes
    bool lived;      // a graph: something was made of it
  };
  class Lock;

  Slot* find(Slot (&slots)[kHandles], const void* handle);
  Slot* find_or_make(Slot (&slots)[kHandles], const void* handle);
  bool add(Slot* slot, const Node& more);  // but its place in the list
  bool copy(Slot* to, const Slot& from);
  void release(Slot* slot);
  void fold(Slot* exec);
  uint64_t held(const Slot& slot) const;

  GemmTable* table_ = nullptr;
  std::atomic<bool> locked_{false};
  Slot graphs_[kHandles] = {};
  Slot execs_[kHandles] = {};
  Node nodes_[kNodes] = {};
  uint32_t used_ = 0;  // nodes_ from here on were never used
  uint32_t free_ = 0;  // list of nodes
  std::atomic<uint64_t> captured_{0};
  uint64_t in_no_graph_ = 0;  // of destroyed ones
  uint64_t folded_launches_ = 0;
  uint64_t folded_calls_ = 0;
};

}  // namespace mfu

#endif
