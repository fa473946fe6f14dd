#include "profiler/flops_report.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace mfu {
namespace {

using Json = nlohmann::json;

// Llama 3.1 8B, 128 sequences of 8192 on 8 H100.
FlopsRequest llama() {
  FlopsRequest request;
  ModelShape& shape = request.model.shape;
  shape.layers = 32;
  shape.hidden = 4096;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.ffn = 14336;
  shape.vocab = 128256;
  shape.gated = true;
  request.batch = 128;
  request.sequence = 8192;
  request.gpus = 8;
  request.gpu = "NVIDIA H100 80GB HBM3";
  request.peak = known_peak(request.gpu, request.precision);
  return request;
}

FlopsReport reported(FlopsRequest request) {
  auto report = report_flops(std::move(request));
  EXPECT_TRUE(report) << report.error();
  return report.value_or(FlopsReport{});
}

Json json_of(const FlopsReport& report) {
  std::ostringstream out;
  write_flops_json(out, report);
  return Json::parse(out.str());
}
std::string table_of(const FlopsReport& report) {
  std::ostringstream out;
  write_flops_table(out, report);
  return out.str();
}

TEST(FlopsReport, figures_of_a_step_time) {
  FlopsRequest request = llama();
  request.step_seconds = 12.27;
  request.recompute = Recompute::kFull;
  const FlopsReport report = reported(request);
  const double flops = static_cast<double>(report.full);
  EXPECT_NEAR(*report.mfu, flops / (12.27 * 8 * 989.4e12), 1e-12);
  EXPECT_GT(*report.hfu, *report.mfu);
  EXPECT_LT(*report.hfu, *report.mfu * 4 / 3);  // the LM head is not recomputed
  EXPECT_LT(*report.mfu_causal, *report.mfu);
  EXPECT_EQ(report.basis,
            "exact matrix multiplications, full attention, recomputation full; peak 989.4 TFLOP/s "
            "bf16 dense (table) x 8 GPUs");
}

TEST(FlopsReport, throughput_is_another_way_to_say_step_time) {
  FlopsRequest request = llama();
  request.step_seconds = 10;
  const FlopsReport by_time = reported(request);
  request.step_seconds.reset();
  request.tokens_per_second = 128 * 8192 / 10.0;
  EXPECT_DOUBLE_EQ(*reported(request).mfu, *by_time.mfu);
}

TEST(FlopsReport, a_formula_replaces_the_exact_figure) {
  FlopsRequest request = llama();
  request.step_seconds = 12.27;
  request.formula = find_formula("6N");
  FlopsReport report = reported(request);
  EXPECT_NEAR(*report.mfu, 6 * 8029995008.0 * 128 * 8192 / (12.27 * 8 * 989.4e12), 1e-12);
  EXPECT_FALSE(report.mfu_causal);
  EXPECT_FALSE(report.hfu);
  EXPECT_EQ(report.basis.substr(0, 20), "formula 6N: 6N; peak");
  request.formula = find_formula("megatron-lm-2021-recompute");
  report = reported(request);
  EXPECT_TRUE(report.hfu);
  EXPECT_FALSE(report.mfu);
}

TEST(FlopsReport, says_why_there_is_no_mfu) {
  FlopsRequest request = llama();
  EXPECT_EQ(reported(request).no_mfu, "no throughput");
  request.step_seconds = 1;
  request.gpus = 0;
  EXPECT_EQ(reported(request).no_mfu, "number of GPUs unknown");
  request.gpus = 8;
  request.gpu = "NVIDIA Rubin";
  request.peak = known_peak(request.gpu, request.precision);
  const FlopsReport report = reported(request);
  EXPECT_EQ(report.no_mfu, "peak unknown: NVIDIA Rubin, bf16");
  EXPECT_FALSE(report.mfu);
  EXPECT_NE(table_of(report).find("mfu=n/a [peak unknown: NVIDIA Rubin, bf16]"), std::string::npos);
  EXPECT_TRUE(json_of(report)["mfu"].is_null());
}

TEST(FlopsReport, warns_of_what_cannot_be) {
  FlopsRequest request = llama();
  request.step_seconds = 4;
  FlopsReport report = reported(request);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0].substr(0, 11), "above 100%:");
  EXPECT_NE(table_of(report).find("%! (causal"), std::string::npos);
  request.formula = find_formula("6N");  // without an HFU beside it
  EXPECT_EQ(reported(request).warnings.size(), 1u);
  request.formula = nullptr;
  request.step_seconds = 12.27;
  request.peak = {1979000, PeakBasis::kDeclared};
  report = reported(request);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("sparse"), std::string::npos);
  request.peak = estimated_peak(9, 0, 132, 1980, Precision::kBf16);
  report = reported(request);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("estimate"), std::string::npos);
  EXPECT_NE(report.basis.find("(estimated)"), std::string::npos);
}

