// Our line inside a field that others write to as well.
#include <array>

#include "plugin/comment.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu/1 ";
constexpr std::string_view kSumKey = "sum=";

bool is_blank(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

constexpr bool is_digit(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z');
}

// Kinds of bytes, a bit each. A table: a million fields are read byte by byte.
enum Kind : uint8_t { kValue = 1, kKey = 2, kSum = 4 };
constexpr auto kKinds = [] {
  std::array<uint8_t, 256> kinds{};
  for (int code = 0; code < 128; ++code) {
    const char byte = static_cast<char>(code);
    if (is_value_byte(byte)) kinds[static_cast<size_t>(code)] |= kValue;
    if (is_digit(byte) || byte == '-') kinds[static_cast<size_t>(code)] |= kKey;
    if (is_digit(byte) || byte == ',') kinds[static_cast<size_t>(code)] |= kSum;
  }
  return kinds;
}();

// Behind the bytes of a kind.
size_t skip(std::string_view text, size_t at, Kind kind) {
  while (at < text.size() && (kKinds[static_cast<unsigned char>(text[at])] & kind) != 0) ++at;
  return at;
}

// The end of the token key=value at `at`, or npos when there is none.
size_t token_end(std::string_view text, size_t at) {
  const size_t equals = skip(text, at, kKey);
  if (equals == at || equals == text.size() || text[equals] != '=') return text.npos;
  const size_t value = equals + 1;
  const bool last = text.substr(at).starts_with(kSumKey);
  const size_t end = skip(text, value, last ? kSum : kValue);
  if (end == value || end == text.size() || text[end] != (last ? '.' : ' ')) return text.npos;
  return last ? end + 1 : end;
}

// The length of our line when `text` begins with it, else 0.
size_t line_length(std::string_view text) {
  text = text.substr(0, kMaxLine);
  if (!text.starts_with(kOpening)) return 0;
  for (size_t at = kOpening.size();;) {
    const size_t end = token_end(text, at);
    if (end == text.npos) return 0;
    if (text.substr(at).starts_with(kSumKey)) return end;
    at = end + 1;
  }
}

}  // namespace

std::string_view find_comment(std::string_view field) {
  for (size_t at = field.find(kOpening); at != field.npos; at = field.find(kOpening, at + 1)) {
    if (at > 0 && !is_blank(field[at - 1])) continue;
    if (const size_t length = line_length(field.substr(at))) return field.substr(at, length);
  }
  return field.substr(field.size());
}

tl::expected<std::string, std::string> replace_comment(std::string_view field,
                                                       std::string_view line, size_t limit) {
  if (field.starts_with("JS")) {
    return tl::make_unexpected("the field belongs to jobstats (it begins with \"JS\")");
  }
  const std::string_view old = find_comment(field);
  const auto start = static_cast<size_t>(old.data() - field.data());
  std::string result(field.substr(0, start));
  if (old.empty() && !result.empty() && !is_blank(result.back())) result += ' ';
  result.append(line).append(field.substr(start + old.size()));
  if (result.size() > limit) {
    return tl::make_unexpected("the field would have " + std::to_string(result.size()) +
                               " bytes, more than the " + std::to_string(limit) + " allowed");
  }
  return result;
}

}  // namespace mfu
