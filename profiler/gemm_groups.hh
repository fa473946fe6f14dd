// Calls of matrix multiplications whose three dimensions are the same, in whatever order: a product
// C = A B and its two gradients are such calls (model_inference.hh). And the threads that call:
// PyTorch computes gradients, with what is recomputed for them, in threads of their own.
//
// Runs inside the injected library: no C++ runtime, no allocation. Not thread-safe.
#ifndef MFU_PROFILER_GEMM_GROUPS_HH_
#define MFU_PROFILER_GEMM_GROUPS_HH_

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "profiler/gemm_calls.hh"

namespace mfu {

// Calls of a thread, of those of a group, that tell nothing.
inline constexpr double kGroupNoise = 0.02;

enum Side { kForward, kBackward, kSides };  // of the threads that call
inline constexpr int kDimensions = 3;

// Calls of the same dimensions. Equal dimensions count as the lower one of them.
struct GemmGroup {
  uint64_t dimensions[kDimensions] = {};  // sorted
  uint64_t batch = 1;
  double call_flops = 0;
  // By contracted dimension and GemmOperation; of copied ones: and by whether m > n.
  double calls[kSides][kDimensions][kOperations] = {};
  int different = 0;  // dimensions
  int twin = -1;      // the dimension that occurs twice; -1: none or all three
  // Orders of the first calls (GemmCount::first): of shapes that the forward side calls for, and of
  // those that only the backward side does. 0: none.
  uint64_t first[kSides] = {};
  bool copied = false;  // the operands may have been transposed by a copy: no GemmOperation tells

  // The calls of another one, as calls of one FLOP.
  void add_flops(const GemmGroup& other);
  bool batched() const { return batch > 1; }
  int contracted(uint64_t k) const { return k == dimensions[0] ? 0 : k == dimensions[1] ? 1 : 2; }
  double by(Side side, GemmOperation operation) const {
    double sum = 0;
    for (const auto& contracted : calls[side]) sum += contracted[operation];
    return sum;
  }
  double contracting(Side side, int dimension) const {
    double sum = 0;
    for (const double each : calls[side][dimension]) sum += each;
    return sum;
  }
  double by(GemmOperation operation) const {
    return by(kForward, operation) + by(kBackward, operation);
  }
  double contracting(int dimension) const {
    return contracting(kForward, dimension) + contracting(kBackward, dimension);
  }
  double of(int dimension, GemmOperation operation) const {
    return calls[kForward][dimension][operation] + calls[kBackward][dimension][operation];
  }
  double total(Side side) const {
    double sum = 0;
    for (int i = 0; i < kDimensions; ++i) sum += contracting(side, i);
    return sum;
  }
  double total() const { return total(kForward) + total(kBackward); }
};

// All groups of a process.
class GemmGroups {
 public:
  // `counts` must stay until the last call of next().
  void collect(const GemmCount (&counts)[GemmTable::kShapes]);
  // Otherwise all calls are on the forward side.
  bool threads_tell() const { return backward_.known; }
  double flops() const;
  // Of groups, one after the other: `*position` is 0 at first. False: there is none left.
  bool next(size_t* position, GemmGroup* group) const;
  // As a group of different dimensions, with calls of one FLOP.
  GemmGroup of_unlisted(const UnlistedGemms& unlisted) const;

 private:
  // A shape, and the group that it belongs to.
  struct Member {
    const GemmCount* count;
    uint64_t dimensions[kDimensions];  // sorted
    bool copied;

    auto key() const {
      return std::tie(dimensions[2], dimensions[1], dimensions[0], count->shape.batch, copied,
                      count->shape.complex);
    }
  };
  // The threads that compute gradients.
  struct Backward {
    bool is[kGemmThreads];
    bool known;
  };

  Side side_of(size_t thread) const {
    return backward_.known && backward_.is[thread] ? kBackward : kForward;
  }
  Backward find_backward() const;
  bool in_order() const;

  Member members_[GemmTable::kShapes] = {};
  size_t size_ = 0;
  Backward backward_ = {};
};

}  // namespace mfu

#endif
