// The shape of a trace file: an object with "traceEvents" among other keys, or a bare array of
// events. The events are by far the most of it, so they have the fast way:
//
// From the window's end backwards, the last "}, {" is searched, the comma replaced by ']', the byte
// before the first event by '[', and simdjson reads the array between. The cut can be wrong: "}, {"
// may stand in a string or in a nested array. No prefix of an array becomes well-formed by a ']'
// unless it was cut between two elements, so a wrong cut always shows as an error, and never in an
// event that simdjson had already read through. What it did not take goes the slow way: the strict
// scanner finds where events end, or the byte at which the text breaks, and simdjson reads exactly
// the whole events.
#include "profiler/trace_reader.hh"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "profiler/byte_source.hh"
#include "profiler/json_events.hh"
#include "profiler/json_scanner.hh"
#include "profiler/microseconds.hh"
#include "profiler/nsys_reader.hh"
#include "profiler/trace_head.hh"
#include "profiler/trace_window.hh"

namespace mfu {
namespace {

using std::string_view;

constexpr char kSqliteMagic[] = "SQLite format 3";  // its NUL belongs to the magic
constexpr size_t kLargestValue = 16 << 20;          // of a key that is looked into

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// The comma of the last "} , {", or nullptr.
char* last_cut(char* begin, char* end) {
  while (begin < end) {
    char* comma = static_cast<char*>(memrchr(begin, ',', static_cast<size_t>(end - begin)));
    if (comma == nullptr) return nullptr;
    const char* before = comma;
    while (before > begin && is_space(before[-1])) --before;
    if (before > begin && before[-1] == '}') {
      const char* after = comma + 1;
      while (after < end && is_space(*after)) ++after;
      if (after == end || *after == '{') return comma;
    }
    end = comma;
  }
  return nullptr;
}

class JsonTrace {
 public:
  JsonTrace(ByteSource* source, size_t window_size, TraceSink* sink, TraceHead* head,
            const std::function<void()>& progress)
      : source_(source),
        window_(source, window_size),
        events_(sink),
        head_(head),
        progress_(progress) {}

  TraceWindow& window() { return window_; }

  // True, or false with what() and byte() set.
  bool read() {
    if (!next_byte()) return source_->error().empty() ? fail("the file is empty") : ends_early();
    if (*window_.begin() == '[') {
      take_byte();
      bare_ = true;
      return read_events() && read_end();
    }
    if (*window_.begin() != '{') return fail("neither JSON nor an nsys SQLite export");
    take_byte();
    if (!next_byte()) return ends_early();
    if (*window_.begin() == '}') {
      take_byte();
    } else {
      do {
        if (!read_member()) return false;
        if (!next_byte()) return ends_early();
        if (*window_.begin() != ',' && *window_.begin() != '}') {
          return fail("expected ',' or '}'");
        }
      } while (take_byte() == ',');
    }
    if (!read_end()) return false;
    if (!found_events_) return fail("no \"traceEvents\" in it");
    return true;
  }

  const std::string& what() const { return what_; }
  uint64_t byte() const { return byte_; }

 private:
  bool fail_at(const char* at, std::string what) {
    byte_ = window_.offset() + static_cast<uint64_t>(at - window_.begin());
    what_ = std::move(what);
    return false;
  }
  bool fail(std::string what) { return fail_at(window_.begin(), std::move(what)); }
  // The bytes are over though the text is not.
  bool ends_early() {
    return fail_at(window_.end(),
                   source_->error().empty() ? "the file ends early" : source_->error());
  }

  // Skips white space; false at the file's end.
  bool next_byte() {
    while (true) {
      const char* at = window_.begin();
      while (at != window_.end() && is_space(*at)) ++at;
      window_.move_to(at);
      if (!window_.empty()) return true;
      if (window_.at_end()) return false;
      window_.fill();
    }
  }
  char take_byte() {
    const char byte = *window_.begin();
    window_.move_to(window_.begin() + 1);
    return byte;
  }

