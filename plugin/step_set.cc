#include "plugin/step_set.hh"

#include <charconv>
#include <iterator>
#include <vector>

namespace mfu {
namespace {

std::string range_text(uint32_t first, uint32_t last) {
  std::string text = std::to_string(first);
  if (last != first) text += "-" + std::to_string(last);
  return text;
}

std::optional<uint32_t> parse_number(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number > kLastNumberedStep) return std::nullopt;
  return number;
}

}  // namespace

std::string step_text(uint32_t step) {
  if (step == kBatchStep) return "b";
  if (step == kInteractiveStep) return "i";
  return std::to_string(step);
}

std::optional<uint32_t> parse_step(std::string_view text) {
  if (text == "b") return kBatchStep;
  if (text == "i") return kInteractiveStep;
  return parse_number(text);
}

void StepSet::insert(uint32_t step) {
  if (step == kBatchStep) batch_ = true;
  if (step == kInteractiveStep) interactive_ = true;
  if (step > kLastNumberedStep || contains(step)) return;
  uint32_t first = step;
  uint32_t last = step;
  auto next = ranges_.upper_bound(step);
  if (next != ranges_.end() && next->first == step + 1) {
    last = next->second;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second + 1 == step) first = previous->first;
  }
  ranges_[first] = last;
}

bool StepSet::contains(uint32_t step) const {
  if (step == kBatchStep) return batch_;
  if (step == kInteractiveStep) return interactive_;
  const auto next = ranges_.upper_bound(step);
  return next != ranges_.begin() && std::prev(next)->second >= step;
}

// All ranges up to `last` as one, or as two around the running step.
std::string StepSet::closed_text(uint32_t last, std::optional<uint32_t> running) const {
  const uint32_t first = ranges_.begin()->first;
  if (!running || *running < first || *running > last || contains(*running)) {
    return range_text(first, last);
  }
  const auto above = ranges_.upper_bound(*running);
  return range_text(first, std::prev(above)->second) + "," + range_text(above->first, last);
}

std::string StepSet::text(size_t limit, std::optional<uint32_t> running) const {
  std::string special;
  if (batch_) special += ",b";
  if (interactive_) special += ",i";
  if (ranges_.empty()) return special.empty() ? special : special.substr(1);

  // From the highest range down: `tail` holds the ranges that stay apart, and everything below
  // them is closed. The longest tail that fits wins.
  std::string tail = special;
  std::string best;
  for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
    const std::string candidate = closed_text(range->second, running) + tail;
    if (best.empty() || candidate.size() <= limit) best = candidate;
    tail.insert(0, "," + range_text(range->first, range->second));
    if (tail.size() > limit) break;
  }
  return best;
}

tl::expected<StepSet, std::string> StepSet::parse(std::string_view text) {
  StepSet set;
  size_t at = 0;
  const auto fault = [&](const char* what) {
    return tl::make_unexpected("byte " + std::to_string(at) + ": " + what);
  };
  uint64_t lowest = 0;  // what the next range may begin with
  while (true) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    if (item == "i" && !set.interactive_) {
      set.interactive_ = true;
    } else if (item == "b" && !set.batch_ && !set.interactive_) {
      set.batch_ = true;
    } else if (set.batch_ || set.interactive_) {
      return fault("steps must ascend, b and i come last");
    } else {
      const size_t dash = item.find('-');
      const auto first = parse_number(item.substr(0, dash));
      const auto last = dash == item.npos ? first : parse_number(item.substr(dash + 1));
      if (!first || !last) return fault("not a step");
      if (*first < lowest || *last < *first || (dash != item.npos && *first == *last)) {
        return fault("steps must ascend, with gaps between the ranges");
      }
      set.ranges_.emplace_hint(set.ranges_.end(), *first, *last);
      lowest = uint64_t{*last} + 2;
    }
    if (end == text.size()) return set;
    at = end + 1;
  }
}

}  // namespace mfu
