// The options that say which fabric.
#ifndef MFU_TOPOLOGY_FABRIC_OPTIONS_HH_
#define MFU_TOPOLOGY_FABRIC_OPTIONS_HH_

#include <boost/program_options.hpp>

#include "topology/fabric_source.hh"

namespace mfu {

// --fabric and --live-fabric; then add_discovery_options too.
void add_fabric_options(boost::program_options::options_description* shown, FabricSource* source);
// --ca, --port and --limit.
void add_discovery_options(boost::program_options::options_description* shown,
                           FabricSource* source);

}  // namespace mfu

#endif
