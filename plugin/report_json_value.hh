// JSON as text that grows: what mfu-report writes a million times.
#ifndef MFU_PLUGIN_REPORT_JSON_VALUE_HH_
#define MFU_PLUGIN_REPORT_JSON_VALUE_HH_

#include <algorithm>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "plugin/job_report.hh"

namespace mfu {

// A value as JSON text: a library's tree of a hundred values a job takes four times as long.
class Json {
 public:
  using Member = std::pair<const char*, Json>;

  Json() : text_("null") {}
  Json(bool value) : text_(value ? "true" : "false") {}  // NOLINT: values are Json where they stand
  Json(double value) : text_(std::isfinite(value) ? number_text(value) : "null") {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Json(Number value) : text_(std::to_string(value)) {}
  Json(std::string_view text) { quote(text); }
  Json(const std::string& text) { quote(text); }
  Json(const char* text) { quote(text); }
  Json(std::initializer_list<Member> members) : Json(object()) {
    for (const auto& [key, value] : members) append(key, value);
  }
  static Json object() { return Json('{', '}'); }
  static Json array() { return Json('[', ']'); }

  // To an object, a key that it has not.
  void append(const char* key, const Json& value) {
    separate();
    text_.append("\"").append(key).append("\":");
    value.write(&text_);
  }
  // To an array.
  void append(const Json& value) {
    separate();
    value.write(&text_);
  }
  // To an object, what is in another one.
  void append_members(const Json& other) {
    if (other.text_.size() == 1) return;
    separate();
    text_.append(other.text_, 1);
  }

  void write(std::string* out) const {
    *out += text_;
    if (end_ != '\0') *out += end_;
  }
  // Of an object, to which more is to come.
  const std::string& opened() const { return text_; }

 private:
  Json(char begin, char end) : text_(1, begin), end_(end) {}
  void separate() {
    if (text_.size() > 1) text_ += ',';
  }
  // Bytes of others need the library: they may be no UTF-8.
  void quote(std::string_view text) {
    const auto plain = [](char byte) {
      return byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\';
    };
    if (std::all_of(text.begin(), text.end(), plain)) {
      text_.append("\"").append(text).append("\"");
    } else {
      text_ = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
  }

  std::string text_;
  char end_ = '\0';  // of an object or an array
};

}  // namespace mfu

#endif
