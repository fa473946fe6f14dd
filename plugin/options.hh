// What the site (plugstack.conf) and the user (--mfu-profile) ask for.
//
//   plugstack: optional spank_mfu.so inject=gpu|ask|off field=admin_comment|comment update=SECONDS
//              spool=DIR budget=PERCENT ports=FIRST-LAST profiler=PATH collector=PATH cupti=PATH
//              munge=SOCKET log=PATH peaks=FILE estimate=on|off count=on|off
//              placement=off|quiet|warn|strict topo=PATH node-map=FILE fabric=FILE
//              fabric-names=FILE
//   user:      --mfu-profile[=on|off|key=value,...]
//              keys: flops, flops-per-step, model, batch, seq, steps, precision, step-kernel,
//              step-range, keep, nvtx, nccl, count, sensors
//              --mfu-placement=off|quiet|warn|strict
#ifndef MFU_PLUGIN_OPTIONS_HH_
#define MFU_PLUGIN_OPTIONS_HH_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "profiler/kernel.hh"

namespace mfu {

enum class Inject {
  kGpu,  // every GPU step, unless the user says off
  kAsk,  // only where the user says --mfu-profile (default)
  kOff,  // never
};

// What is done about where a step's tasks sit.
enum class Placement : uint8_t {
  kOff,     // nothing
  kQuiet,   // audited: `place=` in the line
  kWarn,    // and findings on the step's standard error (default)
  kStrict,  // and where it is bad (placement.hh: refuses) no task starts
};
inline constexpr int kPlacements = 4;
// "off", "quiet", "warn", "strict"; nothing for another name.
std::optional<Placement> placement_from_name(std::string_view name);

enum class Field { kAdminComment, kComment };

struct SiteOptions {
  Inject inject = Inject::kAsk;
  Field field = Field::kAdminComment;
  uint32_t update_seconds = 60;  // between interim lines, at least 10; 0: no interim lines
  std::string spool = "/var/spool/slurm-mfu";
  double budget_percent = 1.0;  // the profiler stands down above this cost
  uint16_t first_port = 61000;  // the collectors' range, TCP: above Linux's ephemeral ports
  uint16_t last_port = 61999;
  std::string profiler;   // libmfu_profiler.so; default: beside the plugin
  std::string collector;  // mfu-collector; default: beside the plugin
  std::string cupti;      // libcupti for processes that have none; empty: search
  std::string munge;      // munged's socket; empty: libmunge's default
  std::string log;        // where collectors report trouble; empty: syslog
  std::string peaks;      // peaks of further devices (profiler/peak_additions.hh); empty: none
  bool estimate = false;  // estimated peaks for devices that nobody states one for
  bool count = true;      // count the FLOPs of cuBLAS calls, where the user does not say
  Placement placement = Placement::kWarn;
  std::string topo;          // mfu-topo; default: beside the plugin
  std::string node_map;      // a node's topology (hwloc's or NCCL's XML); empty: discovered
  std::string fabric;        // snapshot of the InfiniBand fabric; empty: none
  std::string fabric_names;  // its adapters' node names; empty: by their descriptions
};

// An unknown or broken argument is an error that names it ("plugstack argument 'update=x': ...").
tl::expected<SiteOptions, std::string> parse_site_options(std::span<char* const> arguments);

struct UserOptions {
  enum class Wish { kDefault, kOn, kOff } wish = Wish::kDefault;
  // Declared model FLOPs of the whole job step, all GPUs together; 0: not declared.
  unsigned __int128 flops = 0;
  unsigned __int128 flops_per_step = 0;
  uint64_t steps = 0;  // training steps of the job step
  // Instead of flops_per_step: a model's shape (profiler/model_config.hh) and what a training step
  // works on, all GPUs together. The file is read where the user's command runs.
  std::string model;
  uint64_t batch = 0;  // sequences
  uint64_t seq = 0;    // tokens of a sequence
  Precision precision = Precision::kUnknown;
  // How training steps are told apart, where that is not left to their periodicity.
  std::string step_kernel;             // a part of the name of a kernel that runs once a step
  std::string step_range;              // the name of the NVTX range around a step; implies nvtx
  bool nvtx = false;                   // take NVTX's injection slot, to see ranges
  bool nccl = false;                   // take NCCL's profiler slot, to see bytes and communicators
  std::optional<bool> count;           // count the FLOPs of cuBLAS calls; else as the site says
  std::optional<Placement> placement;  // else the site's
  bool sensors = true;                 // read NVML's: power, clocks, temperature
  std::string keep;  // folder of the user's for the records after the step; empty: none

  // flops, or flops_per_step * steps; 0 when not declared.
  unsigned __int128 declared_flops() const;
};

// Bounds of what a job declares: far above any job, below what the line's sums hold.
inline constexpr unsigned __int128 kMostDeclaredFlops =
    (unsigned __int128){1'000'000'000'000'000} * 1'000'000'000'000'000;
inline constexpr uint64_t kMostDeclaredSteps = 1'000'000'000'000;

// `text` is nullptr, empty or, handed on by Slurm, "(null)" for a bare --mfu-profile, which means
// on. Numbers may have an exponent (1.5e18) or a suffix T, P, E (10^12, 10^15, 10^18) and become
// exact integers. flops and flops-per-step exclude each other; flops-per-step needs steps; steps
// alone gives the step time. Errors name the key and what would be right.
tl::expected<UserOptions, std::string> parse_user_options(const char* text);

// FLOPs of a training step of options.model, attention in full. The error names the file.
tl::expected<unsigned __int128, std::string> model_step_flops(const UserOptions& options);

// The text of --mfu-profile's help.
extern const char kUserOptionHelp[];

// Whether a step with GPUs is to be profiled.
bool wants_profile(const SiteOptions& site, const UserOptions& user);
// What is done about the placement of such a step.
Placement wanted_placement(const SiteOptions& site, const UserOptions& user);
// Whether its calls of cuBLAS are to be counted.
bool wants_count(const SiteOptions& site, const UserOptions& user);

}  // namespace mfu

#endif
