// FLOPs that a node's processes executed, as far as they are counted, and which part of their
// kernels' time these are of.
#ifndef MFU_PLUGIN_NODE_FLOPS_HH_
#define MFU_PLUGIN_NODE_FLOPS_HH_

#include "plugin/node_records.hh"
#include "plugin/node_sums.hh"

namespace mfu {

// Fills NodeSums' fields from counted_devices to inference.
void add_flops(const NodeRecords& node, NodeSums* sums);

// *sum's units stay at most kMostSum.
void add_bounded(FlopSum* sum, const FlopSum& value);

}  // namespace mfu

#endif
