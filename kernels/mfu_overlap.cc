// mfu-overlap: steps of multiplications and all-reduces, of known FLOPs and known overlap.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "kernels/command_line.hh"
#include "kernels/json_object.hh"
#include "kernels/overlapped_steps.hh"

namespace mfu {
namespace {

constexpr char kAbout[] =
    "Multiplies matrices and reduces among GPUs on two streams, with known FLOPs and overlap.";
constexpr uint64_t kWarmUpSteps = 5;

struct Request {
  double overlap = 0.5;
  uint64_t steps = 100;
  const Precision* precision = &precision_of("bf16");
  uint64_t size = 4096;
  uint64_t pieces = 20;
  uint64_t bytes = 32 << 20;
  uint64_t stand_in_us = 500;
  uint64_t gemms = 0;
  uint64_t gpus = 0;  // 0: all
  Place place;
  int local_rank = 0;
  bool json = false;
};

// Slurm's numbers of the task, unless options tell others.
int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<int>(whole_number_of(text, 0, 1 << 20)) : otherwise;
}

Request request_of(int argc, char** argv) {
  Request request;
  const auto number = [](uint64_t* out, uint64_t least, uint64_t most) {
    return [=](std::string_view value) { *out = whole_number_of(value, least, most); };
  };
  uint64_t rank = UINT64_MAX;
  uint64_t ranks = UINT64_MAX;
  const Option options[] = {
      {"overlap", "F", "part of the all-reduces that is hidden, 0 to 1 (0.5)",
       [&](std::string_view value) { request.overlap = number_of(value, 0, 1); }},
      {"iterations", "N", "steps that are timed (100)", number(&request.steps, 1, 100'000)},
      {"precision", "P", "of the multiplications (bf16)",
       [&](std::string_view value) { request.precision = &precision_of(value); }},
      {"size", "N", "of the matrices, N x N (4096)",
       [&](std::string_view value) {
         request.size = whole_number_of(value, 16, 65536);
         if (request.size % 16 != 0) throw UsageError("is a multiple of 16");
       }},
      {"gemms", "N", "multiplications of a step (enough to hide what is hidden)",
       number(&request.gemms, 2, 1'000'000)},
      {"pieces", "N", "all-reduces of a step (20)", number(&request.pieces, 1, 10'000)},
      {"bytes", "N", "of an all-reduce, on each GPU (33554432)",
       [&](std::string_view value) {
         request.bytes = whole_number_of(value, 4, uint64_t{1} << 36) / 4 * 4;
       }},
      {"spin-us", "N", "with one GPU: microseconds of the kernel that stands for one (500)",
       number(&request.stand_in_us, 1, 10'000'000)},
      {"gpus", "N", "of those that are visible (all; several processes: one each)",
       number(&request.gpus, 1, 1024)},
      {"id-file", "FILE", "several processes: where rank 0 leaves NCCL's id, on shared storage",
       [&](std::string_view value) { request.place.id_file = value; }},
      {"rank", "N", "this process's (SLURM_PROCID)", number(&rank, 0, 1 << 20)},
      {"ranks", "N", "how many processes there are (SLURM_NTASKS)", number(&ranks, 1, 1 << 20)},
      {"limit", "S", "seconds to wait for the other processes (120)",
       [&](std::string_view value) {
         request.place.limit_seconds = static_cast<unsigned>(whole_number_of(value, 1, 3600));
       }},
      {"json", nullptr, "for programs", [&](std::string_view) { request.json = true; }},
  };
  take_options(argc, argv, kAbout, options);
  if (request.place.id_file.empty()) {
    if (rank != UINT64_MAX || ranks != UINT64_MAX) {
      throw UsageError("--rank and --ranks need --id-file");
    }
    return request;
  }
  Place& place = request.place;
  place.rank = rank != UINT64_MAX ? static_cast<int>(rank) : environment_number("SLURM_PROCID", -1);
  place.ranks =
      ranks != UINT64_MAX ? static_cast<int>(ranks) : environment_number("SLURM_NTASKS", -1);
  if (place.rank < 0 || place.ranks < 1 || place.rank >= place.ranks) {
    throw UsageError("--id-file: needs --rank and --ranks, or srun");
  }
  if (request.gpus > 1) throw UsageError("--gpus: of several processes each has one GPU");
  request.local_rank = environment_number("SLURM_LOCALID", place.rank);
  return request;
}

std::vector<Gpu> chosen_gpus(const Request& request) {
  std::vector<Gpu> gpus = visible_gpus();
  if (!request.place.id_file.empty()) {
    return {gpus[static_cast<size_t>(request.local_rank) % gpus.size()]};
  }
  if (request.gpus > gpus.size()) {
    throw std::runtime_error("no " + std::to_string(request.gpus) +
                             " CUDA devices: " + std::to_string(gpus.size()) + " visible");
  }
  if (request.gpus > 0) gpus.resize(request.gpus);
  return gpus;
}

double sum(const std::vector<StepTimes>& times, double StepTimes::*part) {
  double all = 0;
  for (const StepTimes& each : times) all += each.*part;
  return all;
}

double mean(const std::vector<StepTimes>& times, double StepTimes::*part) {
  return sum(times, part) / static_cast<double>(times.size());
}

double median(const std::vector<StepTimes>& times, double StepTimes::*part) {
  std::vector<double> values;
  for (const StepTimes& each : times) values.push_back(each.*part);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Outcome {
  std::vector<Gpu> gpus;
  StepPlan plan;
  std::vector<StepTimes> times;
  uint64_t multiplications;
  uint64_t all_reduces;
  bool is_nccl;
  int ranks;

  double exposed_communication() const {
    const double exposed = sum(times, &StepTimes::exposed);
    const double all = exposed + sum(times, &StepTimes::hidden);
    return all > 0 ? exposed / all : 0;
  }
  double exposed_step() const {
    return sum(times, &StepTimes::exposed) / sum(times, &StepTimes::step);
  }
};

Outcome measure(const Request& request) {
  Outcome outcome;
  outcome.gpus = chosen_gpus(request);
  for (const Gpu& gpu : outcome.gpus) {
    if (gpu.capability >= request.precision->least_capability) continue;
    throw std::runtime_error(gpu.name + " has no " + request.precision->name);
  }
  AllReduce all_reduce(outcome.gpus, request.place, request.bytes, request.stand_in_us * 1000);
  OverlappedSteps steps(outcome.gpus, *request.precision,
                        {request.size, request.size, request.size}, &all_reduce);
  const auto hidden =
      static_cast<uint64_t>(std::lround(request.overlap * static_cast<double>(request.pieces)));
  outcome.plan = {request.gemms, hidden, request.pieces - hidden};
  steps.calibrate(&outcome.plan);
  steps.run(outcome.plan, kWarmUpSteps);
  outcome.times = steps.run(outcome.plan, request.steps);
  outcome.multiplications = steps.multiplications();
  outcome.all_reduces = steps.all_reduces();
  outcome.is_nccl = all_reduce.is_nccl();
  outcome.ranks = all_reduce.ranks();
  return outcome;
}

void print_json(const Request& request, const Outcome& outcome) {
  const MatrixShape shape = {request.size, request.size, request.size};
  const double arranged =
      static_cast<double>(outcome.plan.hidden) / static_cast<double>(request.pieces);
  JsonObject json;
  json.add("program", "mfu-overlap");
  json.add("version", MFU_VERSION);
  json.add("gpu", outcome.gpus[0].name);
  json.add("gpus", outcome.gpus.size());
  json.add("ranks", outcome.ranks);
  json.add("precision", request.precision->name);
  json.add("size", request.size);
  json.add("communication", outcome.is_nccl ? "nccl" : "stand-in");
  json.add("overlap", arranged);
  json.add("steps", request.steps);
  json.add("warm_up_steps", kWarmUpSteps);
  json.add("gemms", outcome.plan.gemms);
  json.add("pieces", request.pieces);
  json.add("multiplications", outcome.multiplications);
  json.add("flops", outcome.multiplications * shape.flops());
  json.add("all_reduces", outcome.all_reduces);
  if (outcome.is_nccl) {
    json.add("all_reduce_bytes", request.bytes);
    json.add("bytes", outcome.all_reduces * request.bytes);
  } else {
    json.add("all_reduce_ns", request.stand_in_us * 1000);
  }
  json.add("step_seconds", median(outcome.times, &StepTimes::step));
  // What happens once in a hundred steps is in this one alone.
  json.add("mean_step_seconds", mean(outcome.times, &StepTimes::step));
  json.add("compute_seconds", median(outcome.times, &StepTimes::compute));
  json.add("hidden_seconds", median(outcome.times, &StepTimes::hidden));
  json.add("exposed_seconds", median(outcome.times, &StepTimes::exposed));
  json.add("exposed_share_of_communication", outcome.exposed_communication());
  json.add("exposed_share_of_steps", outcome.exposed_step());
  std::puts(json.text().c_str());
}

void print_text(const Request& request, const Outcome& outcome) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  const MatrixShape shape = {request.size, request.size, request.size};
  std::printf("%zu of %d GPUs here: %s; %s %llu x %llu x %llu\n", outcome.gpus.size(),
              outcome.ranks, outcome.gpus[0].name.c_str(), request.precision->name,
              number(request.size), number(request.size), number(request.size));
  std::printf("a step: %llu multiplications, %llu all-reduces under them, %llu behind them\n",
              number(outcome.plan.gemms), number(outcome.plan.hidden),
              number(outcome.plan.exposed));
  if (outcome.is_nccl) {
    std::printf("an all-reduce: NCCL's, %llu bytes on each GPU\n", number(request.bytes));
  } else {
    std::printf(
        "an all-reduce: a kernel of %llu us stands for NCCL's, which has none for one GPU\n",
        number(request.stand_in_us));
  }
  std::printf("executed, calibration and warm-up included: %llu FLOPs, %llu all-reduces\n\n",
              number(outcome.multiplications * shape.flops()), number(outcome.all_reduces));
  std::printf("%-24s %10.3f ms (median of %llu; mean %.3f ms)\n", "step",
              1e3 * median(outcome.times, &StepTimes::step), number(request.steps),
              1e3 * mean(outcome.times, &StepTimes::step));
  std::printf("%-24s %10.3f ms\n", "compute", 1e3 * median(outcome.times, &StepTimes::compute));
  std::printf("%-24s %10.3f ms\n", "communication, hidden",
              1e3 * median(outcome.times, &StepTimes::hidden));
  std::printf("%-24s %10.3f ms\n", "communication, exposed",
              1e3 * median(outcome.times, &StepTimes::exposed));
  std::printf("exposed: %.1f%% of the communication, %.1f%% of the steps\n",
              100 * outcome.exposed_communication(), 100 * outcome.exposed_step());
}

int run(int argc, char** argv) {
  const Request request = request_of(argc, argv);
  const Outcome outcome = measure(request);
  if (request.place.rank != 0) return 0;
  request.json ? print_json(request, outcome) : print_text(request, outcome);
  return 0;
}

}  // namespace
}  // namespace mfu

int main(int argc, char** argv) {
  return mfu::run_program("mfu-overlap", [&] { return mfu::run(argc, argv); });
}
