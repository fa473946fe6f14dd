// mfu-peak: what rate a GPU sustains at each precision.
#include <cstdio>
#include <map>
#include <optional>

#include "kernels/command_line.hh"
#include "kernels/json_object.hh"
#include "kernels/sustained_rate.hh"

namespace mfu {
namespace {

constexpr char kAbout[] =
    "Measures how many TFLOP/s a GPU sustains when it multiplies matrices by cublasLt.";

struct Request {
  std::vector<const Precision*> precisions;  // those that were asked for by name
  MatrixShape shape = {8192, 8192, 8192};
  double seconds = 2;
  std::map<std::string, double> peaks;  // TFLOP/s by precision
  uint64_t device = 0;
  bool graph = false;
  bool json = false;
};

struct Row {
  const Precision* precision;
  SustainedRate rate;
  std::optional<double> peak;  // TFLOP/s
  std::string missing;         // why there is no rate; empty: there is
};

MatrixShape shape_of(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, 'x');
  if (parts.size() != 1 && parts.size() != 3) throw UsageError("is N or MxNxK");
  uint64_t sides[3];
  for (size_t i = 0; i < 3; ++i) {
    sides[i] = whole_number_of(parts[parts.size() == 3 ? i : 0], 16, 65536);
    if (sides[i] % 16 != 0) throw UsageError("fp8 has multiples of 16 alone, and so do we");
  }
  return {sides[0], sides[1], sides[2]};
}

// "bf16=989.4,fp8=1978.9", or a number for the only precision.
void take_peaks(std::string_view text, std::map<std::string, double>* peaks) {
  for (const std::string_view part : split(text, ',')) {
    const size_t at = part.find('=');
    const std::string_view name = at == part.npos ? "" : part.substr(0, at);
    if (!name.empty()) precision_of(name);
    (*peaks)[std::string(name)] =
        number_of(at == part.npos ? part : part.substr(at + 1), 1e-3, 1e9);
  }
}

Request request_of(int argc, char** argv) {
  Request request;
  const std::string precisions = "LIST: " + precision_names() + " (all that the GPU has)";
  const Option options[] = {
      {"precision", "LIST", precisions.c_str() + 6,
       [&](std::string_view value) {
         for (const std::string_view name : split(value, ',')) {
           request.precisions.push_back(&precision_of(name));
         }
       }},
      {"size", "N|MxNxK", "of the matrices (8192)",
       [&](std::string_view value) { request.shape = shape_of(value); }},
      {"seconds", "S", "for each precision (2)",
       [&](std::string_view value) { request.seconds = number_of(value, 0.01, 3600); }},
      {"peak", "LIST", "dense peak in TFLOP/s, as bf16=989.4,fp8=1978.9, or one number",
       [&](std::string_view value) { take_peaks(value, &request.peaks); }},
      {"device", "N", "which GPU, of those that are visible (0)",
       [&](std::string_view value) { request.device = whole_number_of(value, 0, 1023); }},
      {"graph", nullptr, "multiplies by CUDA graphs",
       [&](std::string_view) { request.graph = true; }},
      {"json", nullptr, "for programs", [&](std::string_view) { request.json = true; }},
  };
  take_options(argc, argv, kAbout, options);
  if (request.peaks.contains("") && request.precisions.size() != 1) {
    throw UsageError("--peak: a number alone is for one --precision");
  }
  return request;
}

Row measure(const Request& request, const Precision& precision, const Gpu& gpu) {
  Row row{.precision = &precision};
  for (const char* name : {precision.name, ""}) {
    const auto peak = request.peaks.find(name);
    if (peak != request.peaks.end()) row.peak = peak->second;
  }
  if (gpu.capability < precision.least_capability) {
    const int least = precision.least_capability;
    row.missing =
        "needs compute capability " + std::to_string(least / 10) + "." + std::to_string(least % 10);
    return row;
  }
  try {
    const Multiplication multiplication(precision, request.shape);
    row.rate = sustained_rate(multiplication, request.seconds, request.graph);
  } catch (const std::runtime_error& error) {
    row.missing = error.what();
  }
  return row;
}

JsonObject json_of(const Row& row, const MatrixShape& shape) {
  JsonObject json;
  json.add("precision", row.precision->name);
  if (!row.missing.empty()) {
    json.add("missing", row.missing);
    return json;
  }
  json.add("multiplications", row.rate.executed);
  json.add("flops", row.rate.executed * shape.flops());
  json.add("timed_multiplications", row.rate.timed);
  json.add("timed_seconds", row.rate.seconds);
  json.add("batches", row.rate.batches);
  json.add("mean_tflops", row.rate.mean / 1e12);
  json.add("median_tflops", row.rate.median / 1e12);
  json.add("best_tflops", row.rate.best / 1e12);
  if (row.peak) {
    json.add("peak_tflops", *row.peak);
    json.add("mean_share_of_peak", row.rate.mean / 1e12 / *row.peak);
    json.add("best_share_of_peak", row.rate.best / 1e12 / *row.peak);
  }
  return json;
}

void print_json(const Request& request, const Gpu& gpu, const std::vector<Row>& rows) {
  const MatrixShape& shape = request.shape;
  JsonObject json;
  json.add("program", "mfu-peak");
  json.add("version", MFU_VERSION);
  json.add("device", gpu.ordinal);
  json.add("gpu", gpu.name);
  json.add("compute_capability", gpu.capability / 10.0);
  json.add("multiprocessors", gpu.multiprocessors);
  json.add("m", shape.m);
  json.add("n", shape.n);
  json.add("k", shape.k);
  json.add("graph", request.graph);
  std::vector<JsonObject> results;
  for (const Row& row : rows) results.push_back(json_of(row, shape));
  json.add("results", results);
  std::puts(json.text().c_str());
}

void print_heading(const Request& request, const Gpu& gpu) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("GPU %d: %s, compute capability %d.%d, %d multiprocessors; %llu x %llu x %llu%s\n\n",
              gpu.ordinal, gpu.name.c_str(), gpu.capability / 10, gpu.capability % 10,
              gpu.multiprocessors, number(request.shape.m), number(request.shape.n),
              number(request.shape.k), request.graph ? ", by CUDA graphs" : "");
  std::printf("%-10s %10s %10s %10s %10s %10s\n", "PRECISION", "MEAN", "MEDIAN", "BEST", "PEAK",
              "MEAN/PEAK");
}

