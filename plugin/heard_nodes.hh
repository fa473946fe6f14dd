// What the collector of a step's first node has heard of all nodes, its own included. Others remove
// their records when they have been answered, so it also lies in the step's folder, for who takes
// over: after each interim line, and when the last line could not be written at once.
#ifndef MFU_PLUGIN_HEARD_NODES_HH_
#define MFU_PLUGIN_HEARD_NODES_HH_

#include <cstdint>
#include <map>
#include <string>

#include "plugin/collective_spreads.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/place_note.hh"
#include "plugin/step_plan.hh"

namespace mfu {

class HeardNodes {
 public:
  // A last word may come twice: its collectives count once. Older words than those known are left
  // alone, and what a node said of its place stands until it says otherwise. True when a node said
  // its last word that had not.
  bool take(const NodeSums& sums, const CollectiveSpreads& spreads, const NodeFindings& findings);

  const std::map<uint32_t, NodeSums>& sums() const { return sums_; }
  // GPUs of all the step's nodes; 0: not all have been heard. Of its own node the plan tells.
  uint32_t step_gpus(const StepPlan& plan) const;
  // Of the nodes that have said their last word.
  uint32_t ended() const { return ended_; }
  const CollectiveSpreads& spreads() const { return spreads_; }
  const PlaceNote& findings() const { return findings_; }

  // `step_ended_ns`: 0 while it runs. Root's file SPOOL/NODE/STEP/heard, whole or not at all.
  // Empty, or the error, which names the file.
  std::string store(const StepPlan& plan, uint64_t step_ended_ns) const;
  // What lies there, in place of all that is known; returns the step's end as it was stored, or 0.
  // A file that is missing, torn or another step's leaves nothing.
  uint64_t load(const StepPlan& plan);

 private:
  std::map<uint32_t, NodeSums> sums_;
  CollectiveSpreads spreads_;
  PlaceNote findings_;
  uint32_t ended_ = 0;
};

}  // namespace mfu

#endif
