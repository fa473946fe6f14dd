// A JSON object, written key by key. (A JSON library would take longer to compile than the rest.)
#ifndef MFU_KERNELS_JSON_OBJECT_HH_
#define MFU_KERNELS_JSON_OBJECT_HH_

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mfu {

class JsonObject {
 public:
  // Any bytes; what is not printable ASCII becomes '?'.
  void add(const char* key, std::string_view text);
  void add(const char* key, const char* text) { add(key, std::string_view(text)); }
  void add(const char* key, bool value) { put(key, value ? "true" : "false"); }
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) void add(const char* key, Number value) {
    put(key, std::to_string(value));
  }
  void add(const char* key, double value);
  void add(const char* key, std::span<const JsonObject> values);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  void put(const char* key, std::string_view value);

  std::string members_;
};

}  // namespace mfu

#endif
