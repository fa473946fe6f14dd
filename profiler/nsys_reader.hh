// The GPU operations of an nsys report in its SQLite export (nsys export --type sqlite), and its
// NVTX ranges that are training steps (is_step_range).
#ifndef MFU_PROFILER_NSYS_READER_HH_
#define MFU_PROFILER_NSYS_READER_HH_

#include <cstdint>
#include <functional>
#include <string>

#include "profiler/trace.hh"

namespace mfu {

// `path` is a SQLite database. Returns what is wrong, or nothing. `progress` gets the rows read so
// far and the estimated number of all.
std::string read_nsys(const std::string& path, TraceSink* sink, TraceHead* head,
                      const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace mfu

#endif
