// The records of this process: one per device it uses, the first of which also carries what
// concerns the whole process. Everything lives in static storage and is never torn down. Any thread
// may call; one lock, never held across a call of CUPTI or of the CUDA driver.
#ifndef MFU_PROFILER_PROCESS_RECORD_HH_
#define MFU_PROFILER_PROCESS_RECORD_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/cupti_gate.hh"
#include "profiler/record.hh"

namespace mfu::process_record {

// Creates the first record, in `folder`, which outlives the process. False when there can be none;
// the folder's board says why.
bool create(const char* folder);

uint64_t started_ns();
void set_cupti_version(uint32_t version);

// Why the process has no attribution. The first of equally severe reasons stays.
void fail(State state, CuptiCall call, int result);
// Takes back a fail() of this state: it is over.
void forgive(State state);
void add_flags(uint32_t flags);
// CUPTI would not say how many records it dropped.
void set_drops_unknown(int result);
void add_dropped(uint64_t records);
// Time in which records are known to be missing.
void add_lost(uint64_t ns);

// Adds what ran. `now_ns`: an operation later than that has an impossible time.
void take(const cupti::Activity* activities, size_t count, uint64_t now_ns);

// Asks the driver for the names of devices that have none yet.
void describe_devices();

struct Account {
  uint64_t callback_ns;
  uint64_t worker_ns;
  uint64_t buffer_bytes;
  uint64_t withheld_ns;  // as if add_lost(), but until the next publication only
};
// Publishes every device's record. `last`: the process's last word; nothing is published after it.
// Then, and every half a minute, copies of them go to the user's own folder if there is one
// (kKeepVariable): a slow file system holds up the caller, and no lock.
void publish(uint64_t now_ns, const Account& account, bool last);
// Around calls that may hang: should the process be killed inside, its record tells. publish()
// takes it back as well.
void publish_call(bool inside);
// The worker hangs in `call`: publishes what is known. For the thread that ends the process, which
// may have been interrupted while it held the lock: waits 100 ms at most.
void publish_hang(uint64_t now_ns, CuptiCall call);

}  // namespace mfu::process_record

#endif
