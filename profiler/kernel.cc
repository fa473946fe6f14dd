// Kernel names. Three tables do the work: names that mean communication, words that tell its
// collective, and the vocabularies in which libraries write the types of a matrix multiplication.
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
#include <cstddef>

namespace mfu {
namespace {

using std::string_view;
constexpr size_t kNotFound = string_view::npos;

// In the order of the enumerations.
constexpr const char* kPrecisionNames[kPrecisions] = {"unknown", "fp64", "fp32", "tf32", "fp16",
                                                      "bf16",    "int8", "fp8",  "fp4"};
constexpr const char* kCollectiveNames[kCollectives] = {"none",          "allreduce", "allgather",
                                                        "reducescatter", "broadcast", "reduce",
                                                        "sendrecv",      "alltoall",  "other"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_identifier(char c) {
  return is_digit(c) || c == '_' || (lower(c) >= 'a' && lower(c) <= 'z');
}
// Not string_view's substr, starts_with and ends_with: they can throw, or do so in an unoptimized
// build, and the injected library has nothing to link that to.
string_view from(string_view text, size_t begin) {
  text.remove_prefix(std::min(begin, text.size()));
  return text;
}
string_view first(string_view text, size_t count) {
  return {text.data(), std::min(count, text.size())};
}
bool begins(string_view text, string_view head) {
  return first(text, head.size()) == head;
}
bool ends(string_view text, string_view tail) {
  return text.size() >= tail.size() && from(text, text.size() - tail.size()) == tail;
}

// Whether the digits before `begin` are the length of a mangled identifier that starts with (or, if
// `whole`, is) the `size` characters there. The digits may be more than the length: an anonymous
// namespace ends in one ("12_GLOBAL__N_1" "14barrier_kernel").
bool length_fits(string_view name, size_t begin, size_t size, bool whole) {
  size_t length = 0;
  size_t unit = 1;
  for (size_t i = begin; i > 0 && is_digit(name[i - 1]) && unit <= 10000; --i, unit *= 10) {
    length += unit * static_cast<size_t>(name[i - 1] - '0');
    if (length == size || (!whole && length > size && length <= name.size() - begin)) return true;
  }
  return false;
}

bool has_identifier(string_view name, string_view text, bool whole) {
  for (size_t at = name.find(text); at != kNotFound; at = name.find(text, at + 1)) {
    size_t end = at + text.size();
    if (at == 0 || !is_identifier(name[at - 1])) {
      if (!whole || end == name.size() || !is_identifier(name[end])) return true;
    } else if (length_fits(name, at, text.size(), whole)) {
      return true;
    }
  }
  return false;
}

// Ignores case and underscores: "allreduce" is in oneShotAllReduceKernel and one_shot_all_reduce.
bool contains_folded(string_view name, string_view text) {
  if (text.empty()) return false;
  for (size_t begin = 0; begin < name.size(); ++begin) {
    size_t matched = 0;
    for (size_t i = begin; i < name.size() && matched < text.size(); ++i) {
      if (name[i] == '_' && matched > 0) continue;
      if (lower(name[i]) != text[matched]) break;
      ++matched;
    }
    if (matched == text.size()) return true;
  }
  return false;
}

template <size_t kSize>
using Names = std::array<string_view, kSize>;

template <size_t kSize>
bool any_folded(string_view name, const Names<kSize>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [name](string_view text) { return contains_folded(name, text); });
}

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

// ---- matrix multiplications ----

// Words of a name up to the next '_'.
class Words {
 public:
  explicit Words(string_view text) : rest_(text) {}
  string_view next() {
    size_t end = std::min(rest_.find('_'), rest_.size());
    string_view word = first(rest_, end);
    rest_ = from(rest_, end + 1);
    return word;
  }
  bool empty() const { return rest_.empty(); }

