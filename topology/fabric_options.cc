#include "topology/fabric_options.hh"

namespace mfu {

namespace options = boost::program_options;

void add_fabric_options(options::options_description* shown, FabricSource* source) {
  auto add = shown->add_options();
  add("fabric", options::value(&source->file)->value_name("FILE"),
      "a fabric: a snapshot, or what ibnetdiscover prints");
  add("live-fabric", options::bool_switch(&source->live),
      "the fabric as it is now (needs root; slow on a large one)");
  add_discovery_options(shown, source);
}

void add_discovery_options(options::options_description* shown, FabricSource* source) {
  auto add = shown->add_options();
  add("ca", options::value(&source->discovery.adapter)->value_name("NAME"),
      "the adapter to discover from (default: the first with an active port)");
  add("port", options::value(&source->discovery.port)->value_name("N"), "its port");
  add("limit", options::value(&source->seconds)->value_name("SECONDS"),
      "after which a discovery is given up (default: 120 of a fabric, 20 of a node)");
}

}  // namespace mfu
