// Searching in kernel names, mangled or not. Runs inside the injected library: no allocation, no
// locale, and nothing that may throw.
#ifndef MFU_PROFILER_NAME_SEARCH_HH_
#define MFU_PROFILER_NAME_SEARCH_HH_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace mfu::name_search {

using std::string_view;
inline constexpr size_t kNotFound = string_view::npos;

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
inline bool is_identifier(char c) {
  return is_digit(c) || c == '_' || (lower(c) >= 'a' && lower(c) <= 'z');
}

// Not string_view's substr, starts_with and ends_with: they can throw, or do so in an unoptimized
// build, and the injected library has nothing to link that to.
inline string_view from(string_view text, size_t begin) {
  text.remove_prefix(std::min(begin, text.size()));
  return text;
}
inline string_view first(string_view text, size_t count) {
  return {text.data(), std::min(count, text.size())};
}
inline bool begins(string_view text, string_view head) {
  return first(text, head.size()) == head;
}
inline bool ends(string_view text, string_view tail) {
  return text.size() >= tail.size() && from(text, text.size() - tail.size()) == tail;
}

// An identifier that is, or unless `whole` only begins with, the text. In a mangled name the number
// in front is the identifier's length and proves where it begins.
bool has_identifier(string_view name, string_view text, bool whole);

// Ignores case and underscores: "allreduce" is in oneShotAllReduceKernel and one_shot_all_reduce.
bool contains_folded(string_view name, string_view text);

template <size_t kSize>
using Names = std::array<string_view, kSize>;

template <size_t kSize>
bool any_folded(string_view name, const Names<kSize>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [name](string_view text) { return contains_folded(name, text); });
}

}  // namespace mfu::name_search

#endif
