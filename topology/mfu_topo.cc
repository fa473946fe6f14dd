// mfu-topo: how a node and its network are built, what is wrong with them, and what to tell Slurm.
#include <cstring>
#include <exception>
#include <iostream>

#include "topology/audit_command.hh"
#include "topology/fabric_source.hh"
#include "topology/generate_command.hh"
#include "topology/nvml_command.hh"
#include "topology/show_command.hh"
#include "topology/step_command.hh"
#include "topology/text_table.hh"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr char kHelp[] =
    "Usage: mfu-topo COMMAND [OPTION...]     (mfu-topo COMMAND --help shows its options)\n\n"
    "  show       draw a node, or an InfiniBand fabric\n"
    "  audit      tell what is wrong with a node, a fabric, or a job's place in it\n"
    "  snapshot   discover the fabric into a file, for an administrator's timer\n"
    "  generate   print Slurm's topology.conf or topology.yaml for a fabric\n"
    "  diff       tell how the topology file in use differs from another, or from a fabric\n\n"
    "  -h, --help      this text\n"
    "  -V, --version   the version\n";

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  int crashed;  // exit status for what nobody foresaw
};

constexpr Command kCommands[] = {
    {"show", mfu::run_show, kFailed},         {"audit", mfu::run_audit, 3},
    {"snapshot", mfu::run_snapshot, kFailed}, {"generate", mfu::run_generate, kFailed},
    {"diff", mfu::run_diff, kUsage},          {"discover", mfu::answer_discovery, kFailed},
    {"nvml", mfu::answer_nvml, kFailed},      {"step", mfu::run_step, kFailed}};

}  // namespace

int main(int argc, char** argv) {
  const char* const word = argc > 1 ? argv[1] : "";
  for (const char* help : {"--help", "-h", "help"}) {
    if (std::strcmp(word, help) == 0) return (std::cout << kHelp).flush() ? 0 : kFailed;
  }
  for (const char* version : {"--version", "-V"}) {
    if (std::strcmp(word, version) != 0) continue;
    return (std::cout << "mfu-topo " << MFU_VERSION << '\n').flush() ? 0 : kFailed;
  }
  for (const Command& command : kCommands) {
    if (std::strcmp(word, command.name) != 0) continue;
    try {
      return command.run(argc - 1, argv + 1);
    } catch (const std::exception& error) {
      std::cerr << "mfu-topo " << word << ": " << mfu::printable(error.what()) << '\n';
      return command.crashed;
    }
  }
  std::cerr << "mfu-topo: "
            << (argc > 1 ? mfu::printable(word) + ": no command" : "no command given")
            << " (mfu-topo --help shows them)\n";
  return kUsage;
}
