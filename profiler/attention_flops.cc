#include "profiler/attention_flops.hh"

#include <algorithm>
#include <iterator>

namespace mfu {
namespace {

using std::string_view;

constexpr string_view kForward = "flash_fwd_kernel";
constexpr string_view kBackward = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel";

// Arguments of the kernel's template behind its traits, in order of appearance.
struct Arguments {
  uint64_t traits[4] = {};  // head dimension, queries and keys in a block, warps
  bool flags[9] = {};
  size_t flag_count = 0;
};

// Where the flags are, by how many there are: versions have added Is_local, then Has_alibi, then
// Is_softcap. -1: that version had none.
struct Layout {
  size_t count;
  int causal, local, even_mn, even_k;
};
constexpr Layout kForwardLayouts[] = {
    {5, 1, -1, 2, 3},
    {6, 1, 2, 3, 4},
    {7, 1, 2, 4, 5},
    {8, 1, 2, 4, 5},
};
constexpr Layout kBackwardLayouts[] = {
    {4, 1, -1, 2, 3},
    {5, 1, 2, 3, 4},
    {6, 1, 2, 4, 5},
    {7, 1, 2, 4, 5},
};

bool read_number(string_view& text, uint64_t* out) {
  size_t digits = 0;
  *out = 0;
  while (digits < text.size() && digits < 6 && text[digits] >= '0' && text[digits] <= '9') {
    *out = *out * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  text.remove_prefix(digits);
  return digits > 0;
}

// substr() without its exception: `first` and what is behind it, `count` at most.
string_view part(string_view text, size_t first, size_t count = string_view::npos) {
  text.remove_prefix(std::min(first, text.size()));
  text.remove_suffix(text.size() - std::min(count, text.size()));
  return text;
}

bool skip(string_view& text, string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// "Li128ELi128ELi64ELi4E..." up to "Lb0ELb1E...Ev": the flags are the last run of bools.
bool parse_mangled(string_view text, Arguments* out) {
  for (uint64_t& number : out->traits) {
    if (!skip(text, "Li") || !read_number(text, &number) || !skip(text, "E")) return false;
  }
  // The flags are followed by the end of the arguments, of a name in a namespace, and the type.
  const size_t end = text.find("EEv");
  if (end == string_view::npos) return false;
  string_view flags = part(text, 0, end + 1);
  while (flags.ends_with("EE")) flags.remove_suffix(1);
  size_t first = flags.size();
  while (first >= 4 && part(flags, first - 4, 2) == "Lb" && flags[first - 1] == 'E') first -= 4;
  for (string_view left = part(flags, first); !left.empty(); left.remove_prefix(4)) {
    if (out->flag_count == std::size(out->flags)) return false;
    out->flags[out->flag_count++] = left[2] == '1';
  }
  return true;
}

// "<128, 128, 64, 4, ...> >, false, true, ...>(": the same.
bool parse_demangled(string_view text, Arguments* out) {
  for (uint64_t& number : out->traits) {
    if (!read_number(text, &number)) return false;
    while (skip(text, ",") || skip(text, " ")) {
    }
  }
  const size_t end = text.find(">(");
  if (end == string_view::npos) return false;
  text = part(text, 0, end);
  const size_t traits_end = text.rfind('>');
  if (traits_end == string_view::npos) return false;
  text.remove_prefix(traits_end + 1);
  while (!text.empty()) {
    if (!skip(text, ", ") || out->flag_count == std::size(out->flags)) return false;
    const bool yes = skip(text, "true") || skip(text, "(bool)1");
    if (!yes && !skip(text, "false") && !skip(text, "(bool)0")) return false;
    out->flags[out->flag_count++] = yes;
  }
  return true;
}

bool parse(string_view name, Arguments* out) {
  constexpr string_view kMangledTraits = "_kernel_traitsI";
  constexpr string_view kTraits = "_kernel_traits<";
  if (const size_t at = name.find(kMangledTraits); at != string_view::npos) {
    return parse_mangled(part(name, at + kMangledTraits.size()), out);
  }
  const size_t at = name.find(kTraits);
  return at != string_view::npos && parse_demangled(part(name, at + kTraits.size()), out);
}

Precision precision_of(string_view name) {
  if (name.find("bfloat16_t") != string_view::npos) return Precision::kBf16;
  return name.find("half_t") != string_view::npos ? Precision::kFp16 : Precision::kUnknown;
}

}  // namespace

// Two of forward's multiplications: 2 x 2 x length^2 x dimension.
uint64_t AttentionShape::flops() const {
  const uint64_t one = 2 * batch_heads * length * length * head_dimension / (causal ? 2 : 1);
  return one * (backward ? 5 : 2);
}

uint64_t AttentionShape::model_flops() const {
  return backward ? flops() / 5 * 4 : flops();
}

AttentionTraits attention_traits(string_view name) {
  AttentionTraits traits;
  traits.backward = name.find(kBackward) != string_view::npos;
  if (!traits.backward && name.find(kForward) == string_view::npos) return {};
  Arguments arguments;
  if (!parse(name, &arguments)) return {};
  const auto& layouts = traits.backward ? kBackwardLayouts : kForwardLayouts;
  const Layout* layout = std::find_if(std::begin(layouts), std::end(layouts), [&](const Layout& l) {
    return l.count == arguments.flag_count;
  });
  if (layout == std::end(layouts)) return {};
  const bool* flags = arguments.flags;
  if (!flags[layout->even_mn] || !flags[layout->even_k]) return {};
  if (layout->local >= 0 && flags[layout->local]) return {};
  traits.causal = flags[layout->causal];
  traits.precision = precision_of(name);
  const uint64_t block = arguments.traits[traits.backward ? 2 : 1];
  if (traits.precision == Precision::kUnknown || block > UINT16_MAX ||
      arguments.traits[0] > UINT16_MAX) {
    return {};
  }
  traits.block = static_cast<uint16_t>(block);
  traits.head_dimension = static_cast<uint16_t>(arguments.traits[0]);
  return traits;
}

bool attention_shape(const AttentionTraits& traits, const uint32_t (&grid)[3],
                     AttentionShape* shape) {
  *shape = {.batch_heads = uint64_t{grid[1]} * grid[2],
            .length = uint64_t{grid[0]} * traits.block,
            .head_dimension = traits.head_dimension,
            .causal = traits.causal,
            .backward = traits.backward,
            .precision = traits.precision};
  // Beyond, the FLOPs would have no room: no such GPU.
  return shape->batch_heads > 0 && shape->length > 0 && shape->length < (1 << 24) &&
         shape->batch_heads < (1 << 20) &&
         static_cast<unsigned __int128>(10) * shape->batch_heads * shape->length * shape->length *
                 shape->head_dimension <
             uint64_t{1} << 62;
}

void AttentionSums::Pair::add_model(FlopSum* sum) const {
  const uint64_t passes =
      backward_count == 0 ? forward_count : std::min(forward_count, backward_count);
  AttentionShape backward = forward;
  backward.backward = true;
  sum->add(static_cast<unsigned __int128>(passes) * forward.model_flops());
  sum->add(static_cast<unsigned __int128>(backward_count) * backward.model_flops());
}

AttentionSums::Pair* AttentionSums::find(const AttentionShape& forward) {
  if (pairs_[last_].forward == forward) return &pairs_[last_];
  const auto end = std::begin(pairs_) + std::min(count_, kShapes);
  const auto found = std::find_if(std::begin(pairs_), end,
                                  [&](const Pair& pair) { return pair.forward == forward; });
  if (found == end) return nullptr;
  last_ = static_cast<size_t>(found - std::begin(pairs_));
  return found;
}

bool AttentionSums::add(const AttentionShape& shape) {
  AttentionShape forward = shape;
  forward.backward = false;
  Pair* pair = find(forward);
  if (pair == nullptr) {
    if (shape.backward) return false;
    last_ = count_++ % kShapes;
    pair = &pairs_[last_];
    pair->add_model(&forgotten_);
    *pair = {forward, 0, 0};
  }
  ++(shape.backward ? pair->backward_count : pair->forward_count);
  executed_.add(shape.flops());
  return true;
}

FlopSum AttentionSums::model() const {
  FlopSum sum = forgotten_;
  for (size_t i = 0; i < std::min(count_, kShapes); ++i) pairs_[i].add_model(&sum);
  return sum;
}

}  // namespace mfu
