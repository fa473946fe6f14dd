// What a node's devices' sensors said, what its processes read and wrote, and what training made of
// the devices' time.
#ifndef MFU_PLUGIN_NODE_SENSORS_HH_
#define MFU_PLUGIN_NODE_SENSORS_HH_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugin/node_records.hh"
#include "plugin/node_sums.hh"
#include "topology/finding.hh"

namespace mfu {

// Fill the fields of these names in NodeSums.
void add_storage(const NodeRecords& node, NodeSums* sums);
void add_sensors(const NodeRecords& node, NodeSums* sums);
// Of the time from begin_ns to end_ns.
void add_goodput(const NodeRecords& node, uint64_t begin_ns, uint64_t end_ns, NodeSums* sums);

// "pcie-link-loaded", high: a GPU's PCIe link had a lower generation than both of its ends can, or
// fewer lanes than that and than another GPU of its model had, in all readings under load, of which
// there were enough. One for a GPU, whoever of its processes saw it. A link that nobody could read,
// or that was not under load, is not judged: an idle one saves power, so this is known at the end
// of a job step only. Only of devices that `pci_devices` has a folder of.
std::vector<Finding> link_findings(std::span<const Record> records, const std::string& node,
                                   const std::string& pci_devices = "/sys/bus/pci/devices");

// What a record says of training steps; none where kernels were not seen that may have been a
// step's. Ranges do not come from CUPTI.
StepEstimate whole_steps(const Record& record, const Record& process);

}  // namespace mfu

#endif
