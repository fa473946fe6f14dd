// For fabric_live_test.sh: makes a fabric, discovers one, reads one, and writes it as text.
//   fabric_live_probe make PODS UNITS HOSTS RAILS SPINES CORES RATE
//   fabric_live_probe live [ADAPTER PORT]
//   fabric_live_probe read FILE
//   fabric_live_probe wiring FILE    without what a simulator chooses itself: LIDs
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_live.hh"
#include "topology/fabric_text.hh"

namespace {

int write(const mfu::Fabric& fabric) {
  const std::string text = mfu::write_fabric(fabric, 0);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}

int fail(const std::string& error) {
  std::fprintf(stderr, "%s\n", error.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "make" && argc == 9) {
    auto number = [argv](int i) { return static_cast<uint32_t>(std::atoi(argv[i])); };
    return write(mfu::make_fabric(
        {number(2), number(3), number(4), number(5), number(6), number(7), argv[8], true}));
  }
  if (mode == "live" && (argc == 2 || argc == 4)) {
    mfu::LiveOptions options;
    if (argc == 4) {
      options.adapter = argv[2];
      options.port = static_cast<uint32_t>(std::atoi(argv[3]));
    }
    const auto fabric = mfu::discover_fabric(options);
    return fabric ? write(*fabric) : fail(fabric.error());
  }
  if ((mode == "read" || mode == "wiring") && argc == 3) {
    auto snapshot = mfu::read_fabric(argv[2]);
    if (!snapshot) return fail(snapshot.error());
    for (mfu::FabricNode& node : snapshot->fabric.nodes) {
      if (mode == "wiring") node.lid = 0;
    }
    return write(snapshot->fabric);
  }
  return fail("fabric_live_probe make|live|read|wiring ...");
}
