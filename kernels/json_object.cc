#include "kernels/json_object.hh"

#include <cmath>
#include <cstdio>

namespace mfu {

void JsonObject::add(const char* key, std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c >= ' ' && c <= '~' ? c : '?';
  }
  put(key, quoted + "\"");
}

void JsonObject::add(const char* key, double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.12g", value);
  put(key, std::isfinite(value) ? text : "null");
}

void JsonObject::add(const char* key, std::span<const JsonObject> values) {
  std::string list = "[";
  for (const JsonObject& value : values)
    list += (list.size() > 1 ? ",\n  " : "\n  ") + value.text();
  put(key, list + "]");
}

void JsonObject::put(const char* key, std::string_view value) {
  if (!members_.empty()) members_ += ", ";
  members_ += "\"" + std::string(key) + "\": " + std::string(value);
}

}  // namespace mfu
