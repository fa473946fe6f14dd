#include "plugin/node_sums.hh"

#include <algorithm>
#include <cstring>

#include "plugin/bounded_sum.hh"
#include "plugin/node_flops.hh"
#include "plugin/node_records.hh"
#include "plugin/node_sensors.hh"

namespace mfu {
namespace {

bool overlap(const Record& a, const Record& b) {
  return a.pid != b.pid && a.time.span_start_ns < b.time.span_end_ns &&
         b.time.span_start_ns < a.time.span_end_ns;
}

uint64_t kept_out(const Record& record) {
  return record.zero_times + record.reversed + record.implausible + record.late;
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
    lost += cut ? tail : std::min(tail, kRecordTurnNs);
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

// True when its time is attributed.
bool add_device(const NodeRecords& node, std::span<const Record* const> records, uint64_t end_ns,
                NodeSums* sums) {
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
    return false;
  }
  uint64_t compute = 0;
  uint64_t exposed_communication = 0;
  uint64_t overlapped_communication = 0;
  uint64_t exposed_memory = 0;
  uint64_t busy = 0;
  uint64_t busiest = 0;  // of the processes
  for (const Record* record : records) {
    add_bounded(&sums->lost_ns, lost_ns(*record, node.process_of(*record), end_ns));
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
  return true;
}

FoundSteps found_steps(const StepEstimate& steps) {
  return {static_cast<uint32_t>(steps.source), 1, steps.count, steps.count, steps.period_ns};
}

// Of the records of all its processes: some may not know the device yet, and a process with a
// partition of its SMs sees no more than these.
void add_identity(std::span<const Record* const> records, NodeSums* sums) {
  uint32_t sm_count = 0;
  uint32_t capability = 0;
  for (const Record* record : records) {
    if (record->sm_count <= kMostSms) sm_count = std::max(sm_count, record->sm_count);
    if (record->compute_capability > kMostCapability) continue;
    capability = std::max(capability, record->compute_capability);
  }
  const auto add = [sums](uint32_t value, uint32_t* known) {
    if (value == 0) return;
    if (*known != 0 && *known != value) sums->mixed_devices = 1;
    *known = value;
  };
  add(sm_count, &sums->sm_count);
  add(capability, &sums->compute_capability);
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

CollectiveSpreads add_records(std::span<const Record> records, uint64_t begin_ns, uint64_t end_ns,
                              NodeSums* sums) {
  for (const Record& record : records) {
    if ((record.flags & kPrimary) != 0) {
      ++sums->processes;
      sums->cut_off_processes += (record.flags & kFinished) == 0 ? 1 : 0;
      add_bounded(&sums->dropped, record.dropped);
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
  }
  NodeRecords node(records);
  for (auto& [key, device] : node.devices) {
    add_identity(device.records, sums);
    device.attributed = add_device(node, device.records, end_ns, sums);
  }
  add_flops(node, sums);
  add_storage(node, sums);
  add_sensors(node, sums);
  add_goodput(node, begin_ns, end_ns, sums);
  CollectiveSpreads spreads;
  for (const Record& record : records) {
    const Record& process = node.process_of(record);
    spreads.add(record, process);
    sums->steps.add(found_steps(whole_steps(record, process)));
  }
  return spreads;
}

}  // namespace mfu
