// simdjson's on-demand interface looks at nothing that is not asked for. Here every value is: a
// trace with a broken part is broken, also where nothing of interest stands. Numbers stay text
// until parse_microseconds() has them: as doubles they would lose their nanoseconds.
#include "profiler/json_events.hh"

#include <simdjson.h>

#include <cctype>
#include <cstring>
#include <limits>
#include <utility>

#include "profiler/microseconds.hh"

namespace mfu {
namespace {

namespace json = simdjson::ondemand;
using std::string_view;

constexpr int kMaximumDepth = 200;  // of recursion; Kineto's events have three levels

static_assert(JsonEvents::kPadding >= simdjson::SIMDJSON_PADDING);

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// simdjson's tokens reach to the next token.
string_view trimmed(string_view token) {
  while (!token.empty() && is_space(token.back())) token.remove_suffix(1);
  return token;
}

bool is_number(string_view token) {
  auto digits = [&token] {
    size_t count = 0;
    while (count < token.size() && is_digit(token[count])) ++count;
    token.remove_prefix(count);
    return count;
  };
  if (token.starts_with('-')) token.remove_prefix(1);
  const bool zero = token.starts_with('0');
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (token.starts_with('.')) {
    token.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (token.starts_with('e') || token.starts_with('E')) {
    token.remove_prefix(1);
    if (token.starts_with('+') || token.starts_with('-')) token.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return token.empty();
}

// simdjson checks the escapes of a string only when it is asked for its text.
bool sound_escapes(string_view token) {
  for (size_t at = token.find('\\'); at != token.npos; at = token.find('\\', at)) {
    if (at + 1 >= token.size()) return false;
    const char c = token[at + 1];
    at += 2;
    if (c != 'u') {
      if (c == '\0' || std::strchr("\"\\/bfnrt", c) == nullptr) return false;
      continue;
    }
    if (token.size() - at < 5) return false;
    for (size_t end = at + 4; at < end; ++at) {
      if (!std::isxdigit(static_cast<unsigned char>(token[at]))) return false;
    }
  }
  return true;
}

[[noreturn]] void broken() {
  throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
}

// Behind the opening quote of a field's key; the keys of a text without backslashes need no look.
const char* key_of(json::field& field, bool escapes) {
  const char* key = field.key().raw();
  if (!escapes) return key;
  const char* end = key;
  while (*end != '"') end += *end == '\\' ? 2 : 1;  // simdjson knows that the string ends
  if (!sound_escapes(string_view(key, static_cast<size_t>(end - key)))) broken();
  return key;
}

// A value's token, where it is a scalar; an empty one for objects and arrays, which are looked
// through. `escapes`: there are backslashes in the text.
string_view scalar(json::value value, int depth, bool escapes) {
  const string_view token = value.raw_json_token();
  switch (token[0]) {
    case '"': {
      // Taken, not left for simdjson to skip: it would skip a key and its colon as well.
      (void)value.get_raw_json_string().value();
      const string_view text = trimmed(token);
      if (escapes && !sound_escapes(text)) broken();
      return text;
    }
    case '{':
      if (depth == kMaximumDepth) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
      for (json::field field : value.get_object()) {
        key_of(field, escapes);
        scalar(field.value(), depth + 1, escapes);
      }
      return {};
    case '[':
      if (depth == kMaximumDepth) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
      for (json::value element : value.get_array()) scalar(element, depth + 1, escapes);
      return {};
    default: {
      const string_view word = trimmed(token);
      if (!is_number(word) && word != "true" && word != "false" && word != "null") broken();
      return word;
    }
  }
}

// A number may stand in quotes.
string_view unquoted(string_view token) {
  if (token.size() < 2 || token[0] != '"') return token;
  return token.substr(1, token.size() - 2);
}

// What one event says, as tokens; empty where it says nothing.
struct Event {
  string_view phase, category, name, ts, dur, pid, tid;
  string_view device, stream, stream_id, correlation, correlation_id, group_name, group_ranks;
};

// Where the value of a key goes. `key` points behind the key's opening quote.
string_view* place_of(const char* key, Event* event) {
  auto is = [key](string_view name) { return std::memcmp(key, name.data(), name.size()) == 0; };
  switch (key[0]) {
    case 'p':
      return is("ph\"") ? &event->phase : is("pid\"") ? &event->pid : nullptr;
    case 'c':
      return is("cat\"") ? &event->category : nullptr;
    case 'n':
      return is("name\"") ? &event->name : nullptr;
    case 't':
      return is("ts\"") ? &event->ts : is("tid\"") ? &event->tid : nullptr;
    case 'd':
      return is("dur\"") ? &event->dur : nullptr;
  }
  return nullptr;
}

string_view* place_of_argument(const char* key, Event* event) {
  auto is = [key](string_view name) { return std::memcmp(key, name.data(), name.size()) == 0; };
  switch (key[0]) {
    case 'd':
      return is("device\"") ? &event->device : nullptr;
    case 's':
      return is("stream\"") ? &event->stream : is("streamId\"") ? &event->stream_id : nullptr;
    case 'c':
      return is("correlation\"")     ? &event->correlation
             : is("correlationId\"") ? &event->correlation_id
                                     : nullptr;
    case 'P':
      return is("Process Group Name\"")    ? &event->group_name
             : is("Process Group Ranks\"") ? &event->group_ranks
                                           : nullptr;
  }
  return nullptr;
}

Event read_event(json::object object, bool escapes) {
  Event event;
  for (json::field field : object) {
    const char* key = key_of(field, escapes);
    json::value value = field.value();
    if (std::memcmp(key, "args\"", 5) == 0 && value.raw_json_token()[0] == '{') {
      for (json::field argument : value.get_object()) {
        string_view* place = place_of_argument(key_of(argument, escapes), &event);
        const string_view token = scalar(argument.value(), 2, escapes);
        if (place != nullptr) *place = token;
      }
      continue;
    }
    string_view* place = place_of(key, &event);
    const string_view token = scalar(value, 1, escapes);
    if (place != nullptr) *place = token;
  }
  return event;
}

enum class Category : uint8_t { kOther, kKernel, kCopy, kFill, kLaunch, kMark, kGpuMark };

Category category_of(string_view text) {
  char lower[24];
  if (text.size() > sizeof(lower)) return Category::kOther;
  for (size_t i = 0; i < text.size(); ++i) {
    lower[i] =
        static_cast<char>(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
  }
  const string_view category(lower, text.size());
  static constexpr std::pair<string_view, Category> kKnown[] = {
      {"cpu_op", Category::kMark},          {"kernel", Category::kKernel},
      {"cuda_runtime", Category::kLaunch},  {"cuda_driver", Category::kLaunch},
      {"user_annotation", Category::kMark}, {"gpu_user_annotation", Category::kGpuMark},
      {"gpu_memcpy", Category::kCopy},      {"gpu_memset", Category::kFill},
      {"gpu_kernel", Category::kKernel},    {"memcpy", Category::kCopy},
      {"memcopy", Category::kCopy},         {"memset", Category::kFill},
      {"operator", Category::kMark},        {"runtime", Category::kLaunch}};
  for (const auto& [name, known] : kKnown) {
    if (category == name) return known;
  }
  return Category::kOther;
}

bool launches_kernels(string_view call) {
  return call.find("LaunchKernel") != call.npos ||
         call.find("LaunchCooperativeKernel") != call.npos || call.find("GraphLaunch") != call.npos;
}

}  // namespace

class JsonEvents::Reader {
 public:
  explicit Reader(TraceSink* sink) : sink_(sink) {}

  Outcome read(const char* text, size_t size) {
    Outcome outcome;
    outcome.taken = 1;
    const bool escapes = std::memchr(text, '\\', size) != nullptr;
    json::document document;
    auto where = [&] {
      const char* at = nullptr;
      return document.current_location().get(at) == simdjson::SUCCESS
                 ? static_cast<size_t>(at - text)
                 : size;
    };
    try {
      document = parser_.iterate(text, size, size + kPadding);
      json::array events = document.get_array();
      for (json::value element : events) {
        outcome.taken = where();
        outcome.between = false;
        if (const char* wrong = take(read_event(element.get_object(), escapes))) {
          outcome.refused = true;
          outcome.fault = wrong;
          return outcome;
        }
        outcome.taken = where();
        outcome.between = true;
      }
      outcome.taken = where();
      outcome.whole = outcome.taken == size;
      outcome.closed = !outcome.whole;
    } catch (const simdjson::simdjson_error& error) {
      outcome.fault = error.what();
    }
    return outcome;
  }

 private:
  // A string's text; other values' as they stand. Lives until the next call.
  string_view text_of(string_view token) {
    string_view text = unquoted(token);
    if (token.empty() || token[0] != '"' || text.find('\\') == text.npos) return text;
    unescaped_.resize(text.size() + kPadding);
    uint8_t* out = unescaped_.data();
    string_view result;
    if (parser_.unescape(json::raw_json_string(reinterpret_cast<const uint8_t*>(text.data())), out)
            .get(result) != simdjson::SUCCESS) {
      throw simdjson::simdjson_error(simdjson::STRING_ERROR);
    }
    return result;
  }

  // nullptr, or what is wrong with the event.
  const char* take(const Event& event) {
    if (event.phase != "\"X\"") return nullptr;
    if (event.ts.empty() || event.dur.empty()) {
      sink_->untimed();
      return nullptr;
    }
    const Category category = category_of(unquoted(event.category));
    switch (category) {
      case Category::kOther:
        return nullptr;
      case Category::kMark:
      case Category::kGpuMark:
        if (!event.name.starts_with("\"ProfilerStep")) return nullptr;
        break;
      case Category::kLaunch:
        if (event.correlation.empty()) return nullptr;
        break;
      default:
        break;
    }
    int64_t start = 0;
    int64_t duration = 0;
    int64_t end = 0;
    const NumberFault start_fault = parse_microseconds(unquoted(event.ts), &start);
    const NumberFault duration_fault = parse_microseconds(unquoted(event.dur), &duration);
    if (start_fault == NumberFault::kNoNumber || duration_fault == NumberFault::kNoNumber) {
      return "ts or dur of a complete event is no number of microseconds";
    }
    const bool out_of_range = start_fault != NumberFault::kNone ||
                              duration_fault != NumberFault::kNone ||
                              __builtin_add_overflow(start, duration, &end);
    if (category == Category::kLaunch) {
      const std::optional<int64_t> correlation = parse_integer(unquoted(event.correlation));
      if (!out_of_range && correlation) {
        sink_->launch({start, *correlation, launches_kernels(event.name)});
      }
    } else if (category == Category::kMark || category == Category::kGpuMark) {
      if (!out_of_range) {
        sink_->step({start, end, text_of(event.name), category == Category::kGpuMark});
      }
    } else {
      take_operation(event, category, out_of_range ? 0 : start, out_of_range ? 0 : duration,
                     out_of_range);
    }
    return nullptr;
  }

  void take_operation(const Event& event, Category category, int64_t start, int64_t duration,
                      bool out_of_range) {
    TraceOperation operation;
    operation.kind = category == Category::kKernel ? OperationKind::kKernel
                     : category == Category::kCopy ? OperationKind::kCopy
                                                   : OperationKind::kFill;
    operation.out_of_range = out_of_range;
    operation.start_ns = start;
    operation.duration_ns = duration;
    const string_view device = event.device.empty() ? event.pid : event.device;
    operation.device = parse_integer(unquoted(device)).value_or(0);
    operation.correlation = parse_integer(
        unquoted(event.correlation.empty() ? event.correlation_id : event.correlation));
    operation.stream = unquoted(!event.stream.empty()      ? event.stream
                                : !event.stream_id.empty() ? event.stream_id
                                                           : event.tid);
    if (!event.group_name.empty() || !event.group_ranks.empty()) {
      group_.assign(unquoted(event.group_name)).append(" ").append(unquoted(event.group_ranks));
      operation.group = group_;
    }
    operation.name = text_of(event.name);
    sink_->operation(operation);
  }

  TraceSink* sink_;
  json::parser parser_;
  std::vector<uint8_t> unescaped_;
  std::string group_;
};

JsonEvents::JsonEvents(TraceSink* sink) : reader_(std::make_unique<Reader>(sink)) {}
JsonEvents::~JsonEvents() = default;

JsonEvents::Outcome JsonEvents::read(const char* text, size_t size) {
  return reader_->read(text, size);
}

}  // namespace mfu
