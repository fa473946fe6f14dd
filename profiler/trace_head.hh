// What the keys beside a Kineto trace's events say.
#ifndef MFU_PROFILER_TRACE_HEAD_HH_
#define MFU_PROFILER_TRACE_HEAD_HH_

#include <string>

#include "profiler/trace.hh"

namespace mfu {

// Each takes one JSON value, well-formed; other shapes than the expected say nothing.
void read_distributed_info(const std::string& value, TraceHead* head);
void read_device_properties(const std::string& value, TraceHead* head);

}  // namespace mfu

#endif
