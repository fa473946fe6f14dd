// Stragglers. The n-th collective of a process group is the same operation on all its ranks. Its
// shortest instance bounds the transfer: that rank came last and found the others there. What an
// instance takes beyond that is waiting. So a long "communication time" is told apart: a slow
// network makes the transfer long, a straggler makes the others wait.
//
// Only durations are used for that, so the ranks' clocks need not agree. Where a trace names
// process groups, each is aligned by itself; otherwise all communication kernels of a rank are one
// sequence.
#ifndef MFU_PROFILER_COLLECTIVE_SKEW_HH_
#define MFU_PROFILER_COLLECTIVE_SKEW_HH_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

struct Spread {
  uint64_t median_ns = 0;
  uint64_t largest_ns = 0;
};

struct SkewFigures {
  struct Participant {
    uint64_t collectives = 0;
    uint64_t wait_ns = 0;    // beyond the shortest instances
    uint64_t last = 0;       // collectives at which it came last
    uint64_t caused_ns = 0;  // waiting of the others at these
  };
  std::map<size_t, Participant> participants;  // by the number given to add()
  size_t groups = 0;
  size_t aligned_groups = 0;
  uint64_t aligned = 0;  // collectives, each on all ranks of its group
  bool all_aligned() const { return groups > 0 && aligned_groups == groups; }
  uint64_t transfer_ns = 0;         // sum of the shortest instances
  Spread start_spread, end_spread;  // between ranks; as good as their clocks
  // The participant that made the others wait longest, if any.
  bool has_slowest = false;
  size_t slowest = 0;
};

class CollectiveSkew {
 public:
  explicit CollectiveSkew(size_t memory = 1 << 20);
  ~CollectiveSkew();

  // In order of start within a participant. `name` is compared up to its '('.
  void add(size_t participant, std::string_view group, std::string_view name, int64_t start_ns,
           int64_t end_ns);
  // Once. False with *error when the temporary files failed.
  bool finish(SkewFigures* figures, std::string* error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mfu

#endif
