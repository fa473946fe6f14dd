// Which steps of a job have been merged: numbered steps as ranges, and the special steps.
#ifndef MFU_PLUGIN_STEP_SET_HH_
#define MFU_PLUGIN_STEP_SET_HH_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace mfu {

// Slurm's step ids (SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP, SLURM_MAX_NORMAL_STEP_ID), the same
// since 20.11. Other special steps (extern, pending) run nothing that could be profiled.
inline constexpr uint32_t kBatchStep = 0xfffffffb;
inline constexpr uint32_t kInteractiveStep = 0xfffffffa;
inline constexpr uint32_t kLastNumberedStep = 0xfffffff0;

// The batch script and salloc's shell: they have all the job's GPUs, and most often leave the work
// to its steps.
constexpr bool leaves_work_to_steps(uint32_t step) {
  return step == kBatchStep || step == kInteractiveStep;
}

// "7", "b" (batch step) or "i" (interactive step).
std::string step_text(uint32_t step);
// Nothing for a text that step_text() does not give.
std::optional<uint32_t> parse_step(std::string_view text);

class StepSet {
 public:
  // `step` is Slurm's step id; an id that names no profiled step is left out.
  void insert(uint32_t step);
  bool contains(uint32_t step) const;
  bool empty() const { return ranges_.empty() && !batch_ && !interactive_; }
  bool operator==(const StepSet&) const = default;

  // "0-3,7,b,i". Beyond `limit` bytes the lowest gaps are closed: a step that old which has not
  // been merged yet is far rarer than one without GPUs, which never will be. The gap that `running`
  // is in stays open. With all others closed the text has at most kLeastText bytes, whatever the
  // limit.
  static constexpr size_t kLeastText = 48;
  std::string text(size_t limit, std::optional<uint32_t> running = std::nullopt) const;
  // Only what text() gives: ascending, disjoint, not adjacent. The error names the byte.
  static tl::expected<StepSet, std::string> parse(std::string_view text);

 private:
  std::string closed_text(uint32_t last, std::optional<uint32_t> running) const;

  std::map<uint32_t, uint32_t> ranges_;  // first -> last, disjoint, not adjacent
  bool batch_ = false;
  bool interactive_ = false;
};

}  // namespace mfu

#endif
