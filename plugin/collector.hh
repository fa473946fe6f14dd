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
#include <optional>
#include <random>
#include <string>

#include "plugin/accounting.hh"
#include "plugin/heard_nodes.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/peer.hh"
#include "plugin/step_log.hh"
#include "plugin/step_plan.hh"
#include "plugin/task_audit.hh"
#include "profiler/peak_additions.hh"

namespace mfu {

class Collector {
 public:
  // `link`: the socket to slurmstepd, or -1.
  Collector(StepPlan plan, int link);

  // Follows the step to its end and writes its line.
  void follow();
  // The step has ended and nobody follows it any more: writes what its records say, and tries so
  // long to find slurmctld or slurmdbd for it. False: there is something to do yet, later.
  bool take_over(std::chrono::milliseconds patience);

 private:
  // How long after a node's last word what has been heard lies on the disk.
  static constexpr std::chrono::seconds kKeepAfter{10};
  // Without an answer from Slurm's daemons for so long, they are asked less often.
  static constexpr std::chrono::minutes kShortOutage{2};

  bool is_first() const { return plan_.node_id == 0; }
  bool all_heard() const { return heard_.ended() == plan_.nodes; }
  bool all_ended() const { return gave_up_ || all_heard(); }
  // How long apart a node's tries to say its last word are at most: thousands ask one.
  std::chrono::milliseconds longest_pause() const;
  std::chrono::milliseconds most_patience() const;
  std::chrono::milliseconds jitter(std::chrono::milliseconds most);
  uint64_t last_end() const;
  NodeSums sum_node(bool last);
  PlaceNote found_places() const;
  void read_peaks();
  void read_link();
  void node_ended(uint32_t failed_tasks);
  bool take_peer(const peer::Message& message);
  void send_sums(int wait_ms);
  void update();
  void learn_gpus(uint32_t step_gpus);
  void keep_heard();
  void tell_refusals();
  void check_missing_nodes();
  void write_final();
  void take_late(const peer::Message& message);
  void listen_until(std::chrono::steady_clock::time_point wake);
  bool settle_final(std::chrono::milliseconds patience);
  bool hand_over(std::chrono::milliseconds patience);
  bool finish();
  bool give_up();
  accounting::Outcome write_line(bool final_line);
  void release_stepd();

  StepPlan plan_;
  int link_;
  std::minstd_rand random_;
  StepLog log_;
  TaskAudit task_audit_;
  PeakAdditions peaks_;          // of the first node
  bool ended_ = false;           // on this node
  uint64_t ended_ns_ = 0;        // of the whole step
  bool end_is_guess_ = false;    // nobody has seen it
  uint64_t last_record_ns_ = 0;  // the youngest record of this node
  bool taken_over_ = false;      // the step ended some time ago
  bool gave_up_ = false;         // nodes are missing, and Slurm says that the step is over
  // Slurm says that the step is over: how long nodes are waited for yet.
  std::optional<std::chrono::steady_clock::time_point> give_up_on_others_;
  uint32_t failed_tasks_ = 0;
  uint64_t sequence_;  // of our messages; who takes over goes on counting above the one before
  NodeSums own_sums_;  // of this node
  CollectiveSpreads own_spreads_;
  NodeFindings own_findings_;
  HeardNodes heard_;
  bool heard_kept_ = true;  // for who takes over
  uint64_t refusals_told_ = 0;
  peer::Listener listener_;
  std::string first_host_;
  uint16_t first_port_ = 0;
  bool delivered_ = false;  // our last word has reached the first node
  bool in_controller_ = true;
  bool stored_ = false;  // the final line was, once: who comes now is not in it
};

// How long a line or a node's last word is carried after the step's end, where Slurm's daemons or
// the first node are away, before it is left in the spool: there the epilog of a later job on this
// node finds it.
inline constexpr std::chrono::hours kPatience(6);
// Where more steps than this are left on a node, each is carried for a short time only: a long
// outage must not fill the node with collectors.
inline constexpr size_t kMostPatient = 64;

}  // namespace mfu

#endif
