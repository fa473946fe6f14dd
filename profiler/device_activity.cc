#include "profiler/device_activity.hh"

#include <string.h>

#include <algorithm>

namespace mfu {

// A buffer that CUPTI hands over twice brings the same launch with the same times. Kernels of one
// graph launch share its correlation id, so node, times, stream and name have to agree as well.
// Launches are numbered in sequence: neighbours lie side by side in the cache, and an operation is
// forgotten when the numbers come round.
bool DeviceActivity::seen_before(const cupti::Activity& activity) {
  uint64_t mark = activity.start_ns * 0x9e3779b97f4a7c15 ^ activity.end_ns * 0xc2b2ae3d27d4eb4f;
  mark ^= uint64_t{activity.correlation} << 32 ^ activity.stream ^ activity.graph_node << 17;
  mark = (mark ^ mark >> 32 ^ reinterpret_cast<uintptr_t>(activity.name)) * 0x94d049bb133111eb;
  uint64_t& place = remembered_[(activity.correlation + activity.graph_node) & (kRemembered - 1)];
  if (place == mark) return true;
  place = mark;
  return false;
}

void DeviceActivity::take(const cupti::Activity& activity, const KernelName& name, Record* record) {
  if (seen_before(activity)) {
    ++record->duplicates;
    return;
  }
  const uint64_t duration_ns = activity.end_ns - activity.start_ns;
  ActivityMask mask = kMemory;
  if (activity.kind == cupti::ActivityKind::kKernel) {
    const KernelKind& kind = name.kind;
    Sums& sums = of_name_[name.number];
    if (kind.communication) {
      mask = kCommunication;
      ++record->communication_kernels;
      ++record->collective_count[static_cast<size_t>(kind.collective)];
      record->collective_ns[static_cast<size_t>(kind.collective)] += duration_ns;
      if (name.number != NameTable::kUnlisted) samples_.add(name.hash, sums.count, duration_ns);
    } else {
      mask = kCompute;
      ++record->compute_kernels;
      record->compute_kernel_ns += duration_ns;
      if (kind.gemm) {
        record->gemm_ns[static_cast<size_t>(kind.precision)] += duration_ns;
        // One call makes one product, and all of its kernels' time.
        if (kind.foreign_gemm) {
          ++record->counted.uncounted_kernels;
          record->counted.uncounted_ns += duration_ns;
        } else {
          record->counted.gemm_ns += duration_ns;
          record->counted.gemm_kernels += !kind.ends_gemm;
          record->counted.graph_gemm_kernels += !kind.ends_gemm && activity.graph_node != 0;
        }
      } else if (kind.multiplies) {
        take_products(activity, name.attention, &record->counted);
      }
    }
    steps_.add(step_token(name.hash, activity.grid), activity.start_ns, activity.end_ns, name.mark);
    ++sums.count;
    sums.ns += duration_ns;
    sums.longest_ns = std::max(sums.longest_ns, duration_ns);
  } else {
    ++record->copies;
    record->copy_ns += duration_ns;
  }
  timeline_.add(activity.start_ns, activity.end_ns, mask);
}

void DeviceActivity::take_products(const cupti::Activity& activity, const AttentionTraits& traits,
                                   CountedKernels* counted) {
  AttentionShape shape;
  if (attention_shape(traits, activity.grid, &shape) && attention_.add(shape)) {
    ++counted->attention_kernels;
    counted->attention_ns += activity.end_ns - activity.start_ns;
  } else {
    ++counted->uncounted_kernels;
    counted->uncounted_ns += activity.end_ns - activity.start_ns;
  }
}

void DeviceActivity::fill(const NameTable& names, Record* record) {
  record->time = timeline_.sums(&record->series);
  record->steps = steps_.estimate();
  record->late = timeline_.late();
  record->late_ns = timeline_.late_ns();
  record->samples = samples_;
  CountedKernels& counted = record->counted;
  counted.attention_flops = attention_.executed();
  counted.attention_model_flops = attention_.model();
  fill_kernels(names, record);
}

void DeviceActivity::fill_kernels(const NameTable& names, Record* record) const {
  uint32_t top[kTopKernels];  // numbers, longest time first
  uint32_t listed = 0;
  record->kernel_names = 0;
  record->unlisted_kernels = of_name_[NameTable::kUnlisted].count;
  for (uint32_t number = 1; number <= names.count(); ++number) {
    const Sums& sums = of_name_[number];
    if (sums.count == 0) continue;
    ++record->kernel_names;
    uint32_t place = listed;
    while (place > 0 && of_name_[top[place - 1]].ns < sums.ns) --place;
    if (place == kTopKernels) continue;
    listed = std::min(listed + 1, kTopKernels);
    for (uint32_t i = listed - 1; i > place; --i) top[i] = top[i - 1];
    top[place] = number;
  }
  for (uint32_t i = 0; i < listed; ++i) {
    const Sums& sums = of_name_[top[i]];
    RecordedKernel& kernel = record->kernels[i];
    memcpy(kernel.name, names.text(top[i]), sizeof(kernel.name));
    kernel.set_kind(names.kind(top[i]));
    kernel.count = sums.count;
    kernel.ns = sums.ns;
    kernel.longest_ns = sums.longest_ns;
  }
}

}  // namespace mfu
