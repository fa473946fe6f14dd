#include "tests/fake/trace_events.hh"

#include <cupti.h>
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

namespace mfu::fake {
namespace {

namespace json = simdjson::ondemand;

constexpr uint32_t kFirstNamedStream = 1'000'000;

// The whole file, unpacked if it is gzip.
simdjson::padded_string load(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path + ": cannot be opened");
  std::string text;
  char block[1 << 16];
  int size;
  while ((size = gzread(file, block, sizeof(block))) > 0)
    text.append(block, static_cast<size_t>(size));
  // A file that ends early is told by gzread or by gzclose, depending on where it was cut.
  if (gzclose(file) != Z_OK || size < 0) {
    throw std::runtime_error(path + ": byte " + std::to_string(text.size()) +
                             " (unpacked): the gzip data is damaged or ends early");
  }
  return simdjson::padded_string(text);
}

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    token = token.substr(1, token.size() - 2);
  }
  return token;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<int64_t> integer(std::string_view token) {
  std::string_view digits = token;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  if (digits.empty() || digits.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (char c : digits) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return digits.size() == token.size() ? value : -value;
}

// What one event says, as JSON text without quotes; nothing where it says nothing.
struct Event {
  std::string_view phase, category, name;
  std::optional<std::string_view> ts, dur, pid, tid;
  std::optional<std::string_view> device, stream, stream_id, correlation, correlation_id;
  std::optional<std::string_view> graph_node, bytes, size, copy_type;
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
};

void read_triple(json::value value, uint32_t (&numbers)[3]) {
  if (value.type() != json::json_type::array) return;
  size_t i = 0;
  for (json::value element : value.get_array()) {
    std::optional<int64_t> number = integer(trimmed(element.raw_json_token()));
    if (i < 3 && number && *number >= 0) numbers[i] = static_cast<uint32_t>(*number);
    ++i;
  }
}

void read_arguments(json::value value, Event* event) {
  if (value.type() != json::json_type::object) return;
  const std::pair<std::string_view, std::optional<std::string_view>*> wanted[] = {
      {"device", &event->device},
      {"stream", &event->stream},
      {"streamId", &event->stream_id},
      {"correlation", &event->correlation},
      {"correlationId", &event->correlation_id},
      {"graph node id", &event->graph_node},
      {"bytes", &event->bytes},
      {"size", &event->size},
      {"type", &event->copy_type}};
  for (json::field field : value.get_object()) {
    std::string_view key = field.unescaped_key();
    if (key == "grid") read_triple(field.value(), event->grid);
    if (key == "block") read_triple(field.value(), event->block);
    for (const auto& [name, token] : wanted) {
      if (key == name) *token = trimmed(field.value().raw_json_token());
    }
  }
}

Event read_event(json::object object) {
  Event event;
  auto text = [](json::value value) {
    return value.type() == json::json_type::string ? std::string_view(value.get_string())
                                                   : std::string_view();
  };
  for (json::field field : object) {
    std::string_view key = field.unescaped_key();
    if (key == "ph") event.phase = text(field.value());
    if (key == "cat") event.category = text(field.value());
    if (key == "name") event.name = text(field.value());
    if (key == "args") read_arguments(field.value(), &event);
    if (key == "ts") event.ts = trimmed(field.value().raw_json_token());
    if (key == "dur") event.dur = trimmed(field.value().raw_json_token());
    if (key == "pid") event.pid = trimmed(field.value().raw_json_token());
    if (key == "tid") event.tid = trimmed(field.value().raw_json_token());
  }
  return event;
}

std::optional<GpuWork> work_of(const Event& event) {
  std::string category(event.category);
  for (char& c : category) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  if (category == "kernel" || category == "gpu_kernel") return GpuWork::kKernel;
  if (category == "gpu_memset" || category == "memset") return GpuWork::kMemset;
  if (category == "gpu_memcpy" || category == "memcpy" || category == "memcopy") {
    return event.name.find("PtoP") != event.name.npos ? GpuWork::kMemcpyPeer : GpuWork::kMemcpy;
  }
  return std::nullopt;
}

uint32_t copy_kind_of(const Event& event) {
  constexpr std::pair<std::string_view, uint32_t> kKinds[] = {
      {"HtoD", CUPTI_ACTIVITY_MEMCPY_KIND_HTOD},
      {"DtoH", CUPTI_ACTIVITY_MEMCPY_KIND_DTOH},
      {"DtoD", CUPTI_ACTIVITY_MEMCPY_KIND_DTOD},
      {"HtoH", CUPTI_ACTIVITY_MEMCPY_KIND_HTOH},
      {"PtoP", CUPTI_ACTIVITY_MEMCPY_KIND_PTOP}};
  for (const auto& [mark, kind] : kKinds) {
    if (event.name.find(mark) != event.name.npos || event.copy_type == mark) return kind;
  }
  return CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
}

// Takes the events in, as long as the text that they point into lives.
class Reader {
 public:
  // nullptr, or what is wrong with the event.
  const char* add(const Event& event) {
    std::optional<GpuWork> work = work_of(event);
    if (event.phase != "X" || !work || !event.ts || !event.dur) return nullptr;
    std::optional<int64_t> start = nanoseconds(*event.ts);
    std::optional<int64_t> duration = nanoseconds(*event.dur);
    if (!start || !duration) return "ts or dur is no number of microseconds";
    int64_t end;
    if (__builtin_add_overflow(*start, std::max<int64_t>(*duration, 0), &end)) {
      return "the event's end is out of range";
    }
    int64_t device = integer(event.device ? *event.device : event.pid.value_or("0")).value_or(0);
    if (device < 0 || device > std::numeric_limits<CUdevice>::max())
      return "device is out of range";

    GpuOperation operation;
    operation.work = *work;
    operation.device = static_cast<CUdevice>(device);
    operation.stream = stream_of(event);
    operation.correlation = static_cast<uint32_t>(
        integer(event.correlation ? *event.correlation : event.correlation_id.value_or(""))
            .value_or(0));
    operation.graph_node =
        static_cast<uint64_t>(integer(event.graph_node.value_or("")).value_or(0));
    std::copy_n(event.grid, 3, operation.grid);
    std::copy_n(event.block, 3, operation.block);
    if (*work != GpuWork::kKernel) {
      operation.bytes = static_cast<uint64_t>(
          integer(event.bytes ? *event.bytes : event.size.value_or("")).value_or(0));
      operation.copy_kind = *work == GpuWork::kMemset ? 0 : copy_kind_of(event);
    }
    rows_.push_back({*start, end, {operation, std::string(event.name)}});
    return nullptr;
  }

  std::vector<TraceOperation> finish() {
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.start < b.start; });
    std::vector<TraceOperation> operations;
    for (Row& row : rows_) {
      // Unsigned: the difference of two int64_t may not fit into one.
      uint64_t first = static_cast<uint64_t>(rows_.front().start);
      row.traced.operation.start_ns = static_cast<uint64_t>(row.start) - first;
      row.traced.operation.end_ns = static_cast<uint64_t>(row.end) - first;
      operations.push_back(std::move(row.traced));
    }
    return operations;
  }

 private:
  struct Row {
    int64_t start;
    int64_t end;
    TraceOperation traced;
  };

  uint32_t stream_of(const Event& event) {
    std::string_view token = event.stream      ? *event.stream
                             : event.stream_id ? *event.stream_id
                                               : event.tid.value_or("");
    std::optional<int64_t> number = integer(token);
    if (number && *number >= 0 && *number < kFirstNamedStream) {
      return static_cast<uint32_t>(*number);
    }
    uint32_t next = kFirstNamedStream + static_cast<uint32_t>(named_streams_.size());
    return named_streams_.emplace(token, next).first->second;
  }

  std::vector<Row> rows_;
  std::map<std::string, uint32_t, std::less<>> named_streams_;
};

}  // namespace