  bool read_end() {
    if (next_byte()) return fail("more text after the end of the JSON value");
    return source_->error().empty() ? true : ends_early();
  }

  // Passes a value of any length; its text goes to `text` when that is not null and the value is
  // not too long (then `text` is left empty).
  bool read_value(std::string* text) {
    scanner_.begin();
    bool too_long = false;
    while (true) {
      const char* at = window_.begin();
      const JsonScanner::Status status = scanner_.scan(&at, window_.end());
      if (status == JsonScanner::Status::kBroken) return fail_at(at, scanner_.fault());
      if (text != nullptr && !too_long) {
        text->append(window_.begin(), static_cast<size_t>(at - window_.begin()));
        too_long = text->size() > kLargestValue;
        if (too_long) text->clear();
      }
      window_.move_to(at);
      if (status == JsonScanner::Status::kDone) return true;
      if (window_.at_end()) return ends_early();
      progress_();
      window_.fill();
    }
  }

  bool read_member() {
    if (!next_byte()) return ends_early();
    if (*window_.begin() != '"') return fail("expected a key in quotes");
    std::string key;
    if (!read_value(&key)) return false;
    if (!next_byte()) return ends_early();
    if (*window_.begin() != ':') return fail("expected ':' after the key");
    take_byte();
    if (!next_byte()) return ends_early();
    if (key == "\"traceEvents\"") {
      if (*window_.begin() != '[') return fail("\"traceEvents\" is no array");
      take_byte();
      return read_events();
    }
    std::string value;
    const bool wanted = key == "\"baseTimeNanoseconds\"" || key == "\"distributedInfo\"" ||
                        key == "\"deviceProperties\"";
    if (!read_value(wanted ? &value : nullptr)) return false;
    if (key == "\"baseTimeNanoseconds\"") head_->base_time_ns = parse_integer(value);
    if (key == "\"distributedInfo\"") read_distributed_info(value, head_);
    if (key == "\"deviceProperties\"") read_device_properties(value, head_);
    return true;
  }

  // ---- events: from behind '[' to behind ']' ----

  bool read_events() {
    found_events_ = true;
    if (!next_byte()) return events_end_early();
    if (*window_.begin() == ']') {
      take_byte();
      return true;
    }
    // Here and at the loop's begin: the window begins where an event does.
    while (true) {
      if (!window_.at_end()) window_.fill();
      progress_();
      bool closed = false;
      if (!take_fast(&closed)) return false;
      if (closed) return true;
      if (!take_exactly(&closed)) return false;
      if (closed) return true;
    }
  }

  // A killed job leaves a bare array without its ']'; the format allows that.
  bool events_end_early() {
    if (bare_ && source_->error().empty() && window_.empty()) return true;
    return ends_early();
  }

  // Reads the array from the window's begin up to `last`, which becomes its ']'. simdjson may look
  // at the byte behind it, so that one is made harmless.
  JsonEvents::Outcome read_array(char* last) {
    char* first = window_.begin() - 1;
    const char before = *first;
    const char behind[2] = {last[0], last[1]};
    *first = '[';
    last[0] = ']';
    last[1] = ' ';
    JsonEvents::Outcome outcome = events_.read(first, static_cast<size_t>(last + 1 - first));
    *first = before;
    last[0] = behind[0];
    last[1] = behind[1];
    return outcome;
  }

  bool take_fast(bool* closed) {
    char* comma = last_cut(window_.begin(), window_.end());
    if (comma == nullptr) return true;
    JsonEvents::Outcome outcome = read_array(comma);
    const char* taken = window_.begin() - 1 + outcome.taken;
    if (outcome.refused) return fail_at(taken, outcome.fault);
    *closed = outcome.closed;
    // Whole: the next event begins behind the comma.
    window_.move_to(outcome.whole ? comma + 1 : taken);
    return outcome.whole || outcome.closed || !outcome.between ? true : take_separator(closed);
  }

  // What stands behind an event.
  bool take_separator(bool* closed) {
    if (!next_byte()) return *closed = events_end_early();
    if (*window_.begin() != ',' && *window_.begin() != ']') {
      return fail("expected ',' or ']' after an event");
    }
    *closed = take_byte() == ']';
    return true;
  }

