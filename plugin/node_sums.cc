#include "plugin/node_sums.hh"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "plugin/bounded_sum.hh"

namespace mfu {
namespace {

// The profiler publishes every second: what a process did after its last word is at most this.
constexpr uint64_t kTurnNs = 1'000'000'000;

using DeviceKey = std::array<uint8_t, 24>;

// The UUID; where the driver had not told it yet, the process's own ordinal stands in.
DeviceKey device_key(const Record& record) {
  DeviceKey key{};
  if ((record.flags & kDeviceKnown) != 0) {
    std::memcpy(key.data(), record.uuid, sizeof(record.uuid));
  } else {
    key[16] = 1;
    std::memcpy(key.data(), &record.pid, sizeof(record.pid));
    std::memcpy(key.data() + 4, &record.device, sizeof(record.device));
  }
  return key;
}

bool overlap(const Record& a, const Record& b) {
  return a.pid != b.pid && a.time.span_start_ns < b.time.span_end_ns &&
         b.time.span_start_ns < a.time.span_end_ns;
}

uint64_t kept_out(const Record& record) {
  return record.zero_times + record.reversed + record.implausible + record.late;
}

// Two programs that one process executed one after the other have the same pid.
using ProcessKey = std::pair<uint32_t, uint64_t>;
ProcessKey process_key(const Record& record) {
  return {record.pid, record.started_ns};
}

// Time of the device that the process's record does not cover.
uint64_t lost_ns(const Record& record, const Record& process, uint64_t end_ns) {
  uint64_t lost = process.lost_ns + record.late_ns;
  // Any record may be missing then.
  if ((process.flags & kDroppedUnknown) != 0)
    return lost + process.published_ns - process.started_ns;
  if ((process.flags & kFinished) == 0 && end_ns > process.published_ns) {
    uint64_t tail = end_ns - process.published_ns;
    bool cut = (process.flags & (kFlushFailed | kInCupti)) != 0;
    lost += cut ? tail : std::min(tail, kTurnNs);
  }
  // Records whose times are unusable stand for their share of the records.
  uint64_t bad = record.zero_times + record.reversed + record.implausible;
  uint64_t good = record.compute_kernels + record.communication_kernels + record.copies;
  if (bad != 0) {
    lost += static_cast<uint64_t>(static_cast<double>(record.time.span_ns()) *
                                  static_cast<double>(bad) / static_cast<double>(bad + good));
  }
  return lost;
}

void add_device(std::span<const Record* const> records, uint64_t end_ns,
                const std::map<ProcessKey, const Record*>& processes, NodeSums* sums) {
  ++sums->devices;
  uint64_t start = UINT64_MAX;
  uint64_t end = 0;
  bool observed = true;
  bool shared = false;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = *records[i];
    observed = observed && record.state == State::kOk;
    add_bounded(&sums->kept_out, kept_out(record));
    for (int p = 0; p < kPrecisions; ++p) add_bounded(&sums->gemm_ns[p], record.gemm_ns[p]);
    if (record.time.span_end_ns == 0) continue;
    start = std::min(start, record.time.span_start_ns);
    end = std::max(end, record.time.span_end_ns);
    for (size_t j = 0; j < i; ++j) shared = shared || overlap(record, *records[j]);
  }
  sums->shared_devices += shared ? 1 : 0;
  if (end == 0) {
    // A process holds the device and nothing was ever seen on it: CUPTI may be silent.
    observed = false;
    if (sums->state == State::kOk) sums->state = State::kNoRecords;
  }
  if (!observed) {
    // Its GPU time is not attributed, so what was seen of it must not stand in the attributed sums.
    ++sums->unattributed_devices;
    return;
  }
  uint64_t compute = 0;
  uint64_t exposed_communication = 0;
  uint64_t overlapped_communication = 0;
  uint64_t exposed_memory = 0;
  uint64_t busy = 0;
  uint64_t busiest = 0;  // of the processes
  for (const Record* record : records) {
    auto process = processes.find(process_key(*record));
    const Record& primary = process != processes.end() ? *process->second : *record;
    add_bounded(&sums->lost_ns, lost_ns(*record, primary, end_ns));
    add_bounded(&compute, record->time.compute_ns());
    add_bounded(&exposed_communication, record->time.exposed_communication_ns());
    add_bounded(&overlapped_communication, record->time.overlapped_communication_ns());
    add_bounded(&exposed_memory, record->time.exposed_memory_ns());
    add_bounded(&busy, record->time.busy_ns());
    busiest = std::max(busiest, record->time.busy_ns());
  }
  // The processes of a shared device may have run at the same time: the union is somewhere between
  // the busiest of them and the sum. The sum is taken, cut to the span, and the doubt counts as
  // lost.
  const uint64_t span = end - start;
  if (shared) add_bounded(&sums->lost_ns, std::min(busy - busiest, span));
  compute = std::min(compute, span);
  exposed_communication = std::min(exposed_communication, span - compute);
  exposed_memory = std::min(exposed_memory, span - compute - exposed_communication);
  add_bounded(&sums->span_ns, span);
  add_bounded(&sums->compute_ns, compute);
  add_bounded(&sums->exposed_communication_ns, exposed_communication);
  add_bounded(&sums->overlapped_communication_ns, std::min(overlapped_communication, compute));
  add_bounded(&sums->exposed_memory_ns, exposed_memory);
}

// Kernels that were not seen may have been a step's. Ranges do not come from CUPTI.
FoundSteps steps_of(const Record& record, const Record& process) {
  const StepEstimate& steps = record.steps;
  const bool whole = process.state == State::kOk && process.dropped == 0 && process.lost_ns == 0;
  if (steps.source != StepSource::kNvtx && !whole) return {};
  return {static_cast<uint32_t>(steps.source), 1, steps.count, steps.count, steps.period_ns};
}

}  // namespace

