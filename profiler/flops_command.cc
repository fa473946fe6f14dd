#include "profiler/flops_command.hh"

#include <boost/program_options.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "profiler/flops_report.hh"
#include "profiler/model_config.hh"
#include "profiler/peak_additions.hh"

namespace mfu {
namespace {

namespace options = boost::program_options;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr char kIntroduction[] =
    "Usage: mfu-analyze flops [--model FILE] [KEY=VALUE...] --seq N (--batch N | --tokens N)\n\n"
    "Tells the FLOPs of a transformer's training step, by part and by published formula, and of a\n"
    "throughput its MFU. FILE is a Hugging Face config.json or has lines of KEY=VALUE; keys on "
    "the\n"
    "command line come before the file's.\n\n";

struct Wrong {
  std::string text;
  int status = kUsage;
};

struct Given {
  std::vector<std::string> fields;
  std::string model, lengths, recompute, formula, precision, peak, peaks, estimate;
  uint64_t tokens = 0;
  uint32_t sms = 0;
  double throughput = 0, step_seconds = 0;
  bool json = false;
  bool lora = false;
};

// "1024,512": numbers, comma separated.
std::vector<uint64_t> numbers_of(const std::string& text, const char* option) {
  std::vector<uint64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) throw Wrong{std::string(option) + ": no list of numbers"};
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != ',') throw Wrong{std::string(option) + ": no list of numbers"};
    at = next + 1;
  }
}

Recompute recompute_of(const std::string& name) {
  if (name == "none") return Recompute::kNone;
  if (name == "selective") return Recompute::kSelective;
  if (name == "full") return Recompute::kFull;
  throw Wrong{"--recompute is none, selective or full"};
}

ModelConfig model_of(const Given& given) {
  ModelConfig config;
  if (!given.model.empty()) {
    auto read = read_model_config(given.model);
    if (!read) throw Wrong{read.error(), kFailed};
    config = std::move(*read);
  }
  for (const std::string& field : given.fields) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) throw Wrong{field + ": no KEY=VALUE"};
    const std::string_view text = field;
    const auto error = set_model_field(text.substr(0, equals), text.substr(equals + 1), &config);
    if (!error.empty()) throw Wrong{error};
  }
  return config;
}

Peak peak_of(const Given& given, const FlopsRequest& request) {
  if (!given.peak.empty()) {
    const uint64_t gigaflops = parse_teraflops(given.peak);
    if (gigaflops == 0) throw Wrong{"--peak: no rate in TFLOP/s"};
    return {gigaflops, PeakBasis::kDeclared};
  }
  PeakAdditions additions;
  if (!given.peaks.empty()) {
    auto read = read_peak_additions(given.peaks);
    if (!read) throw Wrong{read.error(), kFailed};
    additions = std::move(*read);
  }
  Peak peak = additions.peak(request.gpu, request.precision, given.sms);
  if (peak.gigaflops == 0 && !given.estimate.empty()) {
    // MAJOR,MINOR,SMS,MHZ
    const auto facts = numbers_of(given.estimate, "--estimate-peak");
    if (facts.size() != 4 || facts[0] > 99 || facts[1] > 9 || facts[2] > 10000 ||
        facts[3] > 10000) {
      throw Wrong{"--estimate-peak is MAJOR,MINOR,SMS,MHZ"};
    }
    peak = estimated_peak(static_cast<int>(facts[0]), static_cast<int>(facts[1]),
                          static_cast<uint32_t>(facts[2]), static_cast<uint32_t>(facts[3]),
                          request.precision);
  }
  return peak;
}

FlopsRequest request_of(const Given& given, FlopsRequest request) {
  request.model = model_of(given);
  if (!given.lengths.empty()) request.lengths = numbers_of(given.lengths, "--lengths");
  if (given.tokens != 0) {
    if (request.batch != 0) throw Wrong{"--tokens and --batch: one of them"};
    if (request.sequence == 0 || given.tokens % request.sequence != 0) {
      throw Wrong{"--tokens is no multiple of --seq"};
    }
    request.batch = given.tokens / request.sequence;
  }
  request.recompute = recompute_of(given.recompute);
  request.precision = precision_from_name(given.precision);
  if (request.precision == Precision::kUnknown) throw Wrong{"--precision: unknown"};
  if (!given.formula.empty()) {
    request.formula = find_formula(given.formula);
    if (request.formula == nullptr) {
      std::string names;
      for (const Formula& formula : formulas()) names.append(" ").append(formula.name);
      throw Wrong{"--formula is one of" + names};
    }
  }
  request.lora.frozen =
      given.lora || request.lora.attention_rank != 0 || request.lora.mlp_rank != 0;
  request.peak = peak_of(given, request);
  if (given.throughput != 0) request.tokens_per_second = given.throughput;
  if (given.step_seconds != 0) request.step_seconds = given.step_seconds;
  return request;
}

}  // namespace

