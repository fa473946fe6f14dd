// What most peers have.
#ifndef MFU_TOPOLOGY_FABRIC_PEERS_HH_
#define MFU_TOPOLOGY_FABRIC_PEERS_HH_

#include <cstdint>
#include <map>

namespace mfu {

template <class Value>
class PeerCount {
 public:
  void add(const Value& value) {
    ++count_[value];
    ++peers_;
  }
  uint32_t peers() const { return peers_; }
  uint32_t with(const Value& value) const {
    const auto found = count_.find(value);
    return found == count_.end() ? 0 : found->second;
  }
  // Whether so many have it that it is how they were made: three, and a quarter of all.
  bool is_common(const Value& value) const {
    const uint32_t count = with(value);
    return count >= 3 && 4 * count >= peers_;
  }
  // The most common value, if at least half of three peers or more have it; else null. Of two that
  // are as common the larger one.
  const Value* usual() const {
    const Value* most = nullptr;
    uint32_t count = 0;
    for (const auto& [value, peers] : count_) {
      if (peers >= count) {
        most = &value;
        count = peers;
      }
    }
    return peers_ >= 3 && 2 * count >= peers_ ? most : nullptr;
  }

 private:
  std::map<Value, uint32_t> count_;
  uint32_t peers_ = 0;
};

}  // namespace mfu

#endif
