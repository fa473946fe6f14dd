#include "kernels/sustained_rate.hh"

#include <algorithm>
#include <cmath>

namespace mfu {
namespace {

constexpr double kBatchSeconds = 0.05;  // long against what events cost
constexpr uint64_t kLeastBatches = 10;

// Multiplications that follow each other: one by one, or as a graph.
class Batch {
 public:
  Batch(const Multiplication& multiplication, uint64_t count, bool graph, cudaStream_t stream)
      : multiplication_(multiplication), count_(count) {
    if (!graph) return;
    // The mode that other threads' calls do not disturb.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture of a graph");
    for (uint64_t i = 0; i < count; ++i) multiplication.enqueue(stream);
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream, &captured), "capture of a graph");
    const CudaOwner<cudaGraph_t> owner(captured);
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, captured, 0), "a graph");
    graph_.reset(executable);
  }

  void enqueue(cudaStream_t stream) const {
    if (graph_ != nullptr) {
      check(cudaGraphLaunch(graph_.get(), stream), "launch of a graph");
    } else {
      for (uint64_t i = 0; i < count_; ++i) multiplication_.enqueue(stream);
    }
  }
  uint64_t count() const { return count_; }

 private:
  const Multiplication& multiplication_;
  uint64_t count_;
  CudaOwner<cudaGraphExec_t> graph_;
};

uint64_t at_least_one(double number) {
  return static_cast<uint64_t>(std::max(1.0, std::ceil(number)));
}

// Of a GPU that has just multiplied: its clock is up.
double seconds_of_one(const Multiplication& multiplication, cudaStream_t stream) {
  const uint64_t count = multiplication.sample();
  const CudaOwner<cudaEvent_t> begin = new_event();
  const CudaOwner<cudaEvent_t> end = new_event();
  record(begin.get(), stream);
  for (uint64_t i = 0; i < count; ++i) multiplication.enqueue(stream);
  record(end.get(), stream);
  finish(stream);
  return std::max(seconds_between(begin.get(), end.get()) / static_cast<double>(count), 1e-7);
}

}  // namespace

SustainedRate sustained_rate(const Multiplication& multiplication, double seconds, bool graph) {
  const CudaOwner<cudaStream_t> stream = new_stream();
  const double one = seconds_of_one(multiplication, stream.get());
  const double batch_seconds = std::min(kBatchSeconds, seconds / kLeastBatches);
  const Batch batch(multiplication, at_least_one(batch_seconds / one), graph, stream.get());
  const double batch_length = one * static_cast<double>(batch.count());
  const uint64_t warm_up = at_least_one(seconds / 5 / batch_length);

  SustainedRate rate;
  rate.batches = std::max(kLeastBatches, at_least_one(seconds / batch_length));
  rate.timed = rate.batches * batch.count();
  rate.executed =
      multiplication.trials() + multiplication.sample() + warm_up * batch.count() + rate.timed;

  // All is enqueued as fast as it goes: the GPU never waits for the host, if it is slower at all.
  std::vector<CudaOwner<cudaEvent_t>> marks;
  for (uint64_t i = 0; i <= rate.batches; ++i) marks.push_back(new_event());
  for (uint64_t i = 0; i < warm_up; ++i) batch.enqueue(stream.get());
  for (uint64_t i = 0; i < rate.batches; ++i) {
    record(marks[i].get(), stream.get());
    batch.enqueue(stream.get());
  }
  record(marks.back().get(), stream.get());
  finish(stream.get());

  const auto flops = static_cast<double>(multiplication.shape().flops());
  std::vector<double> rates;
  for (uint64_t i = 0; i < rate.batches; ++i) {
    const double batch_time = seconds_between(marks[i].get(), marks[i + 1].get());
    rates.push_back(flops * static_cast<double>(batch.count()) / batch_time);
  }
  rate.seconds = seconds_between(marks.front().get(), marks.back().get());
  rate.mean = flops * static_cast<double>(rate.timed) / rate.seconds;
  std::sort(rates.begin(), rates.end());
  rate.median = rates[rates.size() / 2];
  rate.best = rates.back();
  return rate;
}

}  // namespace mfu
