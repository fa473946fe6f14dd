// trace_script TRACE [SCRIPT]: converts a Chrome or Kineto trace (.json or .json.gz, see
// trace_events.hh) into the script that `replay` plays; to standard output without SCRIPT.
//
// The script, one operation a line in order of start (replay_script.hh has every field):
//   mfu-replay 1
//   name 0 ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)
//   k 0 20 0 51200 1734 0 0 0 24,1,1 512,1,1 0
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "tests/fake/replay_script.hh"
#include "tests/fake/trace_events.hh"

int main(int argc, char** argv) {
  try {
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
      std::cerr << "usage: trace_script TRACE [SCRIPT]\n";
      return 2;
    }
    std::vector<mfu::fake::TraceOperation> operations = mfu::fake::read_trace(argv[1]);
    std::ofstream file;
    if (argc == 3) {
      file.open(argv[2]);
      if (!file) throw std::runtime_error(std::string(argv[2]) + ": cannot be opened");
    }
    std::ostream& out = argc == 3 ? file : std::cout;
    mfu::fake::ScriptWriter script(&out);
    for (const auto& [operation, name] : operations) script.write(operation, name);
    if (!out.flush()) throw std::runtime_error("cannot write the script");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "trace_script: " << error.what() << '\n';
    return 2;
  }
}
