// What we have enabled in CUPTI: the activity kinds that a timeline needs. One collection a
// process; no lock is held across CUPTI's calls.
#ifndef MFU_PROFILER_COLLECTION_HH_
#define MFU_PROFILER_COLLECTION_HH_

#include <cstdint>

#include "profiler/cupti_gate.hh"
#include "profiler/record.hh"

namespace mfu::collection {

// All kinds or none: without copies, for one, idle time would be wrong. Returns CUPTI's first
// failure, with *failed telling the call: then cancel() is due. Stops half-way when a neighbour
// comes (neighbour::is_there()): then end() is.
int begin(const cupti::BufferCallbacks& callbacks, CuptiCall* failed);

// Disables our kinds, and takes back what we promised of our buffers: those of other clients need
// not be zeroed.
void cancel();

// cancel(), and what CUPTI's buffers hold of ours comes back, also of operations that run: whoever
// comes next would get it.
void end();

// A CUpti_ActivityKind.
bool includes(uint32_t kind);

}  // namespace mfu::collection

#endif