  // Takes all whole events that the window holds, event by event.
  bool take_exactly(bool* closed) {
    if (!next_byte()) return *closed = events_end_early();
    char* whole_end = nullptr;
    const char* at = window_.begin();
    JsonScanner::Status status;
    while (true) {
      scanner_.begin();
      status = scanner_.scan(&at, window_.end());
      if (status != JsonScanner::Status::kDone) break;
      whole_end = window_.begin() + (at - window_.begin());
      while (at != window_.end() && is_space(*at)) ++at;
      if (at == window_.end() || *at != ',') break;
      ++at;
    }
    if (whole_end != nullptr) {
      JsonEvents::Outcome outcome = read_array(whole_end);
      if (!outcome.whole) return fail_at(window_.begin() - 1 + outcome.taken, outcome.fault);
    }
    if (status == JsonScanner::Status::kBroken) return fail_at(at, scanner_.fault());
    if (whole_end == nullptr) {
      if (window_.at_end()) return ends_early();
      if (window_.full() && !window_.can_grow()) return fail("an event of more than 256 MiB");
      return true;
    }
    window_.move_to(whole_end);
    return take_separator(closed);
  }

  ByteSource* source_;
  TraceWindow window_;
  JsonEvents events_;
  JsonScanner scanner_;
  TraceHead* head_;
  const std::function<void()>& progress_;
  bool bare_ = false;
  bool found_events_ = false;
  std::string what_;
  uint64_t byte_ = 0;
};

// SQLite reads files, not streams: what is packed goes to a file of its own.
class UnpackedFile {
 public:
  UnpackedFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ =
        std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/mfu-analyze-XXXXXX";
    descriptor_ = ::mkstemp(path_.data());
  }
  ~UnpackedFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  const std::string& path() const { return path_; }
  // False with errno set.
  bool append(const char* bytes, size_t size) {
    if (descriptor_ < 0) return false;
    while (size > 0) {
      const ssize_t written = ::write(descriptor_, bytes, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      bytes += written;
      size -= static_cast<size_t>(written);
    }
    return true;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace

std::string TraceError::text() const {
  std::string text = path + ": ";
  if (has_byte) text += "byte " + std::to_string(byte) + (unpacked ? " (unpacked): " : ": ");
  return text + what;
}

tl::expected<void, TraceError> read_trace(const std::string& path, TraceSink* sink, TraceHead* head,
                                          const TraceProgress& progress, size_t window_size) {
  TraceError error;
  error.path = path;
  ByteSource source;
  if (!source.open(path)) {
    error.what = source.error();
    return tl::unexpected(error);
  }
  error.unpacked = source.unpacks();
  const std::function<void()> say = [&] { progress(source.consumed(), source.file_size()); };
  JsonTrace trace(&source, window_size, sink, head, say);
  TraceWindow& window = trace.window();
  window.fill();
  if (window.size() < sizeof(kSqliteMagic) ||
      std::memcmp(window.begin(), kSqliteMagic, sizeof(kSqliteMagic)) != 0) {
    if (trace.read()) return {};
    error.has_byte = true;
    error.byte = trace.byte();
    error.what = trace.what();
    return tl::unexpected(error);
  }
  if (!source.unpacks()) {
    error.what = read_nsys(path, sink, head, progress);
  } else {
    UnpackedFile file;
    bool kept = true;
    while (kept && !window.empty()) {
      kept = file.append(window.begin(), window.size());
      if (!kept) error.what = "unpacking to " + file.path() + ": " + std::strerror(errno);
      window.move_to(window.end());
      window.fill();
      say();
    }
    if (!source.error().empty()) {
      error.has_byte = true;
      error.byte = window.offset();
      error.what = source.error();
    }
    if (error.what.empty()) error.what = read_nsys(file.path(), sink, head, progress);
  }
  if (!error.what.empty()) return tl::unexpected(error);
  return {};
}

}  // namespace mfu
