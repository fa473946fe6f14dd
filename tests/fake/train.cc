// A training run without a GPU whose truth is known: lays out the steps of a transformer on the
// fake GPU's time line, submits them in real time, and writes what a profiler must find.
//
// The options choose the model, the time a step takes, and how the process behaves around it
// (forks, exec, crash, hang, no synchronisation): see --help.
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/fake/collective_calls.hh"
#include "tests/fake/cublas_calls.hh"
#include "tests/fake/gpu_client.hh"
#include "tests/fake/kineto_window.hh"
#include "tests/fake/training_step.hh"

namespace po = boost::program_options;
using namespace mfu::fake;

namespace {

constexpr uint64_t kFirstStepInNs = 10'000'000;
constexpr int kChildSeconds = 10;

struct Run {
  ModelShape shape;
  int steps, ranks, rank, devices, exit_code, hang_at_step, kineto_from, kineto_steps, nccl_abi;
  uint64_t seed;
  double step_ms, mfu_target, peak_tflops, gemm_tflops, sleep_before, sleep_after;
  std::string truth, exec;
  bool forks, fork_exit, crash, no_sync, quick_exit, nvtx, gemms;

  uint64_t step_ns() const {
    double flops = static_cast<double>(shape.step_flops());
    if (mfu_target > 0) return static_cast<uint64_t>(flops / (mfu_target * peak_tflops * 1e3));
    if (gemm_tflops > 0) return static_cast<uint64_t>(flops / (gemm_tflops * 1e3) / kMatmulShare);
    return static_cast<uint64_t>(step_ms * 1e6);
  }
};

// Returns false after --help.
bool read_options(int argc, char** argv, Run* run) {
  po::options_description options("A training run of known truth on the fake GPU. Options");
  ModelShape& shape = run->shape;
  auto number = [](auto* to, auto value) { return po::value(to)->default_value(value); };
  options.add_options()("help,h", "this text")                                     //
      ("steps", number(&run->steps, 5), "training steps")                          //
      ("layers", number(&shape.layers, uint64_t{4}), "transformer layers")         //
      ("hidden", number(&shape.hidden, uint64_t{4096}), "hidden size")             //
      ("heads", number(&shape.heads, uint64_t{32}), "attention heads")             //
      ("seq", number(&shape.seq, uint64_t{2048}), "tokens per sequence")           //
      ("batch", number(&shape.batch, uint64_t{2}), "sequences per rank and step")  //
      ("vocab", number(&shape.vocab, uint64_t{32000}), "vocabulary")               //
      ("ranks", number(&run->ranks, environment_number("SLURM_NTASKS", 8)),
       "world size; 1: no communication")                                          //
      ("rank", number(&run->rank, environment_number("SLURM_PROCID", 0)), "rank")  //
      ("devices", number(&run->devices, 1), "devices that this process uses")      //
      ("step-ms", number(&run->step_ms, 50.0), "about how long a step takes")      //
      ("mfu-target", number(&run->mfu_target, 0.0),
       "choose the step time to come close to this MFU (0..1); overrides --step-ms")  //
      ("peak-tflops", number(&run->peak_tflops, 989.4), "peak for --mfu-target")      //
      ("gemm-tflops", number(&run->gemm_tflops, 0.0),
       "choose the step time by the rate of matrix multiplications; overrides --step-ms")  //
      ("seed", number(&run->seed, uint64_t{1}), "of the durations' jitter")                //
      ("truth", po::value(&run->truth),
       "JSON file to write at the end; %r is the rank, %d the device (needed if several)")    //
      ("sleep-before", number(&run->sleep_before, 0.0), "seconds before cuInit")              //
      ("sleep-after", number(&run->sleep_after, 0.0), "seconds after the last step")          //
      ("fork", po::bool_switch(&run->forks), "after half the steps fork a child that exits")  //
      ("fork-exit", po::bool_switch(&run->fork_exit), "the same, but the child calls _exit")  //
      ("hang-at-step", number(&run->hang_at_step, -1),
       "before this step (from 0) wait for the device, write the truth and hang")  //
      ("kineto-from-step", number(&run->kineto_from, -1),
       "from this step on profile itself as torch.profiler does, and check the profile")          //
      ("kineto-steps", number(&run->kineto_steps, 1), "so many steps; at least one must follow")  //
      ("nccl", number(&run->nccl_abi, 0),
       "tell NCCL's profiler plugin of each collective, by its interface of this version")  //
      ("gemms", po::bool_switch(&run->gemms),
       "call cuBLAS for each matrix multiplication, as PyTorch does")  //
      ("recompute", po::bool_switch(&shape.recompute),
       "backward computes each layer's forward pass again, on top of the step's time")        //
      ("nvtx", po::bool_switch(&run->nvtx), "an NVTX range \"train_step\" around each step")  //
      ("no-sync", po::bool_switch(&run->no_sync), "do not wait for the device at the end")    //
      ("exec", po::value(&run->exec), "at the end exec this program")                         //
      ("crash", po::bool_switch(&run->crash), "at the end abort")                             //
      ("_exit", po::bool_switch(&run->quick_exit), "at the end leave by _exit")               //
      ("exit-code", number(&run->exit_code, 0), "exit code");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, options), values);
  po::notify(values);
  if (values.count("help") != 0) {
    std::cout << options;
    return false;
  }
  if (run->mfu_target > 0 && run->gemm_tflops > 0) {
    throw po::error("--mfu-target and --gemm-tflops exclude each other");
  }
  if (run->steps < 0 || run->devices < 1 || run->ranks < 1 || run->peak_tflops <= 0) {
    throw po::error("--steps, --devices, --ranks or --peak-tflops is too small");
  }
  if (shape.layers == 0 || shape.hidden == 0 || shape.tokens() == 0 || run->step_ns() < 100'000) {
    throw po::error("an empty model or a step below 0.1 ms");
  }
  if (run->kineto_from >= 0 &&
      (run->kineto_steps < 1 || run->kineto_from + run->kineto_steps >= run->steps)) {
    throw po::error("no step follows those of --kineto-from-step and --kineto-steps");
  }
  if (run->devices > 1 && !run->truth.empty() && run->truth.find("%d") == std::string::npos) {
    throw po::error("--truth needs %d for several devices");
  }
  return true;
}

