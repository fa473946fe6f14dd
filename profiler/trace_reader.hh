// Trace files of any kind: Chrome and Kineto JSON, plain or gzip, and nsys's SQLite export, plain
// or gzip. What kind a file is, its bytes tell, not its name.
//
// JSON is read as a stream: memory depends on the longest event, not on the file.
#ifndef MFU_PROFILER_TRACE_READER_HH_
#define MFU_PROFILER_TRACE_READER_HH_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "profiler/trace.hh"

namespace mfu {

struct TraceError {
  std::string path;
  bool has_byte = false;
  bool unpacked = false;  // `byte` counts what gunzip would write
  uint64_t byte = 0;
  std::string what;

  // "path: byte 123 (unpacked): what"
  std::string text() const;
};

// Bytes of the file as it lies on disk: read so far, and all of them (0: not known).
using TraceProgress = std::function<void(uint64_t read, uint64_t size)>;

// How much of a file is looked at at once, as long as its events are shorter.
inline constexpr size_t kTraceWindow = 1 << 20;

// Hands everything in the file to `sink`. After an error the sink has got what stood before it, and
// *head what was known until then.
tl::expected<void, TraceError> read_trace(const std::string& path, TraceSink* sink, TraceHead* head,
                                          const TraceProgress& progress,
                                          size_t window_size = kTraceWindow);

}  // namespace mfu

#endif
