// GEMM calls as a framework makes them in training steps of a transformer, generated from the
// model's shape: written from how PyTorch, Megatron-LM and Transformer Engine call cuBLAS, not from
// how profiler/model_inference.cc reads the calls. Expected model FLOPs are model_flops.hh's.
#ifndef MFU_TESTS_UNIT_TRAINING_GEMMS_HH_
#define MFU_TESTS_UNIT_TRAINING_GEMMS_HH_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "profiler/gemm_calls.hh"
#include "profiler/model_flops.hh"
#include "profiler/model_inference.hh"

namespace mfu {

enum class Weights {
  kLinear,  // [out x in]: torch.nn.Linear
  kConv1D,  // [in x out]: GPT-2's Conv1D, experts as parameters of their own
  kCopied,  // 8 bits: all operands are transposed into (T,N)
};
enum class Again { kNone, kAttention, kMlp, kFull };  // what is recomputed

struct Training {
  ModelShape shape;
  uint64_t batch = 1;  // sequences in a microbatch
  uint64_t length = 4096;
  uint64_t microbatches = 4;
  uint64_t steps = 40;
  Weights weights = Weights::kLinear;
  Again again = Again::kNone;
  uint64_t again_layers = UINT64_MAX;  // the first ones
  bool batched_attention = false;      // by GEMMs; otherwise there are none (flash attention)
  bool fused = true;                   // one matrix for q, k, v and one for gate and up
  bool one_thread = false;
  bool two_devices = false;    // in one process: a backward thread for each
  bool late_wgrad = false;     // gradients of weights in the main thread (zero-bubble pipelines)
  bool forward_first = false;  // all forward passes of a step, then all backward ones
  bool fused_loss = false;     // gradients of the LM head in the forward pass (in 4 chunks)
  uint64_t tensor_parallel = 1;
  uint64_t first_layer = 0;  // of this process; with end_layer: a pipeline's stage
  uint64_t end_layer = UINT64_MAX;
  Lora lora;
  bool lowest_dgrad = true;
  uint64_t frozen_layers = 0;   // the lowest ones, without any gradient
  bool unbalanced = false;      // some experts are chosen far more often than others
  bool routed = false;          // tokens choose experts at random; otherwise all experts in a batch
  uint64_t evaluate_every = 0;  // steps; 0: never
  uint64_t evaluate_passes = 8;
  uint64_t evaluate_length = 0;     // 0: as in training
  uint64_t reference_forwards = 0;  // forward passes of a model of the same shape, each microbatch
  uint64_t chunks = 1;              // that forward passes and dgrads of layers are cut into
  std::vector<uint64_t> lengths;    // of a microbatch, one by random, instead of `length`
  bool muon = false;
  std::vector<std::pair<GemmShape, int>> others;  // calls that the main thread makes in each step
  double cut = 0;                                 // share of a further step's calls
  uint64_t seed = 1;
};

class TrainingGemms {
 public:
  explicit TrainingGemms(const Training& training)
      : training_(training), shape_(completed(training.shape)), random_(training.seed) {
    training_.end_layer = std::min(training_.end_layer, shape_.layers);
    for (uint64_t step = 0; step < training_.steps; ++step) {
      emit_step(step);
      for (const Call& call : calls_) table_->add(call.shape, call.thread);
    }
    tokens_of_whole_steps_ = tokens_;
    pairs_of_whole_steps_ = pairs_;
    if (training_.cut > 0) {
      emit_step(training_.steps);
      calls_.resize(static_cast<size_t>(static_cast<double>(calls_.size()) * training_.cut));
      for (const Call& call : calls_) table_->add(call.shape, call.thread);
    }
    uint64_t further[kPrecisions];
    table_->further(further);
    table_->counts(*counts_);
    table_->sum(*counts_, further, &sums_);
    table_->unlisted(&unlisted_);
  }

  InferredFlops infer() const { return infer_model_flops(*counts_, sums_, unlisted_); }
  const GemmSums& sums() const { return sums_; }
  const GemmCount (&counts() const)[GemmTable::kShapes] { return *counts_; }

