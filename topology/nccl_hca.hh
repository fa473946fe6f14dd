// NCCL_IB_HCA as NCCL reads it.
#ifndef MFU_TOPOLOGY_NCCL_HCA_HH_
#define MFU_TOPOLOGY_NCCL_HCA_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// A list of names of RDMA adapters, each with an optional port: "mlx5_0:1,mlx5_3". A '^' in front
// of the whole list takes all but those. A '=' behind that makes names exact: without it they are
// beginnings, and mlx5_1 is mlx5_10 too. An empty list takes all. NCCL reads at most 32 entries.
class HcaFilter {
 public:
  explicit HcaFilter(std::string_view text);
  bool takes(std::string_view name, uint32_t port) const;
  // Names what to take, rather than what not.
  bool names_some() const { return !excludes_ && !entries_.empty(); }
  bool exact() const { return exact_; }

 private:
  struct Entry {
    std::string name;
    int32_t port = -1;  // any
  };
  std::vector<Entry> entries_;
  bool excludes_ = false;
  bool exact_ = false;
};

}  // namespace mfu

#endif
