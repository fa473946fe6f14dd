#include "plugin/job_step.hh"

#include <slurm/slurm.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "plugin/spool.hh"
#include "plugin/step_set.hh"
#include "profiler/record.hh"

namespace mfu {
namespace {

constexpr char kInjectionVariable[] = "CUDA_INJECTION64_PATH";
constexpr char kNvtxVariable[] = "NVTX_INJECTION64_PATH";
constexpr char kNcclVariable[] = "NCCL_PROFILER_PLUGIN";
constexpr uint32_t kMostGpus = 1024;  // of a node; more is no list of GPUs
// The number of nodes comes from srun, that is, from the user, and root's memory depends on it.
constexpr uint32_t kMostNodes = 65536;
constexpr char kProfilerName[] = "libmfu_profiler.so";

template <typename Number>
bool item(spank_t spank, spank_item_t what, Number* out) {
  return spank_get_item(spank, what, out) == ESPANK_SUCCESS;
}

// The number of devices in a list like "0,1,2" or "0-3".
uint32_t count_devices(std::string_view list) {
  uint32_t count = 0;
  while (!list.empty()) {
    std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    uint32_t first = 0;
    uint32_t last = 0;
    const char* end = part.data() + part.size();
    auto begin = std::from_chars(part.data(), end, first);
    bool range = begin.ptr != end && *begin.ptr == '-' &&
                 std::from_chars(begin.ptr + 1, end, last).ec == std::errc() && last >= first;
    if (!part.empty()) count += range ? last - first + 1 : 1;
  }
  return count;
}

// An outer step's value is inherited by the steps that it starts: that one is ours to renew.
bool is_ours(std::string_view path) {
  return path == kProfilerName || path.ends_with(std::string("/") + kProfilerName);
}

}  // namespace

std::optional<std::string> step_variable(spank_t spank, const char* name) {
  char value[8192];
  if (spank_getenv(spank, name, value, sizeof(value)) != ESPANK_SUCCESS) return std::nullopt;
  return std::string(value);
}

std::optional<StepPlan> read_step(spank_t spank, const SiteOptions& site, const UserOptions& user) {
  StepPlan plan;
  plan.site = site;
  plan.user = user;
  uid_t uid = 0;
  if (!item(spank, S_JOB_ID, &plan.job) || !item(spank, S_JOB_STEPID, &plan.step) ||
      !item(spank, S_JOB_UID, &uid)) {
    return std::nullopt;
  }
  plan.uid = uid;
  plan.batch = leaves_work_to_steps(plan.step);
  // The batch step has its GPUs in another variable, which inner steps inherit: there it misleads.
  auto gpus = step_variable(spank, plan.batch ? "SLURM_JOB_GPUS" : "SLURM_STEP_GPUS");
  plan.gpus = gpus ? std::min(count_devices(*gpus), kMostGpus) : 0;
  plan.allocated = gpus.value_or("");
  if (plan.gpus == 0) return std::nullopt;
  // The item is set for batch steps only; the variable reaches the steps that a batch script
  // starts.
  item(spank, S_SLURM_RESTART_COUNT, &plan.restart);
  if (auto count = step_variable(spank, "SLURM_RESTART_COUNT")) {
    plan.restart =
        std::max(plan.restart, static_cast<uint32_t>(std::strtoul(count->c_str(), nullptr, 10)));
  }
  plan.run = plan.restart;
  item(spank, S_JOB_NODEID, &plan.node_id);
  item(spank, S_JOB_NNODES, &plan.nodes);
  plan.nodes = std::clamp(plan.nodes, 1u, kMostNodes);
  uint32_t array_job = 0;
  uint32_t array_task = 0;
  if (item(spank, S_JOB_ARRAY_ID, &array_job) && array_job != 0 &&
      item(spank, S_JOB_ARRAY_TASK_ID, &array_task) && array_task != NO_VAL) {
    plan.array_job = array_job;
    plan.array_task = array_task;
  }
  if (plan.batch) {
    plan.nodes = 1;  // a batch script runs on the job's first node alone
    plan.node_id = 0;
  }
  plan.started_ns = wall_clock_ns();
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  // slurmstepd's own environment, not the step's: the user must not choose a path's part.
  const char* node = getenv("SLURMD_NODENAME");
  plan.node = node != nullptr ? node : host;
  plan.node_list = step_variable(spank, "SLURM_STEP_NODELIST")
                       .value_or(step_variable(spank, "SLURM_NODELIST").value_or(plan.node));
  plan.folder = step_folder(plan);
  return plan;
}

bool injection_slot_taken(spank_t spank) {
  auto path = step_variable(spank, kInjectionVariable);
  return path && !path->empty() && !is_ours(*path);
}

void forget_injection(spank_t spank) {
  for (const char* name : {kInjectionVariable, kNvtxVariable, kNcclVariable}) {
    if (auto path = step_variable(spank, name); path && is_ours(*path)) spank_unsetenv(spank, name);
  }
  for (const char* name :
       {kRecordFolderVariable, kBudgetVariable, kCuptiVariable, kKeepVariable, kSensorsVariable,
        kCountVariable, kStepKernelVariable, kStepRangeVariable}) {
    spank_unsetenv(spank, name);
  }
}

void inject(spank_t spank, const StepPlan& plan) {
  auto set = [&](const char* name, const std::string& value) {
    spank_setenv(spank, name, value.c_str(), 1);
  };
  forget_injection(spank);  // an outer step's
  std::string records = records_folder(plan.folder);
  // A container may not have what the host has: then it runs without us.
  if (access(plan.site.profiler.c_str(), R_OK) != 0 || access(records.c_str(), W_OK) != 0) return;
  set(kInjectionVariable, plan.site.profiler);
  set(kRecordFolderVariable, records);
  set(kBudgetVariable, std::to_string(plan.site.budget_percent));
  const auto set_if = [&](const std::string& value, const char* name) {
    if (!value.empty()) set(name, value);
  };
  set_if(plan.site.cupti, kCuptiVariable);
  set_if(plan.user.keep, kKeepVariable);
  set_if(plan.user.sensors ? "" : "off", kSensorsVariable);
  set_if(wants_count(plan.site, plan.user) ? "" : "off", kCountVariable);
  set_if(plan.user.step_kernel, kStepKernelVariable);
  set_if(plan.user.step_range, kStepRangeVariable);
  // One library each: the user's own stays.
  const auto take_slot = [&](bool wanted, const char* name, const std::string& library) {
    if (wanted && !step_variable(spank, name)) set(name, library);
  };
  take_slot(plan.user.nvtx, kNvtxVariable, plan.site.profiler);
  // By name: NCCL 2.27 makes another name of a path. CUDA has mapped the library by then.
  take_slot(plan.user.nccl, kNcclVariable, kProfilerName);
}

}  // namespace mfu