  // By the formula, of all processes of the tensor-parallel group and of all stages. Without the
  // attention where it is not by GEMMs. Of whole steps; `begun`: and of the one that is cut, whole.
  Flops expected(bool begun = false) const {
    StepTokens work;
    work.tokens = begun ? tokens_ : tokens_of_whole_steps_;
    work.pairs = begun ? pairs_ : pairs_of_whole_steps_;
    const Flops all = training_flops(shape_, work, false, training_.lora);
    if (training_.batched_attention) return all;
    return all - 3 * forward_flops(shape_, work).scores_full;
  }

 private:
  struct Call {
    GemmShape shape;
    uint32_t thread;
  };
  // Y[tokens x out] = X[tokens x in] W, `batch` times.
  struct Product {
    uint64_t tokens, in, out;
    bool frozen = false;
    Weights weights = Weights::kLinear;
    uint64_t batch = 1;
    bool mlp = false;
  };
  using Layer = std::vector<Product>;

  void call(uint64_t m, uint64_t n, uint64_t k, bool a, bool b, const Product& product,
            bool backward) {
    GemmShape shape{.m = m, .n = n, .k = k, .batch = product.batch};
    shape.precision = product.weights == Weights::kCopied ? Precision::kFp8 : Precision::kBf16;
    shape.transposed_a = product.weights == Weights::kCopied || a;
    shape.transposed_b = product.weights != Weights::kCopied && b;
    const uint32_t thread = training_.two_devices && calls_.size() % 2 == 1 ? 2 : 1;
    calls_.push_back({shape, backward && !training_.one_thread ? thread : 0});
  }
  // Row-major Y = X W', as column-major BLAS sees it.
  void forward(const Product& p, bool backward = false) {
    for (uint64_t i = 0; i < training_.chunks; ++i) {
      call(p.out, p.tokens / training_.chunks, p.in, p.weights != Weights::kConv1D, false, p,
           backward);
    }
  }
  void dgrad(const Product& p, bool backward = true) {
    for (uint64_t i = 0; i < training_.chunks; ++i) {
      call(p.in, p.tokens / training_.chunks, p.out, p.weights == Weights::kConv1D, false, p,
           backward);
    }
  }
  void wgrad(const Product& p, bool backward = true) {
    backward &= !training_.late_wgrad;
    if (p.weights == Weights::kConv1D) {
      call(p.out, p.in, p.tokens, false, true, p, backward);
    } else {
      call(p.in, p.out, p.tokens, false, true, p, backward);
    }
  }

  // Products of batch x heads, row-major: S = Q K', O = P V.
  void attend(uint64_t length, bool backward) {
    const Product each = attention_product();
    call(length, length, shape_.head_dim, true, false, each, backward);
    call(shape_.value_head_dim, length, length, false, false, each, backward);
  }
  void attend_back(uint64_t length) {
    const Product each = attention_product();
    call(length, length, shape_.value_head_dim, true, false, each, true);  // dP = dO V'
    call(shape_.value_head_dim, length, length, false, true, each, true);  // dV = P' dO
    call(shape_.head_dim, length, length, false, false, each, true);       // dQ = dS K
    call(shape_.head_dim, length, length, false, true, each, true);        // dK = dS' Q
  }
  Product attention_product() const {
    Product each{};
    each.batch = training_.batch * shape_.heads / training_.tensor_parallel;
    return each;
  }

