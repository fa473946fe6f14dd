// A call of the application's into a library that may call itself by the same functions: of nested
// calls only the outermost counts.
//
// Per thread, without thread-local storage: a library that is loaded late gets none of the static
// kind for sure, and the other kind allocates. Threads have slots in a fixed table, by their
// address, which are never given back: as many threads as there are slots may call at all.
#ifndef MFU_PROFILER_THREAD_CALL_HH_
#define MFU_PROFILER_THREAD_CALL_HH_

#include <cstdint>

namespace mfu {

class ThreadCall {
 public:
  ThreadCall();
  ~ThreadCall();
  ThreadCall(const ThreadCall&) = delete;
  ThreadCall& operator=(const ThreadCall&) = delete;

  enum class Kind { kOutermost, kNested, kUnknown };  // unknown: the thread found no slot
  Kind kind() const { return kind_; }
  // In the order of the threads' first calls, from 0.
  uint32_t thread() const { return thread_; }

 private:
  struct Slot;
  static Slot slots[];
  static Slot* slot_of_this_thread();

  Slot* slot_;
  uint32_t thread_ = 0;
  Kind kind_ = Kind::kUnknown;
};

}  // namespace mfu

#endif
