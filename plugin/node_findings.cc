#include "plugin/node_findings.hh"

#include <algorithm>
#include <cstring>

namespace mfu {
namespace {

bool is_rule_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-';
}

bool is_printable(char byte) {
  return byte >= ' ' && byte <= '~';
}

template <size_t kSize>
void put(const std::string& text, char (&place)[kSize]) {
  std::memcpy(place, text.data(), std::min(text.size(), kSize - 1));
}

template <size_t kSize, typename Fits>
bool is_sound(const char (&text)[kSize], Fits fits) {
  const void* end = std::memchr(text, '\0', kSize);
  return end != nullptr && std::all_of(text, static_cast<const char*>(end), fits);
}

}  // namespace

std::string cut_text(std::string_view text, size_t most) {
  constexpr std::string_view kCut = "...";
  if (text.size() <= most) return std::string(text);
  if (most < kCut.size()) return std::string(text.substr(0, most));
  const std::string_view room = text.substr(0, most - kCut.size());
  // A word that fills most of the room has no end worth waiting for.
  const size_t blank = text.substr(0, room.size() + 1).rfind(' ');
  const bool at_word = blank != text.npos && blank >= room.size() / 2;
  return std::string(at_word ? room.substr(0, blank) : room).append(kCut);
}

Finding fit_finding(const Finding& finding) {
  const auto fit = [](std::string text, size_t most) {
    std::replace_if(
        text.begin(), text.end(), [](char byte) { return !is_printable(byte); }, '?');
    return cut_text(text, most);
  };
  std::string rule = finding.rule.substr(0, kMostRule);
  std::replace_if(
      rule.begin(), rule.end(), [](char byte) { return !is_rule_byte(byte); }, '-');
  return {rule.empty() ? "-" : rule, finding.severity, fit(finding.place, kMostPlace),
          fit(finding.evidence, kMostEvidence), fit(finding.remedy, kMostRemedy)};
}

const char* NodeFindings::fault() const {
  if (count > kMost || left_out > 1) return "findings";
  for (uint32_t i = 0; i < count; ++i) {
    const Item& item = items[i];
    if (item.severity > static_cast<uint32_t>(Severity::kHigh)) return "severity";
    if (item.rule[0] == '\0' || !is_sound(item.rule, is_rule_byte)) return "rule";
    if (!is_sound(item.place, is_printable) || !is_sound(item.evidence, is_printable) ||
        !is_sound(item.remedy, is_printable)) {
      return "finding's text";
    }
  }
  return nullptr;
}

std::vector<Finding> NodeFindings::findings() const {
  std::vector<Finding> all;
  for (uint32_t i = 0; i < count; ++i) {
    const Item& item = items[i];
    all.push_back(
        {item.rule, static_cast<Severity>(item.severity), item.place, item.evidence, item.remedy});
  }
  return all;
}

NodeFindings top_findings(std::span<const Finding> findings) {
  NodeFindings top;
  for (const Severity severity : {Severity::kHigh, Severity::kWarning, Severity::kInformation}) {
    for (const Finding& finding : findings) {
      if (finding.severity != severity) continue;
      if (top.count == NodeFindings::kMost) {
        top.left_out = 1;
        return top;
      }
      const Finding fitted = fit_finding(finding);
      NodeFindings::Item& item = top.items[top.count++];
      item.severity = static_cast<uint32_t>(severity);
      put(fitted.rule, item.rule);
      put(fitted.place, item.place);
      put(fitted.evidence, item.evidence);
      put(fitted.remedy, item.remedy);
    }
  }
  return top;
}

}  // namespace mfu
