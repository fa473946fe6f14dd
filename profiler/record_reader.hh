// Record files (see record.hh) as mfu-analyze shows them: the figures of a trace, as far as a
// record has them.
#ifndef MFU_PROFILER_RECORD_READER_HH_
#define MFU_PROFILER_RECORD_READER_HH_

#include <string>
#include <tl/expected.hpp>

#include "profiler/trace_figures.hh"
#include "profiler/trace_reader.hh"

namespace mfu {

// By the name's ending, kRecordSuffix.
bool is_record_path(const std::string& path);

// The newer sound slot of the file. One device; TraceFigures::record is set.
tl::expected<TraceFigures, TraceError> read_record(const std::string& path);

// What the reader of a record's figures must know: why there are none, what was lost, what the
// recording cost. Sentences.
std::string record_note(const Record& record);

}  // namespace mfu

#endif
