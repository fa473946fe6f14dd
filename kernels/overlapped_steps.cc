#include "kernels/overlapped_steps.hh"

#include <algorithm>
#include <cmath>

namespace mfu {
namespace {

constexpr uint64_t kCalibrations = 10;  // multiplications and all-reduces that are timed
constexpr uint64_t kLeastGemms = 10;    // a step without hidden communication computes as well
// All-reduces take longer beside multiplications, and these beside them.
constexpr double kMargin = 1.5;

}  // namespace

StepTimes OverlappedSteps::Marks::times(double longest_hidden) const {
  const double hidden =
      std::min(seconds_between(hidden_begin.get(), hidden_end.get()), longest_hidden);
  const double late = seconds_between(compute_end.get(), hidden_end.get());
  const double outlasting = std::clamp(late, 0.0, hidden);
  return {.step = seconds_between(begin.get(), end.get()),
          .compute = seconds_between(begin.get(), compute_end.get()),
          .hidden = hidden - outlasting,
          .exposed = seconds_between(exposed_begin.get(), end.get()) + outlasting};
}

OverlappedSteps::Lane::Lane(const Gpu& its_gpu, const Precision& precision,
                            const MatrixShape& shape)
    : gpu(its_gpu),
      multiplication(precision, shape),
      compute(new_stream()),
      communication(new_stream(true)) {}

OverlappedSteps::OverlappedSteps(std::span<const Gpu> gpus, const Precision& precision,
                                 const MatrixShape& shape, AllReduce* all_reduce)
    : all_reduce_(all_reduce) {
  lanes_.reserve(gpus.size());
  for (const Gpu& gpu : gpus) {
    use(gpu);
    lanes_.emplace_back(gpu, precision, shape);
    communication_.push_back(lanes_.back().communication.get());
    multiplications_ += lanes_.back().multiplication.trials();
  }
}

template <typename Body>
void OverlappedSteps::on_each(Body&& body) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    use(lanes_[i].gpu);
    body(lanes_[i], i);
  }
}

void OverlappedSteps::multiply(uint64_t count) {
  on_each([&](Lane& lane, size_t) {
    for (uint64_t i = 0; i < count; ++i) lane.multiplication.enqueue(lane.compute.get());
  });
  multiplications_ += count * lanes_.size();
}

void OverlappedSteps::reduce(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) all_reduce_->enqueue(communication_);
  all_reduces_ += count * lanes_.size();
}

void OverlappedSteps::calibrate(StepPlan* plan) {
  Lane& lane = lanes_[0];
  use(lane.gpu);
  const CudaOwner<cudaEvent_t> begin = new_event();
  const CudaOwner<cudaEvent_t> end = new_event();
  // Of one, after as many that warm up.
  const auto seconds = [&](cudaStream_t stream, auto&& enqueue) {
    enqueue(kCalibrations);
    use(lane.gpu);
    record(begin.get(), stream);
    enqueue(kCalibrations);
    use(lane.gpu);
    record(end.get(), stream);
    finish(stream);
    return seconds_between(begin.get(), end.get()) / static_cast<double>(kCalibrations);
  };
  const double gemm = seconds(lane.compute.get(), [&](uint64_t n) { multiply(n); });
  const double piece = seconds(lane.communication.get(), [&](uint64_t n) { reduce(n); });
  if (plan->gemms == 0) {
    const double needed = kMargin * piece * static_cast<double>(plan->hidden) / gemm;
    // One more: nothing is hidden under the first.
    plan->gemms = std::max(kLeastGemms, 1 + static_cast<uint64_t>(std::ceil(needed)));
  }
  plan->gemms = all_reduce_->highest(plan->gemms, lane.communication.get());
}

void OverlappedSteps::enqueue_step(const StepPlan& plan, std::span<const Marks> marks, bool first) {
  on_each([&](Lane& lane, size_t i) {
    // The step before has ended when its communication has.
    const std::span<const Marks> before(marks.data() - (first ? 0 : lanes_.size()), lanes_.size());
    if (!first) wait(lane.compute.get(), before[i].end.get());
    record(marks[i].begin.get(), lane.compute.get());
  });
  multiply(1);
  on_each([&](Lane& lane, size_t i) {
    record(marks[i].first.get(), lane.compute.get());
    wait(lane.communication.get(), marks[i].first.get());
    record(marks[i].hidden_begin.get(), lane.communication.get());
  });
  reduce(plan.hidden);
  on_each(
      [&](Lane& lane, size_t i) { record(marks[i].hidden_end.get(), lane.communication.get()); });
  multiply(plan.gemms - 1);
  on_each([&](Lane& lane, size_t i) {
    record(marks[i].compute_end.get(), lane.compute.get());
    wait(lane.communication.get(), marks[i].compute_end.get());
    record(marks[i].exposed_begin.get(), lane.communication.get());
  });
  reduce(plan.exposed);
  on_each([&](Lane& lane, size_t i) { record(marks[i].end.get(), lane.communication.get()); });
}

std::vector<StepTimes> OverlappedSteps::run(const StepPlan& plan, uint64_t steps) {
  std::vector<Marks> marks;
  marks.reserve(steps * lanes_.size());
  for (uint64_t step = 0; step < steps; ++step) {
    on_each([&](Lane&, size_t) { marks.emplace_back(); });
  }
  for (uint64_t step = 0; step < steps; ++step) {
    const std::span<const Marks> of_step(marks.data() + step * lanes_.size(), lanes_.size());
    enqueue_step(plan, of_step, step == 0);
  }
  on_each([&](Lane& lane, size_t) { finish(lane.communication.get()); });
  // 0 times infinity is no number.
  const double longest_hidden =
      plan.hidden > 0 ? all_reduce_->longest_seconds() * static_cast<double>(plan.hidden) : 0;
  std::vector<StepTimes> times;
  for (const Marks& each : marks) times.push_back(each.times(longest_hidden));
  return times;
}

}  // namespace mfu
