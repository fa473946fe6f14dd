// A CUPTI session of the process: takes activity buffers, turns records into timelines, and keeps
// one published record per device. Everything lives in static storage and is never torn down, so
// that CUPTI and the driver may call back at any time, also while the process ends.
//
// Threads: `start` runs in the application's first cuInit. CUPTI calls the buffer callbacks in any
// thread. `turn` and `finish` run in our worker thread. No lock is held across a CUPTI call.
#ifndef MFU_PROFILER_CUPTI_SESSION_HH_
#define MFU_PROFILER_CUPTI_SESSION_HH_

#include <cstdint>

namespace mfu::cupti_session {

struct Settings {
  const char* record_folder;  // outlives the session
  const char* cupti_path;     // or nullptr
  double budget_percent;      // stand down above this own cost; <= 0: never
  void (*wake)();             // called from a callback when a buffer has come back
};

// Creates the process's record and arms CUPTI. False when there is no record to write to: then
// nothing else was done and nothing else may be called. CUPTI errors do not fail it: they become
// the record's state.
bool start(const Settings& settings);

// Records that no worker thread could be had: CUPTI is disarmed.
void give_up_thread();

// Asks CUPTI for what is complete, digests the buffers and publishes. `last`: the process ends;
// takes what there is, also of running kernels.
void turn(bool last);

// For the thread that ends the process, when the worker is stuck inside a CUPTI call: publishes what
// was digested so far and says that the tail may be missing. Does nothing after turn(true).
void publish_without_cupti();

}  // namespace mfu::cupti_session

#endif
