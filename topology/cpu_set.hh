// A set of CPU numbers, by the operating system's numbering.
#ifndef MFU_TOPOLOGY_CPU_SET_HH_
#define MFU_TOPOLOGY_CPU_SET_HH_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

class CpuSet {
 public:
  // CPUs from here on are refused: no machine has them, and a hostile text may.
  static constexpr uint32_t kMost = 1 << 16;

  // The kernel's list: "0-3,8,10-11". None for anything else; blanks at the end are let pass.
  static std::optional<CpuSet> from_list(std::string_view text);
  // The kernel's and NCCL's mask: words of 32 bits, the highest first, "000000ff,ffff0000". Also
  // with "0x" and empty words, as Slurm and hwloc write it.
  static std::optional<CpuSet> from_mask(std::string_view text);

  // False, and nothing done, from kMost on.
  bool add(uint32_t cpu);
  bool has(uint32_t cpu) const;
  bool empty() const { return words_.empty(); }
  size_t count() const;
  bool intersects(const CpuSet& other) const;
  bool within(const CpuSet& other) const;
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  // "0-3,8", or "none".
  std::string text() const;
  bool operator==(const CpuSet&) const = default;

 private:
  void trim();

  std::vector<uint64_t> words_;  // the last one is not 0
};

}  // namespace mfu

#endif
