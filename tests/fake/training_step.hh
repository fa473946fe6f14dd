// A transformer's training steps laid out on one GPU's time line, with their exact truth.
//
// The truth is known by construction: time only passes through Layout::advance, which adds it to
// the sum of the set of classes that are open at that moment. Nothing is measured afterwards.
#ifndef MFU_TESTS_FAKE_TRAINING_STEP_HH_
#define MFU_TESTS_FAKE_TRAINING_STEP_HH_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

// A GPT with a feed-forward of 4 * hidden, multi-head attention and an untied output layer.
struct ModelShape {
  uint64_t layers;
  uint64_t hidden;
  uint64_t heads;
  uint64_t seq;
  uint64_t batch;  // sequences per rank and step
  uint64_t vocab;
  bool recompute = false;  // backward runs each layer's forward pass once more

  uint64_t tokens() const { return seq * batch; }
  // Forward and backward of one step on one rank, as in appendix B of the PaLM paper: 6 FLOPs a
  // token for each parameter of a matrix multiplication, and 12 * layers * hidden * seq a token for
  // the (full, not causal) attention scores. Embedding look-up, norms and softmax do not count.
  uint64_t step_flops() const {
    uint64_t parameters = layers * 12 * hidden * hidden + hidden * vocab;
    return tokens() * (6 * parameters + 12 * layers * hidden * seq);
  }
};

// A matrix multiplication as PyTorch asks cuBLAS for it: D[m x n] = op(A)[m x k] op(B)[k x n],
// column-major. Of a linear layer forward is T N (outputs x tokens), the gradient of its input N N
// (inputs x tokens), that of its weights N T (inputs x outputs).
struct GemmCall {
  uint64_t m, n, k;
  bool transposed_a, transposed_b;
  bool backward;  // called by autograd's thread: also what backward recomputes

  uint64_t flops() const { return 2 * m * n * k; }
};

enum WorkClass : uint32_t { kComputeWork = 1, kCommunicationWork = 2, kMemoryWork = 4 };

struct TimeTruth {
  uint64_t start_ns = 0;          // of the first operation
  uint64_t end_ns = 0;            // of the last one
  uint64_t partition_ns[8] = {};  // [0]: idle between start and end; [m]: exactly the classes in m
  uint64_t gemm_ns = 0;           // sum over matrix multiplication kernels
  uint64_t attention_ns = 0;      // sum over attention kernels
  uint64_t gemm_kernels = 0;      // each has its call
  uint64_t gemm_flops = 0;        // executed
  uint64_t attention_flops = 0;   // executed; as the kernels' names tell, if a head has 128
  uint64_t compute_kernels = 0;
  uint64_t communication_kernels = 0;
  uint64_t copies = 0;  // copies and fills
};

// The cursor on one device's time line.
class Layout {
 public:
  Layout(CUdevice device, uint64_t start_ns) : device_(device), cursor_ns_(start_ns) {}

  // Opens the operation at the cursor; returns its number for close().
  size_t open(WorkClass work_class, GpuOperation operation);
  void close(size_t number);
  void advance(uint64_t ns);

  // Operations closed and open since the last call, in order of their start. None may be open.
  std::vector<GpuOperation> take();
  // A multiplication that the program calls for. Its kernel is opened besides.
  void call(const GemmCall& gemm);
  // Since the last call, in order.
  std::vector<GemmCall> take_calls();
  TimeTruth& truth() { return truth_; }

 private:
  CUdevice device_;
  uint64_t cursor_ns_;
  uint64_t quiet_ns_ = 0;  // idle time that counts only if something follows
  uint32_t open_[3] = {};  // operations of each class
  std::vector<GpuOperation> operations_;
  std::vector<WorkClass> classes_;
  std::vector<GemmCall> calls_;
  TimeTruth truth_;
};

// Lays out one step that takes about `step_ns`. `ranks` > 1 brings gradient all-reduces. Durations
// vary with `seed`; equal arguments give equal steps.
void lay_out_step(const ModelShape& shape, uint64_t step_ns, int ranks, uint64_t seed,
                  Layout* layout);

// Share of a step in which matrix multiplications and attention run.
inline constexpr double kMatmulShare = 0.62;

}  // namespace mfu::fake

#endif
