#include "profiler/model_config.hh"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace mfu {
namespace {

ModelConfig parsed(const std::string& text) {
  auto config = parse_model_config(text, "file");
  if (config) config = finish_model(std::move(*config));
  EXPECT_TRUE(config) << config.error();
  return config.value_or(ModelConfig{});
}
std::string error_of(const std::string& text) {
  auto config = parse_model_config(text, "file");
  return config ? "none" : config.error();
}

constexpr char kLlama[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rope_scaling": {"factor": 8.0}, "tie_word_embeddings": false, "vocab_size": 128256})";

TEST(ModelConfig, llama) {
  const ModelConfig config = parsed(kLlama);
  ModelShape expected{.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8};
  expected.ffn = 14336;
  expected.vocab = 128256;
  expected.gated = true;
  EXPECT_EQ(config.shape, completed(expected));
  EXPECT_EQ(config.type, "llama");
  EXPECT_EQ(to_text(count_parameters(config.shape).total), "8029995008");
}

TEST(ModelConfig, lines_say_the_same) {
  const ModelConfig config = parsed(
      "# Llama 3.1 8B\nlayers=32\nhidden=4096\r\nheads=32\nkv_heads=8\n\nffn=14336\ngated=1\n"
      "vocab=128256\nparameters=8030261248");
  EXPECT_EQ(config.shape, parsed(kLlama).shape);
  EXPECT_EQ(config.parameters, 8030261248u);
}

TEST(ModelConfig, gpt2_has_four_times_the_width_and_learned_positions) {
  const ModelConfig config = parsed(
      R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_inner":null,
          "n_positions":1024,"vocab_size":50257})");
  EXPECT_EQ(config.shape.ffn, 3072u);
  EXPECT_FALSE(config.shape.gated);
  EXPECT_TRUE(config.shape.tied);
  EXPECT_EQ(to_text(count_parameters(config.shape).total), "124318464");  // less biases and norms
}

TEST(ModelConfig, mixtral_has_experts_in_all_layers) {
  const ModelConfig config = parsed(
      R"({"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,
          "num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,
          "num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"sliding_window":null})");
  EXPECT_EQ(config.shape.experts, 8u);
  EXPECT_EQ(config.shape.active_experts, 2u);
  EXPECT_EQ(config.shape.expert_ffn, 14336u);
  EXPECT_EQ(config.shape.moe_layers, 32u);
  EXPECT_EQ(config.shape.window, 0u);
  // 46.7 and 12.9 billion as its makers say.
  EXPECT_EQ(to_text(count_parameters(config.shape).total / 100000000), "467");
  EXPECT_EQ(to_text(count_parameters(config.shape).active / 100000000), "128");
}

constexpr char kDeepSeek[] =
    R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,
        "moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,
        "num_experts_per_tok":8,"first_k_dense_replace":3,"moe_layer_freq":1,
        "num_attention_heads":128,"num_key_value_heads":128,"num_hidden_layers":61,
        "kv_lora_rank":512,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
        "v_head_dim":128,"num_nextn_predict_layers":1,"tie_word_embeddings":false,
        "vocab_size":129280})";

TEST(ModelConfig, deepseek_v3_has_latent_attention_and_dense_first_layers) {
  const ModelConfig config = parsed(kDeepSeek);
  EXPECT_EQ(config.shape.moe_layers, 58u);
  EXPECT_EQ(config.shape.head_dim, 192u);
  EXPECT_EQ(config.shape.value_head_dim, 128u);
  EXPECT_EQ(config.shape.shared_ffn, 2048u);
  // 671 and 37 billion as its makers say, without the prediction layer.
  EXPECT_EQ(to_text(count_parameters(config.shape).total / 1000000000), "671");
  EXPECT_EQ(to_text(count_parameters(config.shape).active / 1000000000), "37");
  ASSERT_EQ(config.notes.size(), 1u);
  EXPECT_EQ(config.notes[0], "multi-token prediction layers are not counted");
}

