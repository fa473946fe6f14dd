// Writing the accounting line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "plugin/comment.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu/1";
// Bytes of `s=`, and in a line that is too long.
constexpr size_t kStepsLimit = 64;
constexpr size_t kTightStepsLimit = 24;

// Keys left out of a line that is too long, in this order.
constexpr std::string_view kDispensable[] = {"hfu",  "step", "basis", "mem",
                                             "idle", "comm", "steps", "wait"};

// Without the locale of the process that we run in.
std::string fixed_text(double number, int digits) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof(text), number, std::chars_format::fixed, digits);
  return {text, end.ptr};
}

std::string base36(uint128 number) {
  char digits[32];
  char* at = digits + sizeof(digits);
  do {
    *--at = "0123456789abcdefghijklmnopqrstuvwxyz"[static_cast<unsigned>(number % 36)];
    number /= 36;
  } while (number != 0);
  return {at, digits + sizeof(digits)};
}

std::string sums_text(const Sums& sums) {
  std::string text;
  for (const SumField& field : kSumFields) {
    if (!text.empty()) text += ',';
    text += base36(std::min(sums.*field.member, field.most));
  }
  return text;
}

std::string peak_text(uint64_t gigaflops, Precision precision) {
  if (gigaflops == 0) return "n/a";
  if (gigaflops == kMixedPeak) return kMixed;
  std::string text = std::to_string(gigaflops / 1000);
  if (gigaflops % 1000 != 0) {
    text += "." + std::to_string(1000 + gigaflops % 1000).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "(" + precision_name(precision) + ")";
}

// "60.0%(no-flops)/99.8%": the two coverages, each with the reason why it is not the whole. A
// figure that is n/a for that very reason has said so already.
std::string cover_value(const Comment& comment, const Figures& shown) {
  const Sums total = comment.total();
  std::string flops = coverage_text(shown.flops_coverage);
  std::string observed = coverage_text(shown.observed_coverage);
  if (!total.overflowed()) {
    const bool mfu_tells = total.model_flops == 0 || total.capacity_flop == 0;
    if (!mfu_tells && !total.flops_whole() && !comment.no_mfu.empty()) {
      flops += "(" + fit_reason(comment.no_mfu) + ")";
    }
    const bool compute_tells = total.attributed_ns == 0;
    if (!compute_tells && !total.time_whole() && !comment.no_time.empty()) {
      observed += "(" + fit_reason(comment.no_time) + ")";
    }
  }
  return flops + "/" + observed;
}

std::string state_text(const Comment& comment) {
  std::string text = comment.running() ? "running" : "";
  if (!comment.partial.empty()) {
    if (!text.empty()) text += ',';
    text += "partial(" + fit_reason(comment.partial) + ")";
  }
  return text;
}

struct Token {
  std::string_view key;
  std::string value;
};

// The line's tokens after "mfu/1". The last one is `sum`.
std::vector<Token> tokens_of(const Comment& comment, size_t steps_limit) {
  const Sums total = comment.total();
  const Figures shown = figures(comment);
  const std::string gpu = fit_name(comment.gpu);
  std::vector<Token> tokens;
  const auto add = [&](std::string_view key, std::string value) {
    tokens.push_back({key, std::move(value)});
  };

  if (shown.mfu < 0) {
    add("mfu", "n/a(" + why_no_mfu(comment) + ")");
  } else {
    add("mfu", percent_text(shown.mfu) + (shown.mfu > 1 ? "!" : ""));
  }
  add("hfu", "n/a(no-counts)");
  if (total.model_flops > 0) add("basis", "model");
  add("gpus", std::to_string(comment.gpus) + "x" + (gpu.empty() ? kUnknownGpu : gpu));
  add("peak", peak_text(comment.peak_gigaflops, comment.precision));
  if (shown.compute < 0) {
    add("compute", "n/a(" + why_no_time(comment) + ")");
    add("comm", "n/a");
  } else {
    add("compute", percent_text(shown.compute));
    add("comm", percent_text(shown.exposed_communication) + "+" +
                    percent_text(shown.overlapped_communication));
  }
  add("mem", percent_text(shown.exposed_memory));
  add("idle", percent_text(shown.idle));
  if (shown.wait >= 0) {
    const std::string slowest = task_text(comment.slowest);
    add("wait", percent_text(shown.wait) + (slowest.empty() ? "" : "(" + slowest + ")"));
  }
  if (shown.step_seconds >= 0) {
    std::string steps =
        std::to_string(static_cast<uint64_t>(std::min<uint128>(total.training_steps, UINT64_MAX)));
    const std::string by = steps_by_name(comment.steps_by);
    if (!by.empty()) steps += "(" + by + ")";
    add("steps", steps);
    add("step", seconds_text(shown.step_seconds));
  }
  add("cover", cover_value(comment, shown));
  if (comment.run > 0) add("run", std::to_string(comment.run));
  if (const std::string state = state_text(comment); !state.empty()) add("state", state);
  if (!comment.merged.empty()) add("s", comment.merged.text(steps_limit, comment.running_step));
  if (comment.running()) {
    add("cur", step_text(*comment.running_step) + ":" + sums_text(comment.current));
  }
  add("sum", sums_text(comment.sums) + ".");
  return tokens;
}

std::string join(const std::vector<Token>& tokens) {
  std::string line(kOpening);
  for (const Token& token : tokens) {
    line.append(" ").append(token.key).append("=").append(token.value);
  }
  return line;
}

}  // namespace

std::string percent_text(double fraction) {
  if (!(fraction >= 0)) return "n/a";
  return fixed_text(std::min(fraction * 100, 999.9), 1) + "%";
}

std::string coverage_text(double fraction) {
  // A step of the size of a double's error must not turn 0.999 into 99.8%.
  constexpr double kSteps = 1000;
  return percent_text(fraction >= 1 ? fraction : std::floor(fraction * kSteps + 1e-9) / kSteps);
}

const char* steps_by_name(StepsBy by) {
  static constexpr const char* kNames[kStepsBy] = {"", "", "nvtx", "kernel", "period", "several"};
  return kNames[static_cast<size_t>(by)];
}

std::string task_text(uint32_t task) {
  if (task == kNoTask) return "";
  return task == kSeveralTasks ? "several" : "task" + std::to_string(task);
}

std::string seconds_text(double seconds) {
  if (!(seconds >= 0)) return "n/a";
  return fixed_text(seconds, seconds < 1 ? 4 : 2) + "s";
}

std::string format_comment(const Comment& comment) {
  std::vector<Token> tokens = tokens_of(comment, kStepsLimit);
  std::string line = join(tokens);
  if (line.size() <= kMaxLine) return line;
  tokens = tokens_of(comment, kTightStepsLimit);
  line = join(tokens);
  for (const std::string_view key : kDispensable) {
    if (line.size() <= kMaxLine) return line;
    if (key == "wait" && comment.slowest != kNoTask) {
      Comment unnamed = comment;
      unnamed.slowest = kNoTask;
      return format_comment(unnamed);
    }
    std::erase_if(tokens, [&](const Token& token) { return token.key == key; });
    line = join(tokens);
  }
  if (line.size() <= kMaxLine) return line;
  Comment merged_only = comment;
  merged_only.running_step.reset();
  return format_comment(merged_only);
}

}  // namespace mfu
