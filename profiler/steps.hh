// Training steps of a device, found without the program's help, and the choice among sources.
//
// Sources, the best first: NVTX ranges that are called steps (nvtx_gate.hh), a kernel that the user
// named, and periodicity. An estimate is either right or absent: where the kernels do not repeat
// regularly, or repeat in two nested ways of which nothing tells the step, source is kNone.
//
// Periodicity counts in kernels, not in time: a step launches the same kernels whether or not it
// waits for data. A kernel's token is its name and grid. Of each token two beats are followed:
// every launch, and the first launch of each burst (an optimizer runs the same kernel ten times in
// a row, once a step). A beat is regular when nearly all its distances are equal and fill nearly
// all of the token's life; that excludes layers, which pause during the other half of the step.
// What is left is microbatches, steps and whatever happens every so many steps:
//   - with optimizer kernels in sight (is_optimizer_kernel), the step is the beat of those of them
//     that hold most time: gradient accumulation and evaluation do not run the optimizer;
//   - without, layers in a step, microbatches in a step and steps between evaluations look alike.
//     There is an estimate only of one flat loop: after the start-up nothing runs more rarely than
//     the anchor, and what recurs regularly within it holds less than 1% of GPU time. Nothing
//     tells, though, that a first optimizer step is still to come: until then, the microbatches of
//     a run with more than 16 of them in a step pass for steps.
//
// Runs inside the injected library: no C++ runtime, no allocation. Not thread-safe.
#ifndef MFU_PROFILER_STEPS_HH_
#define MFU_PROFILER_STEPS_HH_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mfu {

enum class StepSource : uint32_t { kNone, kPeriodicity, kKernel, kNvtx };
// "none", "periodicity", "kernel", "nvtx".
const char* step_source_name(StepSource source);

// All times in nanoseconds. With source kNone everything else is 0.
struct StepEstimate {
  StepSource source;
  // In 1/1000. Of periodicity: the share of the anchor's distances that are regular, times the
  // share (by GPU time) of the tokens of this period that agree with its count; at least
  // kLeastConfidence. Of the other sources 1000: the user said so.
  uint32_t confidence;
  uint64_t count;      // occurrences of the anchor; of NVTX: ranges that ended
  uint64_t first_ns;   // start of the first
  uint64_t last_ns;    // start of the last
  uint64_t period_ns;  // mean from first to last: stalls, evaluation and checkpoints included
  uint64_t median_ns;  // running, within about 3%: they are not in it, and a change is followed

  // first_ns .. last_ns falls into productive_ns + stalled_ns: a step that took more than twice the
  // median counts as a median one, and the rest of it as stalled. What came before first_ns is
  // start-up; the last step, from last_ns on, is in neither.
  uint64_t productive_ns;
  uint64_t stalled_ns;
  uint64_t stalls;
  uint64_t before_ns;  // from the device's first kernel to first_ns; 0 of NVTX
};

inline constexpr uint32_t kLeastConfidence = 800;
// Fewer occurrences prove no period.
inline constexpr uint32_t kLeastSteps = 5;  // 16 where no optimizer is in sight

// The one of higher rank; `a` when they are equal.
StepEstimate better_steps(const StepEstimate& a, const StepEstimate& b);

// A training step by its name: "step", "train_step", "Iteration 12", "ProfilerStep#5",
// "iter-3/100"; never "optimizer_step", "lr_scheduler.step" or "steps". Case, spaces and
// punctuation do not count, nor a number at the end.
bool is_step_range(std::string_view name);

// Kernels that only run in an optimizer: fused and foreach optimizers of torch, Apex, Transformer
// Engine, DeepSpeed, bitsandbytes and TensorFlow.
bool is_optimizer_kernel(std::string_view name);

// The start times of something that recurs. All zero: nothing yet.
struct StepPace {
  uint64_t count;
  uint64_t last_ns;
  uint64_t typical_ns;  // running median
  uint64_t productive_ns;
  uint64_t first_ns;
  uint64_t stalled_ns;
  uint64_t stalls;

  // In about the order of time: an earlier one than the last counts as simultaneous.
  void add(uint64_t start_ns);
  // confidence 1000, before_ns 0. `source` kNone when count is 0.
  StepEstimate estimate(StepSource source) const;
};

enum class KernelMark : uint8_t {
  kNone,
  kOptimizer,  // is_optimizer_kernel()
  kDeclared,   // the kernel that the user named: it runs once a step, or in one burst a step
};

// Of a kernel's name (any hash of it) and its grid.
inline uint64_t step_token(uint64_t name_hash, const uint32_t (&grid)[3]) {
  uint64_t token = name_hash ^ (uint64_t{grid[0]} | uint64_t{grid[1]} << 32);
  token = (token ^ (token >> 32)) * 0x9e3779b97f4a7c15;
  token = (token ^ grid[2]) * 0xbf58476d1ce4e5b9;
  return token ^ (token >> 29);
}

// One device's. All zero bytes are a valid empty detector: static or mapped memory needs no
// constructor. 218 KiB, of which only the tokens in use are touched.
class StepDetector {
 public:
  // Every kernel, communication included, in about the order of start or of end.
  void add(uint64_t token, uint64_t start_ns, uint64_t end_ns, KernelMark mark = KernelMark::kNone);

  // May be asked for at any time; takes about 20 us.
  StepEstimate estimate() const;

 private:
  // Distances between occurrences, in kernels of the device, with the most frequent one by a
  // majority vote.
  struct Beat {
    uint64_t last;      // index of the last occurrence
    uint64_t covered;   // sum of the regular distances
    uint32_t distance;  // as voted
    uint32_t votes;
    uint32_t regular;  // distances that were as voted when they came
    StepPace pace;
    uint64_t first;  // index of the first occurrence

    // The distance to the one before; 0: it was the first.
    uint64_t add(uint64_t index, uint64_t start_ns);
    bool repeats() const;     // most distances are regular
    bool is_regular() const;  // and they fill most of its life
  };
  struct Token {
    uint64_t gpu_ns;
    bool optimizer;
    Beat each;
    Beat burst;

    void add(uint64_t index, uint64_t start_ns);
    bool comes_in_bursts() const;
    // The one that is regular and long enough for a step, or nullptr.
    const Beat* regular_beat() const;
  };
  struct Candidate {
    const Token* token;
    const Beat* beat;
  };
  // Candidates of one distance.
  struct Cluster {
    const Candidate* begin;
    const Candidate* end;
    uint64_t gpu_ns;
  };

  Token* find(uint64_t key, bool optimizer);
  size_t make_place(size_t begin, bool optimizer);
  StepEstimate periodic_estimate() const;
  Cluster best_cluster(Candidate* candidates, size_t count) const;
  bool is_ambiguous(const Beat& anchor) const;

  static constexpr size_t kWays = 8;       // places that a token may have; power of two
  static constexpr size_t kTokens = 1024;  // power of two

  uint64_t keys_[kTokens];
  uint16_t worth_[kTokens];  // what a token has earned against displacement
  Token tokens_[kTokens];
  Token declared_;
  uint64_t kernels_;
  uint64_t first_ns_;
  uint64_t gpu_ns_;
  uint64_t optimizer_ns_;
  uint64_t untracked_ns_;  // of tokens that found no place or lost it
};

}  // namespace mfu

#endif
