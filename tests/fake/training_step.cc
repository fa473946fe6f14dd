#include "tests/fake/training_step.hh"

#include <cupti.h>

#include <algorithm>
#include <utility>

namespace mfu::fake {
namespace {

// Shares of a step's time, next to kMatmulShare.
constexpr double kElementwiseShare = 0.22;
constexpr double kExposedReduceShare = 0.06;
constexpr double kExposedCopyShare = 0.02;
constexpr double kStallShare = 0.04;  // waiting for data
constexpr double kGapShare = 0.04;    // between kernels

constexpr uint32_t kMainStream = 7;
constexpr uint32_t kSideStream = 21;
constexpr uint32_t kReduceStream = 13;
constexpr uint32_t kCopyStream = 17;

constexpr char kGemmXmma[] =
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_"
    "execute_segment_k_off_kernel__5x_cublas";
constexpr char kGemmNvjet[] = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN";
constexpr char kGemmNvjetWgrad[] = "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NTN";
constexpr char kFlashForward[] =
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, "
    "false, false, false, true, true, false, false>(flash::Flash_fwd_params)";
constexpr char kFlashBackward[] =
    "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
    "128, "
    "8, 2, 4, 2, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 8, "
    "cutlass::bfloat16_t> >, false, false, false, false, true, true, false>"
    "(flash::Flash_bwd_params)";
constexpr char kNorm[] =
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, "
    "float*, "
    "c10::BFloat16*)";
constexpr char kNormBackward[] =
    "void at::native::(anonymous "
    "namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, "
    "float>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, "
    "c10::BFloat16 const*, c10::BFloat16*, int)";
constexpr char kElementwise[] =
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl"
    "(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::operator()() const::"
    "{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl)";
constexpr char kCrossEntropy[] =
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
    "c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>"
    "(c10::BFloat16*, c10::BFloat16 const*, int)";
constexpr char kOptimizer[] =
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
    "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false> >"
    "(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)";
constexpr char kAllReduce[] =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

class Jitter {
 public:
  explicit Jitter(uint64_t seed) : state_(seed) {}
  // At least 2, so that it can be cut in two; `ns` give or take 3%.
  uint64_t around(double ns) { return std::max<uint64_t>(2, static_cast<uint64_t>(ns * spread())); }
  uint64_t below(uint64_t limit) { return next() % limit; }

 private:
  double spread() { return 0.97 + 0.06 * (static_cast<double>(next() >> 11) / (1ull << 53)); }
  uint64_t next() {  // splitmix64
    uint64_t value = state_ += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  uint64_t state_;
};

GpuOperation kernel(const char* name, uint32_t stream, uint32_t grid_x, uint32_t grid_y = 1,
                    uint32_t grid_z = 1) {
  GpuOperation operation;
  operation.name = name;
  operation.stream = stream;
  operation.grid[0] = std::max(1u, grid_x);
  operation.grid[1] = grid_y;
  operation.grid[2] = grid_z;
  operation.block[0] = 256;
  return operation;
}

GpuOperation copy(GpuWork work, uint32_t copy_kind, uint64_t bytes) {
  GpuOperation operation;
  operation.work = work;
  operation.copy_kind = copy_kind;
  operation.bytes = bytes;
  operation.stream = kCopyStream;
  return operation;
}

class Step {
 public:
  Step(const ModelShape& shape, uint64_t step_ns, int ranks, uint64_t seed, Layout* layout)
      : shape_(shape),
        step_ns_(static_cast<double>(step_ns)),
        ranks_(ranks),
        jitter_(seed),
        layout_(*layout) {
    // A layer: 8 kernels forward and 12 backward, 3 of each elementwise, and one of the optimizer.
    // Besides: embedding, loss, output layer.
    double layers = static_cast<double>(shape.layers);
    elementwise_ns_ = step_ns_ * kElementwiseShare / (layers * 7 + 2);
    gap_ns_ = step_ns_ * kGapShare / (layers * 21 + 6);
  }

  void lay_out() {
    load_batch();
    elementwise(kElementwise);  // embedding
    for (uint64_t layer = 0; layer < shape_.layers; ++layer) forward();
    head();
    for (uint64_t layer = shape_.layers; layer-- > 0;) {
      end_reduce_in_ = reduce_ != kNone ? 1 + jitter_.below(11) : 0;
      if (shape_.recompute) forward();
      backward(layer == 0);
    }
    finish_reduce();
    for (uint64_t layer = 0; layer < shape_.layers; ++layer) elementwise(kOptimizer);
  }

