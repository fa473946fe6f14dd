#include "topology/cpu_set.hh"

#include <algorithm>
#include <bit>
#include <charconv>

namespace mfu {
namespace {

// Up to the comma, which is taken with it.
std::string_view take_item(std::string_view* text) {
  const size_t end = std::min(text->find(','), text->size());
  const std::string_view item = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return item;
}

std::string_view without_blanks_behind(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

bool parse(std::string_view text, int base, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<CpuSet> CpuSet::from_list(std::string_view text) {
  text = without_blanks_behind(text);
  CpuSet set;
  while (!text.empty()) {
    const std::string_view item = take_item(&text);
    const size_t dash = item.find('-');
    uint32_t first = 0;
    if (!parse(item.substr(0, dash), 10, &first)) return std::nullopt;
    uint32_t last = first;
    if (dash != std::string_view::npos && !parse(item.substr(dash + 1), 10, &last)) {
      return std::nullopt;
    }
    if (last < first || last >= kMost) return std::nullopt;
    for (uint32_t cpu = first; cpu <= last; ++cpu) set.add(cpu);
  }
  return set;
}

std::optional<CpuSet> CpuSet::from_mask(std::string_view text) {
  text = without_blanks_behind(text);
  CpuSet set;
  if (text.empty()) return set;
  const size_t words = 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ','));
  for (size_t left = words; left > 0; --left) {
    std::string_view item = take_item(&text);
    if (item.starts_with("0x")) {
      item.remove_prefix(2);
      if (item.empty()) return std::nullopt;
    }
    // Slurm writes a mask of one word of any length.
    if (words == 1) {
      uint32_t cpu = static_cast<uint32_t>(item.size()) * 4;
      if (item.size() * 4 > kMost) return std::nullopt;
      for (const char digit : item) {
        cpu -= 4;
        uint32_t bits = 0;
        if (!parse(std::string_view(&digit, 1), 16, &bits)) return std::nullopt;
        for (uint32_t bit = 0; bit < 4; ++bit) {
          if ((bits >> bit & 1) != 0) set.add(cpu + bit);
        }
      }
      return set;
    }
    uint32_t bits = 0;
    if (item.size() > 8 || (!item.empty() && !parse(item, 16, &bits))) return std::nullopt;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      if ((bits >> bit & 1) == 0) continue;
      const size_t cpu = (left - 1) * 32 + bit;
      if (cpu >= kMost || !set.add(static_cast<uint32_t>(cpu))) return std::nullopt;
    }
  }
  return set;
}

bool CpuSet::add(uint32_t cpu) {
  if (cpu >= kMost) return false;
  if (words_.size() <= cpu / 64) words_.resize(cpu / 64 + 1);
  words_[cpu / 64] |= uint64_t{1} << cpu % 64;
  return true;
}

bool CpuSet::has(uint32_t cpu) const {
  return cpu / 64 < words_.size() && (words_[cpu / 64] >> cpu % 64 & 1) != 0;
}

size_t CpuSet::count() const {
  size_t sum = 0;
  for (const uint64_t word : words_) sum += static_cast<size_t>(std::popcount(word));
  return sum;
}

bool CpuSet::intersects(const CpuSet& other) const {
  for (size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

bool CpuSet::within(const CpuSet& other) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t allowed = i < other.words_.size() ? other.words_[i] : 0;
    if ((words_[i] & ~allowed) != 0) return false;
  }
  return true;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  trim();
  return *this;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::string CpuSet::text() const {
  std::string out;
  const uint32_t end = static_cast<uint32_t>(words_.size()) * 64;
  for (uint32_t cpu = 0; cpu < end; ++cpu) {
    if (!has(cpu)) continue;
    uint32_t last = cpu;
    while (has(last + 1)) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(cpu);
    if (last > cpu) out += "-" + std::to_string(last);
    cpu = last;
  }
  return out.empty() ? "none" : out;
}

}  // namespace mfu
