// Writing the accounting line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <span>
#include <vector>

#include "plugin/comment.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu/1";
// Bytes of `s=`, and in a line that is too long.
constexpr size_t kStepsLimit = 64;
constexpr size_t kTightStepsLimit = 24;

// Zeros at the end of a running step's sum that are counted instead of written.
constexpr size_t kLeastZeros = 3;
// Bytes of a reason in a line that is still too long when all that can be left out has been.
constexpr size_t kTightReason = 8;
// Digits of a running step's sums in a line that is too long: off by 1/46,656 at most, all
// downwards.
constexpr int kRoughDigits = 4;

// What a line that is too long leaves out. First these sums of a running step, one group after the
// other: its next words bring them again.
using Group = std::initializer_list<uint128 Sums::*>;
constexpr Group kStorage = {&Sums::read_mb, &Sums::written_mb, &Sums::io_ms, &Sums::span_ns};
constexpr Group kTensor = {&Sums::tensor_active_ms, &Sums::tensor_ms};
constexpr Group kEnergy = {&Sums::energy_j, &Sums::energy_ms, &Sums::training_gpu_ms};
constexpr Group kClock = {&Sums::clock_megacycles, &Sums::clock_ms};
constexpr Group kGoodput = {&Sums::productive_ms, &Sums::start_up_ms, &Sums::restart_ms,
                            &Sums::writing_ms,    &Sums::reading_ms,  &Sums::stalled_ms,
                            &Sums::tail_ms};
// Then the keys that follow from the sums, in this order; then `cur`.
constexpr std::string_view kDispensable[] = {"io",    "util", "energy", "mem",    "idle",
                                             "power", "step", "comm",   "goodput"};
// At last those of which only the part in parentheses, which goes before, followed from no sum.
constexpr std::string_view kRemarked[] = {"compute", "clock", "wait", "steps"};

// Without the locale of the process that we run in.
std::string fixed_text(double number, int digits) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof(text), number, std::chars_format::fixed, digits);
  return {text, end.ptr};
}

