// The kernels of a trace by name, each name classified once. Bounded: what finds no place is
// counted and classified every time.
#ifndef MFU_PROFILER_KERNEL_NAMES_HH_
#define MFU_PROFILER_KERNEL_NAMES_HH_

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/steps.hh"
#include "profiler/trace_figures.hh"

namespace mfu {

class KernelNames {
 public:
  static constexpr uint32_t kUnlisted = UINT32_MAX;

  // Counts a kernel; returns its name's number.
  uint32_t add(std::string_view name, uint64_t duration_ns, KernelKind* kind) {
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      *kind = classify_kernel(name);
      if (kernels_.size() == kMostNames || bytes_ + name.size() > kMostBytes) {
        ++unlisted_;
        return kUnlisted;
      }
      bytes_ += name.size();
      found = numbers_.emplace(name, static_cast<uint32_t>(kernels_.size())).first;
      const KernelMark mark =
          is_optimizer_kernel(name) ? KernelMark::kOptimizer : KernelMark::kNone;
      kernels_.push_back({*kind, {}, 0, &found->first, mark});
    }
    Kernel& kernel = kernels_[found->second];
    *kind = kernel.kind;
    kernel.time.add(duration_ns);
    kernel.longest_ns = std::max(kernel.longest_ns, duration_ns);
    return found->second;
  }

  std::string_view name(uint32_t number) const { return *kernels_[number].name; }
  KernelMark mark(uint32_t number) const { return kernels_[number].mark; }

  // The table, longest time first. Once, at the end.
  void take(std::vector<KernelFigures>* figures, uint64_t* unlisted) {
    for (const Kernel& kernel : kernels_) {
      figures->push_back({*kernel.name, kernel.kind, kernel.time, kernel.longest_ns});
    }
    std::sort(figures->begin(), figures->end(), [](const KernelFigures& a, const KernelFigures& b) {
      return a.time.ns != b.time.ns ? a.time.ns > b.time.ns : a.name < b.name;
    });
    *unlisted = unlisted_;
  }

 private:
  static constexpr size_t kMostNames = 16'384;
  static constexpr size_t kMostBytes = 16 << 20;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Kernel {
    KernelKind kind;
    CountedTime time;
    uint64_t longest_ns;
    const std::string* name;  // the map's key: it stays where it is
    KernelMark mark;
  };

  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<Kernel> kernels_;
  size_t bytes_ = 0;
  uint64_t unlisted_ = 0;
};

}  // namespace mfu

#endif
