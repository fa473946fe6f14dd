// Kernel names. Tables do the work: names that mean communication, words that tell its collective,
// names of attention and convolutions, and (gemm_name.cc) the vocabularies in which libraries write
// the types of a matrix multiplication.
//
// Names come mangled from CUPTI and demangled from trace files. Patterns are therefore identifiers:
// "deep_ep" is found in "deep_ep::intranode::dispatch<8>" and in "_ZN7deep_ep9intranode8dispatch",
// where the number in front is the identifier's length and proves where it begins.
//
// Precision follows one rule: only what the name states. A wrong precision is a wrong peak and so a
// wrong MFU, an unknown one is shown as unknown.
#include "profiler/kernel.hh"

#include <algorithm>
#include <array>

#include "profiler/gemm_name.hh"
#include "profiler/name_search.hh"

namespace mfu {
namespace {

using namespace name_search;

// In the order of the enumerations.
constexpr const char* kPrecisionNames[kPrecisions] = {"unknown", "fp64", "fp32", "tf32", "fp16",
                                                      "bf16",    "int8", "fp8",  "fp4"};
constexpr const char* kCollectiveNames[kCollectives] = {"none",          "allreduce", "allgather",
                                                        "reducescatter", "broadcast", "reduce",
                                                        "sendrecv",      "alltoall",  "other"};

// An identifier and a folded text, anywhere in the name.
struct Pair {
  string_view identifier;
  string_view folded;
};

// "nccl" alone is no mark: torch kernels, host functions and argument types carry it. In order:
// NCCL 2.8 to 2.18, 2.19 and later, RCCL, symmetric kernels of 2.27 and of later ones, RCCL again,
// MSCCL, flashinfer's and TensorRT-LLM's expert parallelism (whose Prepare kernels are local), user
// buffers of Transformer Engine and TensorRT-LLM.
constexpr auto kPrefixes = std::to_array<string_view>(
    {"ncclKernel_", "ncclDevKernel_", "ncclDevKernelDebug_", "ncclSymDevKernel_",
     "ncclSymkDevKernel_", "rccl", "mscclKernel", "moeA2ADispatchKernel", "moeA2ACombineKernel",
     "moeAllToAllKernel", "userbuffers_", "kuserbuffers_"});

// MSCCL, kernels of torch on NCCL's device API and the barrier of its symmetric memory (it spins
// until the peers arrive); DeepEP and its forks, such as dpsk::ep::internode.
constexpr auto kIdentifiers =
    std::to_array<string_view>({"msccl", "nccl_extension", "barrier_kernel", "deep_ep", "internode",
                                "internode_ll", "intranode", "intranode_ll"});

// MSCCL++, NVSHMEM, torch's symmetric memory, all-reduce of vLLM, sglang, aiter, TensorRT-LLM and
// flashinfer.
constexpr auto kAnywhere = std::to_array<string_view>(
    {"mscclpp", "nvshmem", "symmmem", "symmetricmemory", "multimemall", "multimemone",
     "oneshotallreduce", "twoshotallreduce", "allreducefusion", "allreducekernel",
     "crossdevicereduce", "customallreduce", "quickreduce"});

// HybridEP's scan and permute kernels are local.
constexpr auto kPairs = std::to_array<Pair>({
    {"vllm", "allreduce"},
    {"sglang", "allreduce"},
    {"hybrid_ep", "dispatchkernel"},
    {"hybrid_ep", "combinekernel"},
    {"hybrid_ep", "devicesync"},
});

// NCCL up to 2.7: ncclAllReduceRingLLKernel_sum_f32.
constexpr auto kOldNccl =
    std::to_array<string_view>({"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                "ncclBroadcast", "ncclReduce", "ncclSendRecv"});

// Inductor writes the traced operators, collectives included, into the names of local kernels.
constexpr auto kInductor = std::to_array<string_view>(
    {"triton_poi_", "triton_red_", "triton_per_", "triton_for_", "triton_tem_"});

struct CollectiveWords {
  Collective collective;
  Names<3> folded;
};

// The first that occurs decides, so the longer stand before those they contain. inplace_gpu is user
// buffers, kernelreduce is ncclDevKernel_Reduce_, ncclreduce is ncclReduceRingLLKernel_.
constexpr auto kCollectiveWords = std::to_array<CollectiveWords>({
    {Collective::kAllReduce, {"allreduce", "crossdevicereduce", "quickreduce"}},
    {Collective::kReduceScatter, {"reducescatter", "inplacegpurrrs", "inplacegpumcrs"}},
    {Collective::kAllGather, {"allgather", "inplacegpurwag", "inplacegpumcag"}},
    {Collective::kAllToAll, {"alltoall", "dispatch", "combine"}},
    {Collective::kBroadcast, {"broadcast"}},
    {Collective::kSendReceive, {"sendrecv", "userbufferspush"}},
    {Collective::kReduce, {"oneshotreduce", "kernelreduce", "ncclreduce"}},
});

// Attention: FlashAttention 2 to 4, memory-efficient attention of xformers and torch, cuDNN's,
// TensorRT-LLM's, Triton's tutorial and what was made of it, FlashInfer.
constexpr auto kAttention = std::to_array<string_view>(
    {"flashfwd", "flashbwddqdkdv", "flashattn", "attention", "computeattn", "fmha", "attnfwd",
     "attnbwd", "sparseattn", "withpagedkvcache", "flashmla"});
// In cuDNN's generated kernels sdpa comes with its pass: sdpa_sm90_flash_fprop.
constexpr auto kPasses = std::to_array<string_view>({"fprop", "bprop"});
// State-space and linear attention by chunks: Mamba 2, flash-linear-attention.
constexpr auto kChunks = std::to_array<string_view>(
    {"chunkscan", "chunkstate", "bmmchunk", "chunkfwdkernel", "chunkbwdkernel", "chunkgateddelta"});
// Convolutions of cuDNN and CUTLASS, and those of torch, Mamba and Triton.
constexpr auto kConvolutions =
    std::to_array<string_view>({"implicitgemm", "convol", "winograd", "fprop", "dgrad", "wgrad",
                                "conv1d", "conv2d", "conv3d", "convdepthwise"});
// Around these: sums over rows, conversions, tables of offsets, caches.
constexpr auto kNoProducts = std::to_array<string_view>(
    {"elementwise", "preprocess", "postprocess", "combine", "dotdoo", "convertdq", "offsets",
     "im2col", "reshapeandcache", "pagedattentionv2reduce"});

// cuDNN's oldest: scudnn, h884cudnn.
bool is_cudnn_kind(string_view name) {
  constexpr string_view kLibrary = "cudnn_";
  for (size_t at = name.find(kLibrary); at != kNotFound; at = name.find(kLibrary, at + 1)) {
    if (at > 0 && is_identifier(name[at - 1]) && name[at - 1] != '_') return true;
  }
  return false;
}

bool multiplies(string_view name) {
  const auto start = [name](string_view text) { return begins(name, text); };
  const bool fused = std::any_of(kInductor.begin(), kInductor.end(), start);
  if ((fused && !begins(name, "triton_tem_")) || any_folded(name, kNoProducts)) return false;
  return any_folded(name, kAttention) || any_folded(name, kChunks) ||
         any_folded(name, kConvolutions) || is_cudnn_kind(name) ||
         (contains_folded(name, "sdpa") && any_folded(name, kPasses));
}

bool is_communication(string_view name) {
  auto whole = [name](string_view text) { return has_identifier(name, text, true); };
  auto prefix = [name](string_view text) { return has_identifier(name, text, false); };
  auto start = [name](string_view text) { return begins(name, text); };
  auto both = [name](const Pair& pair) {
    return has_identifier(name, pair.identifier, true) && contains_folded(name, pair.folded);
  };
  // DeepEP's layout kernel only counts.
  if (whole("get_dispatch_layout") || std::any_of(kInductor.begin(), kInductor.end(), start)) {
    return false;
  }
  return begins(name, "nccl:") ||  // torch's annotation of a collective, in traces only
         std::any_of(kPrefixes.begin(), kPrefixes.end(), prefix) ||
         std::any_of(kIdentifiers.begin(), kIdentifiers.end(), whole) ||
         any_folded(name, kAnywhere) ||
         (contains_folded(name, "lamport") && contains_folded(name, "allreduce")) ||
         std::any_of(kPairs.begin(), kPairs.end(), both) ||
         (contains_folded(name, "kernel") && std::any_of(kOldNccl.begin(), kOldNccl.end(), prefix));
}

Collective collective_of(string_view name) {
  for (const CollectiveWords& words : kCollectiveWords) {
    if (any_folded(name, words.folded)) return words.collective;
  }
  return Collective::kOther;
}

}  // namespace

const char* precision_name(Precision precision) {
  size_t index = static_cast<size_t>(precision);
  return kPrecisionNames[index < kPrecisions ? index : 0];
}

Precision precision_from_name(string_view name) {
  for (int i = 0; i < kPrecisions; ++i) {
    if (name == kPrecisionNames[i]) return static_cast<Precision>(i);
  }
  return Precision::kUnknown;
}

const char* collective_name(Collective collective) {
  size_t index = static_cast<size_t>(collective);
  return kCollectiveNames[index < kCollectives ? index : kCollectives - 1];
}

KernelKind classify_kernel(string_view name) {
  KernelKind kind;
  if (is_communication(name)) {
    kind.communication = true;
    kind.collective = collective_of(name);
  } else if (is_gemm(name)) {
    kind.gemm = true;
    kind.precision = gemm_precision(name);
    kind.ends_gemm = ends_gemm(name);
    kind.foreign_gemm = is_foreign_gemm(name);
  } else {
    kind.multiplies = multiplies(name);
  }
  return kind;
}

}  // namespace mfu