void print_row(const Row& row) {
  std::printf("%-10s", row.precision->name);
  if (!row.missing.empty()) {
    std::printf(" n/a (%s)\n", row.missing.c_str());
    return;
  }
  std::printf(" %10.1f %10.1f %10.1f", row.rate.mean / 1e12, row.rate.median / 1e12,
              row.rate.best / 1e12);
  if (row.peak) {
    std::printf(" %10.1f %9.1f%%\n", *row.peak, 100 * row.rate.mean / 1e12 / *row.peak);
  } else {
    std::printf(" %10s %10s\n", "-", "-");
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const Request request = request_of(argc, argv);
  const std::vector<Gpu> gpus = visible_gpus();
  if (request.device >= gpus.size()) {
    throw std::runtime_error("no CUDA device " + std::to_string(request.device) + ": " +
                             std::to_string(gpus.size()) + " visible");
  }
  const Gpu& gpu = gpus[request.device];
  use(gpu);
  std::vector<const Precision*> wanted = request.precisions;
  if (wanted.empty()) {
    for (const Precision& precision : all_precisions()) wanted.push_back(&precision);
  }
  if (!request.json) print_heading(request, gpu);
  std::vector<Row> rows;
  bool measured = false;
  bool missed = false;
  for (const Precision* precision : wanted) {
    rows.push_back(measure(request, *precision, gpu));
    if (!request.json) print_row(rows.back());
    (rows.back().missing.empty() ? measured : missed) = true;
  }
  if (request.json) {
    print_json(request, gpu, rows);
  } else {
    std::puts("\nTFLOP/s; MEAN of all that was timed, MEDIAN and BEST of its parts of 0.05 s.");
  }
  // What was asked for by name must be there; of all precisions, one.
  return request.precisions.empty() ? (measured ? 0 : 1) : (missed ? 1 : 0);
}

}  // namespace
}  // namespace mfu

int main(int argc, char** argv) {
  return mfu::run_program("mfu-peak", [&] { return mfu::run(argc, argv); });
}