void write_truth(const Run& run, int device, const std::string& device_name, int steps,
                 const TimeTruth& truth) {
  if (run.truth.empty()) return;
  const uint64_t* part = truth.partition_ns;  // 1 compute, 2 communication, 4 memory
  uint64_t compute = part[1] + part[3] + part[5] + part[7];
  uint64_t exposed_comm = part[2] + part[6];
  uint64_t overlapped_comm = part[3] + part[7];
  std::string path = numbered_path(run.truth, run.rank, device);
  std::string fresh = path + "." + std::to_string(getpid());
  std::ofstream out(fresh);
  auto field = [&out](const char* name, uint64_t value) {
    out << ",\n \"" << name << "\": " << value;
  };
  out << "{\"rank\": " << run.rank << ",\n \"device\": " << device << ",\n \"device_name\": \""
      << device_name << '"';
  field("pid", static_cast<uint64_t>(getpid()));
  field("ranks", static_cast<uint64_t>(run.ranks));
  field("steps", static_cast<uint64_t>(steps));
  field("model_flops", static_cast<uint64_t>(steps) * run.shape.step_flops());
  field("start_ns", truth.start_ns);
  field("end_ns", truth.end_ns);
  field("span_ns", truth.end_ns - truth.start_ns);
  field("compute_ns", compute);
  field("comm_ns", exposed_comm + overlapped_comm);
  field("exposed_comm_ns", exposed_comm);
  field("overlapped_comm_ns", overlapped_comm);
  field("memory_ns", part[4] + part[5] + part[6] + part[7]);
  field("exposed_memory_ns", part[4]);
  field("idle_ns", part[0]);
  field("gemm_ns", truth.gemm_ns);
  field("attention_ns", truth.attention_ns);
  field("gemm_kernels", truth.gemm_kernels);
  field("gemm_flops", truth.gemm_flops);
  field("attention_flops", truth.attention_flops);
  field("kernels", truth.compute_kernels + truth.communication_kernels);
  field("compute_kernels", truth.compute_kernels);
  field("communication_kernels", truth.communication_kernels);
  field("copies", truth.copies);
  out << ",\n \"partition_ns\": [";
  for (int mask = 0; mask < 8; ++mask) out << (mask != 0 ? ", " : "") << part[mask];
  out << "]}\n";
  out.close();
  if (!out || std::rename(fresh.c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot write " + path);
  }
}

// As a data loader's worker: it never touches CUDA.
pid_t fork_child(const Run& run) {
  pid_t child = fork();
  if (child != 0) return child;
  usleep(20000);
  if (run.fork_exit) _exit(0);
  std::exit(0);
}

void await_child(pid_t child) {
  for (int i = 0; i < kChildSeconds * 100; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (status == 0) return;
      throw std::runtime_error("forked child ended with status " + std::to_string(status));
    }
    usleep(10000);
  }
  kill(child, SIGKILL);
  throw std::runtime_error("forked child hangs");
}

