#include "profiler/flops_report.hh"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/peak_additions.hh"

namespace mfu {
namespace {

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  char text[512];
  va_list values;
  va_start(values, pattern);
  vsnprintf(text, sizeof text, pattern, values);
  va_end(values);
  return text;
}

std::string percent(double share) {
  return format("%.2f%%", 100 * share);
}

const char* recompute_name(Recompute recompute) {
  static constexpr const char* kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<size_t>(recompute)];
}

// Empty, or what is wrong. The tokens of the step, into the report.
std::string count_tokens(const FlopsRequest& request, FlopsReport* report) {
  const uint64_t window = request.model.shape.window;
  uint64_t tokens = 0;
  auto bad_length = [](uint64_t length) { return length == 0 || length > kMostSequence; };
  if (!request.lengths.empty()) {
    for (uint64_t length : request.lengths) {
      if (bad_length(length)) return "a sequence has 1 to 2^30 tokens";
      tokens += length;
    }
    if (tokens > kMostTokens) return "more than 2^44 tokens";
    report->work = packed_tokens(request.lengths, window);
    return {};
  }
  if (bad_length(request.sequence)) return "a sequence has 1 to 2^30 tokens";
  if (request.batch == 0) return "no batch";
  if (request.batch > kMostTokens / request.sequence) return "more than 2^44 tokens";
  report->work = uniform_tokens(request.batch, request.sequence, window);
  return {};
}

std::string basis_of(const FlopsReport& report) {
  const FlopsRequest& request = report.request;
  std::string text = request.formula != nullptr
                         ? "formula " + std::string(request.formula->name) + ": " +
                               std::string(request.formula->expression)
                         : std::string("exact matrix multiplications, full attention");
  if (request.formula == nullptr) {
    text += format(", recomputation %s", recompute_name(request.recompute));
    if (request.lora.frozen) text += ", frozen weights";
  }
  return text + format("; peak %.10g TFLOP/s %s dense (%s) x %llu GPUs",
                       static_cast<double>(request.peak.gigaflops) / 1000,
                       precision_name(request.precision), peak_basis_name(request.peak.basis),
                       static_cast<unsigned long long>(request.gpus));
}

void rate(FlopsReport* report) {
  const FlopsRequest& request = report->request;
  if (request.step_seconds) report->step_seconds = *request.step_seconds;
  if (request.tokens_per_second) {
    report->step_seconds = static_cast<double>(report->work.tokens) / *request.tokens_per_second;
  }
  if (report->step_seconds == 0) {
    report->no_mfu = "no throughput";
    return;
  }
  if (request.gpus == 0) {
    report->no_mfu = "number of GPUs unknown";
    return;
  }
  if (request.peak.gigaflops == 0) {
    report->no_mfu = "peak unknown: " + (request.gpu.empty() ? "no GPU named" : request.gpu) +
                     ", " + precision_name(request.precision);
    return;
  }
  auto share = [&](Flops flops) {
    return utilisation(static_cast<double>(flops), report->step_seconds, request.gpus,
                       request.peak.gigaflops);
  };
  if (request.formula != nullptr) {
    const auto flops = report->published[static_cast<size_t>(request.formula - formulas().data())];
    (request.formula->hardware ? report->hfu : report->mfu) = share(flops);
  } else {
    report->mfu = share(report->full);
    report->hfu = share(report->hardware_full);
    report->mfu_causal = share(report->causal);
    report->hfu_causal = share(report->hardware_causal);
  }
  report->basis = basis_of(*report);
  if (report->mfu.value_or(0) > 1 || report->hfu.value_or(0) > 1) {
    report->warnings.push_back(
        "above 100%: FLOPs, GPUs, precision or throughput are not what they are said to be" +
        std::string(report->mfu_causal && *report->mfu_causal <= 1
                        ? ", or full attention is too much for this length"
                        : ""));
  }
}

}  // namespace

std::optional<double> utilisation(double flops, double seconds, uint64_t gpus, uint64_t gigaflops) {
  const double could = seconds * static_cast<double>(gpus) * static_cast<double>(gigaflops) * 1e9;
  if (!(could > 0) || !std::isfinite(could)) return {};
  return flops / could;
}