  void add(Layer* layer, uint64_t tokens, uint64_t in, uint64_t out, uint64_t rank, bool mlp) {
    layer->push_back({tokens, in, out, training_.lora.frozen, training_.weights, 1, mlp});
    if (!training_.lora.frozen || rank == 0) return;
    layer->push_back({tokens, in, rank, false, Weights::kLinear, 1, mlp});
    layer->push_back({tokens, rank, out, false, Weights::kLinear, 1, mlp});
  }
  void add_mlp(Layer* layer, uint64_t tokens, uint64_t width, uint64_t rank) {
    const uint64_t h = shape_.hidden;
    width /= training_.tensor_parallel;
    if (shape_.gated && !training_.fused) add(layer, tokens, h, width, rank, true);
    add(layer, tokens, h, shape_.gated && training_.fused ? 2 * width : width, rank, true);
    add(layer, tokens, width, h, rank, true);
  }
  void add_experts(Layer* layer, uint64_t tokens) {
    const uint64_t h = shape_.hidden;
    layer->push_back({tokens, h, shape_.experts, training_.lora.frozen, Weights::kLinear, 1, true});
    const uint64_t chosen = tokens * shape_.active_experts;
    if (!training_.routed) {
      const size_t first = layer->size();
      add_mlp(layer, chosen / shape_.experts, shape_.expert_ffn, 0);
      for (size_t i = first; i < layer->size(); ++i) (*layer)[i].batch = shape_.experts;
    } else {
      std::vector<uint64_t> of_expert(shape_.experts);
      // Routers are kept balanced: a token in 16 goes where it likes.
      for (uint64_t i = 0; i < chosen; ++i) {
        const bool free = training_.unbalanced ? i % 2 == 0 : i % 16 == 0;
        const uint64_t least =
            training_.unbalanced ? random_() % shape_.experts + 1 : shape_.experts;
        ++of_expert[free ? random_() % least : i % shape_.experts];
      }
      for (const uint64_t each : of_expert) {
        if (each != 0) add_mlp(layer, each, shape_.expert_ffn, 0);
      }
    }
    if (shape_.shared_ffn != 0) add_mlp(layer, tokens, shape_.shared_ffn, 0);
  }

  Layer layer_of(uint64_t tokens, bool moe) {
    Layer layer;
    const uint64_t h = shape_.hidden, tp = training_.tensor_parallel;
    const uint64_t rank = training_.lora.attention_rank;
    const uint64_t query = shape_.heads * shape_.head_dim / tp;
    const uint64_t key = shape_.kv_heads * shape_.head_dim / tp;
    const uint64_t value = shape_.kv_heads * shape_.value_head_dim / tp;
    if (shape_.kv_rank != 0) {
      if (shape_.q_rank == 0) {
        add(&layer, tokens, h, query, 0, false);
      } else {
        add(&layer, tokens, h, shape_.q_rank, 0, false);
        add(&layer, tokens, shape_.q_rank, query, 0, false);
      }
      add(&layer, tokens, h, shape_.kv_rank + shape_.rope_dim, 0, false);
      const uint64_t each = shape_.head_dim - shape_.rope_dim + shape_.value_head_dim;
      add(&layer, tokens, shape_.kv_rank, shape_.heads * each / tp, 0, false);
    } else if (training_.fused) {
      add(&layer, tokens, h, query + key + value, 0, false);
    } else {
      add(&layer, tokens, h, query, rank, false);
      add(&layer, tokens, h, key, rank, false);
      add(&layer, tokens, h, value, rank, false);
    }
    add(&layer, tokens, shape_.heads * shape_.value_head_dim / tp, h, rank, false);
    if (moe) {
      add_experts(&layer, tokens);
    } else {
      add_mlp(&layer, tokens, shape_.ffn, training_.lora.mlp_rank);
    }
    return layer;
  }

  // ---- passes

  struct Microbatch {
    uint64_t length = 0;
    std::vector<Layer> layers;
    Product head{};
  };
  bool has_head() const { return training_.end_layer == shape_.layers; }

