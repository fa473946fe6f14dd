// The life of one job step's collector on one node.
//
// Every update period it sums the node's records and sends them to the collector on the step's
// first node; when slurmstepd says that the last task has ended, once more, with the last word. The
// first node's collector writes interim lines, and the final one as soon as every node has said its
// last word: the last slurmstepd to end waits for that, so that the job still lives. After that the
// collector stays a moment to see that no other writer has overwritten it.
#ifndef MFU_PLUGIN_COLLECTOR_HH_
#define MFU_PLUGIN_COLLECTOR_HH_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "plugin/accounting.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/peer.hh"
#include "plugin/place_note.hh"
#include "plugin/placement.hh"
#include "plugin/step_plan.hh"
#include "profiler/peak_additions.hh"

namespace mfu {

class Collector {
 public:
  // `link`: the socket to slurmstepd, or -1.
  Collector(StepPlan plan, int link);

  // Follows the step to its end and writes its line.
  void follow();
  // The step has ended and nobody follows it any more: writes what its records say, and tries so
  // long to find slurmctld or slurmdbd for it.
  void take_over(std::chrono::seconds patience);

 private:
  bool is_first() const { return plan_.node_id == 0; }
  bool placement_is_wanted() const {
    return !plan_.batch && wanted_placement(plan_.site, plan_.user) != Placement::kOff;
  }
  bool all_ended() const { return gave_up_ || ended_nodes_ == plan_.nodes; }
  NodeSums sum_node(bool last);
  PlaceNote found_places() const;
  void read_peaks();
  void read_link();
  void audit_tasks();
  void close_step_errors();
  void node_ended(uint32_t failed_tasks);
  void take_node(const NodeSums& sums, const CollectiveSpreads& spreads,
                 const NodeFindings& findings);
  bool take_peer(const peer::Message& message);
  void send_sums(int wait_ms);
  void update();
  void check_missing_nodes();
  void write_final();
  void settle_final(std::chrono::seconds patience);
  accounting::Outcome write_line(bool final_line);
  void release_stepd();
  void report(const char* format, ...) __attribute__((format(printf, 2, 3)));

  StepPlan plan_;
  int link_;
  PeakAdditions peaks_;          // of the first node
  bool ended_ = false;           // on this node
  uint64_t ended_ns_ = 0;        // of the whole step
  uint64_t last_record_ns_ = 0;  // the youngest record of this node
  bool taken_over_ = false;      // the step ended some time ago
  bool gave_up_ = false;         // nodes are missing, and Slurm says that the step is over
  uint32_t ended_nodes_ = 0;     // that have said their last word
  std::optional<uint32_t> ended_when_over_;  // of them, when Slurm last said that the step is over
  uint32_t failed_tasks_ = 0;
  PlacementAudit placement_;  // of this node, with what its records tell at the end
  bool placement_known_ = false;
  bool step_errors_open_;
  uint64_t sequence_;  // of our messages; who takes over goes on counting above the one before
  std::map<uint32_t, NodeSums> nodes_;
  CollectiveSpreads own_spreads_;  // of this node
  NodeFindings own_findings_;
  PlaceNote findings_;         // of all nodes
  CollectiveSpreads spreads_;  // of all nodes that have said their last word
  peer::Listener listener_;
  std::string first_host_;
  uint16_t first_port_ = 0;
  bool delivered_ = false;  // our last word has reached the first node
  bool in_controller_ = true;
  std::string last_report_;
};

// How long a final line is carried after the job's end before it is left in the spool, where the
// epilog of a later job on this node finds it.
inline constexpr std::chrono::seconds kPatience(120);

}  // namespace mfu

#endif