tl::expected<FlopsReport, std::string> report_flops(FlopsRequest request) {
  auto model = finish_model(std::move(request.model));
  if (!model) return tl::make_unexpected(model.error());
  request.model = std::move(*model);
  for (const auto& given : {request.tokens_per_second, request.step_seconds}) {
    if (given && !(*given > 0 && std::isfinite(*given))) {
      return tl::make_unexpected("a throughput or step time is above 0");
    }
  }
  if (request.tokens_per_second && request.step_seconds) {
    return tl::make_unexpected("throughput and step time: one of them");
  }
  if (request.lora.attention_rank > 65536 || request.lora.mlp_rank > 65536) {
    return tl::make_unexpected("a LoRA rank is at most 65536");
  }
  FlopsReport report;
  if (std::string error = count_tokens(request, &report); !error.empty()) {
    return tl::make_unexpected(error);
  }
  const ModelShape& shape = request.model.shape;
  report.parts = forward_flops(shape, report.work);
  report.parameters = count_parameters(shape);
  report.full = training_flops(shape, report.work, false, request.lora);
  report.causal = training_flops(shape, report.work, true, request.lora);
  report.hardware_full = hardware_flops(shape, report.work, false, request.recompute, request.lora);
  report.hardware_causal =
      hardware_flops(shape, report.work, true, request.recompute, request.lora);
  for (const Formula& formula : formulas()) {
    report.published.push_back(
        formula_flops(formula, shape, report.work, request.model.parameters));
  }
  report.warnings = request.model.notes;
  if (!request.gpu.empty() &&
      is_sparse_rate(request.gpu, request.precision, request.peak.gigaflops)) {
    report.warnings.push_back("the peak given is this GPU's sparse rate, twice the dense one");
  }
  if (request.peak.basis == PeakBasis::kEstimated) {
    report.warnings.push_back("the peak is an estimate by generation, SMs and clock");
  }
  report.request = std::move(request);
  rate(&report);
  return report;
}

// ---- table ----

namespace {

std::vector<std::pair<const char*, Flops>> parts_of(const FlopParts& parts) {
  return {{"qkv", parts.qkv},
          {"attention scores", parts.scores_full},
          {"  causal", parts.scores_causal},
          {"out", parts.out},
          {"mlp", parts.mlp},
          {"experts", parts.experts},
          {"router", parts.router},
          {"LM head", parts.head}};
}

}  // namespace

void write_flops_table(std::ostream& out, const FlopsReport& report) {
  const ModelShape& shape = report.request.model.shape;
  const double tokens = static_cast<double>(report.work.tokens);
  auto line = [&](const std::string& name, Flops flops, const std::string& more = {}) {
    out << format("%-28s %14.5e %14.5e", name.c_str(), static_cast<double>(flops) / tokens,
                  static_cast<double>(flops))
        << (more.empty() ? "" : "  " + more) << '\n';
  };
  out << format(
      "model  %llu layers, hidden %llu, %llu heads of %llu (%llu kv), ffn %llu%s, vocab %llu",
      static_cast<unsigned long long>(shape.layers), static_cast<unsigned long long>(shape.hidden),
      static_cast<unsigned long long>(shape.heads), static_cast<unsigned long long>(shape.head_dim),
      static_cast<unsigned long long>(shape.kv_heads), static_cast<unsigned long long>(shape.ffn),
      shape.gated ? " gated" : "", static_cast<unsigned long long>(shape.vocab));
  if (shape.experts != 0) {
    out << format("\n       %llu of %llu experts of %llu in %llu layers",
                  static_cast<unsigned long long>(shape.active_experts),
                  static_cast<unsigned long long>(shape.experts),
                  static_cast<unsigned long long>(shape.expert_ffn),
                  static_cast<unsigned long long>(shape.moe_layers));
  }
  out << format("\n       %.4e parameters, %.4e active\n",
                static_cast<double>(report.parameters.total),
                static_cast<double>(report.parameters.active));
  out << format("step   %llu sequences, %llu tokens\n\n",
                static_cast<unsigned long long>(report.work.sequences),
                static_cast<unsigned long long>(report.work.tokens));
  out << format("%-28s %14s %14s\n", "FLOPs", "a token", "a step");
  for (const auto& [name, flops] : parts_of(report.parts)) {
    if (flops != 0) line(name, flops);
  }
  line("forward", report.parts.forward(false));
  line("  causal", report.parts.forward(true));
  line("forward and backward", report.full);
  line("  causal", report.causal);
  if (report.request.recompute != Recompute::kNone) {
    line("with recomputation", report.hardware_full, recompute_name(report.request.recompute));
    line("  causal", report.hardware_causal);
  }
  out << "\nby formula, forward and backward\n";
  for (size_t i = 0; i < report.published.size(); ++i) {
    const Formula& formula = formulas()[i];
    line(std::string(formula.name) + (formula.hardware ? " (hfu)" : ""), report.published[i],
         std::string(formula.expression) + "; " + std::string(formula.source));
  }
  out << '\n';
  auto ratio = [&out](const char* name, const std::optional<double>& share,
                      const std::optional<double>& causal) {
    if (!share) return;
    out << name << '=' << percent(*share) << (*share > 1 ? "!" : "");
    if (causal) out << " (causal attention: " << percent(*causal) << ')';
    out << '\n';
  };
  ratio("mfu", report.mfu, report.mfu_causal);
  ratio("hfu", report.hfu, report.hfu_causal);
  if (!report.basis.empty()) out << "basis  " << report.basis << '\n';
  if (!report.no_mfu.empty()) out << "mfu=n/a [" << report.no_mfu << "]\n";
  for (const std::string& warning : report.warnings) out << "note: " << warning << '\n';
}