  Microbatch microbatch(uint64_t length) {
    Microbatch micro{.length = length};
    const uint64_t tokens = training_.batch * length;
    for (uint64_t l = training_.first_layer; l < training_.end_layer; ++l) {
      micro.layers.push_back(layer_of(tokens, l >= shape_.layers - shape_.moe_layers));
    }
    micro.head = {tokens, shape_.hidden, shape_.vocab / training_.tensor_parallel,
                  training_.lora.frozen};
    return micro;
  }
  void forward_pass(const Microbatch& micro) {
    for (const Layer& layer : micro.layers) {
      for (const Product& product : layer) forward(product);
      if (training_.batched_attention) attend(micro.length, false);
    }
    if (has_head() && !training_.fused_loss) forward(micro.head);
  }
  void fused_loss(const Microbatch& micro) {
    Product part = micro.head;
    part.tokens /= 4;
    for (int i = 0; i < 4; ++i) {
      forward(part);
      dgrad(part, false);
      if (!part.frozen) wgrad(part, false);
    }
  }
  void backward_pass(const Microbatch& micro) {
    if (has_head() && !training_.fused_loss) {
      dgrad(micro.head);
      if (!micro.head.frozen) wgrad(micro.head);
    }
    for (size_t l = micro.layers.size(); l-- > training_.frozen_layers;) {
      const Layer& layer = micro.layers[l];
      if (l < training_.again_layers) recompute(layer, micro.length);
      if (training_.batched_attention) attend_back(micro.length);
      for (size_t i = layer.size(); i-- > 0;) {
        const bool lowest = l == 0 && training_.first_layer == 0 && i < (training_.fused ? 1u : 3u);
        if (!lowest || training_.lowest_dgrad) dgrad(layer[i]);
        if (!layer[i].frozen) wgrad(layer[i]);
      }
    }
  }
  void recompute(const Layer& layer, uint64_t length) {
    const Again again = training_.again;
    for (const Product& product : layer) {
      if (again == Again::kFull || (again == Again::kMlp && product.mlp)) forward(product, true);
    }
    if (training_.batched_attention && (again == Again::kFull || again == Again::kAttention)) {
      attend(length, true);
    }
  }

  void emit_step(uint64_t step) {
    calls_.clear();
    std::vector<Microbatch> waiting;
    for (uint64_t i = 0; i < training_.microbatches; ++i) {
      const auto& lengths = training_.lengths;
      const uint64_t length =
          lengths.empty() ? training_.length : lengths[random_() % lengths.size()];
      Microbatch micro = microbatch(length);
      for (uint64_t k = 0; k < training_.reference_forwards; ++k) forward_pass(micro);
      forward_pass(micro);
      if (has_head() && training_.fused_loss) fused_loss(micro);
      tokens_ += training_.batch * length;
      pairs_ += static_cast<Flops>(training_.batch) * length * length;
      if (training_.forward_first) {
        waiting.push_back(std::move(micro));
      } else {
        backward_pass(micro);
      }
    }
    for (const Microbatch& micro : waiting) backward_pass(micro);
    if (training_.muon) optimize();
    for (const auto& [shape, times] : training_.others) {
      calls_.insert(calls_.end(), static_cast<size_t>(times), {shape, 0});
    }
    if (training_.evaluate_every == 0 || step % training_.evaluate_every != 0) return;
    const uint64_t length =
        training_.evaluate_length == 0 ? training_.length : training_.evaluate_length;
    for (uint64_t i = 0; i < training_.evaluate_passes; ++i) forward_pass(microbatch(length));
  }
  // Newton-Schulz: A = X X', B = b A + c A A, X = a X + B X, five times, in the main thread.
  void optimize() {
    for (const Product& product : layer_of(1, false)) {
      const uint64_t least = std::min(product.in, product.out);
      const uint64_t most = std::max(product.in, product.out);
      const bool tall = product.out > product.in;  // X is a transposed view
      Product plain{};
      plain.batch = 1;
      for (uint64_t i = 0; i < 5 * (training_.end_layer - training_.first_layer); ++i) {
        call(least, least, most, !tall, tall, plain, false);
        call(least, least, least, false, false, plain, false);
        call(most, least, least, tall, false, plain, false);
      }
    }
  }

  Training training_;
  ModelShape shape_;
  std::mt19937_64 random_;
  uint64_t tokens_ = 0;
  uint64_t tokens_of_whole_steps_ = 0;
  Flops pairs_ = 0;
  Flops pairs_of_whole_steps_ = 0;
  std::vector<Call> calls_;  // of the step
  std::unique_ptr<GemmTable> table_ = std::make_unique<GemmTable>();
  using Counts = GemmCount[GemmTable::kShapes];
  struct Held {
    Counts counts;
  };
  std::unique_ptr<Held> held_ = std::make_unique<Held>();
  Counts* counts_ = &held_->counts;
  GemmSums sums_;
  UnlistedGemms unlisted_;
};

}  // namespace mfu

#endif
