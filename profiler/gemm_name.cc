#include "profiler/gemm_name.hh"

#include <algorithm>
#include <array>

#include "profiler/name_search.hh"

namespace mfu {
namespace {

using namespace name_search;

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

}  // namespace

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

bool ends_gemm(string_view name) {
  return contains_folded(name, "splitkreduce");
}

// Inductor's, vLLM's and sglang's, DeepGEMM's, TensorRT-LLM's generated ones. CUTLASS is not among
// them: cuBLAS runs its kernels too.
bool is_foreign_gemm(string_view name) {
  return begins(name, "triton_tem_") || contains_folded(name, "fusedmoekernel") ||
         has_identifier(name, "deep_gemm", true) || begins(name, "bmm_") || begins(name, "gemm_");
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

}  // namespace mfu
