// Training steps reduced to what matters to their communication: multiplications on one stream,
// all-reduces on another, and a stated part of these under the multiplications.
//
// A step, with three of five all-reduces hidden:
//
//     compute        | GEMM | GEMM | GEMM | GEMM |                     |
//     communication  |      | reduce reduce reduce | reduce  reduce    |
//                    begin                         compute ends        end, and the next one begins
//
// The hidden ones begin when the first multiplication has ended, so that none of them runs alone;
// the others begin when the last one has ended.
#ifndef MFU_KERNELS_OVERLAPPED_STEPS_HH_
#define MFU_KERNELS_OVERLAPPED_STEPS_HH_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/all_reduce.hh"
#include "kernels/multiplication.hh"

namespace mfu {

struct StepPlan {
  uint64_t gemms = 0;  // of each GPU; 0: as many as the hidden all-reduces need
  uint64_t hidden = 0;
  uint64_t exposed = 0;
};

// Seconds of a step on a GPU, by its own clock. What of the hidden all-reduces outlasts the
// multiplications is exposed, too. What they wait for multiprocessors, which the multiplications
// hold, is in `hidden` with NCCL; without it, `hidden` is what their kernels run.
struct StepTimes {
  double step = 0;
  double compute = 0;
  double hidden = 0;
  double exposed = 0;
};

class OverlappedSteps {
 public:
  // On all of this process's GPUs, each with the same multiplication.
  OverlappedSteps(std::span<const Gpu> gpus, const Precision& precision, const MatrixShape& shape,
                  AllReduce* all_reduce);

  // Fills in plan->gemms if it is 0: multiplications alone, and all-reduces alone, are timed, and
  // the longest answer of all processes counts.
  void calibrate(StepPlan* plan);
  // Times of every step on every GPU.
  std::vector<StepTimes> run(const StepPlan& plan, uint64_t steps);

  // Executed by this process so far, trials and calibration included.
  uint64_t multiplications() const { return multiplications_; }
  uint64_t all_reduces() const { return all_reduces_; }

 private:
  struct Marks {
    CudaOwner<cudaEvent_t> begin = new_event();
    CudaOwner<cudaEvent_t> first = new_event();
    CudaOwner<cudaEvent_t> hidden_begin = new_event();
    CudaOwner<cudaEvent_t> hidden_end = new_event();
    CudaOwner<cudaEvent_t> compute_end = new_event();
    CudaOwner<cudaEvent_t> exposed_begin = new_event();
    CudaOwner<cudaEvent_t> end = new_event();

    // `longest_hidden`: seconds that the kernels of the hidden all-reduces run at the most.
    StepTimes times(double longest_hidden) const;
  };
  struct Lane {
    Lane(const Gpu& gpu, const Precision& precision, const MatrixShape& shape);

    const Gpu& gpu;
    Multiplication multiplication;
    CudaOwner<cudaStream_t> compute;
    CudaOwner<cudaStream_t> communication;
  };

  void multiply(uint64_t count);
  void reduce(uint64_t count);
  void enqueue_step(const StepPlan& plan, std::span<const Marks> marks, bool first);
  template <typename Body>
  void on_each(Body&& body);

  std::vector<Lane> lanes_;
  std::vector<cudaStream_t> communication_;  // of the lanes
  AllReduce* all_reduce_;
  uint64_t multiplications_ = 0;
  uint64_t all_reduces_ = 0;
};

}  // namespace mfu

#endif
