// What ran on one device of a process: time, sums by class, collective, precision and name, FLOPs
// of attention, training steps, and a sample of collectives. Fixed memory; not thread-safe.
#ifndef MFU_PROFILER_DEVICE_ACTIVITY_HH_
#define MFU_PROFILER_DEVICE_ACTIVITY_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/attention_flops.hh"
#include "profiler/cupti_gate.hh"
#include "profiler/name_table.hh"
#include "profiler/record.hh"
#include "profiler/timeline.hh"

namespace mfu {

class DeviceActivity {
 public:
  // In zeroed memory of sizeof(DeviceActivity) bytes.
  DeviceActivity() : timeline_(intervals_, kTimelineCapacity, &folded_series_) {}

  // An operation with plausible times. `name` is that of a kernel. Counts go straight into
  // *record; the rest waits for fill(). A record that came before is counted and kept out.
  void take(const cupti::Activity& activity, const KernelName& name, Record* record);

  // Brings *record up to date.
  void fill(const NameTable& names, Record* record);

 private:
  static constexpr size_t kTimelineCapacity = 8192;
  // Operations that are remembered, to know one that comes twice.
  static constexpr size_t kRemembered = 16'384;

  struct Sums {
    uint64_t count;
    uint64_t ns;
    uint64_t longest_ns;
  };

  bool seen_before(const cupti::Activity& activity);
  void take_products(const cupti::Activity& activity, const AttentionTraits& traits,
                     CountedKernels* counted);
  void fill_kernels(const NameTable& names, Record* record) const;

  Timeline timeline_;
  Interval intervals_[2 * kTimelineCapacity];
  uint64_t remembered_[kRemembered];
  Sums of_name_[NameTable::kMostNames];  // by KernelName::number
  CollectiveSamples samples_;
  AttentionSums attention_;
  StepDetector steps_;
  TimeSeries folded_series_;  // the timeline's own
};

}  // namespace mfu

#endif