void sleep_seconds(double seconds) {
  sleep_until(wall_ns() + static_cast<uint64_t>(seconds * 1e9));
}

int train(const Run& run) {
  sleep_seconds(run.sleep_before);
  KinetoWindow kineto(run.kineto_from, run.kineto_steps);
  CublasCalls cublas(run.gemms);
  GpuClient gpu;
  if (run.devices > gpu.device_count()) throw std::runtime_error("fewer devices than --devices");
  // A single device is chosen by the local rank, as in torch programs that see all of a node's.
  int first = run.devices == 1 ? environment_number("SLURM_LOCALID", 0) % gpu.device_count() : 0;
  std::vector<Layout> layouts;
  layouts.reserve(static_cast<size_t>(run.devices));
  uint64_t start_ns = wall_ns() + kFirstStepInNs;
  for (int i = 0; i < run.devices; ++i) layouts.emplace_back(first + i, start_ns);

  int done = 0;
  auto write_truths = [&] {
    for (int i = 0; i < run.devices; ++i) {
      write_truth(run, first + i, gpu.device_name(first + i), done,
                  layouts[static_cast<size_t>(i)].truth());
    }
  };
  CollectiveCalls collectives(run.nccl_abi, run.rank, run.ranks);
  pid_t child = 0;
  for (int step = 0; step < run.steps; ++step, ++done) {
    if (step == run.hang_at_step) {
      gpu.synchronize();
      write_truths();
      while (true) pause();
    }
    if ((run.forks || run.fork_exit) && step == run.steps / 2) child = fork_child(run);
    kineto.before_step(step, [&] { gpu.synchronize(); });
    if (run.nvtx) nvtxRangePushA("train_step");
    std::vector<GpuOperation> operations;
    for (int i = 0; i < run.devices; ++i) {
      Layout& layout = layouts[static_cast<size_t>(i)];
      uint64_t seed = ((run.seed * 1000003 + static_cast<uint64_t>(run.rank)) * 1000003 +
                       static_cast<uint64_t>(first + i)) *
                          1000003 +
                      static_cast<uint64_t>(step);
      lay_out_step(run.shape, run.step_ns(), run.ranks, seed, &layout);
      for (GpuOperation& operation : layout.take()) operations.push_back(operation);
      cublas.make(layout.take_calls());
    }
    std::stable_sort(operations.begin(), operations.end(),
                     [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
    for (const GpuOperation& operation : operations) {
      gpu.submit(operation);
      kineto.submitted(operation);
      collectives.submitted(operation);
    }
    if (run.nvtx) {
      gpu.synchronize();
      nvtxRangePop();
    }
  }
  if (!run.no_sync) gpu.synchronize();
  write_truths();
  sleep_seconds(run.sleep_after);
  if (child != 0) await_child(child);

  if (run.crash) std::abort();
  if (!run.exec.empty()) {
    execlp(run.exec.c_str(), run.exec.c_str(), nullptr);
    throw std::runtime_error("cannot exec " + run.exec);
  }
  if (run.quick_exit) _exit(run.exit_code);
  return run.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Run run = {};
    if (!read_options(argc, argv, &run)) return 0;
    return train(run);
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << '\n';
    return 2;
  }
}
