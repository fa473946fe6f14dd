#include "plugin/options.hh"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "profiler/model_config.hh"
#include "profiler/model_flops.hh"

namespace mfu {
namespace {

using uint128 = unsigned __int128;

constexpr uint32_t kLeastUpdateSeconds = 10;
constexpr size_t kLongestName = 128;
constexpr size_t kLongestPath = 512;  // what one plugstack argument may reasonably hold

constexpr char kSiteKeys[] =
    "inject, field, update, spool, budget, ports, profiler, collector, cupti, munge, log, peaks, "
    "estimate, count, placement, topo, node-map, fabric, fabric-names";
constexpr char kUserKeys[] =
    "flops, flops-per-step, model, batch, seq, steps, precision, step-kernel, step-range, keep, "
    "nvtx, nccl, count, sensors";
// What Slurm makes of the bare option of an sbatch or salloc in the environment of its steps.
constexpr std::string_view kBareInherited = "(null)";
constexpr char kPrecisionNames[] = "fp64, fp32, tf32, fp16, bf16, int8, fp8, fp4";
constexpr char kNumberForm[] =
    "a whole number above 0 such as 1500000000000, 1.5e12 or 1.5T (T, P, E: 10^12, 10^15, 10^18)";

struct Setting {
  std::string_view key;
  std::string_view value;
};

std::optional<Setting> split(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  return Setting{text.substr(0, equals), text.substr(equals + 1)};
}

// False when the key has been there before.
bool first_time(std::vector<std::string_view>* seen, std::string_view key) {
  if (std::find(seen->begin(), seen->end(), key) != seen->end()) return false;
  seen->push_back(key);
  return true;
}

// Error texts end up in logs and on terminals: no control bytes, no endless values.
std::string quoted(std::string_view text) {
  std::string shown(text.substr(0, 80));
  std::replace_if(
      shown.begin(), shown.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return "'" + shown + (text.size() > 80 ? "...'" : "'");
}

template <typename Number>
bool parse_plain(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_path(std::string_view text, std::string* path) {
  const bool clean = std::all_of(text.begin(), text.end(), [](char b) { return b > ' '; });
  if (!text.starts_with('/') || text.size() > kLongestPath || !clean) return false;
  *path = text;
  return true;
}

// A part of a name: what can be typed on a command line, without control bytes.
bool parse_name(std::string_view text, std::string* name) {
  const bool clean =
      std::all_of(text.begin(), text.end(), [](char b) { return b >= ' ' && b <= '~'; });
  if (text.empty() || text.size() > kLongestName || !clean) return false;
  *name = text;
  return true;
}

bool parse_switch(std::string_view text, bool* on) {
  *on = text == "on";
  return *on || text == "off";
}

bool parse_ports(std::string_view text, SiteOptions* options) {
  const size_t dash = text.find('-');
  if (dash == text.npos) return false;
  return parse_plain(text.substr(0, dash), &options->first_port) &&
         parse_plain(text.substr(dash + 1), &options->last_port) && options->first_port >= 1024 &&
         options->first_port <= options->last_port;
}

// What is wrong with the value, or an empty text when it was taken.
std::string set_site_option(std::string_view key, std::string_view value, SiteOptions* options) {
  if (key == "inject") {
    if (value != "gpu" && value != "ask" && value != "off") return "must be gpu, ask or off";
    options->inject = value == "gpu" ? Inject::kGpu : value == "ask" ? Inject::kAsk : Inject::kOff;
    return "";
  }
  if (key == "field") {
    if (value != "admin_comment" && value != "comment") return "must be admin_comment or comment";
    options->field = value == "comment" ? Field::kComment : Field::kAdminComment;
    return "";
  }
  if (key == "update") {
    uint32_t& seconds = options->update_seconds;
    if (parse_plain(value, &seconds) && (seconds == 0 || seconds >= kLeastUpdateSeconds)) {
      return "";
    }
    return "must be 0 (no interim lines) or seconds from 10 up";
  }
  if (key == "budget") {
    double& percent = options->budget_percent;
    if (parse_plain(value, &percent) && percent > 0 && percent <= 100) return "";
    return "must be a percentage above 0, at most 100";
  }
  if (key == "ports") {
    return parse_ports(value, options) ? "" : "must be FIRST-LAST, from 1024 to 65535";
  }
  if (key == "estimate" || key == "count") {
    return parse_switch(value, key == "count" ? &options->count : &options->estimate)
               ? ""
               : "must be on or off";
  }
  if (key == "placement") {
    const auto placement = placement_from_name(value);
    if (!placement) return "must be off, quiet, warn or strict";
    options->placement = *placement;
    return "";
  }
  std::string* path = key == "spool"          ? &options->spool
                      : key == "profiler"     ? &options->profiler
                      : key == "collector"    ? &options->collector
                      : key == "cupti"        ? &options->cupti
                      : key == "munge"        ? &options->munge
                      : key == "log"          ? &options->log
                      : key == "peaks"        ? &options->peaks
                      : key == "topo"         ? &options->topo
                      : key == "node-map"     ? &options->node_map
                      : key == "fabric"       ? &options->fabric
                      : key == "fabric-names" ? &options->fabric_names
                                              : nullptr;
  if (path == nullptr) return std::string("unknown key; the keys are ") + kSiteKeys;
  return parse_path(value, path) ? "" : "must be an absolute path of at most 512 bytes";
}

// The power of ten that a suffix stands for; 0: it is none.
int suffix_power(char suffix) {
  return suffix == 'T' ? 12 : suffix == 'P' ? 15 : suffix == 'E' ? 18 : 0;
}

// A whole number from 1 to `most`, without rounding: digits and a power of ten, never a double.
std::optional<uint128> parse_exact(std::string_view text, uint128 most) {
  int power = 0;
  if (!text.empty() && suffix_power(text.back()) != 0) {
    power = suffix_power(text.back());
    text.remove_suffix(1);
  } else if (const size_t mark = text.find_first_of("eE"); mark != text.npos) {
    std::string_view exponent = text.substr(mark + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    if (!parse_plain(exponent, &power) || power < -99 || power > 99) return std::nullopt;
    text = text.substr(0, mark);
  }

  uint128 number = 0;
  size_t digits = 0;
  bool point = false;
  for (const char byte : text) {
    if (byte == '.' && !point) {
      point = true;
      continue;
    }
    if (byte < '0' || byte > '9') return std::nullopt;
    if (number > most) return std::nullopt;  // most * 10 still fits
    number = number * 10 + static_cast<unsigned>(byte - '0');
    ++digits;
    if (point) --power;
  }
  if (digits == 0 || number == 0) return std::nullopt;
  for (; power < 0; ++power) {
    if (number % 10 != 0) return std::nullopt;
    number /= 10;
  }
  for (; power > 0 && number <= most; --power) number *= 10;
  if (number > most) return std::nullopt;
  return number;
}

// What is wrong with the value, or an empty text when it was taken.
std::string set_user_option(std::string_view key, std::string_view value, UserOptions* options) {
  if (key == "precision") {
    options->precision = precision_from_name(value);
    if (options->precision != Precision::kUnknown) return "";
    return quoted(value) + " is not a precision: use one of " + kPrecisionNames;
  }
  if (key == "step-kernel" || key == "step-range") {
    if (key == "step-range") options->nvtx = true;
    std::string* name = key == "step-kernel" ? &options->step_kernel : &options->step_range;
    return parse_name(value, name) ? "" : quoted(value) + " is no name of at most 128 characters";
  }
  if (key == "keep") {
    return parse_path(value, &options->keep)
               ? ""
               : quoted(value) + " is not an absolute path of at most 512 bytes";
  }
  if (key == "count") {
    bool on = false;
    if (!parse_switch(value, &on)) return "must be on or off";
    options->count = on;
    return "";
  }
  if (key == "nvtx" || key == "nccl" || key == "sensors") {
    bool* on = key == "nvtx" ? &options->nvtx : key == "nccl" ? &options->nccl : &options->sensors;
    return parse_switch(value, on) ? "" : "must be on or off";
  }
  if (key == "model") {
    return parse_name(value, &options->model) ? "" : quoted(value) + " is no path of a file";
  }
  const bool flops = key == "flops" || key == "flops-per-step";
  if (!flops && key != "steps" && key != "batch" && key != "seq") {
    return std::string("unknown key; the keys are ") + kUserKeys;
  }
  const auto number = parse_exact(value, flops ? kMostDeclaredFlops : kMostDeclaredSteps);
  if (!number) {
    return quoted(value) + " is not " + kNumberForm + ", at most " + (flops ? "1e30" : "1e12");
  }
  if (key == "batch") options->batch = static_cast<uint64_t>(*number);
  if (key == "seq") options->seq = static_cast<uint64_t>(*number);
  if (key == "flops") options->flops = *number;
  if (key == "flops-per-step") options->flops_per_step = *number;
  if (key == "steps") options->steps = static_cast<uint64_t>(*number);
  return "";
}

// Keys that do not go together; an empty text when they do.
std::string conflict(const UserOptions& options) {
  if (options.flops != 0 && options.flops_per_step != 0) {
    return "flops and flops-per-step exclude each other: give the whole step's FLOPs, or those of "
           "one training step together with steps";
  }
  if (!options.model.empty() && (options.flops != 0 || options.flops_per_step != 0)) {
    return "model gives the FLOPs: flops and flops-per-step exclude it";
  }
  const bool any = !options.model.empty() || options.batch != 0 || options.seq != 0;
  if (any && (options.model.empty() || options.batch == 0 || options.seq == 0)) {
    return "model=FILE, batch=SEQUENCES (of a training step, all GPUs) and seq=TOKENS (of a "
           "sequence) go together";
  }
  if (!options.step_range.empty() && !options.nvtx) {
    return "step-range needs NVTX: nvtx=off excludes it";
  }
  if (options.steps != 0 && options.flops_per_step > kMostDeclaredFlops / options.steps) {
    return "flops-per-step times steps is more than 1e30";
  }
  return "";
}

}  // namespace

const char kUserOptionHelp[] =
    "measure the job step's GPU efficiency (see mfu-comment(5)): on (same as no value), off, or "
    "flops=N | flops-per-step=N[,steps=N] | model=FILE,batch=N,seq=N[,steps=N] to declare the "
    "model's FLOPs; "
    "keep=FOLDER keeps the records for mfu-analyze";

tl::expected<SiteOptions, std::string> parse_site_options(std::span<char* const> arguments) {
  SiteOptions options;
  std::vector<std::string_view> seen;
  for (const char* const argument : arguments) {
    const auto fault = [&](const std::string& what) {
      return tl::make_unexpected("plugstack argument " + quoted(argument) + ": " + what);
    };
    const auto setting = split(argument);
    if (!setting) return fault(std::string("must be key=value; the keys are ") + kSiteKeys);
    if (!first_time(&seen, setting->key)) return fault("the key is there twice");
    const std::string wrong = set_site_option(setting->key, setting->value, &options);
    if (!wrong.empty()) return fault(wrong);
  }
  return options;
}

tl::expected<unsigned __int128, std::string> model_step_flops(const UserOptions& options) {
  const auto config = read_model_config(options.model).and_then(finish_model);
  if (!config) return tl::make_unexpected(config.error());
  if (options.seq > kMostSequence || options.batch > kMostTokens / options.seq) {
    return tl::make_unexpected(options.model + ": batch times seq is more than 2^44 tokens");
  }
  const ModelShape& shape = config->shape;
  const unsigned __int128 flops = training_flops(
      shape, uniform_tokens(options.batch, options.seq, shape.window), /*causal=*/false);
  if (flops > kMostDeclaredFlops) {
    return tl::make_unexpected(options.model + ": more than 1e30 FLOPs a step");
  }
  return flops;
}

unsigned __int128 UserOptions::declared_flops() const {
  if (flops != 0 || steps == 0) return flops;
  return std::min(flops_per_step, kMostDeclaredFlops / steps) * steps;
}

tl::expected<UserOptions, std::string> parse_user_options(const char* text) {
  UserOptions options;
  std::string_view rest = text == nullptr || text == kBareInherited ? "" : text;
  if (rest == "off") {
    options.wish = UserOptions::Wish::kOff;
    return options;
  }
  options.wish = UserOptions::Wish::kOn;
  if (rest.empty() || rest == "on") return options;

  std::vector<std::string_view> seen;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != rest.npos;
    const std::string_view item = rest.substr(0, comma);
    if (more) rest.remove_prefix(comma + 1);
    const auto setting = split(item);
    if (!setting) {
      return tl::make_unexpected(
          quoted(item) + " is neither on, off (alone) nor key=value; the keys are " + kUserKeys);
    }
    std::string wrong = set_user_option(setting->key, setting->value, &options);
    if (wrong.empty() && !first_time(&seen, setting->key)) wrong = "the key is there twice";
    if (!wrong.empty()) {
      return tl::make_unexpected(quoted(setting->key) + ": " + wrong);
    }
  }
  if (std::string wrong = conflict(options); !wrong.empty()) {
    return tl::make_unexpected(wrong);
  }
  return options;
}

std::optional<Placement> placement_from_name(std::string_view name) {
  static constexpr std::string_view kNames[kPlacements] = {"off", "quiet", "warn", "strict"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Placement>(found - std::begin(kNames));
}

Placement wanted_placement(const SiteOptions& site, const UserOptions& user) {
  return user.placement.value_or(site.placement);
}

bool wants_profile(const SiteOptions& site, const UserOptions& user) {
  if (site.inject == Inject::kOff || user.wish == UserOptions::Wish::kOff) return false;
  return site.inject == Inject::kGpu || user.wish == UserOptions::Wish::kOn;
}

bool wants_count(const SiteOptions& site, const UserOptions& user) {
  return user.count.value_or(site.count);
}

}  // namespace mfu