// ---- JSON ----

void write_flops_json(std::ostream& out, const FlopsReport& report) {
  using Json = nlohmann::ordered_json;
  auto known = [](const std::optional<double>& share) { return share ? Json(*share) : Json(); };
  const FlopsRequest& request = report.request;
  Json json;
  json["tokens"] = report.work.tokens;
  json["sequences"] = report.work.sequences;
  json["parameters"] = {{"total", to_text(report.parameters.total)},
                        {"active", to_text(report.parameters.active)}};
  json["forward"] = {{"qkv", to_text(report.parts.qkv)},
                     {"scores_full", to_text(report.parts.scores_full)},
                     {"scores_causal", to_text(report.parts.scores_causal)},
                     {"out", to_text(report.parts.out)},
                     {"mlp", to_text(report.parts.mlp)},
                     {"experts", to_text(report.parts.experts)},
                     {"router", to_text(report.parts.router)},
                     {"head", to_text(report.parts.head)},
                     {"full", to_text(report.parts.forward(false))},
                     {"causal", to_text(report.parts.forward(true))}};
  json["training"] = {{"full", to_text(report.full)}, {"causal", to_text(report.causal)}};
  json["hardware"] = {{"recompute", recompute_name(request.recompute)},
                      {"full", to_text(report.hardware_full)},
                      {"causal", to_text(report.hardware_causal)}};
  json["formulas"] = Json::object();
  for (size_t i = 0; i < report.published.size(); ++i) {
    const Formula& formula = formulas()[i];
    json["formulas"][std::string(formula.name)] = {{"step", to_text(report.published[i])},
                                                   {"hardware", formula.hardware},
                                                   {"expression", formula.expression},
                                                   {"source", formula.source}};
  }
  json["peak"] = request.peak.gigaflops == 0
                     ? Json()
                     : Json{{"tflops", static_cast<double>(request.peak.gigaflops) / 1000},
                            {"precision", precision_name(request.precision)},
                            {"basis", peak_basis_name(request.peak.basis)}};
  json["mfu"] = known(report.mfu);
  json["hfu"] = known(report.hfu);
  json["mfu_causal"] = known(report.mfu_causal);
  json["hfu_causal"] = known(report.hfu_causal);
  json["basis"] = report.basis.empty() ? Json() : Json(report.basis);
  json["no_mfu"] = report.no_mfu.empty() ? Json() : Json(report.no_mfu);
  json["notes"] = report.warnings;
  out << json.dump(2, ' ', true, Json::error_handler_t::replace) << '\n';
}

}  // namespace mfu
