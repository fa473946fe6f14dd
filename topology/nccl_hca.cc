#include "topology/nccl_hca.hh"

#include <algorithm>
#include <charconv>

namespace mfu {
namespace {

constexpr size_t kMostEntries = 32;

}  // namespace

HcaFilter::HcaFilter(std::string_view text) {
  excludes_ = text.starts_with('^');
  if (excludes_) text.remove_prefix(1);
  exact_ = text.starts_with('=');
  if (exact_) text.remove_prefix(1);
  while (!text.empty() && entries_.size() < kMostEntries) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = std::min(item.find(':'), item.size());
    if (colon == 0) continue;
    Entry entry{std::string(item.substr(0, colon)), -1};
    if (colon + 1 < item.size()) {
      entry.port = 0;  // as atoi has it for what is no number
      std::from_chars(item.data() + colon + 1, item.data() + item.size(), entry.port);
    }
    entries_.push_back(std::move(entry));
  }
}

bool HcaFilter::takes(std::string_view name, uint32_t port) const {
  if (entries_.empty()) return true;
  const bool listed = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (entry.port != -1 && entry.port != static_cast<int32_t>(port)) return false;
    return exact_ ? name == entry.name : name.starts_with(entry.name);
  });
  return listed != excludes_;
}

}  // namespace mfu
