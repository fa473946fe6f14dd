// A CUPTI session of the process: takes activity buffers, turns records into timelines, and keeps
// one published record per device. Everything lives in static storage and is never torn down, so
// that CUPTI and the driver may call back at any time, also while the process ends.
//
// Threads: `open` and `arm` run in the application's first cuInit. CUPTI calls the buffer callbacks
// in any thread. `turn` and `drain` run in our worker thread. No lock is held across a CUPTI call.
#ifndef MFU_PROFILER_CUPTI_SESSION_HH_
#define MFU_PROFILER_CUPTI_SESSION_HH_

#include <cstdint>

namespace mfu::cupti_session {

struct Settings {
  const char* record_folder;  // outlives the session
  const char* cupti_path;     // or nullptr
  double budget_percent;      // stand down above this own cost; <= 0: never
  void (*wake)();             // called from a callback: drain(), the buffers run short
};

// Creates the process's record. False when there can be none: then nothing else may be called.
bool open(const Settings& settings);

// Arms CUPTI. CUPTI errors become the record's state.
void arm();

// Instead of arm(): no worker thread can be had. CUPTI is not touched.
void give_up_thread();

// Asks CUPTI for what is complete, digests the buffers and publishes. `last`: the process ends;
// takes what there is, also of running kernels.
void turn(bool last);

// Digests the buffers that have come back, no more: asking CUPTI each time would make it hand out
// another one, and so on without end.
void drain();

// For the thread that ends the process, when the worker is stuck inside a CUPTI call: publishes
// what was digested so far and which call hangs. Does nothing after turn(true).
void publish_without_cupti();

// In a forked child: CUPTI and the records are the parent's. Async-signal-safe.
void abandon();

}  // namespace mfu::cupti_session

#endif
