// Sets of things that were found to belong together.
#ifndef MFU_TOPOLOGY_DISJOINT_SETS_HH_
#define MFU_TOPOLOGY_DISJOINT_SETS_HH_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace mfu {

class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }

  // One member of each set stands for it: the smallest.
  uint32_t find(uint32_t member) {
    while (parent_[member] != member) {
      parent_[member] = parent_[parent_[member]];
      member = parent_[member];
    }
    return member;
  }

  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    if (a < b) {
      parent_[b] = a;
    } else {
      parent_[a] = b;
    }
  }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace mfu

#endif