std::string whole_text(double number) {
  return fixed_text(std::min(number, 99999.0), 0);
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

// "7,,k3": a sum of 0 is written as nothing.
std::string sums_text(const Sums& sums) {
  std::string text;
  for (const SumField& field : kSumFields) {
    if (&field != kSumFields) text += ',';
    const uint128 sum = std::min(sums.*field.member, field.most);
    if (sum != 0) text += base36(sum);
  }
  return text;
}

// The same with "k3+6" for k3000000.
std::string running_sums_text(const Sums& sums) {
  std::string text;
  std::string exact = sums_text(sums) + ",";
  for (size_t at = 0; at < exact.size();) {
    const size_t end = exact.find(',', at);
    const std::string_view number = std::string_view(exact).substr(at, end - at);
    const size_t digits = number.find_last_not_of('0') + 1;
    const size_t zeros = number.size() - digits;
    text += number.substr(0, zeros < kLeastZeros ? number.size() : digits);
    if (zeros >= kLeastZeros) text.append("+").append(base36(zeros));
    text += ',';
    at = end + 1;
  }
  text.pop_back();
  return text;
}

Sums rough(const Sums& sums) {
  uint128 limit = 1;
  for (int digit = 0; digit < kRoughDigits; ++digit) limit *= 36;
  Sums result;
  for (const SumField& field : kSumFields) {
    uint128 number = std::min(sums.*field.member, field.most);
    uint128 unit = 1;
    if (number < field.most) {
      for (; number >= limit; number /= 36) unit *= 36;
    }
    result.*field.member = number * unit;  // one at its bound stays there
  }
  return result;
}

// Makes a running step's sums shorter, a little at a time. False when nothing is left to do.
bool lighten(Sums* current) {
  const Sums before = *current;
  *current = rough(before);
  for (const Group& group : {kStorage, kTensor, kEnergy, kGoodput, kClock}) {
    if (*current != before) return true;
    for (uint128 Sums::*member : group) current->*member = 0;
  }
  return *current != before;
}

// Leaves out what stands in parentheses behind `clock`, `wait` and `place`. False when nothing
// does.
bool drop_remarks(Comment* comment) {
  if (comment->clock_limit_mhz == 0 && comment->clock_reason.empty() &&
      comment->slowest == kNoTask && comment->place.rules.empty()) {
    return false;
  }
  comment->clock_limit_mhz = 0;
  comment->clock_reason.clear();
  comment->slowest = kNoTask;
  comment->place.rules.clear();
  return true;
}

// False when they are as short as can be.
bool clip_reasons(Comment* comment) {
  bool clipped = false;
  for (std::string Comment::*member :
       {&Comment::no_mfu, &Comment::no_hfu, &Comment::no_time, &Comment::partial}) {
    std::string& reason = comment->*member;
    if (reason.size() <= kTightReason) continue;
    reason.resize(kTightReason);
    clipped = true;
  }
  return clipped;
}

// " (reason)" without the blank; nothing for no reason.
std::string in_parentheses(std::string_view reason) {
  return reason.empty() ? "" : "(" + fit_reason(reason) + ")";
}

// "51.9%", "104.2%!", "n/a(reason)".
std::string utilization_text(double fraction, const std::string& why_not) {
  if (fraction < 0) return "n/a(" + why_not + ")";
  return percent_text(fraction) + (fraction > 1 ? "!" : "");
}

// "60.0%(no-flops)/99.8%": the two coverages, each with the reason why it is not the whole. A
// figure that is n/a for that very reason has said so already.
std::string cover_value(const Comment& comment, const Figures& shown) {
  const Sums total = comment.total();
  std::string flops = coverage_text(shown.flops_coverage);
  std::string observed = coverage_text(shown.observed_coverage);
  if (!total.overflowed()) {
    const bool mfu_tells = total.model_flops == 0 || total.capacity_flop == 0;
    if (!mfu_tells && !total.flops_whole()) flops += in_parentheses(comment.no_mfu);
    const bool compute_tells = total.attributed_ns == 0;
    if (!compute_tells && !total.time_whole()) observed += in_parentheses(comment.no_time);
  }
  return flops + "/" + observed;
}

// "81.3%": the share that executed FLOPs are of, with the reason why others are not counted.
// Nothing where hfu has said so.
std::string counted_value(const Comment& comment, const Figures& shown) {
  const Sums total = comment.total();
  if (total.overflowed() || total.executed_flops == 0 || total.executed_capacity_flop == 0) {
    return "";
  }
  return coverage_text(shown.counted_coverage) +
         (total.executed_whole() ? "" : in_parentheses(comment.no_hfu));
}

std::string state_text(const Comment& comment) {
  std::string text = comment.running() ? "running" : "";
  if (!comment.partial.empty()) {
    if (!text.empty()) text += ',';
    text += "partial(" + fit_reason(comment.partial) + ")";
  }
  return text;
}

// A loss that rounds to nothing may come from rounding.
std::string_view loss_worth_telling(const Goodput& goodput) {
  return goodput.fraction >= 0.9995 ? "" : goodput.largest_loss;
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

  add("mfu", utilization_text(shown.mfu, why_no_mfu(comment)));
  add("hfu", utilization_text(shown.hfu, why_no_hfu(comment)));
  if (total.model_flops > 0 && comment.basis != Basis::kNone) {
    add("basis", basis_name(comment.basis));
  }
  add("gpus", std::to_string(comment.gpus) + "x" + (gpu.empty() ? kUnknownGpu : gpu));
  add("peak", peak_text(comment));
  // A key of its own: readers that do not know it can do without.
  if (comment.peak_gigaflops == kMixedPeak && comment.peak_basis == PeakBasis::kEstimated) {
    add("peaks", peak_basis_name(comment.peak_basis));
  }
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
    add("wait", percent_text(shown.wait) + in_parentheses(task_text(comment.slowest)));
  }
  if (shown.step_seconds >= 0) {
    std::string steps =
        std::to_string(static_cast<uint64_t>(std::min<uint128>(total.training_steps, UINT64_MAX)));
    add("steps", steps + in_parentheses(steps_by_name(comment.steps_by)));
    add("step", seconds_text(shown.step_seconds));
  }
  if (shown.goodput.fraction >= 0) {
    add("goodput",
        percent_text(shown.goodput.fraction) + in_parentheses(loss_worth_telling(shown.goodput)));
  }
  if (shown.watts >= 0) add("power", whole_text(shown.watts) + "W");
  if (shown.joules_per_step >= 0) add("energy", energy_text(shown.joules_per_step));
  if (const std::string clock = clock_text(comment, shown); !clock.empty()) add("clock", clock);
  if (shown.tensor_activity >= 0) add("util", percent_text(shown.tensor_activity));
  if (shown.read_gb_per_s >= 0) add("io", storage_text(shown));
  add("cover", cover_value(comment, shown));
  if (const std::string counted = counted_value(comment, shown); !counted.empty()) {
    add("counted", counted);
  }
  if (const std::string place = place_text(comment.place); !place.empty()) add("place", place);
  if (comment.run > 0) add("run", std::to_string(comment.run));
  if (const std::string state = state_text(comment); !state.empty()) add("state", state);
  if (!comment.merged.empty()) add("s", comment.merged.text(steps_limit, comment.running_step));
  if (comment.running()) {
    add("cur", step_text(*comment.running_step) + ":" + running_sums_text(comment.current));
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
  const double percent = std::min(fraction * 100, 999.9);
  // A report has a dozen percentages a job. Where the tenths are not near a tie, rounding them
  // tells the same digits as std::to_chars() does, at a part of its cost.
  const double tenths = percent * 10;
  const auto whole = static_cast<unsigned>(tenths + 0.5);
  if (std::abs(tenths + 0.5 - std::round(tenths + 0.5)) < 1e-6) return fixed_text(percent, 1) + "%";
  char text[] = {'0', '0', '0', '.', '0', '%'};
  text[0] = static_cast<char>('0' + whole / 1000);
  text[1] = static_cast<char>('0' + whole / 100 % 10);
  text[2] = static_cast<char>('0' + whole / 10 % 10);
  text[4] = static_cast<char>('0' + whole % 10);
  return {text + (whole < 100 ? 2 : whole < 1000 ? 1 : 0), std::end(text)};
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

const char* basis_name(Basis basis) {
  static constexpr const char* kNames[kBases] = {"", "model", "gemm", "several"};
  return kNames[static_cast<size_t>(basis)];
}

std::string task_text(uint32_t task) {
  if (task == kNoTask) return "";
  return task == kSeveralTasks ? "several" : "task" + std::to_string(task);
}

std::string seconds_text(double seconds) {
  if (!(seconds >= 0)) return "n/a";
  return fixed_text(seconds, seconds < 1 ? 4 : 2) + "s";
}

std::string energy_text(double joules) {
  if (!(joules >= 0)) return "n/a";
  static constexpr const char* kUnits[] = {"J", "kJ", "MJ", "GJ"};
  size_t unit = 0;
  // 999.5 has four digits when it is rounded.
  for (; joules >= 999.5 && unit + 1 < std::size(kUnits); ++unit) joules /= 1000;
  const int digits = joules < 9.995 ? 2 : joules < 99.95 ? 1 : 0;
  return fixed_text(std::min(joules, 999.0), digits) + kUnits[unit];
}

std::string place_text(const Place& place) {
  switch (place.verdict) {
    case Place::Verdict::kOk:
      return "ok";
    case Place::Verdict::kWarn:
    case Place::Verdict::kBad: {
      std::string text = place.verdict == Place::Verdict::kWarn ? "warn:" : "bad:";
      text += std::to_string(place.findings);
      const std::string rules = fit_rules(place.rules);
      return rules.empty() ? text : text + "(" + rules + ")";
    }
    case Place::Verdict::kUnknown:
      break;
  }
  return "";
}

std::string peak_text(const Comment& comment) {
  const uint64_t gigaflops = comment.peak_gigaflops;
  if (gigaflops == 0) return "n/a";
  if (gigaflops == kMixedPeak) return kMixed;
  std::string text = std::to_string(gigaflops / 1000);
  if (gigaflops % 1000 != 0) {
    text += "." + std::to_string(1000 + gigaflops % 1000).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  text += std::string("(") + precision_name(comment.precision);
  const PeakBasis basis = comment.peak_basis;
  if (basis != PeakBasis::kUnknown && basis != PeakBasis::kTable) {
    text += std::string(",") + peak_basis_name(basis);
  }
  return text + ")";
}

std::string clock_text(const Comment& comment, const Figures& figures) {
  const Sums total = comment.total();
  if (total.overflowed() || total.clock_ms == 0) return "";
  std::string text = figures.clock_mhz < 0 ? "n/a" : whole_text(figures.clock_mhz);
  if (comment.clock_limit_mhz != 0) text += "/" + std::to_string(comment.clock_limit_mhz);
  text += in_parentheses(comment.clock_reason);
  return text == "n/a" ? "" : text;
}

std::string storage_text(const Figures& figures) {
  if (figures.read_gb_per_s < 0) return "n/a";
  const auto rate = [](double number) { return fixed_text(std::min(number, 9999.99), 2); };
  return rate(figures.read_gb_per_s) + "+" + rate(figures.written_gb_per_s) + "GB/s";
}

std::string format_comment(const Comment& comment) {
  std::string line = join(tokens_of(comment, kStepsLimit));
  if (line.size() <= kMaxLine) return line;
  // Whatever is lost here, the line is written anew without it: what is read from it gives the same
  // line again.
  Comment less = comment;
  if (comment.running() && lighten(&less.current)) return format_comment(less);

  std::vector<Token> tokens = tokens_of(comment, kTightStepsLimit);
  const auto fits_without = [&](std::span<const std::string_view> keys) {
    line = join(tokens);
    for (size_t i = 0; i < keys.size() && line.size() > kMaxLine; ++i) {
      std::erase_if(tokens, [&](const Token& token) { return token.key == keys[i]; });
      line = join(tokens);
    }
    return line.size() <= kMaxLine;
  };
  if (fits_without(kDispensable)) return line;
  if (comment.running()) {
    less.running_step.reset();
    return format_comment(less);
  }
  if (drop_remarks(&less)) return format_comment(less);
  // An absence says why.
  const bool compute_known = figures(comment).compute >= 0;
  if (fits_without(std::span(kRemarked).subspan(compute_known ? 0 : 1))) return line;
  return clip_reasons(&less) ? format_comment(less) : line;
}

}  // namespace mfu