TEST(ModelConfig, qwen_moe_has_narrow_experts_and_a_shared_one) {
  const ModelConfig config = parsed(
      R"({"model_type":"qwen2_moe","hidden_size":2048,"intermediate_size":5632,
          "moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,
          "num_experts_per_tok":4,"decoder_sparse_step":2,"mlp_only_layers":[],
          "num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":24,
          "use_sliding_window":false,"sliding_window":32768,"vocab_size":151936})");
  EXPECT_EQ(config.shape.moe_layers, 12u);
  EXPECT_EQ(config.shape.expert_ffn, 1408u);
  EXPECT_EQ(config.shape.shared_ffn, 5632u);
  EXPECT_EQ(config.shape.window, 0u);
}

TEST(ModelConfig, llama_4_alternates_and_keeps_its_text_apart) {
  const ModelConfig config = parsed(
      R"({"model_type":"llama4","vision_config":{},"text_config":{"model_type":"llama4_text",
          "hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,
          "interleave_moe_layer_step":2,"num_local_experts":128,"num_experts_per_tok":1,
          "num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
          "num_hidden_layers":48,"vocab_size":202048}})");
  EXPECT_EQ(config.shape.ffn, 16384u);
  EXPECT_EQ(config.shape.moe_layers, 24u);
  EXPECT_EQ(config.shape.expert_ffn, 8192u);
  EXPECT_EQ(config.shape.shared_ffn, 8192u);
  EXPECT_EQ(config.notes.size(), 2u);  // the text's part alone, and chunks
}

TEST(ModelConfig, llama_4_attends_in_chunks_but_for_layers_without_rotary_positions) {
  const std::string rest =
      R"("model_type":"llama4_text","hidden_size":5120,"intermediate_size":8192,
         "intermediate_size_mlp":16384,"num_attention_heads":40,"num_key_value_heads":8,
         "head_dim":128,"num_local_experts":16,"num_experts_per_tok":1,"vocab_size":202048)";
  const auto shape = [&](const std::string& more) {
    return parsed("{" + more + "," + rest + "}").shape;
  };
  const ModelShape scout = shape(R"("num_hidden_layers":48,"attention_chunk_size":8192)");
  EXPECT_EQ(scout.window, 8192u);
  EXPECT_EQ(scout.window_layers, 36u);
  EXPECT_EQ(shape(R"("num_hidden_layers":48)").window, 8192u);
  EXPECT_EQ(shape(R"("num_hidden_layers":48,"attention_chunk_size":null)").window, 0u);
  EXPECT_EQ(shape(R"("num_hidden_layers":6,"no_rope_layer_interval":3)").window_layers, 4u);
  EXPECT_EQ(shape(R"("num_hidden_layers":4,"no_rope_layers":[1,0,1,1])").window_layers, 3u);
  EXPECT_EQ(shape(R"("num_hidden_layers":3,"no_rope_layers":[],
                     "layer_types":["chunked_attention","full_attention","chunked_attention"])")
                .window_layers,
            2u);
  EXPECT_EQ(shape(R"("num_hidden_layers":2,"no_rope_layers":[0,0])").window, 0u);
  // Two chunks of 8192: 36 layers' queries meet half as many keys.
  const uint64_t length = 16384;
  const StepTokens work = uniform_tokens(1, length, scout.window);
  EXPECT_TRUE(work.window_pairs * 2 == work.pairs);
}

TEST(ModelConfig, windows_of_some_layers) {
  const std::string rest =
      R"("hidden_size":8,"intermediate_size":8,"num_attention_heads":1,"vocab_size":9,
         "sliding_window":4096)";
  auto layers = [&](const std::string& more) {
    return parsed("{" + more + "," + rest + "}").shape;
  };
  EXPECT_EQ(layers(R"("model_type":"mistral","num_hidden_layers":6)").window_layers, 6u);
  EXPECT_EQ(layers(R"("model_type":"gemma2","num_hidden_layers":7)").window_layers, 4u);
  EXPECT_EQ(layers(R"("model_type":"gemma3_text","num_hidden_layers":26)").window_layers, 22u);
  EXPECT_EQ(layers(R"("model_type":"qwen3","num_hidden_layers":3,
                      "layer_types":["full_attention","sliding_attention","full_attention"])")
                .window_layers,
            1u);
}