TEST(FlopsReport, packed_lengths) {
  FlopsRequest request = llama();
  request.lengths = std::vector<uint64_t>(8, 1024);
  const FlopsReport packed = reported(request);
  EXPECT_EQ(packed.work.tokens, 8192u);
  request.lengths = {8192};
  const FlopsReport whole = reported(request);
  EXPECT_EQ(to_text(whole.parts.scores_full), to_text(8 * packed.parts.scores_full));
  EXPECT_EQ(to_text(whole.parts.mlp), to_text(packed.parts.mlp));
}

TEST(FlopsReport, errors) {
  auto error = [](auto change) {
    FlopsRequest request = llama();
    change(request);
    auto report = report_flops(request);
    return report ? "none" : report.error();
  };
  EXPECT_EQ(error([](FlopsRequest& r) { r.model.shape.layers = 0; }),
            "layers=0 is not within 1..10000");
  EXPECT_EQ(error([](FlopsRequest& r) { r.batch = 0; }), "no batch");
  EXPECT_EQ(error([](FlopsRequest& r) { r.sequence = 0; }), "a sequence has 1 to 2^30 tokens");
  EXPECT_EQ(error([](FlopsRequest& r) { r.lengths = {5, 0}; }), "a sequence has 1 to 2^30 tokens");
  EXPECT_EQ(error([](FlopsRequest& r) { r.batch = ~uint64_t{0}; }), "more than 2^44 tokens");
  EXPECT_EQ(error([](FlopsRequest& r) { r.step_seconds = -1; }),
            "a throughput or step time is above 0");
  EXPECT_EQ(error([](FlopsRequest& r) { r.step_seconds = r.tokens_per_second = 1; }),
            "throughput and step time: one of them");
  EXPECT_EQ(error([](FlopsRequest& r) { r.lora.mlp_rank = 65537; }),
            "a LoRA rank is at most 65536");
}

TEST(FlopsReport, json_is_exact) {
  FlopsRequest request = llama();
  request.step_seconds = 12.27;
  const FlopsReport report = reported(request);
  const Json json = json_of(report);
  EXPECT_EQ(json["training"]["full"], to_text(report.full));
  EXPECT_EQ(json["tokens"], 1048576);
  EXPECT_EQ(json["formulas"].size(), formulas().size());
  EXPECT_EQ(json["formulas"]["nemo"]["step"], to_text(report.full - 3 * report.parts.router));
  EXPECT_EQ(json["peak"]["basis"], "table");
  EXPECT_DOUBLE_EQ(json["mfu"], *report.mfu);
  EXPECT_TRUE(json["no_mfu"].is_null());
}

TEST(FlopsReport, table_has_every_formula_by_name) {
  const std::string table = table_of(reported(llama()));
  for (const Formula& formula : formulas()) {
    EXPECT_NE(table.find("\n" + std::string(formula.name)), std::string::npos) << formula.name;
  }
  EXPECT_EQ(table.find("experts"), std::string::npos);  // it has none
}

TEST(FlopsReport, utilisation_needs_all_its_parts) {
  EXPECT_DOUBLE_EQ(*utilisation(1e12, 1, 2, 1000), 0.5);
  EXPECT_FALSE(utilisation(1, 0, 1, 1));
  EXPECT_FALSE(utilisation(1, 1, 0, 1));
  EXPECT_FALSE(utilisation(1, 1, 1, 0));
  EXPECT_FALSE(utilisation(1, 1e300, 1, ~uint64_t{0}));
}

}  // namespace
}  // namespace mfu
