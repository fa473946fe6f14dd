// The events of a Chrome or Kineto trace, out of JSON text, by simdjson.
//
// GPU operations are complete events ("ph": "X") of the categories kernel, gpu_kernel (kernels),
// gpu_memcpy, memcpy, memcopy (copies), gpu_memset and memset (fills), in any case of letters. It
// is the category that decides: annotations on GPU tracks, synchronisation events and CPU operators
// with a stream argument are not work of the GPU.
#ifndef MFU_PROFILER_JSON_EVENTS_HH_
#define MFU_PROFILER_JSON_EVENTS_HH_

#include <cstddef>
#include <memory>
#include <string>

#include "profiler/trace.hh"

namespace mfu {

class JsonEvents {
 public:
  // Bytes behind the text that must be readable (they may hold anything).
  static constexpr size_t kPadding = 64;

  // `sink` outlives this.
  explicit JsonEvents(TraceSink* sink);
  ~JsonEvents();

  struct Outcome {
    size_t taken = 0;      // where the first event begins that was not handed to the sink
    bool between = false;  // no: where the last one that was ends, for what follows is no ','
    bool whole = false;    // all events were, up to the text's last byte
    bool closed = false;   // the array ended before the text did: at taken, behind its ']'
    bool refused = false;  // well-formed, but its values cannot be (fault tells)
    std::string fault;
  };
  // `text` is an array of events, '[' to ']', though perhaps not well-formed.
  Outcome read(const char* text, size_t size);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace mfu

#endif