 private:
  // The input: a wait, then a copy whose end is covered by the first kernel.
  void load_batch() {
    layout_.advance(jitter_.around(step_ns_ * kStallShare));
    size_t input = layout_.open(kMemoryWork, copy(GpuWork::kMemcpy, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
                                                  shape_.tokens() * sizeof(int64_t)));
    layout_.advance(jitter_.around(step_ns_ * kExposedCopyShare));
    midway_ = [this, input] { layout_.close(input); };
  }

  void forward() {
    const uint64_t h = shape_.hidden;
    elementwise(kNorm);
    gemm(kGemmXmma, h, 3 * h, kForwardPass);
    attention(kFlashForward, 1);
    layout_.truth().attention_flops += attention_flops();
    gemm(kGemmNvjet, h, h, kForwardPass);
    elementwise(kNorm);
    gemm(kGemmNvjet, h, 4 * h, kForwardPass);
    elementwise(kElementwise);
    gemm(kGemmXmma, 4 * h, h, kForwardPass);
  }

  // Output layer and loss. The two multiplications of its backward run at the same time on two
  // streams for half of their duration: the union of compute is less than its sum.
  void head() {
    const uint64_t flops = 2 * shape_.tokens() * shape_.hidden * shape_.vocab;
    gemm(kGemmXmma, shape_.hidden, shape_.vocab, kForwardPass);
    elementwise(kCrossEntropy);
    GpuOperation zero = copy(GpuWork::kMemset, 0, shape_.hidden * shape_.vocab * 2);
    size_t fill = layout_.open(kMemoryWork, zero);
    layout_.advance(jitter_.around(gap_ns_));
    layout_.close(fill);
    in_backward_ = true;
    call(shape_.hidden, shape_.vocab, kInputGradient);
    call(shape_.hidden, shape_.vocab, kWeightGradient);
    uint64_t half = jitter_.around(matmul_ns(flops) * 2 / 3);
    size_t dgrad = layout_.open(kComputeWork, kernel(kGemmNvjet, kMainStream, 132));
    layout_.advance(half);
    size_t wgrad = layout_.open(kComputeWork, kernel(kGemmNvjetWgrad, kSideStream, 132));
    layout_.advance(half);
    layout_.close(dgrad);
    layout_.advance(half);
    layout_.close(wgrad);
    layout_.truth().gemm_ns += 4 * half;
    gap();
  }

  // One layer's backward. The all-reduce of the layer before ends inside one of its kernels. The
  // last layer's begins inside its last kernel: nothing is left to hide the rest of it.
  void backward(bool last) {
    const uint64_t h = shape_.hidden;
    gemm(kGemmNvjet, 4 * h, h, kInputGradient);
    gemm(kGemmNvjetWgrad, 4 * h, h, kWeightGradient);
    elementwise(kElementwise);
    gemm(kGemmNvjet, h, 4 * h, kInputGradient);
    gemm(kGemmNvjetWgrad, h, 4 * h, kWeightGradient);
    elementwise(kNormBackward);
    gemm(kGemmXmma, h, h, kInputGradient);
    gemm(kGemmNvjetWgrad, h, h, kWeightGradient);
    attention(kFlashBackward, 2);
    layout_.truth().attention_flops += attention_flops() / 2 * 5;
    gemm(kGemmXmma, h, 3 * h, kInputGradient);
    elementwise(kNormBackward);
    if (last) midway_ = [this] { begin_reduce(); };
    gemm(kGemmNvjetWgrad, h, 3 * h, kWeightGradient);
    if (!last) begin_reduce();
  }

  void begin_reduce() {
    if (ranks_ > 1) {
      reduce_ = layout_.open(kCommunicationWork, kernel(kAllReduce, kReduceStream, 24));
    }
  }

  // The exposed rest of the last all-reduce. A small copy runs inside: covered by communication.
  void finish_reduce() {
    if (reduce_ == kNone) return;
    layout_.advance(jitter_.around(step_ns_ * kExposedReduceShare / 2));
    size_t loss =
        layout_.open(kMemoryWork, copy(GpuWork::kMemcpy, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 4));
    layout_.advance(jitter_.around(step_ns_ * kExposedReduceShare / 8));
    layout_.close(loss);
    layout_.advance(jitter_.around(step_ns_ * kExposedReduceShare * 3 / 8));
    layout_.close(std::exchange(reduce_, kNone));
    gap();
  }

  double matmul_ns(uint64_t flops) const {
    return step_ns_ * kMatmulShare * static_cast<double>(flops) /
           static_cast<double>(shape_.step_flops());
  }

  enum Pass { kForwardPass, kInputGradient, kWeightGradient };