void FoundSteps::add(const FoundSteps& other) {
  if (other.source < source || other.source == 0) return;
  if (other.source > source) {
    *this = other;
    return;
  }
  if (other.fewest < fewest) {
    fewest = other.fewest;
    period_ns = other.period_ns;
  }
  most = std::max(most, other.most);
  devices += std::min(other.devices, UINT32_MAX - devices);
}

CollectiveSpreads add_records(std::span<const Record> records, uint64_t end_ns, NodeSums* sums) {
  std::map<ProcessKey, const Record*> processes;  // its primary record
  std::map<DeviceKey, std::vector<const Record*>> devices;
  for (const Record& record : records) {
    if ((record.flags & kPrimary) != 0) {
      ++sums->processes;
      sums->cut_off_processes += (record.flags & kFinished) == 0 ? 1 : 0;
      add_bounded(&sums->dropped, record.dropped);
      processes[process_key(record)] = &record;
    }
    if (record.state > sums->state) {
      sums->state = record.state;
      sums->cupti_call = record.cupti_call;
      sums->cupti_result = record.cupti_result;
    } else if (sums->state == State::kOk && record.cupti_call != CuptiCall::kNone) {
      // No failure, but what it would have told is not known.
      sums->cupti_call = record.cupti_call;
      sums->cupti_result = record.cupti_result;
    }
    if ((record.flags & kDeviceKnown) != 0) {
      if (sums->device_name[0] == '\0') {
        std::memcpy(sums->device_name, record.device_name, sizeof(sums->device_name));
      } else if (std::strcmp(sums->device_name, record.device_name) != 0) {
        sums->mixed_devices = 1;
      }
    }
    // The driver named no device and nothing ran: a helper that may see none.
    const bool no_device = (record.flags & kDeviceKnown) == 0 && record.time.span_end_ns == 0 &&
                           record.state == State::kOk;
    if (!no_device) devices[device_key(record)].push_back(&record);
  }
  for (const auto& [key, on_device] : devices) add_device(on_device, end_ns, processes, sums);
  CollectiveSpreads spreads;
  for (const Record& record : records) {
    auto found = processes.find(process_key(record));
    const Record& process = found != processes.end() ? *found->second : record;
    spreads.add(record, process);
    sums->steps.add(steps_of(record, process));
  }
  return spreads;
}

const char* node_sums_fault(const NodeSums& sums, uint32_t job, uint32_t step, uint32_t nodes) {
  if (sums.magic != NodeSums::kMagic) return "not a node's sums";
  if (sums.version != NodeSums::kVersion || sums.size != sizeof(NodeSums)) return "another version";
  if (sums.job != job || sums.step != step) return "another job step";
  if (sums.node_id >= nodes) return "no node of this step";
  if (static_cast<uint32_t>(sums.state) >= kStates) return "state";
  if (static_cast<uint32_t>(sums.cupti_call) >= kCuptiCalls) return "cupti_call";
  if (sums.last > 1 || sums.mixed_devices > 1) return "flag";
  if (std::max({sums.gpus, sums.processes, sums.devices}) > kMostRecords) return "count";
  if (sums.unattributed_devices > sums.devices) return "unattributed devices";
  if (std::memchr(sums.device_name, '\0', sizeof(sums.device_name)) == nullptr) {
    return "device_name";
  }
  for (char c : sums.device_name) {
    if (c == '\0') break;
    if (c < 0x20 || c > 0x7e) return "device_name";
  }
  for (uint64_t value : {sums.span_ns, sums.compute_ns, sums.exposed_communication_ns,
                         sums.overlapped_communication_ns, sums.exposed_memory_ns, sums.lost_ns}) {
    if (value > kMostSum) return "sum";
  }
  for (uint64_t value : sums.gemm_ns) {
    if (value > kMostSum) return "gemm_ns";
  }
  const FoundSteps& steps = sums.steps;
  if (steps.source > static_cast<uint32_t>(StepSource::kNvtx) || steps.fewest > steps.most ||
      steps.most > kMostSum || steps.period_ns > kMostSum) {
    return "steps";
  }
  return nullptr;
}

}  // namespace mfu
