// Mistakes that people reported about MFU figures, put right: by the right value, or by a flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "profiler/flops_report.hh"
#include "profiler/peak_additions.hh"
#include "tests/unit/shared_table.hh"

namespace mfu {
namespace {

double percent(double tflops, double gigaflops) {
  return 100 * tflops * 1000 / gigaflops;
}
double peak_of(const char* name, Precision precision = Precision::kBf16) {
  return static_cast<double>(known_peak(name, precision).gigaflops);
}

ModelShape llama(uint64_t layers, uint64_t hidden, uint64_t heads, uint64_t ffn, uint64_t vocab) {
  ModelShape shape{.layers = layers, .hidden = hidden, .heads = heads};
  shape.ffn = ffn;
  shape.vocab = vocab;
  shape.gated = true;
  return completed(shape);
}
ModelShape llama3(uint64_t layers, uint64_t hidden, uint64_t heads, uint64_t ffn) {
  ModelShape shape = llama(layers, hidden, heads, ffn, 128256);
  shape.kv_heads = 8;
  return shape;
}

double per_token(const char* formula, const ModelShape& shape, uint64_t sequence,
                 uint64_t parameters = 0) {
  const StepTokens work = uniform_tokens(1, sequence);
  return static_cast<double>(formula_flops(*find_formula(formula), shape, work, parameters)) /
         static_cast<double>(sequence);
}

struct Mistake {
  const char* topic;
  const char* address;  // a part of it
  double right;
  double tolerance;  // half of the last digit that the table prints
  std::function<double()> ours;
};

std::vector<Mistake> mistakes() {
  const ModelShape llama2_7b = llama(32, 4096, 32, 11008, 32000);
  const ModelShape llama3_8b = llama3(32, 4096, 32, 14336);
  ModelShape mixtral = llama3(32, 4096, 32, 14336);
  mixtral.vocab = 32000;
  mixtral.experts = 8;
  mixtral.active_experts = 2;
  mixtral = completed(mixtral);
  ModelShape gpt2{.layers = 12, .hidden = 768, .heads = 12};
  gpt2.ffn = 3072;
  gpt2.vocab = 50304;
  gpt2.tied = true;
  gpt2.positions = 1024;
  gpt2 = completed(gpt2);
  const ModelShape aleph = llama(40, 5120, 40, 13824, 128000);
  const ModelShape gpt22b =
      completed({.layers = 48, .hidden = 6144, .heads = 64, .ffn = 24576, .vocab = 51200});
  auto with = [](const char* line, const char* name, double tflops) {
    const auto additions = PeakAdditions::parse(line, "peaks");
    return percent(tflops, static_cast<double>(additions->peak(name, Precision::kBf16).gigaflops));
  };
  return {
      {"sparse peak", "Megatron-LM/issues/1565", 42.47, 0.005,
       [] { return percent(420, peak_of("NVIDIA H200")); }},
      {"sparse peak", "fms-fsdp/issues/89", 45.50, 0.005,
       [=] { return percent(9600 * per_token("6N+12Lhs", llama2_7b, 4096) / 1e12, 989000); }},
      {"dense number halved again", "OLMo-core/pull/614", 48.08, 0.005,
       [] { return percent(150, peak_of("NVIDIA A100-SXM4-80GB")); }},
      {"wrong column", "torchtitan/issues/668", 989, 0.5,
       [] { return peak_of("NVIDIA H100 80GB HBM3") / 1000; }},
      {"unknown GPU fallback", "torchtitan/pull/4779", 20.6, 0.05,
       [=] { return with("MI350X\tMI350X\tbf16=2300", "MI350X", 1.52 * 312); }},
      {"unknown GPU fallback", "Primus/pull/772", 70.3, 0.05,
       [=] { return with("MI355X\tMI355X\tbf16=2500", "MI355X", 5.63 * 312); }},
      {"substring match", "ray/pull/64315", 49.72, 0.005,
       [] { return percent(90, peak_of("NVIDIA L40")); }},
      {"case-sensitive match", "get_peak_flops", 41.44, 0.005,
       [] { return percent(150, peak_of("NVIDIA L40S")); }},
      {"multi-GPU normalisation", "blog/issues/1649", 2.84, 0.005,
       [=] {
         const double flops = 2048.0 * 16 * 500 * per_token("6N", llama2_7b, 4096, 70000000000);
         return 100 * *utilisation(flops, 13.5 * 3600, 16, 312000);
       }},
      {"multi-GPU normalisation", "prime-rl/pull/20", 42.20, 0.005,
       [] { return 100 * *utilisation(3.3759 * 312e12, 1, 8, 312000); }},
      {"grad accumulation", "pull/1548", 39.97, 0.006,
       [=] {
         return 100 * *utilisation(4 * 8192 * per_token("nemo", llama3_8b, 8192), 4.8, 1, 989000);
       }},
      {"grad accumulation (false report)", "nanoGPT/pull/619", 33.66, 0.005,
       [=] {
         return 100 *
                *utilisation(5 * 12 * 1024 * per_token("nanogpt", gpt2, 1024), 0.5, 1, 312000);
       }},
      {"embedding counted twice (published)", "132178", 67.35, 0.005,
       [=] {
         return 100 * *utilisation(2048.0 * 2048 * per_token("exact-full", aleph, 2048), 26.5395,
                                   64, 312000);
       }},
      {"embedding x2", "VeOmni/issues/703", 3152019456, 0,
       [=] {
         return 3 * static_cast<double>(forward_flops(llama3_8b, uniform_tokens(1, 1)).head);
       }},
      {"causal", "flash-attention/issues/573", 73.8, 0.05,
       [=] {
         const ModelShape shape = llama(80, 8192, 64, 22016, 32000);
         return percent(322, 312000) * per_token("exact-causal", shape, 65536) /
                per_token("exact-full", shape, 65536);
       }},
      {"HFU coefficient", "Megatron-LM/issues/523", 42.22, 0.005,
       [=] {
         return 41.5 * per_token("korthikanti-selective", gpt22b, 2048) /
                per_token("megatron-lm-2021", gpt22b, 2048);
       }},
      {"GLU/ffn ignored", "Megatron-LM/pull/682", 4.608e10, 5e6,
       [=] { return per_token("nemo", llama2_7b, 4096); }},
      {"GQA ignored", "Megatron-DeepSpeed/pull/350", 4.814e11, 5e7,
       [] { return per_token("nemo", llama3(80, 8192, 64, 28672), 8192); }},
      {"MoE active params", "maxtext/pull/678", 8.293e10, 5e6,
       [=] { return per_token("nemo", mixtral, 4096); }},
      {"packing", "Megatron-Bridge/pull/3839", 3.755e14, 5e10,
       [=] {
         const std::vector<uint64_t> lengths(8, 1024);
         return static_cast<double>(training_flops(llama3_8b, packed_tokens(lengths), true));
       }},
      {"wrong sequence length", "RL/pull/2790", 99, 0.05,
       [=] {
         auto scores = [&](uint64_t s) {
           return static_cast<double>(forward_flops(llama3_8b, uniform_tokens(1, s)).scores_full) /
                  static_cast<double>(s);
         };
         return scores(202752) / scores(2048);
       }},
      {"2ND instead of 6ND", "scaling-book/issues/31", 21.6, 0.05,
       [=] {
         return 100 * *utilisation(14.8e12 * per_token("6N", llama2_7b, 4096, 37000000000),
                                   2.79e6 * 3600, 1, 1513000);
       }},
      {"stale arithmetic", "llama4/finetune", 11.41, 0.005,
       [] { return 100 * *utilisation(32 * 4.21e14, 0.205, 256, 2250000); }},
      {"default peak", "flops_utils.py", 40.44, 0.02,
       [] { return percent(400, peak_of("NVIDIA H100 80GB HBM3")); }},
      {"capped SKU", "formula on H20", 67.57, 0.005,
       [] { return percent(100, peak_of("NVIDIA H20")); }},
  };
}

TEST(ReportedMistakes, get_the_right_value) {
  for (const Mistake& mistake : mistakes()) {
    EXPECT_NEAR(mistake.ours(), mistake.right, mistake.tolerance) << mistake.address;
  }
}

TEST(ReportedMistakes, none_is_left_out) {
  auto rows = read_table("reported_mistakes.tsv");
  if (rows.empty()) GTEST_SKIP() << kNoSharedData;
  const std::vector<Mistake> ours = mistakes();
  EXPECT_EQ(rows.size(), ours.size());
  for (auto& row : rows) {
    const auto found = std::find_if(ours.begin(), ours.end(), [&row](const Mistake& mistake) {
      return row["topic"] == mistake.topic &&
             (row["address"].find(mistake.address) != std::string::npos ||
              row["input"].find(mistake.address) != std::string::npos);
    });
    ASSERT_NE(found, ours.end()) << row["address"];
    // "4.814e+11 (g=8)", "6Vh=3152019456", "33.66 (...)": the right value is in the table as ours.
    const std::string& right = row["right"];
    const size_t digit =
        right.find_first_of("0123456789", right.find('=') < 5 ? right.find('=') : 0);
    if (row["topic"] == "wrong sequence length") continue;  // told as a factor in "wrong"
    EXPECT_NEAR(std::stod(right.substr(digit)), found->right, found->right * 1e-6)
        << row["address"];
  }
}

TEST(ReportedMistakes, what_cannot_be_right_is_flagged) {
  EXPECT_TRUE(is_sparse_rate("NVIDIA H200", Precision::kBf16, 1979000));
  EXPECT_TRUE(is_sparse_rate("NVIDIA H100 80GB HBM3", Precision::kTf32, 989000));  // wrong column
  EXPECT_EQ(known_peak("AMD Instinct MI350X", Precision::kBf16).gigaflops, 0u);    // no fallback
  FlopsRequest request;
  request.model.shape = llama(80, 8192, 64, 22016, 32000);
  request.batch = 1;
  request.sequence = 65536;
  request.gpus = 1;
  request.peak = known_peak("NVIDIA A800-SXM4-80GB", Precision::kBf16);
  request.step_seconds = 1;
  auto report = report_flops(request);
  request.step_seconds = *report->mfu / 1.032;  // 103.2%, as reported
  report = report_flops(request);
  EXPECT_NEAR(*report->mfu, 1.032, 1e-9);
  EXPECT_NEAR(*report->mfu_causal, 0.738, 0.0005);
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find("above 100%"), std::string::npos);
  EXPECT_NE(report->warnings[0].find("full attention"), std::string::npos);
}

}  // namespace
}  // namespace mfu