  void call(uint64_t in, uint64_t out, Pass pass) {
    const uint64_t tokens = shape_.tokens();
    GemmCall gemm = {out, tokens, in, true, false, in_backward_};
    if (pass == kInputGradient) gemm = {in, tokens, out, false, false, in_backward_};
    if (pass == kWeightGradient) gemm = {in, out, tokens, false, true, in_backward_};
    layout_.call(gemm);
  }

  // Of a linear layer.
  void gemm(const char* name, uint64_t in, uint64_t out, Pass pass) {
    uint64_t ns = jitter_.around(matmul_ns(2 * shape_.tokens() * in * out));
    uint64_t columns = pass == kInputGradient ? in : out;
    uint64_t tiles = (shape_.tokens() + 127) / 128 * ((columns + 127) / 128);
    layout_.truth().gemm_ns += ns;
    call(in, out, pass);
    run(kernel(name, kMainStream, static_cast<uint32_t>(tiles)), ns);
  }

  // Forward.
  uint64_t attention_flops() const { return 4 * shape_.tokens() * shape_.seq * shape_.hidden; }

  void attention(const char* name, uint64_t times) {
    uint64_t ns = jitter_.around(matmul_ns(times * attention_flops()));
    layout_.truth().attention_ns += ns;
    run(kernel(name, kMainStream, static_cast<uint32_t>((shape_.seq + 127) / 128),
               static_cast<uint32_t>(shape_.batch), static_cast<uint32_t>(shape_.heads)),
        ns);
  }

  void elementwise(const char* name) {
    uint64_t ns = jitter_.around(elementwise_ns_);
    run(kernel(name, kMainStream, static_cast<uint32_t>(shape_.tokens())), ns);
  }

  // A kernel and the gap after it. What is due midway happens inside of the kernel.
  void run(const GpuOperation& operation, uint64_t ns) {
    if (end_reduce_in_ != 0 && --end_reduce_in_ == 0) {
      midway_ = [this] { layout_.close(std::exchange(reduce_, kNone)); };
    }
    size_t number = layout_.open(kComputeWork, operation);
    uint64_t before = 1 + jitter_.below(ns - 1);
    layout_.advance(before);
    if (midway_) std::exchange(midway_, nullptr)();
    layout_.advance(ns - before);
    layout_.close(number);
    gap();
  }

  void gap() { layout_.advance(jitter_.around(gap_ns_)); }

  static constexpr size_t kNone = ~size_t{0};

  const ModelShape& shape_;
  const double step_ns_;
  const int ranks_;
  Jitter jitter_;
  Layout& layout_;
  double elementwise_ns_;
  double gap_ns_;
  bool in_backward_ = false;
  size_t reduce_ = kNone;       // the running all-reduce
  uint64_t end_reduce_in_ = 0;  // kernels until the one inside of which it ends
  std::function<void()> midway_;
};

}  // namespace

size_t Layout::open(WorkClass work_class, GpuOperation operation) {
  if (truth_.start_ns == 0) {
    truth_.start_ns = cursor_ns_;
  } else {
    truth_.partition_ns[0] += quiet_ns_;
  }
  quiet_ns_ = 0;
  operation.device = device_;
  operation.start_ns = cursor_ns_;
  operations_.push_back(operation);
  classes_.push_back(work_class);
  ++open_[work_class >> 1];
  uint64_t* counts[] = {&truth_.compute_kernels, &truth_.communication_kernels, &truth_.copies};
  ++*counts[work_class >> 1];
  return operations_.size() - 1;
}

void Layout::close(size_t number) {
  operations_[number].end_ns = cursor_ns_;
  --open_[classes_[number] >> 1];
  truth_.end_ns = cursor_ns_;
}

void Layout::advance(uint64_t ns) {
  uint32_t mask = (open_[0] != 0 ? 1 : 0) | (open_[1] != 0 ? 2 : 0) | (open_[2] != 0 ? 4 : 0);
  if (mask == 0) {
    quiet_ns_ += ns;
  } else {
    truth_.partition_ns[mask] += ns;
  }
  cursor_ns_ += ns;
}

std::vector<GpuOperation> Layout::take() {
  classes_.clear();
  return std::exchange(operations_, {});
}

void Layout::call(const GemmCall& gemm) {
  calls_.push_back(gemm);
  ++truth_.gemm_kernels;
  truth_.gemm_flops += gemm.flops();
}

std::vector<GemmCall> Layout::take_calls() {
  return std::exchange(calls_, {});
}

void lay_out_step(const ModelShape& shape, uint64_t step_ns, int ranks, uint64_t seed,
                  Layout* layout) {
  Step(shape, step_ns, ranks, seed, layout).lay_out();
}

}  // namespace mfu::fake
