// What one node knows of a job step: the sum over its processes' records. Goes as bytes to the
// collector on the step's first node, inside a MUNGE credential.
//
// Devices are told apart by UUID: several processes on one GPU are one device. Times are
// nanoseconds, summed over devices.
#ifndef MFU_PLUGIN_NODE_SUMS_HH_
#define MFU_PLUGIN_NODE_SUMS_HH_

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "plugin/collective_spreads.hh"
#include "plugin/step_plan.hh"
#include "profiler/record.hh"

namespace mfu {

// Training steps as devices found them, of the best source that any had. Zero: none did.
struct FoundSteps {
  uint32_t source = 0;   // StepSource
  uint32_t devices = 0;  // that found them so
  uint64_t fewest = 0;   // a step counts when all of them have done it
  uint64_t most = 0;
  uint64_t period_ns = 0;  // mean, of the device with fewest

  void add(const FoundSteps& other);
  // The devices agree: within a step that was under way, or a hundredth.
  bool known() const { return source != 0 && most - fewest <= std::max<uint64_t>(1, most / 100); }
};

// The profiler publishes every second: what a process did after its last word is at most this.
inline constexpr uint64_t kRecordTurnNs = 1'000'000'000;

inline constexpr uint32_t kMostSms = 4096;  // of a device, beyond any
inline constexpr uint32_t kMostCapability = 999;

struct NodeSums {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t size = sizeof(NodeSums);

  uint32_t job = 0;
  uint32_t step = 0;
  uint32_t restart = 0;  // StepPlan::restart: steps of a requeued job have the same numbers again
  uint32_t node_id = 0;
  uint64_t sequence = 0;  // rises with every message of a node
  uint64_t until_ns = 0;  // CLOCK_REALTIME of these sums

  uint32_t last = 0;            // 1: the step has ended on this node
  uint32_t failed_tasks = 0;    // ended with a signal or a non-zero status, or slurmstepd died
  uint32_t gpus = 0;            // that Slurm gave the step on this node
  uint32_t processes = 0;       // that left a record
  uint32_t devices = 0;         // that a process has named
  uint32_t shared_devices = 0;  // more than one process at the same time: sums may overlap
  uint32_t unattributed_devices = 0;  // a process on it could not be observed
  uint32_t mixed_devices = 0;         // 1: devices of different names
  State state = State::kOk;           // the worst of the processes
  CuptiCall cupti_call = CuptiCall::kNone;
  int32_t cupti_result = 0;
  uint32_t record_errno = 0;       // why some process could not leave a record; 0: none said so
  uint32_t broken_records = 0;     // files that are no sound record
  uint32_t cut_off_processes = 0;  // ended, or still run, without a last word
  char device_name[96] = {};
  // Placement (placement.hh): audited or not, findings, and the names of the most severe rules.
  uint32_t placement_audited = 0;
  uint32_t placement_high = 0;
  uint32_t placement_warnings = 0;
  uint32_t unused = 0;
  char placement_rules[64] = {};
  char clique[64] = {};             // PlacementAudit::clique
  uint32_t sm_count = 0;            // of a device; 0: unknown
  uint32_t compute_capability = 0;  // 10 * major + minor

  uint64_t span_ns = 0;
  uint64_t compute_ns = 0;
  uint64_t exposed_communication_ns = 0;
  uint64_t overlapped_communication_ns = 0;
  uint64_t exposed_memory_ns = 0;
  uint64_t lost_ns = 0;
  uint64_t gemm_ns[kPrecisions] = {};
  uint64_t dropped = 0;
  FoundSteps steps;
  uint64_t kept_out = 0;  // records with zero, reversed, impossible or late times

  // Counted FLOPs, of the attributed devices. A process counts when it called cuBLAS through us or
  // ran attention kernels that tell their FLOPs, and all devices it computed on are attributed.
  uint32_t counted_devices = 0;    // such a process computed on it
  uint32_t uncounted_devices = 0;  // others alone did
  uint64_t kernel_ns = 0;          // of all compute kernels
  uint64_t counted_ns = 0;         // the part of it that executed FLOPs are known of
  uint64_t gap_ns = 0;  // time of counted devices in which CUPTI told nothing, but calls went on
  uint64_t uncounted_ns = 0;  // ... that multiplies by the kernels' names, and nobody counts it
  FlopSum gemm_flops[kPrecisions] = {};  // executed
  FlopSum attention_flops;
  FlopSum inferred_flops;                     // of the model, attention included
  Inference inference = Inference::kNothing;  // the worst of the processes that count

  uint32_t storage_failures = 0;  // processes whose counters could not be read
  uint64_t read_bytes = 0;        // of all others
  uint64_t written_bytes = 0;

  // Sensors, over devices: of each the process that knows most, and those of other times.
  uint64_t energy_mj = 0;
  uint64_t energy_ns = 0;
  uint64_t sm_cycles = 0;
  uint64_t clock_ns = 0;
  uint64_t tensor_active_ns = 0;
  uint64_t tensor_ns = 0;
  uint64_t reason_ns[kClockReasons] = {};
  uint64_t reasons_ns = 0;
  uint64_t clock_limit_mhz = 0;  // the highest that a device offers; 0: unknown

  // Goodput's parts of the devices' time since the step began (goodput.hh); unknown is the rest.
  uint64_t productive_ns = 0;
  uint64_t start_up_ns = 0;
  uint64_t writing_ns = 0;
  uint64_t reading_ns = 0;
  uint64_t stalled_ns = 0;
  uint64_t tail_ns = 0;

  static constexpr uint64_t kMagic = 0x314d5553'55464d00;  // "\0MFUSUM1"
  static constexpr uint32_t kVersion = 1;
};
static_assert(std::is_trivially_copyable_v<NodeSums>);
static_assert(std::has_unique_object_representations_v<NodeSums>, "padding would leak memory");

// Sums sound records (record_fault() has passed them). `begin_ns`: the step's begin on this node.
// `end_ns`: its end there, or now. Every sum stays below 2^63 for up to kMostRecords records.
// Returns what can be said of waiting, which is for the last word only.
inline constexpr size_t kMostRecords = 4096;
CollectiveSpreads add_records(std::span<const Record> records, uint64_t begin_ns, uint64_t end_ns,
                              NodeSums* sums);

// Why a peer's bytes are not to be believed, or nullptr.
const char* node_sums_fault(const NodeSums& sums, uint32_t job, uint32_t step, uint32_t nodes);

}  // namespace mfu

#endif
