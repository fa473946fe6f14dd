#include "profiler/name_search.hh"

namespace mfu::name_search {
namespace {

// Whether the digits before `begin` are the length of a mangled identifier that starts with (or, if
// `whole`, is) the `size` characters there. The digits may be more than the length: an anonymous
// namespace ends in one ("12_GLOBAL__N_1" "14barrier_kernel").
bool length_fits(string_view name, size_t begin, size_t size, bool whole) {
  size_t length = 0;
  size_t unit = 1;
  for (size_t i = begin; i > 0 && is_digit(name[i - 1]) && unit <= 10000; --i, unit *= 10) {
    length += unit * static_cast<size_t>(name[i - 1] - '0');
    if (length == size || (!whole && length > size && length <= name.size() - begin)) return true;
  }
  return false;
}

}  // namespace

bool has_identifier(string_view name, string_view text, bool whole) {
  for (size_t at = name.find(text); at != kNotFound; at = name.find(text, at + 1)) {
    size_t end = at + text.size();
    if (at == 0 || !is_identifier(name[at - 1])) {
      if (!whole || end == name.size() || !is_identifier(name[end])) return true;
    } else if (length_fits(name, at, text.size(), whole)) {
      return true;
    }
  }
  return false;
}

bool contains_folded(string_view name, string_view text) {
  if (text.empty()) return false;
  for (size_t begin = 0; begin < name.size(); ++begin) {
    size_t matched = 0;
    for (size_t i = begin; i < name.size() && matched < text.size(); ++i) {
      if (name[i] == '_' && matched > 0) continue;
      if (lower(name[i]) != text[matched]) break;
      ++matched;
    }
    if (matched == text.size()) return true;
  }
  return false;
}

}  // namespace mfu::name_search