int run_flops(int argc, char** argv) {
  Given given;
  FlopsRequest request;
  options::options_description shown("Options");
  auto add = shown.add_options();
  add("model", options::value(&given.model)->value_name("FILE"), "the model's shape");
  add("seq", options::value(&request.sequence)->value_name("N"), "tokens of a sequence");
  add("batch", options::value(&request.batch)->value_name("N"),
      "sequences of a step, of all GPUs and micro-batches together");
  add("tokens", options::value(&given.tokens)->value_name("N"), "tokens of a step instead");
  add("lengths", options::value(&given.lengths)->value_name("N,..."),
      "packed sequences of a step, each by its length");
  add("recompute", options::value(&given.recompute)->default_value("none")->value_name("WHAT"),
      "none, selective (attention's products) or full (layers)");
  add("lora", options::bool_switch(&given.lora), "frozen weights: no weight gradients");
  add("lora-attention", options::value(&request.lora.attention_rank)->value_name("RANK"),
      "adapters on the attention projections");
  add("lora-mlp", options::value(&request.lora.mlp_rank)->value_name("RANK"),
      "adapters on the dense MLPs");
  add("formula", options::value(&given.formula)->value_name("NAME"),
      "a published formula for the MFU");
  add("gpus", options::value(&request.gpus)->value_name("N"), "number of GPUs");
  add("gpu", options::value(&request.gpu)->value_name("NAME"),
      "CUDA's name of the GPU, as nvidia-smi -L shows it");
  add("precision", options::value(&given.precision)->default_value("bf16")->value_name("NAME"),
      "of the peak: fp64, fp32, tf32, fp16, bf16, int8, fp8, fp4");
  add("sms", options::value(&given.sms)->value_name("N"), "multiprocessors of a MIG device");
  add("peak", options::value(&given.peak)->value_name("TFLOPS"), "the dense peak of a GPU instead");
  add("peaks", options::value(&given.peaks)->value_name("FILE"), "additions to the table of peaks");
  add("estimate-peak", options::value(&given.estimate)->value_name("CC,CC,SMS,MHZ"),
      "for a GPU that is not in the table: estimate, e.g. 9,0,132,1830");
  add("throughput", options::value(&given.throughput)->value_name("TOKENS"),
      "tokens a second, of all GPUs together");
  add("step-seconds", options::value(&given.step_seconds)->value_name("S"),
      "time of a step instead");
  add("json", options::bool_switch(&given.json), "one JSON object");
  add("help,h", "this text");
  options::options_description all;
  all.add(shown).add_options()("field", options::value(&given.fields));
  options::positional_options_description positions;
  positions.add("field", -1);
  try {
    options::variables_map map;
    options::store(
        options::command_line_parser(argc, argv).options(all).positional(positions).run(), map);
    if (map.count("help") > 0) {
      std::cout << kIntroduction << shown;
      return 0;
    }
    options::notify(map);
    const auto report = report_flops(request_of(given, std::move(request)));
    if (!report) throw Wrong{report.error()};
    given.json ? write_flops_json(std::cout, *report) : write_flops_table(std::cout, *report);
  } catch (const options::error& error) {
    std::cerr << "mfu-analyze flops: " << error.what() << " (--help shows the options)\n";
    return kUsage;
  } catch (const Wrong& wrong) {
    std::cerr << "mfu-analyze flops: " << wrong.text << '\n';
    return wrong.status;
  }
  if (!std::cout.flush()) {
    std::cerr << "mfu-analyze flops: standard output: " << std::strerror(errno) << '\n';
    return kFailed;
  }
  return 0;
}

}  // namespace mfu