TEST(ModelConfig, mpt_says_it_in_its_own_words) {
  const ModelConfig config = parsed(
      R"({"model_type":"mpt","d_model":7168,"n_heads":64,"n_layers":48,"expansion_ratio":4,
          "max_seq_len":8192,"vocab_size":50432,"attn_config":{"attn_type":"multihead_attention"}})");
  EXPECT_EQ(config.shape.ffn, 28672u);
  EXPECT_EQ(config.shape.kv_heads, 64u);
  EXPECT_EQ(config.shape.positions, 8192u);
}

TEST(ModelConfig, errors_name_file_and_key_or_byte) {
  EXPECT_EQ(error_of(""), "file: empty");
  EXPECT_EQ(error_of("layers=32\nwidth=3\n"), "file: line 2: unknown key width");
  EXPECT_EQ(error_of("layers=32\nlayers"), "file: line 2: no key=value");
  EXPECT_EQ(error_of("layers=-1"), "file: line 1: layers: no whole number");
  EXPECT_EQ(error_of("layers=1e3"), "file: line 1: layers: no whole number");
  EXPECT_EQ(error_of("layers=99999999999999999999"), "file: line 1: layers: no whole number");
  EXPECT_EQ(error_of("gated=2"), "file: line 1: gated is 0 or 1");
  EXPECT_EQ(error_of("{\"model_type\":"), "file: byte 15: no JSON");
  EXPECT_EQ(error_of("[1]"), "file: no JSON object");
  EXPECT_EQ(error_of("{}"),
            "file: \"model_type\" is none of the known decoders; give the shape as "
            "key=value");
  EXPECT_EQ(error_of(R"({"model_type":"mamba"})"),
            "file: \"model_type\" \"mamba\" is none of the known decoders; give the shape as "
            "key=value");
  EXPECT_EQ(error_of(R"({"model_type":7})"), "file: \"model_type\" is no text");
  EXPECT_EQ(error_of(R"({"model_type":"llama"})"), "file: no \"num_hidden_layers\"");
  std::string text = kLlama;
  text.replace(text.find("4096"), 4, "-409");
  EXPECT_EQ(error_of(text), "file: \"hidden_size\" is no whole number");
  EXPECT_EQ(error_of(R"({"model_type":"qwen2","hidden_size":8,"intermediate_size":8,
      "num_attention_heads":1,"num_hidden_layers":2,"vocab_size":9,"sliding_window":4,
      "use_sliding_window":true})"),
            "file: \"use_sliding_window\" without \"layer_types\": which layers have the window is "
            "not said");
}

TEST(ModelConfig, hostile_numbers_and_nesting) {
  std::string text = kLlama;
  text.replace(text.find("4096"), 4, "18446744073709551615");
  auto config = parse_model_config(text, "file");
  ASSERT_TRUE(config);
  EXPECT_EQ(finish_model(*config).error(), "hidden=18446744073709551615 is not within 1..4194304");
  std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(error_of(deep), "file: nested too deeply");
  text = kDeepSeek;
  text.replace(text.find("\"qk_nope_head_dim\":128"), 22,
               "\"qk_nope_head_dim\":18446744073709551615");
  config = parse_model_config(text, "file");
  EXPECT_FALSE(config && finish_model(*config));
  // Cut anywhere, no file is a model or a crash.
  for (size_t length = 0; length + 1 < sizeof kLlama; ++length) {
    EXPECT_NE(error_of(std::string(kLlama, length)), "none");
  }
}

TEST(ModelConfig, files) {
  const std::string path = testing::TempDir() + "model_config_" + std::to_string(getpid());
  std::ofstream(path) << kLlama;
  auto config = read_model_config(path);
  EXPECT_TRUE(config) << config.error();
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_EQ(read_model_config(path).error(), path + ": larger than 1048576 bytes");
  std::remove(path.c_str());
  EXPECT_EQ(read_model_config(path).error(), path + ": No such file or directory");
  EXPECT_EQ(read_model_config("/").error(), "/: not a regular file");
}

}  // namespace
}  // namespace mfu
