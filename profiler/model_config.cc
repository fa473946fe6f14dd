// The names of the same thing differ by family; kNames lists them. What a family does that its
// numbers do not say is in kFamilies.
#include "profiler/model_config.hh"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "profiler/text_file.hh"

namespace mfu {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = 1 << 20;
constexpr int kMostDepth = 32;

struct Field {
  std::string_view name;
  uint64_t ModelShape::*number;
};
constexpr Field kFields[] = {{"layers", &ModelShape::layers},
                             {"hidden", &ModelShape::hidden},
                             {"heads", &ModelShape::heads},
                             {"kv_heads", &ModelShape::kv_heads},
                             {"head_dim", &ModelShape::head_dim},
                             {"value_head_dim", &ModelShape::value_head_dim},
                             {"ffn", &ModelShape::ffn},
                             {"vocab", &ModelShape::vocab},
                             {"positions", &ModelShape::positions},
                             {"experts", &ModelShape::experts},
                             {"active_experts", &ModelShape::active_experts},
                             {"expert_ffn", &ModelShape::expert_ffn},
                             {"shared_ffn", &ModelShape::shared_ffn},
                             {"moe_layers", &ModelShape::moe_layers},
                             {"window", &ModelShape::window},
                             {"window_layers", &ModelShape::window_layers},
                             {"q_rank", &ModelShape::q_rank},
                             {"kv_rank", &ModelShape::kv_rank},
                             {"rope_dim", &ModelShape::rope_dim}};

// ---- key=value ----

tl::expected<ModelConfig, std::string> parse_lines(std::string_view text,
                                                   const std::string& where) {
  ModelConfig config;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const std::string error =
        equals == std::string_view::npos
            ? "no key=value"
            : set_model_field(line.substr(0, equals), line.substr(equals + 1), &config);
    if (!error.empty()) {
      return tl::make_unexpected(where + ": line " + std::to_string(number) + ": " + error);
    }
  }
  return config;
}

// ---- config.json ----

// Where a value in the file cannot be what its key says.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Family {
  std::string_view type;
  bool gated;
  bool learned_positions = false;
  bool tied_by_default = true;  // transformers' default when the file does not say
};
constexpr Family kFamilies[] = {
    {"llama", true, false, false},
    {"llama4", true, false, false},
    {"llama4_text", true, false, false},
    {"mistral", true, false, false},
    {"mixtral", true, false, false},
    {"qwen2", true, false, false},
    {"qwen2_moe", true, false, false},
    {"qwen3", true, false, false},
    {"qwen3_moe", true, false, false},
    {"gemma", true},
    {"gemma2", true},
    {"gemma3_text", true},
    {"phi3", true, false, false},
    {"olmo", true, false, false},
    {"olmo2", true, false, false},
    {"olmoe", true, false, false},
    {"granite", true, false, false},
    {"internlm2", true, false, false},
    {"deepseek_v2", true, false, false},
    {"deepseek_v3", true, false, false},
    {"gpt2", false, true},
    {"gpt_bigcode", false, true},
    {"gpt_neox", false, false, false},
    {"gptj", false, false, false},
    {"opt", false, true},
    {"bloom", false},
    {"mpt", false, true},
    {"falcon", false},
    {"phi", false, false, false},
    {"starcoder2", false, false, false},
    {"nemotron", false, false, false},
};

constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr std::string_view kHidden[] = {"hidden_size", "n_embd", "n_embed", "d_model"};
constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head", "n_heads"};
constexpr std::string_view kKvHeads[] = {"num_key_value_heads", "num_kv_heads"};
constexpr std::string_view kFfn[] = {"intermediate_size_mlp", "intermediate_size",
                                     "ffn_hidden_size", "ffn_dim", "n_inner"};
