// What `mfu-analyze flops` tells: a training step's FLOPs by part, the same by every published
// formula, and, of a throughput, MFU and HFU with their basis.
#ifndef MFU_PROFILER_FLOPS_REPORT_HH_
#define MFU_PROFILER_FLOPS_REPORT_HH_

#include <optional>
#include <ostream>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "profiler/model_config.hh"
#include "profiler/model_flops.hh"
#include "profiler/peaks.hh"

namespace mfu {

// FLOPs done in a time, as a share of what the GPUs could do: 0.5 is 50%. Nothing without a peak,
// GPUs or time.
std::optional<double> utilisation(double flops, double seconds, uint64_t gpus, uint64_t gigaflops);

struct FlopsRequest {
  ModelConfig model;
  std::vector<uint64_t> lengths;  // of the sequences of a step; or
  uint64_t batch = 0;             // this many
  uint64_t sequence = 0;          // of this length
  Recompute recompute = Recompute::kNone;
  Lora lora;
  const Formula* formula = nullptr;  // of the MFU; none: exact-full
  uint64_t gpus = 0;
  std::string gpu;
  Precision precision = Precision::kBf16;
  Peak peak;
  std::optional<double> tokens_per_second;  // of all GPUs together
  std::optional<double> step_seconds;
};

struct FlopsReport {
  FlopsRequest request;  // its model completed
  StepTokens work;
  FlopParts parts;  // forward, of a step
  ParameterCounts parameters;
  Flops full = 0, causal = 0;                    // forward and backward
  Flops hardware_full = 0, hardware_causal = 0;  // and what is recomputed
  std::vector<Flops> published;                  // in the order of formulas()
  double step_seconds = 0;                       // 0: not known
  std::optional<double> mfu, hfu;                // by the formula, or with full attention
  std::optional<double> mfu_causal, hfu_causal;  // when no formula was asked for
  std::string no_mfu;                            // why there is none
  std::string basis;                             // what mfu and hfu mean
  std::vector<std::string> warnings;
};

// The error names the option or field.
tl::expected<FlopsReport, std::string> report_flops(FlopsRequest request);

void write_flops_table(std::ostream& out, const FlopsReport& report);
// FLOPs are strings of decimal digits: they are exact, and beyond what JSON's readers can hold.
void write_flops_json(std::ostream& out, const FlopsReport& report);

}  // namespace mfu

#endif
