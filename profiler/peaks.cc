// The table. Only published figures: what could be computed from SM count and clock is left out,
// because NVIDIA caps some products below it (H20) and rates tensor clocks below the maximum
// (H100). A 0 is "not stated".
//
// Figures that follow from others (a MIG slice, an estimate by generation and clock) are computed
// below the table and marked by their basis.
//
// fp64 is the tensor cores' rate where the product has fp64 tensor cores (A100, Hopper): that is
// the unit cuBLAS uses for it. fp32 is without tensor cores. fp16 and bf16 accumulate in fp32. All
// rates are dense.
//
// Left out on purpose:
//   "NVIDIA GeForce RTX 4090 D" fewer SMs than the RTX 4090; no published tensor rates at hand
//   "NVIDIA B100"               1750 and 1800 TFLOPS bf16 are both quoted
// and of devices in the table, figures that NVIDIA's own pages or their readers quote differently:
//   B200 fp64 and fp32 (40/37, 80/75), GB200 fp32 (90/80), B300 fp4 (12600 .. 15000).
#include "profiler/peaks.hh"

#include <array>
#include <cstddef>
#include <iterator>

namespace mfu {
namespace {

// Streaming multiprocessors, and 10^9 operations per second.
struct Rates {
  uint64_t sms, fp64, fp32, tf32, fp16, bf16, int8, fp8, fp4;
};

constexpr Device row(std::string_view name, std::string_view short_name, const Rates& rates) {
  Device device{name, short_name, static_cast<uint32_t>(rates.sms), 0, {}};
  if (rates.sms == 108 || rates.sms == 56) device.mig_slice_sms = 14;  // GA100: A100, A800, A30
  auto set = [&device](Precision precision, uint64_t rate) {
    device.gigaflops[static_cast<size_t>(precision)] = rate;
  };
  set(Precision::kFp64, rates.fp64);
  set(Precision::kFp32, rates.fp32);
  set(Precision::kTf32, rates.tf32);
  set(Precision::kFp16, rates.fp16);
  set(Precision::kBf16, rates.bf16);
  set(Precision::kInt8, rates.int8);
  set(Precision::kFp8, rates.fp8);
  set(Precision::kFp4, rates.fp4);
  return device;
}

// Above each row where the figure was read: NVIDIA's document where one is named, and who keeps it.
// clang-format off
//                           SMs    fp64    fp32     tf32     fp16     bf16     int8      fp8       fp4
// V100 data sheet, kept by composer and lightning.
constexpr Rates kV100Sxm   {  80,  7800,  15700,       0,  125000,       0,       0,       0,        0};
constexpr Rates kV100Pcie  {  80,  7000,  14000,       0,  112000,       0,       0,       0,        0};
constexpr Rates kV100sPcie {  80,  8200,  16400,       0,  130000,       0,       0,       0,        0};
// composer, lightning.
constexpr Rates kT4        {  40,     0,   8100,       0,   65000,       0,  130000,       0,        0};
// A10 data sheet, kept by composer and lightning. llm.c PR 621 argues for half.
constexpr Rates kA10       {  72,     0,  31200,   62500,  125000,  125000,  250000,       0,        0};
// ray PR 64315: half an A10's tensor rate. Tables that find "A10" in its name are wrong.
constexpr Rates kA10g      {  80,     0,  31200,       0,   70000,   70000,       0,       0,        0};
// nanochat.
constexpr Rates kA30       {  56,     0,      0,       0,  165000,  165000,       0,       0,        0};
// A40 data sheet, kept by lightning and levanter.
constexpr Rates kA40       {  84,     0,  37400,   74800,  149700,  149700,  299300,       0,        0};
// A100 data sheet, kept by lightning, composer and stas00; PCIe states the same.
constexpr Rates kA100      { 108, 19500,  19500,  156000,  312000,  312000,  624000,       0,        0};
// nanochat: an A100 with fewer NVLinks.
constexpr Rates kA800      { 108,     0,      0,       0,  312000,  312000,       0,       0,        0};
// torchtitan, nanochat PR 60, lightning.
constexpr Rates kRtxA6000  {  84,     0,  38700,   77400,  154800,  154850,  309700,       0,        0};
// lightning, ray, nanochat.
constexpr Rates kL4        {  58,     0,  30300,   60000,  121000,  121000,  242000,       0,        0};
// L40 data sheet, kept by lightning: half of what the L40S' states for the same chip.
constexpr Rates kL40       { 142,     0,  90500,   90500,  181000,  181000,  362000,       0,        0};
// L40S page, kept by stas00, torchtitan and nanochat.
constexpr Rates kL40s      { 142,     0,  91600,  183000,  362000,  362000,  733000,  733000,        0};
// nanochat PR 60, modula PR 1.
constexpr Rates kRtx6000Ada{ 142,     0,      0,       0,  364200,  364200,       0,       0,        0};
// Ada white paper, kept by llm.c: accumulation in fp32.
constexpr Rates kRtx4090   { 128,     0,  82600,   82600,  165200,  165200,  660600,  330300,        0};
// H100 data sheet, kept by lightning and composer; NVIDIA forum 244727.
constexpr Rates kH100Pcie  { 114, 51200,  51200,  378000,  756000,  756000, 1513000, 1513000,        0};
// H100 white paper, kept by lightning issue 20660; the data sheet rounds to 989.
constexpr Rates kH100Sxm   { 132, 66900,  66900,  494700,  989400,  989400, 1978900, 1978900,        0};
// torchtitan PR 554: a 96 GB HBM2e edition of 500 W that has no data sheet, hence no other figure.
constexpr Rates kH100      { 132,     0,      0,       0,       0,  989000,       0,       0,        0};
// lightning PR 21743: one GPU, the brochure's figures are the pair's.
constexpr Rates kH100Nvl   { 132, 60000,  60000,  417500,  835500,  835500, 1670500,       0,        0};
// H200 data sheet, kept by lightning, composer and stas00.
constexpr Rates kH200Sxm   { 132, 67000,  67000,  494500,  989000,  989000, 1979000, 1979000,        0};
// nanochat, OLMo-core PR 810, lightning.
constexpr Rates kH200Nvl   { 132, 60000,  60000,  418000,  836000,  836000, 1671000, 1671000,        0};
// FlashMLA issue 75.
constexpr Rates kH800Sxm   { 132,     0,      0,  495000,  989000,  989000,       0, 1979000,        0};
// nanochat, scaling-book issue 31.
constexpr Rates kH800Pcie  { 114,     0,      0,       0,  756000,  756000,       0, 1513000,        0};
// zangshuxian.com, torchtitan: capped, its 78 SMs could do four times this.
constexpr Rates kH20       {  78,  1000,  44000,   74000,  148000,  148000,  296000,  296000,        0};
// GH200 data sheet, kept by stas00.
constexpr Rates kGh200     { 132, 67000,  67000,  494500,  989000,  989000, 1979000, 1979000,        0};
// HGX B200 (1000 W), kept by stas00, glennklockwood and dgxc.
constexpr Rates kB200      { 148,     0,      0, 1125000, 2250000, 2250000, 4500000, 4500000,  9000000};
// GB200 NVL72, kept by stas00 and glennklockwood; dgxc-benchmarking divides by 2450.
constexpr Rates kGb200     { 152, 45000,      0, 1250000, 2500000, 2500000, 5000000, 5000000, 10000000};
// HGX B300, kept by stas00, glennklockwood and dgxc.
constexpr Rates kB300      { 148,  1250,  75000, 1125000, 2250000, 2250000,       0, 4500000,        0};
// GB300 NVL72, kept by stas00; dgxc-benchmarking divides by 2450.
constexpr Rates kGb300     { 152,     0,  80000, 1250000, 2500000, 2500000,       0, 5000000, 15000000};
// nanochat PR 60, OLMo-core.
constexpr Rates kRtxPro6000{ 188,     0, 126000,       0,  503800,  503800,       0,       0,        0};
// nanochat PR 60.
constexpr Rates kRtxProMaxQ{ 188,     0,      0,       0,  438900,  438900,       0,       0,        0};
// nanochat PR 60.
constexpr Rates kRtx5090   { 170,     0, 104800,       0,  209500,  209500,       0,       0,        0};
// clang-format on

constexpr auto kDevices = std::to_array<Device>({
    row("Tesla V100-SXM2-16GB", "V100-SXM", kV100Sxm),
    row("Tesla V100-SXM2-32GB", "V100-SXM", kV100Sxm),
    row("Tesla V100-SXM3-32GB", "V100-SXM", kV100Sxm),
    row("Tesla V100-PCIE-16GB", "V100-PCIe", kV100Pcie),
    row("Tesla V100-PCIE-32GB", "V100-PCIe", kV100Pcie),
    row("Tesla V100S-PCIE-32GB", "V100S-PCIe", kV100sPcie),
    row("Tesla T4", "T4", kT4),
    row("NVIDIA A10", "A10", kA10),
    row("NVIDIA A10G", "A10G", kA10g),
    row("NVIDIA A30", "A30", kA30),
    row("NVIDIA A40", "A40", kA40),
    row("NVIDIA A100-SXM4-40GB", "A100-SXM", kA100),
    row("NVIDIA A100-SXM4-80GB", "A100-SXM", kA100),
    row("A100-SXM4-40GB", "A100-SXM", kA100),  // old drivers leave the vendor out
    row("NVIDIA A100-PCIE-40GB", "A100-PCIe", kA100),
    row("NVIDIA A100 80GB PCIe", "A100-PCIe", kA100),
    row("NVIDIA A800-SXM4-80GB", "A800-SXM", kA800),
    row("NVIDIA A800 80GB PCIe", "A800-PCIe", kA800),
    row("NVIDIA RTX A6000", "RTX-A6000", kRtxA6000),
    row("NVIDIA L4", "L4", kL4),
    row("NVIDIA L40", "L40", kL40),
    row("NVIDIA L40S", "L40S", kL40s),
    row("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada", kRtx6000Ada),
    row("NVIDIA GeForce RTX 4090", "RTX-4090", kRtx4090),
    row("NVIDIA H100 PCIe", "H100-PCIe", kH100Pcie),
    row("NVIDIA H100 80GB HBM3", "H100-SXM", kH100Sxm),
    row("NVIDIA H100 64GB HBM2", "H100-SXM", kH100Sxm),
    row("NVIDIA H100", "H100", kH100),
    row("NVIDIA H100 NVL", "H100-NVL", kH100Nvl),
    row("NVIDIA H200", "H200-SXM", kH200Sxm),
    row("NVIDIA H200 NVL", "H200-NVL", kH200Nvl),
    row("NVIDIA H800", "H800-SXM", kH800Sxm),
    row("NVIDIA H800 PCIe", "H800-PCIe", kH800Pcie),
    row("NVIDIA H20", "H20", kH20),
    row("NVIDIA H20-3e", "H20-3e", kH20),
    row("NVIDIA GH200 480GB", "GH200", kGh200),
    row("NVIDIA GH200 144G HBM3e", "GH200-144G", kGh200),
    row("NVIDIA B200", "B200", kB200),
    row("NVIDIA GB200", "GB200", kGb200),
    row("NVIDIA B300 SXM6 AC", "B300", kB300),
    row("NVIDIA GB300", "GB300", kGb300),
    row("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000", kRtxPro6000),
    row("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000", kRtxPro6000),
    row("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX-PRO-6000-MQ", kRtxProMaxQ),
    row("NVIDIA GeForce RTX 5090", "RTX-5090", kRtx5090),
});

constexpr bool short_names_fit() {
  for (const Device& device : kDevices) {
    if (device.short_name.empty() || device.short_name.size() > 16) return false;
    for (char c : device.short_name) {
      if (c <= ' ' || c > '~') return false;
    }
  }
  return true;
}
static_assert(short_names_fit(), "short names go into the accounting line: 1 to 16, no blanks");

}  // namespace

const Device* find_device(std::string_view name) {
  for (const Device& device : kDevices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

std::optional<uint64_t> peak_gigaflops(std::string_view device_name, Precision precision) {
  const Device* device = find_device(device_name);
  size_t index = static_cast<size_t>(precision);
  if (device == nullptr || index >= kPrecisions || device->gigaflops[index] == 0) return {};
  return device->gigaflops[index];
}

const char* peak_basis_name(PeakBasis basis) {
  static constexpr const char* kNames[] = {"unknown",   "table", "mig",
                                           "estimated", "file",  "declared"};
  size_t index = static_cast<size_t>(basis);
  return index < std::size(kNames) ? kNames[index] : kNames[0];
}

// ---- MIG ----

namespace {

// A decimal number at the head of the text, which it is taken from. 0 when there is none.
uint32_t take_number(std::string_view* text) {
  uint32_t number = 0;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9' && number < 1000) {
    number = number * 10 + static_cast<uint32_t>(text->front() - '0');
    text->remove_prefix(1);
  }
  return number;
}

bool take(std::string_view* text, std::string_view word) {
  if (!text->starts_with(word)) return false;
  text->remove_prefix(word.size());
  return true;
}

}  // namespace

MigName split_mig_name(std::string_view name) {
  constexpr std::string_view kMark = " MIG ";
  MigName parts;
  const size_t mark = name.find(kMark);
  if (mark == std::string_view::npos) return parts;
  std::string_view profile = name;
  profile.remove_prefix(mark + kMark.size());
  uint32_t number = take_number(&profile);
  const bool compute = number != 0 && take(&profile, "c.");
  const uint32_t slices = compute ? take_number(&profile) : number;
  if (slices == 0 || !take(&profile, "g.") || take_number(&profile) == 0) return parts;
  // "gb", and media engines and the like: "+me", "-me", "+me.all", "+gfx".
  if (!take(&profile, "gb") || (!profile.empty() && profile[0] != '+' && profile[0] != '-')) {
    return parts;
  }
  if (compute && number > slices) return parts;
  parts.device = {name.data(), mark};
  parts.slices = slices;
  parts.compute_slices = compute ? number : slices;
  return parts;
}

Peak known_peak(std::string_view device_name, Precision precision, uint32_t sms) {
  if (auto rate = peak_gigaflops(device_name, precision)) return {*rate, PeakBasis::kTable};
  const MigName mig = split_mig_name(device_name);
  const auto full = peak_gigaflops(mig.device, precision);
  if (mig.slices == 0 || !full) return {};
  const Device* device = find_device(mig.device);
  // A slice of GA100 has 14 SMs. Other chips' slices differ by profile: only CUDA can tell.
  if (sms == 0 && device->mig_slice_sms != 0) sms = device->mig_slice_sms * mig.compute_slices;
  if (sms == 0 || sms > device->sms) return {};
  return {*full * sms / device->sms, PeakBasis::kMig};
}

// ---- by the chip's generation ----

namespace {

// Operations a clock and SM, as measured by NVIDIA's published rates; fp64 on tensor cores where
// there are any, fp32 without them.
struct UnitRates {
  int major, minor;
  uint32_t fp64, fp32, tf32, fp16, bf16, int8, fp8, fp4;
};
constexpr UnitRates kUnits[] = {
    {7, 0, 64, 128, 0, 1024, 0, 0, 0, 0},
    {7, 5, 4, 128, 0, 1024, 0, 2048, 0, 0},
    {8, 0, 128, 128, 1024, 2048, 2048, 4096, 0, 0},
    {8, 6, 4, 256, 512, 1024, 1024, 2048, 0, 0},
    {8, 9, 4, 256, 512, 1024, 1024, 2048, 2048, 0},
    {9, 0, 256, 256, 2048, 4096, 4096, 8192, 8192, 0},
    {10, 0, 128, 256, 4096, 8192, 8192, 16384, 16384, 32768},
    {10, 3, 4, 256, 4096, 8192, 8192, 512, 16384, 49152},
    {12, 0, 4, 256, 512, 1024, 1024, 2048, 2048, 4096},
};

}  // namespace

Peak estimated_peak(int major, int minor, uint32_t sms, uint32_t megahertz, Precision precision) {
  for (const UnitRates& unit : kUnits) {
    if (unit.major != major || unit.minor != minor) continue;
    // In the order of Precision.
    const uint32_t rates[kPrecisions] = {0,         unit.fp64, unit.fp32, unit.tf32, unit.fp16,
                                         unit.bf16, unit.int8, unit.fp8,  unit.fp4};
    const size_t index = static_cast<size_t>(precision);
    const uint64_t a_clock = index < kPrecisions ? uint64_t{rates[index]} * sms : 0;
    const uint64_t gigaflops = a_clock * megahertz / 1000;
    if (gigaflops != 0) return {gigaflops, PeakBasis::kEstimated};
  }
  return {};
}

}  // namespace mfu