std::optional<int64_t> nanoseconds(std::string_view microseconds) {
  bool negative = microseconds.starts_with('-');
  size_t at = negative ? 1 : 0;
  std::string digits;
  std::optional<size_t> point;  // digits before it
  for (; at < microseconds.size(); ++at) {
    if (microseconds[at] == '.' && !point) {
      point = digits.size();
    } else if (is_digit(microseconds[at])) {
      digits += microseconds[at];
    } else {
      break;
    }
  }
  if (digits.empty()) return std::nullopt;
  int64_t exponent = 0;
  if (at < microseconds.size()) {
    std::string_view rest = microseconds.substr(at + 1);
    if (rest.starts_with('+')) rest.remove_prefix(1);
    std::optional<int64_t> written = integer(rest);
    if ((microseconds[at] != 'e' && microseconds[at] != 'E') || !written) return std::nullopt;
    exponent = std::clamp<int64_t>(*written, -100000, 100000);
  }
  // As many digits as there are before the point once it has moved by the exponent and by 3.
  int64_t kept = static_cast<int64_t>(point.value_or(digits.size())) + exponent + 3;
  size_t leading = std::min(digits.find_first_not_of('0'), digits.size());
  if (leading == digits.size() || kept <= static_cast<int64_t>(leading)) return 0;
  if (kept - static_cast<int64_t>(leading) > 19) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = leading; i < static_cast<size_t>(kept); ++i) {
    value = value * 10 + (i < digits.size() ? static_cast<uint64_t>(digits[i] - '0') : 0);
  }
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::vector<TraceOperation> read_trace(const std::string& path) {
  simdjson::padded_string text = load(path);
  json::parser parser;
  json::document document;
  Reader reader;
  // The document knows its place only once it has begun; text that ends early begins never.
  bool begun = false;
  auto where = [&] {
    const char* location = nullptr;
    if (begun && document.current_location().get(location) == simdjson::SUCCESS &&
        location >= text.data() && location <= text.data() + text.size()) {
      return static_cast<size_t>(location - text.data());
    }
    return text.size();
  };
  auto fail = [&](size_t byte, const char* what) {
    throw std::runtime_error(path + ": byte " + std::to_string(byte) + ": " + what);
  };
  try {
    document = parser.iterate(text);
    begun = true;
    json::array events = document.type() == json::json_type::array
                             ? json::array(document.get_array())
                             : json::array(document["traceEvents"].get_array());
    for (json::value element : events) {
      size_t byte = where();
      if (const char* wrong = reader.add(read_event(element.get_object()))) fail(byte, wrong);
    }
  } catch (const simdjson::simdjson_error& error) {
    fail(error.error() == simdjson::INCOMPLETE_ARRAY_OR_OBJECT ? text.size() : where(),
         error.what());
  }
  return reader.finish();
}

}  // namespace mfu::fake