constexpr std::string_view kVocab[] = {"vocab_size"};
constexpr std::string_view kPositions[] = {"max_position_embeddings", "n_positions", "max_seq_len"};
constexpr std::string_view kExperts[] = {"num_local_experts", "n_routed_experts", "num_experts"};
constexpr std::string_view kActive[] = {"num_experts_per_tok"};
constexpr std::string_view kSharedFfn[] = {"shared_expert_intermediate_size"};

class ConfigReader {
 public:
  explicit ConfigReader(const Json& json) : json_(json) {}

  // The number at the first of the keys that is there and not null.
  std::optional<uint64_t> number(std::span<const std::string_view> keys) const {
    for (std::string_view key : keys) {
      if (auto value = number(key)) return value;
    }
    return {};
  }
  std::optional<uint64_t> number(std::string_view key) const {
    const Json* value = at(key);
    if (value == nullptr) return {};
    if (!value->is_number_unsigned()) throw ConfigError(named(key) + " is no whole number");
    return value->get<uint64_t>();
  }
  uint64_t required(std::span<const std::string_view> keys) const {
    if (auto value = number(keys)) return *value;
    throw ConfigError("no " + named(keys[0]));
  }
  std::optional<bool> flag(std::string_view key) const {
    const Json* value = at(key);
    if (value == nullptr) return {};
    if (!value->is_boolean()) throw ConfigError(named(key) + " is neither true nor false");
    return value->get<bool>();
  }
  std::optional<std::string> text(std::string_view key) const {
    const Json* value = at(key);
    if (value == nullptr) return {};
    if (!value->is_string()) throw ConfigError(named(key) + " is no text");
    return value->get<std::string>();
  }
  bool has_null(std::string_view key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_null();
  }
  const Json* at(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

 private:
  static std::string named(std::string_view key) { return "\"" + std::string(key) + "\""; }

  const Json& json_;
};

const Family& family_of(const ConfigReader& reader, std::string* type) {
  *type = reader.text("model_type").value_or("");
  for (const Family& family : kFamilies) {
    if (family.type == *type) return family;
  }
  const bool shown =
      !type->empty() && type->size() <= 40 &&
      std::all_of(type->begin(), type->end(), [](char c) { return c > ' ' && c <= '~'; });
  throw ConfigError("\"model_type\" " + (shown ? "\"" + *type + "\" " : "") +
                    "is none of the known decoders; give the shape as key=value");
}

void read_attention(const ConfigReader& reader, ModelConfig* config) {
  ModelShape& shape = config->shape;
  shape.heads = reader.required(kHeads);
  shape.kv_heads = reader.number(kKvHeads).value_or(0);
  if (reader.flag("multi_query").value_or(false) &&
      !reader.flag("new_decoder_architecture").value_or(false)) {
    shape.kv_heads = 1;
  }
  if (const Json* attention = reader.at("attn_config");
      attention != nullptr && attention->is_object()) {
    const ConfigReader inner(*attention);
    if (auto heads = inner.number("kv_n_heads")) shape.kv_heads = *heads;
    if (inner.text("attn_type") == "multiquery_attention") shape.kv_heads = 1;
  }
  shape.head_dim = reader.number("head_dim").value_or(0);
  if (auto rank = reader.number("kv_lora_rank")) {
    constexpr std::string_view kPlain[] = {"qk_nope_head_dim"};
    constexpr std::string_view kRotary[] = {"qk_rope_head_dim"};
    constexpr std::string_view kValue[] = {"v_head_dim"};
    shape.kv_rank = *rank;
    shape.q_rank = reader.number("q_lora_rank").value_or(0);
    shape.rope_dim = reader.required(kRotary);
    shape.head_dim = shape.rope_dim + std::min(reader.required(kPlain), kMostSequence);
    shape.value_head_dim = reader.required(kValue);
    shape.kv_heads = shape.heads;
  }
}

uint64_t count_layers(const Json& types, const Json& wanted) {
  return static_cast<uint64_t>(std::count(types.begin(), types.end(), wanted));
}

// Llama 4 attends within chunks, but for layers without rotary positions: every fourth by default.
// transformers' Llama4TextConfig has the names and defaults.
void read_chunks(const ConfigReader& reader, ModelConfig* config) {
  ModelShape& shape = config->shape;
  constexpr std::string_view kChunk = "attention_chunk_size";
  const uint64_t chunk = reader.has_null(kChunk) ? 0 : reader.number(kChunk).value_or(8192);
  if (chunk == 0) return;
  const Json* const types = reader.at("layer_types");
  const Json* const rotary = reader.at("no_rope_layers");  // 1: has them
  if (types != nullptr && types->is_array()) {
    shape.window_layers = count_layers(*types, "chunked_attention");
  } else if (rotary != nullptr && rotary->is_array() && !rotary->empty()) {
    shape.window_layers = count_layers(*rotary, 1);
  } else {
    const uint64_t every = reader.number("no_rope_layer_interval").value_or(4);
    if (every == 0) throw ConfigError("\"no_rope_layer_interval\" is 0");
    shape.window_layers = shape.layers - shape.layers / every;
  }
  if (shape.window_layers == 0) return;
  shape.window = chunk;
  config->notes.push_back("attention in chunks counts as a sliding window of a chunk's length");
}

// A sliding window, in all layers or in those that the file lists.
void read_window(const ConfigReader& reader, const std::string& type, ModelShape* shape) {
  const auto window = reader.number("sliding_window");
  if (!window || *window == 0 || reader.flag("use_sliding_window") == false) return;
  if (const Json* types = reader.at("layer_types"); types != nullptr && types->is_array()) {
    shape->window_layers = count_layers(*types, "sliding_attention");
    if (shape->window_layers == 0) return;
  } else if (type == "gemma2") {
    shape->window_layers = (shape->layers + 1) / 2;
  } else if (type == "gemma3_text") {
    const uint64_t every = reader.number("sliding_window_pattern").value_or(6);
    if (every == 0) throw ConfigError("\"sliding_window_pattern\" is 0");
    shape->window_layers = shape->layers - shape->layers / every;
  } else if (reader.flag("use_sliding_window") == true) {
    throw ConfigError(
        "\"use_sliding_window\" without \"layer_types\": which layers have the window is not said");
  }
  shape->window = *window;
}

void read_experts(const ConfigReader& reader, ModelConfig* config) {
  ModelShape& shape = config->shape;
  shape.experts = reader.number(kExperts).value_or(0);
  if (shape.experts == 0) return;
  shape.active_experts = reader.required(kActive);
  // Llama 4 has the dense layers' width apart, and a shared expert as wide as the others.
  const auto expert = reader.number("moe_intermediate_size");
  shape.expert_ffn = expert ? *expert : reader.number("intermediate_size").value_or(shape.ffn);
  shape.shared_ffn = reader.number(kSharedFfn).value_or(0);
  if (auto shared = reader.number("n_shared_experts")) {
    shape.shared_ffn =
        std::min<uint64_t>(*shared, 65536) * std::min(shape.expert_ffn, kMostSequence);
  }
  if (config->type.starts_with("llama4")) shape.shared_ffn = shape.expert_ffn;
  uint64_t dense = std::min(reader.number("first_k_dense_replace").value_or(0), shape.layers);
  if (const Json* list = reader.at("mlp_only_layers"); list != nullptr && list->is_array()) {
    dense = std::min<uint64_t>(dense + list->size(), shape.layers);
  }
  uint64_t every = 1;
  for (std::string_view key :
       {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"}) {
    if (auto step = reader.number(key)) every = *step;
  }
  if (every == 0) throw ConfigError("a step between layers with experts is 0");
  if (dense != 0 && every != 1) {
    throw ConfigError(
        "which layers have experts is said in two ways; give moe_layers as key=value");
  }
  shape.moe_layers = (shape.layers - dense) / every;
  if (shape.moe_layers == 0)
    shape.experts = shape.active_experts = shape.expert_ffn = shape.shared_ffn = 0;
}

ModelConfig read_json(const Json& json) {
  ModelConfig config;
  const Json* root = &json;
  // Models of several kinds of input keep the decoder's part apart; the rest is not counted.
  if (const auto text = json.find("text_config"); text != json.end() && text->is_object()) {
    root = &*text;
    config.notes.push_back("only text_config is counted: no vision or audio tower");
  }
  const ConfigReader reader(*root);
  const Family& family = family_of(reader, &config.type);
  ModelShape& shape = config.shape;
  shape.layers = reader.required(kLayers);
  shape.hidden = reader.required(kHidden);
  shape.vocab = reader.required(kVocab);
  shape.gated = family.gated;
  shape.tied = reader.flag("tie_word_embeddings").value_or(family.tied_by_default);
  if (family.learned_positions) shape.positions = reader.number(kPositions).value_or(0);
  if (auto ffn = reader.number(kFfn)) {
    shape.ffn = *ffn;
  } else if (!family.gated) {
    shape.ffn =
        reader.number("expansion_ratio").value_or(4) * std::min(shape.hidden, kMostSequence);
  } else {
    throw ConfigError("no \"intermediate_size\"");
  }
  read_attention(reader, &config);
  if (config.type.starts_with("llama4")) {
    read_chunks(reader, &config);
  } else {
    read_window(reader, config.type, &shape);
  }
  read_experts(reader, &config);
  if (auto extra = reader.number("num_nextn_predict_layers"); extra.value_or(0) != 0) {
    config.notes.push_back("multi-token prediction layers are not counted");
  }
  return config;
}

tl::expected<ModelConfig, std::string> parse_json(std::string_view text, const std::string& where) {
  bool deep = false;
  auto bounded = [&](int now, Json::parse_event_t, Json&) {
    deep = deep || now > kMostDepth;
    return !deep;  // drops what lies below
  };
  try {
    const Json json = Json::parse(text, bounded);
    if (deep) return tl::make_unexpected(where + ": nested too deeply");
    if (!json.is_object()) return tl::make_unexpected(where + ": no JSON object");
    return read_json(json);
  } catch (const Json::parse_error& error) {
    return tl::make_unexpected(where + ": byte " + std::to_string(error.byte) + ": no JSON");
  } catch (const Json::exception&) {
    return tl::make_unexpected(where + ": no JSON");
  } catch (const ConfigError& error) {
    return tl::make_unexpected(where + ": " + error.what());
  }
}

}  // namespace

std::string set_model_field(std::string_view key, std::string_view value, ModelConfig* config) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  auto bad = [&key] { return std::string(key) + ": no whole number"; };
  for (const Field& field : kFields) {
    if (field.name != key) continue;
    if (!whole) return bad();
    config->shape.*field.number = number;
    return {};
  }
  if (key == "parameters") {
    if (!whole) return bad();
    config->parameters = number;
    return {};
  }
  if (key == "gated" || key == "tied") {
    if (!whole || number > 1) return std::string(key) + " is 0 or 1";
    (key == "gated" ? config->shape.gated : config->shape.tied) = number == 1;
    return {};
  }
  return "unknown key" +
         (key.size() <= 40 &&
                  std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; })
              ? " " + std::string(key)
              : std::string());
}

tl::expected<ModelConfig, std::string> finish_model(ModelConfig config) {
  config.shape = completed(config.shape);
  if (std::string error = shape_error(config.shape); !error.empty()) {
    return tl::make_unexpected(std::move(error));
  }
  return config;
}

tl::expected<ModelConfig, std::string> parse_model_config(std::string_view text,
                                                          const std::string& where) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return tl::make_unexpected(where + ": empty");
  return text[first] == '{' || text[first] == '[' ? parse_json(text, where)
                                                  : parse_lines(text, where);
}

tl::expected<ModelConfig, std::string> read_model_config(const std::string& path) {
  auto text = read_text_file(path, kMostBytes);
  if (!text) return tl::make_unexpected(text.error());
  return parse_model_config(*text, path);
}

}  // namespace mfu
