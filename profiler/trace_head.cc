#include "profiler/trace_head.hh"

#include <simdjson.h>

#include "profiler/microseconds.hh"

namespace mfu {
namespace {

namespace json = simdjson::ondemand;
using std::string_view;

// A scalar as it is written, a string without its quotes; the first bracket of anything else.
string_view word(json::value value) {
  string_view token = value.raw_json_token();
  token = token.substr(0, token.find_last_not_of(" \n\r\t") + 1);
  if (token.size() < 2 || token[0] != '"') return token;
  return token.substr(1, token.size() - 2);
}

void read_info(json::object info, TraceHead* head) {
  for (json::field field : info) {
    const string_view key = field.unescaped_key();
    const string_view text_of_value = word(field.value());
    if (key == "rank") head->rank = parse_integer(text_of_value);
    if (key == "world_size") head->world_size = parse_integer(text_of_value);
    if (key == "backend") head->backend = text_of_value;
    if (key == "nccl_version") head->nccl_version = text_of_value;
  }
}

void read_devices(json::array devices, TraceHead* head) {
  for (json::value element : devices) {
    if (element.raw_json_token()[0] != '{') continue;
    std::optional<int64_t> id;
    string_view name;
    for (json::field field : element.get_object()) {
      const string_view key = field.unescaped_key();
      if (key == "id") id = parse_integer(word(field.value()));
      if (key == "name") name = word(field.value());
    }
    if (id && !name.empty()) head->gpus[*id] = name;
  }
}

// What simdjson does not like, such as half of a surrogate pair in a key, is no reason to refuse
// the trace: what was found until then stays.
template <class Use>
void look_into(const std::string& value, Use use) {
  try {
    json::parser parser;
    const simdjson::padded_string text(value);
    json::document document = parser.iterate(text);
    use(document);
  } catch (const simdjson::simdjson_error&) {
  }
}

}  // namespace

void read_distributed_info(const std::string& value, TraceHead* head) {
  look_into(value, [head](json::document& document) { read_info(document.get_object(), head); });
}

void read_device_properties(const std::string& value, TraceHead* head) {
  look_into(value, [head](json::document& document) { read_devices(document.get_array(), head); });
}

}  // namespace mfu
