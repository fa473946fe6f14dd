#include "plugin/node_flops.hh"

#include <algorithm>
#include <set>

#include "plugin/bounded_sum.hh"

namespace mfu {
namespace {

bool computed(const Record& record) {
  return record.compute_kernels != 0;
}

bool is_attributed(const NodeRecords& node, const Record& record) {
  const auto device = node.devices.find(NodeRecords::device_key(record));
  return device != node.devices.end() && device->second.attributed;
}

uint64_t calls(const GemmSums& gemms) {
  uint64_t sum = 0;
  for (const uint64_t each : gemms.calls) add_bounded(&sum, each);
  return sum;
}

// Its FLOPs are one number: they cannot be divided between devices that are attributed and others.
bool counts(const NodeRecords& node, const NodeRecords::Process& process) {
  if (process.primary == nullptr) return false;
  bool tells = process.primary->gemms.entries != 0 || calls(process.primary->gemms) != 0;
  for (const Record* record : process.records) {
    if (computed(*record) && !is_attributed(node, *record)) return false;
    tells = tells || record->counted.attention_kernels != 0;
  }
  return tells;
}

// A process that was killed before its calls were looked at has no verdict.
Inference verdict(const Record& primary) {
  const Inference inferred = primary.inferred.verdict;
  const bool too_early = inferred == Inference::kNothing && calls(primary.gemms) != 0;
  return too_early ? Inference::kFewSteps : inferred;
}

void add_counted(const NodeRecords::Process& process, NodeSums* sums) {
  const Record& primary = *process.primary;
  for (const Record* record : process.records) {
    if (!computed(*record)) continue;
    add_bounded(&sums->gap_ns, (primary.flags & kDroppedUnknown) != 0
                                   ? primary.published_ns - primary.started_ns
                                   : primary.lost_ns);
  }
  CountedKernels kernels;
  uint64_t kernel_ns = 0;
  for (const Record* record : process.records) {
    const CountedKernels& more = record->counted;
    add_bounded(&kernel_ns, record->compute_kernel_ns);
    add_bounded(&kernels.gemm_kernels, more.gemm_kernels);
    add_bounded(&kernels.gemm_ns, more.gemm_ns);
    add_bounded(&kernels.attention_ns, more.attention_ns);
    add_bounded(&kernels.uncounted_ns, more.uncounted_ns);
    add_bounded(&sums->attention_flops, more.attention_flops);
    add_bounded(&sums->inferred_flops, more.attention_model_flops);
  }
  const uint64_t gemm_ns = std::min(counted_gemm_ns(kernels, primary.gemms), kernels.gemm_ns);
  add_bounded(&sums->kernel_ns, kernel_ns);
  add_bounded(&sums->counted_ns, gemm_ns);
  add_bounded(&sums->counted_ns, kernels.attention_ns);
  add_bounded(&sums->uncounted_ns, kernels.gemm_ns - gemm_ns);
  add_bounded(&sums->uncounted_ns, kernels.uncounted_ns);
  for (int p = 0; p < kPrecisions; ++p) {
    add_bounded(&sums->gemm_flops[p], primary.gemms.flops[p]);
  }
  add_bounded(&sums->inferred_flops, primary.inferred.flops);
  sums->inference = std::max(sums->inference, verdict(primary));
}

void add_uncounted(const NodeRecords& node, const NodeRecords::Process& process, NodeSums* sums) {
  for (const Record* record : process.records) {
    if (!is_attributed(node, *record)) continue;
    add_bounded(&sums->kernel_ns, record->compute_kernel_ns);
    for (const uint64_t ns :
         {record->counted.gemm_ns, record->counted.attention_ns, record->counted.uncounted_ns}) {
      add_bounded(&sums->uncounted_ns, ns);
    }
  }
}

}  // namespace

void add_bounded(FlopSum* sum, const FlopSum& value) {
  const uint64_t rest = sum->rest + value.rest;
  add_bounded(&sum->mega, value.mega);
  add_bounded(&sum->mega, rest >> FlopSum::kRestBits);
  sum->rest = rest & ((uint64_t{1} << FlopSum::kRestBits) - 1);
}

void add_flops(const NodeRecords& node, NodeSums* sums) {
  std::set<ProcessKey> counting;
  for (const auto& [key, process] : node.processes) {
    if (counts(node, process)) {
      counting.insert(key);
      add_counted(process, sums);
    } else {
      add_uncounted(node, process, sums);
    }
  }
  for (const auto& [key, device] : node.devices) {
    if (!device.attributed) continue;
    bool any = false;
    bool counted = false;
    for (const Record* record : device.records) {
      any = any || computed(*record);
      counted =
          counted || (computed(*record) && counting.contains(NodeRecords::process_key(*record)));
    }
    sums->counted_devices += counted ? 1 : 0;
    sums->uncounted_devices += any && !counted ? 1 : 0;
  }
}

}  // namespace mfu
