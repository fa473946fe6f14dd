// Dense peak rates by exact CUDA device name (cuDeviceGetName) and precision.
//
// Never a neighbour's figure: a name or precision that is not in the table is unknown. Source of
// each row: NVIDIA's data sheets and brochures, dense rate (without sparsity), rated boost clock of
// the tensor cores; the row says which.
#ifndef MFU_PROFILER_PEAKS_HH_
#define MFU_PROFILER_PEAKS_HH_

#include <cstdint>
#include <optional>
#include <string_view>

#include "profiler/kernel.hh"

namespace mfu {

struct Device {
  std::string_view name;        // as cuDeviceGetName says, e.g. "NVIDIA H100 80GB HBM3"
  std::string_view short_name;  // for the accounting line, no blanks, e.g. "H100-SXM"
  // Dense 10^9 operations per second by Precision; 0: not stated for this device.
  uint64_t gigaflops[kPrecisions];
};

// The row of this exact name, or nullptr.
const Device* find_device(std::string_view name);

// Dense peak in 10^9 FLOP/s; nothing when the device or its rate at this precision is unknown.
std::optional<uint64_t> peak_gigaflops(std::string_view device_name, Precision precision);

}  // namespace mfu

#endif
