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
  uint32_t sms;                 // streaming multiprocessors of the whole device
  uint32_t mig_slice_sms;       // of one MIG slice where each has the same number; 0: not so
  // Dense 10^9 operations per second by Precision; 0: not stated for this device.
  uint64_t gigaflops[kPrecisions];
};

// The row of this exact name, or nullptr.
const Device* find_device(std::string_view name);

// Dense peak in 10^9 FLOP/s; nothing when the device or its rate at this precision is unknown.
std::optional<uint64_t> peak_gigaflops(std::string_view device_name, Precision precision);

// Where a peak comes from: to be told with every figure that divides by it.
enum class PeakBasis : uint8_t {
  kUnknown,
  kTable,      // the device's own published rate
  kMig,        // the whole device's, by the share of its SMs
  kEstimated,  // generation x SMs x clock: may be far off, see estimated_peak
  kFile,       // an administrator's file (peak_additions.hh)
  kDeclared,   // said by the user
};
// "table", "mig", "estimated", "file", "declared"; "unknown".
const char* peak_basis_name(PeakBasis basis);

struct Peak {
  uint64_t gigaflops = 0;  // dense, 10^9 a second; 0: unknown
  PeakBasis basis = PeakBasis::kUnknown;
};

// "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb": device, GPU slices (3), and those of the compute instance
// (1; all of them without a "c"). All empty and 0 for a name that is not a MIG device's.
struct MigName {
  std::string_view device;
  uint32_t slices = 0;
  uint32_t compute_slices = 0;
};
MigName split_mig_name(std::string_view name);

// From the table, of a MIG device by its share of SMs. `sms` is what CUDA says of this device
// (CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT); 0 when not known, which suffices for whole devices
// and for MIG on A100, A800 and A30.
Peak known_peak(std::string_view device_name, Precision precision, uint32_t sms = 0);

// For devices that are not in the table, if the caller wants to be told at all: from the compute
// capability, the SM count and the maximum clock. An upper bound, as rated tensor clocks are lower
// (8% on H100 SXM, 18% on RTX PRO 6000), GeForce cards have half of it for fp16 and bf16, and
// export-limited ones less still (H20: a quarter). A generation without an entry is unknown.
Peak estimated_peak(int major, int minor, uint32_t sms, uint32_t megahertz, Precision precision);

}  // namespace mfu

#endif
