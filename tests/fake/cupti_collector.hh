// The part of the fake CUPTI that turns operations of the fake GPU into activity records, keeps the
// client's buffers, and hands them back.
//
// A record is written when its operation is complete: by the collector's own thread, or by a flush.
// Each context has its own open buffer, so that a client sees the buffers of several devices in
// turns. The first buffer of a context is asked for in the thread that submits the operation (as
// CUPTI asks in the thread that launches), all others where the records are written.
//
// No lock that the submitting thread needs is held across a client's callback. Deliveries exclude
// each other: a client that holds a lock across FlushAll which its completion callback also takes
// will deadlock here, as it can with the real one.
#ifndef MFU_TESTS_FAKE_CUPTI_COLLECTOR_HH_
#define MFU_TESTS_FAKE_CUPTI_COLLECTOR_HH_

#include <cupti.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

// CLOCK_REALTIME in nanoseconds.
uint64_t realtime_ns();

// Two clocks at one moment.
struct ClockReading {
  uint64_t real_ns = 0;
  uint64_t clients = 0;
};

class Collector {
 public:
  // The one of this process; never destroyed.
  static Collector& instance();

  void set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                     CUpti_BuffersCallbackCompleteFunc complete);
  bool has_callbacks();
  // Records that are written from now on are timed by this clock, whatever its rate: interpolated
  // between readings of both clocks, as CUPTI does with the GPU's.
  void set_clock(CUpti_TimestampCallbackFunc clock);
  // What the client's clock says now; CLOCK_REALTIME if it gave none.
  uint64_t now();
  // The client promises zeroed buffers: a record's zeros are not written then, so that what lies in
  // a buffer shines through if the promise is broken.
  void set_zeroed(bool zeroed) { zeroed_ = zeroed; }
  // 0: the collector's own rhythm.
  void set_period_ms(uint32_t period_ms) { period_ms_ = period_ms; }

  // Of operations that are submitted from now on. A context's setting goes before the global one.
  void enable(CUpti_ActivityKind kind, bool on);
  void enable(CUcontext context, CUpti_ActivityKind kind, bool on);

  // Hands back all buffers that hold records. `forced`: also writes the records of operations that
  // are not complete, with end = 0 (not begun: start = 0 as well), and those that `late` held back.
  void flush(bool forced);

  // Records dropped since the last call.
  size_t take_dropped();

  void submitted(const GpuOperation& operation, uint32_t context_id);

  // cuptiFinalize: forgets everything, also what is not delivered. No buffer is handed back.
  void reset();

 private:
  struct Buffer {
    uint8_t* bytes = nullptr;
    size_t size = 0;
    size_t used = 0;
    size_t max_records = 0;  // 0: no limit
    size_t records = 0;
  };
  struct Pending {
    GpuOperation operation;  // name interned
    CUpti_ActivityKind kind;
  };
  struct Channel {                             // of one context
    std::multimap<uint64_t, Pending> pending;  // by end
    Buffer open;                               // bytes == nullptr: none
  };
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void deliver(bool partly_filled, bool forced);
  void write(uint32_t context_id, Pending pending, bool forced, Lock* lock);
  void place(uint32_t context_id, const Pending& pending, Lock* lock);
  bool offer_buffer(Channel* channel, Lock* lock);
  void retire(Channel* channel) { retired_.push_back(std::exchange(channel->open, {})); }
  bool wanted(const GpuOperation& operation, CUpti_ActivityKind* kind);
  uint64_t clients_time(uint64_t real_ns);

  std::atomic<CUpti_TimestampCallbackFunc> clock_ = nullptr;
  std::atomic<bool> zeroed_ = false;
  std::atomic<uint32_t> period_ms_ = 0;

  std::mutex delivery_;  // taken before state_; held across callbacks
  std::mutex state_;     // guards everything below; never held across a callback
  std::condition_variable work_;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::set<uint32_t> kinds_;
  std::map<std::pair<CUcontext, uint32_t>, bool> context_kinds_;
  std::map<uint32_t, Channel> channels_;  // by context id
  std::vector<std::pair<uint32_t, Pending>> held_back_;
  std::vector<Buffer> retired_;               // full, to be handed back
  ClockReading first_reading_;                // when the clock was set
  std::set<std::string, std::less<>> names_;  // kernel names stay where they are for good
  uint64_t written_ = 0;
  size_t dropped_ = 0;
  bool thread_started_ = false;
};

}  // namespace mfu::fake

#endif
