#include "plugin/step_plan.hh"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <limits>
#include <optional>
#include <type_traits>

namespace mfu {
namespace {

std::string decimal(unsigned __int128 value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  return digits;
}

template <typename Number>
bool read(std::string_view text, Number* out) {
  if constexpr (std::is_same_v<Number, unsigned __int128>) {
    if (text.empty() || text.size() > 38) return false;
    *out = 0;
    for (char digit : text) {
      if (digit < '0' || digit > '9') return false;
      *out = *out * 10 + static_cast<unsigned>(digit - '0');
    }
    return true;
  } else {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && end == text.data() + text.size();
  }
}

// One list of fields serves writing and reading, so that they cannot drift apart. `later`: numbers
// that older plans lack.
template <typename Plan, typename Text, typename Number, typename Later>
void visit(Plan& plan, Text&& text, Number&& number, Later&& later) {
  number("job", plan.job);
  number("step", plan.step);
  number("batch", plan.batch);
  number("restart", plan.restart);
  number("run", plan.run);
  number("array_job", plan.array_job);
  number("array_task", plan.array_task);
  number("node_id", plan.node_id);
  number("nodes", plan.nodes);
  number("uid", plan.uid);
  number("gpus", plan.gpus);
  later("step_gpus", plan.step_gpus);
  number("tasks", plan.tasks);
  number("started_ns", plan.started_ns);
  text("node", plan.node);
  text("node_list", plan.node_list);
  text("folder", plan.folder);
  text("allocated", plan.allocated);
  number("confined", plan.confined);
  number("gid", plan.gid);
  text("no_records", plan.no_records);
  number("field", plan.site.field);
  number("update", plan.site.update_seconds);
  text("spool", plan.site.spool);
  number("first_port", plan.site.first_port);
  number("last_port", plan.site.last_port);
  text("munge", plan.site.munge);
  text("log", plan.site.log);
  text("peaks", plan.site.peaks);
  number("estimate", plan.site.estimate);
  number("count", plan.site.count);
  number("placement", plan.site.placement);
  text("topo", plan.site.topo);
  text("node_map", plan.site.node_map);
  text("fabric", plan.site.fabric);
  text("fabric_names", plan.site.fabric_names);
  number("flops", plan.user.flops);
  number("flops_per_step", plan.user.flops_per_step);
  number("steps", plan.user.steps);
  number("precision", plan.user.precision);
  number("user_count", plan.user.count);
  number("user_placement", plan.user.placement);
  number("end", plan.run);  // the last line: a torn file lacks it
}

// What was said, or not: 0 is nothing, then false (or the first name), and so on.
template <typename Value>
constexpr uint64_t kMostWish = 0;  // of what is no wish
template <>
constexpr uint64_t kMostWish<std::optional<bool>> = 2;
template <>
constexpr uint64_t kMostWish<std::optional<Placement>> = kPlacements;

// The integer that stands for a field: enumerations and bools travel as numbers.
template <typename Value>
auto as_number(const Value& value) {
  if constexpr (std::is_same_v<Value, unsigned __int128>) {
    return value;
  } else if constexpr (kMostWish<Value> != 0) {
    return value ? uint64_t{1} + static_cast<uint64_t>(*value) : uint64_t{0};
  } else {
    return static_cast<uint64_t>(value);
  }
}

}  // namespace

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint32_t whole_gpus(const StepPlan& plan) {
  return plan.nodes == 1 ? plan.gpus : plan.step_gpus;
}

StepPlan users_view(const StepPlan& plan) {
  StepPlan view = plan;
  view.allocated.clear();
  view.site = {};
  view.site.spool = plan.site.spool;
  view.site.peaks = plan.site.peaks;
  view.site.estimate = plan.site.estimate;
  view.site.count = plan.site.count;
  return view;
}

std::string format_plan(const StepPlan& plan) {
  std::string out;
  const auto number = [&](const char* key, const auto& value) {
    out.append(key).append("=").append(decimal(as_number(value))).append("\n");
  };
  visit(
      plan,
      [&](const char* key, std::string value) {
        // node_list comes from the step's environment, which the user writes: it must not become
        // lines of its own, nor control bytes in a log.
        std::replace_if(
            value.begin(), value.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
        out.append(key).append("=").append(value).append("\n");
      },
      number, number);
  return out;
}

tl::expected<StepPlan, std::string> parse_plan(std::string_view text) {
  StepPlan plan;
  std::string error;
  int line_number = 0;
  auto next = [&](const char* key) -> std::string_view {
    ++line_number;
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    std::string_view name = key;
    if (end == std::string_view::npos || !line.starts_with(name) ||
        line.substr(name.size(), 1) != "=") {
      if (error.empty()) {
        error = "plan line " + std::to_string(line_number) + ": no " + std::string(key) + "=";
      }
      return {};
    }
    text.remove_prefix(end + 1);
    return line.substr(name.size() + 1);
  };
  const auto number = [&](const char* key, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    auto stored = as_number(value);
    bool good = read(next(key), &stored);
    if constexpr (std::is_enum_v<Value>) {
      good = good && stored <= 255;  // before the conversion cuts it; the range follows below
    } else if constexpr (kMostWish<Value> != 0) {
      good = good && stored <= kMostWish<Value>;
    } else if constexpr (!std::is_same_v<Value, unsigned __int128>) {
      good = good && stored <= std::numeric_limits<Value>::max();
    }
    if (!good && error.empty()) {
      error = "plan line " + std::to_string(line_number) + ": " + key + " is no number";
    }
    if constexpr (kMostWish<Value> != 0) {
      value = stored == 0 ? Value() : Value(static_cast<typename Value::value_type>(stored - 1));
    } else {
      value = static_cast<Value>(stored);
    }
  };
  visit(
      plan, [&](const char* key, std::string& value) { value = next(key); }, number,
      [&](const char* key, auto& value) {
        if (text.starts_with(std::string(key) + "=")) number(key, value);
      });
  if (error.empty() && !text.empty()) error = "plan: text after its end";
  if (error.empty() && (static_cast<int>(plan.site.field) > 1 ||
                        static_cast<int>(plan.site.placement) >= kPlacements ||
                        static_cast<int>(plan.user.precision) >= kPrecisions)) {
    error = "plan: field, placement or precision out of range";
  }
  if (!error.empty()) return tl::make_unexpected(error);
  return plan;
}

}  // namespace mfu
