#include "topology/fabric_source.hh"

#include <cstdlib>
#include <ctime>
#include <iostream>

#include "topology/node_file.hh"
#include "topology/program_output.hh"

namespace mfu {
namespace {

constexpr size_t kMostText = 512 << 20;
constexpr size_t kMostNames = 16 << 20;

uint32_t number_of(const char* text) {
  return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

tl::expected<FabricSnapshot, std::string> take_fabric(const FabricSource& source) {
  if (!source.live) return read_fabric(source.file);
  const LiveOptions& how = source.discovery;
  const auto text = program_output(
      {own_program(), "discover", how.adapter, std::to_string(how.port),
       std::to_string(how.timeout_ms), std::to_string(how.packets)},
      std::chrono::seconds(source.seconds == 0 ? kFabricSeconds : source.seconds), kMostText);
  if (!text) {
    return tl::unexpected("InfiniBand discovery: " + text.error() +
                          "; a large fabric needs a longer --limit, a broken one may need --ca");
  }
  if (text->starts_with("!")) return tl::unexpected(text->substr(1));
  auto snapshot = parse_fabric(*text);
  if (!snapshot) return tl::unexpected("InfiniBand discovery: " + snapshot.error());
  return snapshot;
}

int answer_discovery(int argc, char** argv) {
  LiveOptions how;
  if (argc > 1) how.adapter = argv[1];
  if (argc > 2) how.port = number_of(argv[2]);
  if (argc > 3) how.timeout_ms = number_of(argv[3]);
  if (argc > 4) how.packets = number_of(argv[4]);
  const auto fabric = discover_fabric(how);
  std::cout << (fabric ? write_fabric(*fabric, std::time(nullptr)) : "!" + fabric.error());
  return std::cout.flush() ? 0 : 1;
}

tl::expected<NameMap, std::string> read_name_map(const std::string& path) {
  if (path.empty()) return NameMap();
  const auto text = read_node_file(path, kMostNames);
  if (!text) return tl::unexpected(text.error());
  return parse_name_map(*text, path);
}

}  // namespace mfu
