// Model FLOPs out of counted matrix multiplications: what of them is forward pass, gradients of
// inputs (dgrad) and of weights (wgrad), and what is a forward pass that is executed once more
// (activation recomputation), which is no work of the model. Told by shapes, transpositions and
// threads alone; where these do not tell, there is a reason instead of a number.
//
// Definition: the model FLOPs of a process that trains are those of the forward passes that have
// gradients, once, and of the gradients themselves. Not counted: recomputation; forward passes
// without gradients (evaluation, a teacher or reference model); optimizers that multiply matrices
// (Muon). Adapters on frozen weights (LoRA) cost what is executed: forward and dgrad of the frozen
// ones. A process without any gradient (evaluation, serving) has no other work than its model's:
// there, model FLOPs are all FLOPs.
//
// How: a product C = A B and its two gradients multiply the same three dimensions {x, y, z}, each
// contracting another of them. So calls are grouped by their dimensions, whatever the order, and
// within a group:
//   - transpositions tell: activations lie token by token, so that only gradients of weights, dY'X,
//     read both operands across (N,T). Forward pass and dgrad are (T,N) and (N,N), or the other way
//     round where weights are stored the other way. Attention's products obey that too.
//   - 8-bit and narrower inputs are often copied into (T,N) first: there the contracted dimension
//     tells instead, as far as the three differ.
//   - threads tell recomputation: PyTorch calls for gradients in a thread of its own, with what is
//     recomputed for them. A product that the other threads multiply too is recomputed there. In a
//     process that does all in one thread a forward pass that runs twice may as well be two, of
//     which one has no gradient: that is kAmbiguous.
// Each group gives a least and a most. The sum is known when it has both within 2%, and is their
// mean. Products of an optimizer are told by their numbers (Newton-Schulz iterations: X X', A A and
// A X, equally often) and left out.
//
// Ambiguous are, where they are more than 2%: evaluation; a teacher; layers or towers without
// gradients; recomputation, or forward passes in other chunks than their gradients, in one thread
// (JAX); gradients of weights that the forward pass's thread computes, with recomputation
// (zero-bubble pipelines); optimizers that multiply in other ways; in 8 bits, frozen weights and
// dimensions that coincide, as far as nothing else tells.
//
// Measured on a core of a busy AMD EPYC: 10 us for a model of 15 shapes, 0.5 ms for 1024 shapes.
#ifndef MFU_PROFILER_MODEL_INFERENCE_HH_
#define MFU_PROFILER_MODEL_INFERENCE_HH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "profiler/gemm_calls.hh"

namespace mfu {

// Order is severity's: a merge over processes keeps the largest.
enum class Inference : uint32_t {
  kNothing,  // no matrix multiplication was counted
  kKnown,
  kFewSteps,   // too few calls to tell what recurs
  kUncovered,  // calls of unknown shape or number
  kShapes,     // more shapes than the table holds
  kAmbiguous,  // the shapes can be read in several ways
};
inline constexpr uint32_t kInferences = 6;
// "no-gemms", "", "few-steps", "uncovered-calls", "many-shapes", "ambiguous-shapes": as in
// n/a(reason).
const char* inference_reason(Inference inference);

// Of a process.
struct InferredFlops {
  FlopSum flops;  // 0 unless kKnown
  Inference verdict = Inference::kNothing;
  uint32_t recomputed_permille = 0;  // of the model's forward FLOPs; 0 unless kKnown
};
static_assert(std::is_trivially_copyable_v<InferredFlops>);
static_assert(std::has_unique_object_representations_v<InferredFlops>);

// Why hostile bytes are no InferredFlops, or nullptr.
const char* inferred_flops_fault(const InferredFlops& inferred);

// `counts`: all shapes of a process so far, unused ones empty(). `sums`: the same calls, and those
// that are `unlisted`, which are read where threads and transpositions tell. Runs
// inside the injected library, about once a second: no C++ runtime, no allocation; not thread-safe.
InferredFlops infer_model_flops(const GemmCount (&counts)[GemmTable::kShapes], const GemmSums& sums,
                                const UnlistedGemms& unlisted = {});

}  // namespace mfu

#endif
