// Replays a script (see replay_script.hh) on the fake GPU in real time: the same intervals to the
// nanosecond, shifted to now. The script's devices become CUDA devices 0, 1, ... in their order.
#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/fake/gpu_client.hh"
#include "tests/fake/replay_script.hh"

namespace po = boost::program_options;
using namespace mfu::fake;

namespace {

constexpr uint64_t kFirstOperationInNs = 10'000'000;
constexpr uint64_t kPauseNs = 1'000'000;  // between repetitions

template <typename Function>
void for_each_operation(const std::string& path, Function&& function) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  ScriptReader script(&file, path);
  GpuOperation operation;
  while (script.read(&operation)) function(operation);
}

void replay(const std::string& path, int repetitions) {
  std::map<CUdevice, CUdevice> devices;  // the script's to CUDA's
  uint64_t length_ns = 0;
  for_each_operation(path, [&](const GpuOperation& operation) {
    devices[operation.device];
    length_ns = std::max(length_ns, operation.end_ns);
  });
  CUdevice ordinal = 0;
  for (auto& entry : devices) entry.second = ordinal++;

  GpuClient gpu;
  if (ordinal > gpu.device_count()) {
    throw std::runtime_error(path + ": needs " + std::to_string(ordinal) + " devices, there are " +
                             std::to_string(gpu.device_count()));
  }
  uint64_t base_ns = wall_ns() + kFirstOperationInNs;
  for (int i = 0; i < repetitions; ++i, base_ns += length_ns + kPauseNs) {
    for_each_operation(path, [&](GpuOperation operation) {
      operation.device = devices[operation.device];
      operation.start_ns += base_ns;
      operation.end_ns += base_ns;
      gpu.submit(operation);
    });
  }
  gpu.synchronize();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string script;
    int rank = 0;
    int repetitions = 0;
    po::options_description options("replay SCRIPT: replays a script on the fake GPU. Options");
    options.add_options()("help,h", "this text")  //
        ("script", po::value(&script)->required(),
         "the script (also as an argument); %r in it is the rank")  //
        ("rank", po::value(&rank)->default_value(environment_number("SLURM_PROCID", 0)),
         "rank")  //
        ("repeat", po::value(&repetitions)->default_value(1), "how many times");
    po::positional_options_description positions;
    positions.add("script", 1);
    po::variables_map values;
    po::store(po::command_line_parser(argc, argv).options(options).positional(positions).run(),
              values);
    if (values.count("help") != 0) {
      std::cout << options;
      return 0;
    }
    po::notify(values);
    replay(numbered_path(script, rank, 0), repetitions);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << '\n';
    return 2;
  }
}