 private:
  string_view rest_;
};

using enum Precision;

struct TypeNames {
  Precision precision;
  Names<4> names;
};

// cuBLAS and CUTLASS.
constexpr auto kTypes = std::to_array<TypeNames>({
    {kFp64, {"f64"}},
    {kFp32, {"f32"}},
    {kTf32, {"tf32"}},
    {kFp16, {"f16", "fp16"}},
    {kBf16, {"bf16"}},
    {kInt8, {"s8", "u8", "i8", "int8"}},
    {kFp8, {"f8", "e4m3", "e5m2"}},
    {kFp4, {"f4", "e2m1"}},
});

// TensorRT-LLM.
constexpr auto kGeneratedTypes = std::to_array<TypeNames>({
    {kFp16, {"Fp16"}},
    {kBf16, {"Bfloat16"}},
    {kFp8, {"E4m3", "MxE4m3"}},
    {kFp4, {"E2m1", "MxE2m1"}},
});

// A type at the beginning of `text`, which loses it.
template <size_t kSize>
Precision take_type(const std::array<TypeNames, kSize>& table, string_view& text) {
  for (const TypeNames& type : table) {
    for (string_view name : type.names) {
      if (name.empty() || !begins(text, name)) continue;
      text = from(text, name.size());
      return type.precision;
    }
  }
  return kUnknown;
}

// "e4m3", and block-scaled "ue8m0xe4m3": the type follows the scale's.
Precision type_of(string_view word) {
  size_t scale = word.rfind('x');
  if (scale != kNotFound) word = from(word, scale + 1);
  Precision precision = take_type(kTypes, word);
  return word.empty() ? precision : kUnknown;
}

// nvjet_[sm90_]<letters>_<tile>...: one letter each for inputs, computation and output (tst), or
// for A, B, C, computation and D (qqtst). libcublasLt 13 holds the list of the letters; that h is
// fp16, t bf16, q e4m3, r e5m2 and o e2m1 is seen in public profiles of calls of a known type, b in
// the library's own BII entry point. "sss" is fp32 in memory: only "_tf32" tells how it multiplies.
Precision nvjet_precision(string_view name) {
  Words words(name);
  words.next();
  string_view letters = words.next();
  if (begins(letters, "sm")) letters = words.next();
  auto fp8 = [](char letter) { return letter == 'q' || letter == 'r'; };
  if (letters.size() == 5) {
    if (fp8(letters[0]) && fp8(letters[1])) return kFp8;
    if (letters[0] == 'o' && letters[1] == 'o') return kFp4;
    return kUnknown;
  }
  if (letters.size() != 3) return kUnknown;
  switch (letters[0]) {
    case 'h':
      return kFp16;
    case 't':
      return kBf16;
    case 'b':
      return kInt8;
    case 's':
      return words.next() == "tf32" ? kTf32 : kUnknown;
  }
  return kUnknown;
}

// First of a run of types without separators, as in "e4m3bf16" or "cf32cf32" (complex).
Precision leading_type(string_view run) {
  if (begins(run, "c")) run = from(run, 1);
  return take_type(kTypes, run);
}

// ..._xmma_gemm_[gaussian_]<types in memory, A first>_<types that multiply, accumulator>_...
Precision xmma_precision(string_view after_gemm) {
  Words words(after_gemm);
  string_view memory = words.next();
  if (memory == "gaussian") memory = words.next();
  if (begins(memory, "ci")) return kUnknown;  // complex integers multiply as fp32
  Precision multiplied = leading_type(words.next());
  return multiplied == kTf32 ? multiplied : leading_type(memory);
}

// TensorRT-LLM's generated kernels: bmm_<C>_<A><B>_<accumulator>_t128x8x128...
Precision generated_precision(string_view after_kind) {
  Words words(after_kind);
  words.next();
  string_view inputs = words.next();
  Precision a = take_type(kGeneratedTypes, inputs);
  return take_type(kGeneratedTypes, inputs) == a ? a : kUnknown;
}

// fp32 in memory says nothing about what a tensor core multiplies.
Precision unless_fp32(Precision precision) {
  return precision == kFp32 ? kUnknown : precision;
}

struct InputTypes {
  bool stated = false;  // false: the tile follows at once, the kind alone tells the type
  Precision precision = kUnknown;
};

// What follows "gemm" in cuBLAS and CUTLASS names: [epilogue words], type of A, [type of B], tile.
InputTypes input_types(string_view after_gemm) {
  static constexpr auto kSkipped = std::to_array<string_view>(
      {"", "relu", "gelu", "drelu", "dgelu", "bgrada", "bgradb", "planar", "complex", "block",
       "scaled", "grouped", "array", "bias", "forwardCompat"});
  Words words(after_gemm);
  while (!words.empty()) {
    string_view word = words.next();
    Precision a = type_of(word);
    if (a != kUnknown) {
      Precision b = type_of(words.next());
      bool mixed = b != kUnknown && b != a;
      return {true, mixed ? kUnknown : a};
    }
    if (!word.empty() && is_digit(word[0])) return {};
    if (std::find(kSkipped.begin(), kSkipped.end(), word) == kSkipped.end()) return {true};
  }
  return {};
}

// <kind>gemm: the first letter is the accumulator (s fp32, h fp16, d fp64, i int32, c and z
// complex), then the tensor core's shape (s16816, h884, s128x256x16), then the type that multiplies
// when it is not the one in memory (s1688tf32).
Precision library_precision(string_view before, string_view kind, string_view after_gemm) {
  for (string_view multiplied : {"tf32", "bf16", "f16"}) {
    // 9xbf16 emulates fp32 in nine multiplications: neither peak is its own.
    if (ends(kind, multiplied)) return is_digit(kind[0]) ? kUnknown : type_of(multiplied);
  }
  InputTypes inputs = input_types(after_gemm);
  if (!kind.empty() && kind[0] == 'g') kind.remove_prefix(1);  // complex by three real products
  bool tensor = kind.size() > 1;
  switch (kind.empty() ? ' ' : kind[0]) {
    case 'd':
    case 'z':
      return inputs.stated ? kUnknown : kFp64;
    case 'c':
      return inputs.stated || tensor ? kUnknown : kFp32;
    case 'h':
      return inputs.stated ? inputs.precision : kFp16;
    case 'i':
      return inputs.stated ? inputs.precision : kInt8;
    case 's':
      if (!tensor) return inputs.stated ? inputs.precision : kFp32;
      if (inputs.stated) return unless_fp32(inputs.precision);
      // fp32 in memory. cuBLAS writes TF32 so; CUTLASS's own library ("cutlass_tensorop_") means
      // three TF32 products, and before Ampere it is fp16 that multiplies.
      return kind == "s1688" && ends(before, "cutlass_80_tensorop_") ? kTf32 : kUnknown;
    case ' ':
      return unless_fp32(inputs.precision);
  }
  return kUnknown;
}

// The <kind>gemm_ of a vendor's name.
Precision vendor_precision(string_view name) {
  static constexpr auto kVendors = std::to_array<string_view>(
      {"cutlass_", "cutlass3x_", "maxwell_", "volta_", "turing_", "ampere_"});
  for (size_t at = name.find("gemm_"); at != kNotFound; at = name.find("gemm_", at + 1)) {
    size_t begin = at;
    while (begin > 0 && is_identifier(name[begin - 1]) && name[begin - 1] != '_') --begin;
    string_view before = first(name, begin);
    bool vendor = std::any_of(kVendors.begin(), kVendors.end(), [before](string_view text) {
      return before.find(text) != kNotFound;
    });
    if (vendor && ends(before, "_")) {
      return library_precision(before, first(from(name, begin), at - begin), from(name, at + 5));
    }
  }
  return kUnknown;
}

// Attention and convolution multiply matrices too, but by other FLOP formulas; fbgemm is a library.
bool is_gemm(string_view name) {
  static constexpr auto kOthers =
      std::to_array<string_view>({"implicitgemm", "convol", "flash::", "flashattn", "flashfwd",
                                  "flashbwd", "fmha", "attention", "elementwise", "tensormaps"});
  // splitkreduce is the second half of a split-K product; fused_moe_kernel is vLLM's and sglang's.
  static constexpr auto kMarks =
      std::to_array<string_view>({"matmul", "splitkreduce", "fusedmoekernel"});
  if (any_folded(name, kOthers)) return false;
  if (begins(name, "nvjet_") || begins(name, "bmm_") || has_identifier(name, "gemv", false) ||
      any_folded(name, kMarks))
    return true;
  // Inductor's templates of mm, addmm and bmm.
  if (begins(name, "triton_tem_") && contains_folded(name, "mm")) return true;
  for (size_t at = 0; at + 4 <= name.size(); ++at) {
    bool gemm = lower(name[at]) == 'g' && lower(name[at + 1]) == 'e' &&
                lower(name[at + 2]) == 'm' && lower(name[at + 3]) == 'm';
    if (gemm && !ends(first(name, at), "fb")) return true;
  }
  return false;
}

Precision gemm_precision(string_view name) {
  auto whole = [name](string_view text) { return has_identifier(name, text, true); };
  // cuBLAS's emulation of fp64 with int8: neither peak is its own.
  if (contains_folded(name, "immaemu")) return kUnknown;
  if (begins(name, "nvjet_")) return nvjet_precision(name);
  if (begins(name, "bmm_")) return generated_precision(from(name, 4));
  if (begins(name, "gemm_")) return generated_precision(from(name, 5));
  constexpr string_view kXmma = "_xmma_gemm_";
  if (size_t at = name.find(kXmma); at != kNotFound) {
    return xmma_precision(from(name, at + kXmma.size()));
  }
  if (has_identifier(name, "sgemm_largek", false)) return kFp32;  // cuBLAS
  if (has_identifier(name, "dgemm_largek", false)) return kFp64;
  // DeepGEMM and DeepSeek's grouped products. The fp8_fp4 kernels take either type.
  if (has_identifier(name, "fp8_gemm_kernel", false)) return kFp8;
  if (whole("deep_gemm") && contains_folded(name, "fp8gemm")) return kFp8;
  if (whole("deep_gemm") && contains_folded(name, "bf16gemm")) return kBf16;
  if (whole("grouped_gemm") &&
      (has_identifier(name, "fp8_", false) || has_identifier(name, "m_grouped_fp8_", false))) {
    return kFp8;
  }
  return vendor_precision(name);
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
  return kUnknown;
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
  }
  return kind;
}

}  // namespace mfu
