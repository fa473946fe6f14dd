// The SPANK plugin: hooks, each of which hands over to one function. A hook never fails a job,
// never throws into Slurm, and does nothing for a step without GPUs.
//
// What happens where (slurmstepd): task_post_fork runs as root in the parent before the first task
// may execute: spool folder and collector. task_init runs as the user in the task: environment.
// task_exit runs as root in the parent: the last one tells the collector. job_epilog picks up what
// a killed slurmstepd or collector has left.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugin/collector_link.hh"
#include "plugin/job_step.hh"
#include "plugin/options.hh"
#include "plugin/placement.hh"
#include "plugin/spank_gate.hh"
#include "plugin/spool.hh"
#include "plugin/step_plan.hh"
#include "profiler/model_flops.hh"

#define MFU_EXPORT extern "C" __attribute__((visibility("default")))

// SPANK_PLUGIN() would give these internal linkage in C++.
MFU_EXPORT const char plugin_name[] = "mfu";
MFU_EXPORT const char plugin_type[] = "spank";
MFU_EXPORT const unsigned int plugin_version = SLURM_VERSION_NUMBER;
MFU_EXPORT const unsigned int spank_plugin_version = 1;

namespace mfu {
namespace {

// FLOPs of a training step, from where model= was read to slurmstepd.
constexpr char kStepFlopsVariable[] = "MFU_STEP_FLOPS";
constexpr char kOptionName[] = "mfu-profile";
// How the option reaches a step whose srun was started by a batch script with --export=NONE, for
// which Slurm does not call the option's callback.
constexpr char kOptionVariable[] = "SLURM_SPANK__SLURM_SPANK_OPTION_mfu_mfu_profile";
constexpr char kPlacementOption[] = "mfu-placement";
constexpr char kPlacementVariable[] = "SLURM_SPANK__SLURM_SPANK_OPTION_mfu_mfu_placement";
// How long a task waits for its node's audit under --mfu-placement=strict.
constexpr int kVerdictWaitMs = 5000;
constexpr int kRefusedStatus = 78;  // sysexits.h: something is configured wrongly
// The longest that the end of a step may wait for the collector.
constexpr int kEndWaitMs = 2000;

struct Plugin {
  std::optional<SiteOptions> site;  // nothing: plugstack.conf is wrong, and we stay away
  UserOptions user;
  bool option_given = false;
  bool step_known = false;
  std::optional<StepPlan> plan;  // of a step that is profiled
  CollectorLink collector;
  uint32_t tasks_left = 0;
  uint32_t failed_tasks = 0;
};

Plugin& plugin() {
  static Plugin instance;
  return instance;
}

// The folder that this very library was loaded from: its companions lie there.
std::string own_folder() {
  Dl_info info;
  if (dladdr(&plugin_version, &info) == 0 || info.dli_fname == nullptr) return ".";
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

void read_site(int ac, char* argv[]) {
  auto site = parse_site_options(std::span(argv, static_cast<size_t>(ac)));
  if (!site) {
    slurm_error("mfu: %s; jobs run without slurm-mfu", site.error().c_str());
    return;
  }
  if (site->profiler.empty()) site->profiler = own_folder() + "/libmfu_profiler.so";
  if (site->collector.empty()) site->collector = own_folder() + "/mfu-collector";
  if (site->topo.empty()) site->topo = own_folder() + "/mfu-topo";
  plugin().site = *site;
}

// Nothing may escape a hook: an exception would kill slurmstepd.
template <typename Function>
int guarded(const char* hook, Function&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    slurm_error("mfu: %s: %s", hook, error.what());
  } catch (...) {
    slurm_error("mfu: %s: unknown error", hook);
  }
  return ESPANK_SUCCESS;
}

// Called twice in slurmstepd (argument NULL, then ""): the later call with a value wins.
int take_option(const char* argument, int remote) {
  auto user = parse_user_options(argument);
  if (!user) {
    if (remote != 0) return ESPANK_SUCCESS;
    slurm_error("--%s: %s", kOptionName, user.error().c_str());
    // Typed wrongly is refused. Inherited from a job that was submitted with another version of
    // this plugin is not: the job's srun must run.
    const char* inherited = getenv(kOptionVariable);
    const bool typed = inherited == nullptr || std::string_view(inherited) != argument;
    return typed ? ESPANK_ERROR : ESPANK_SUCCESS;
  }
  bool bare = argument == nullptr || argument[0] == '\0';
  if (bare && plugin().option_given) return ESPANK_SUCCESS;
  if (remote == 0 && !user->model.empty()) {
    // Here, with the user's rights: slurmstepd must not read a file that a user names.
    const auto flops = model_step_flops(*user);
    if (!flops) {
      slurm_error("--%s: %s", kOptionName, flops.error().c_str());
      return ESPANK_ERROR;
    }
    setenv(kStepFlopsVariable, to_text(*flops).c_str(), 1);
  }
  user->placement = plugin().user.placement;  // of an option of its own
  plugin().user = *user;
  plugin().option_given = true;
  if (remote == 0 && !user->keep.empty() && access(user->keep.c_str(), W_OK | X_OK) != 0) {
    slurm_error("--%s: keep=%s: %m on this host: unless the nodes have it, no record is kept",
                kOptionName, user->keep.c_str());
  }
  if (remote == 0 && plugin().site && plugin().site->inject == Inject::kOff &&
      user->wish == UserOptions::Wish::kOn) {
    slurm_error("--%s: this site has switched profiling off (inject=off)", kOptionName);
  }
  return ESPANK_SUCCESS;
}

int on_option(int, const char* argument, int remote) {
  int result = ESPANK_SUCCESS;
  guarded("option", [&] { result = take_option(argument, remote); });
  return result;
}

// Asks for the profile as well: the collector is who audits.
void take_placement(std::optional<Placement> placement) {
  UserOptions& user = plugin().user;
  user.placement = placement;
  if (placement > Placement::kOff && user.wish == UserOptions::Wish::kDefault) {
    user.wish = UserOptions::Wish::kOn;
  }
}

int on_placement(int, const char* argument, int remote) {
  int result = ESPANK_SUCCESS;
  guarded("option", [&] {
    if (argument == nullptr || argument[0] == '\0') return;
    const auto placement = placement_from_name(argument);
    if (placement) return take_placement(placement);
    if (remote != 0) return;
    slurm_error("--%s: must be off, quiet, warn or strict", kPlacementOption);
    result = ESPANK_ERROR;
  });
  return result;
}

void register_options(spank_t spank) {
  static char profile[] = "mfu-profile";
  static char profile_argument[] = "on|off|key=value,...";
  static spank_option profile_option = {
      profile, profile_argument, const_cast<char*>(kUserOptionHelp), 2, 0, on_option};
  spank_option_register(spank, &profile_option);
  static char placement[] = "mfu-placement";
  static char placement_argument[] = "off|quiet|warn|strict";
  static char placement_help[] =
      "audit where the job step's tasks, GPUs and network adapters are: tell it in accounting only "
      "(quiet), also on standard error (warn), or start no task where it is bad (strict)";
  static spank_option placement_option = {placement, placement_argument, placement_help, 1,
                                          0,         on_placement};
  spank_option_register(spank, &placement_option);
}

// Once per slurmstepd and once per task process (each has its own copy after the fork).
void know_step(spank_t spank) {
  Plugin& self = plugin();
  if (self.step_known || !self.site) return;
  self.step_known = true;
  if (!self.option_given) {
    if (auto text = step_variable(spank, kOptionVariable)) {
      if (auto user = parse_user_options(text->c_str())) {
        user->placement = self.user.placement;
        if (user->wish == UserOptions::Wish::kDefault) user->wish = self.user.wish;
        self.user = *user;
      }
    }
  }
  if (!self.user.placement) {
    if (auto text = step_variable(spank, kPlacementVariable)) {
      take_placement(placement_from_name(*text));
    }
  }
  if (!self.user.model.empty()) {
    if (auto flops = step_variable(spank, kStepFlopsVariable)) {
      if (auto told = parse_user_options(("flops-per-step=" + *flops).c_str())) {
        self.user.flops_per_step = told->flops_per_step;
      }
    }
  }
  if (!wants_profile(*self.site, self.user)) return;
  self.plan = read_step(spank, *self.site, self.user);
}

void before_tasks(spank_t spank) {
  Plugin& self = plugin();
  if (self.step_known) return;
  know_step(spank);
  if (!self.plan) return;
  StepPlan& plan = *self.plan;
  spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &self.tasks_left);
  plan.tasks = self.tasks_left;
  plan.confined = devices_are_confined();
  gid_t gid = 0;
  spank_get_item(spank, S_JOB_GID, &gid);
  plan.gid = gid;
  if (access(plan.site.profiler.c_str(), R_OK) != 0) plan.no_records = "not-loaded";
  if (injection_slot_taken(spank)) plan.no_records = "slot-taken";
  if (auto created = create_spool(plan, gid); created) {
    remove_verdict(plan);
    store_plan(plan);
  } else {
    slurm_info("mfu: %s: %s: this step is not profiled", plan.folder.c_str(),
               created.error().c_str());
    plan.no_records = created.error();
    remove_spool(plan);
    plan.folder.clear();
  }
  if (!self.collector.start(plan)) {
    slurm_info("mfu: cannot start %s: %m: nothing is written for this step",
               plan.site.collector.c_str());
    remove_spool(plan);  // nobody would
  }
}

// False: nobody will hear of it.
bool tell_place(spank_t spank, const StepPlan& plan) {
  TaskNote note;
  spank_get_item(spank, S_TASK_GLOBAL_ID, &note.rank);
  int local_rank = 0;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  note.local_rank = static_cast<uint32_t>(std::max(local_rank, 0));
  for (const char* name : kNotedVariables) {
    if (auto value = step_variable(spank, name)) note.environment[name] = *value;
  }
  return leave_note(plan, note);
}

// A plugin that plugstack.conf has as optional cannot refuse a task by its hook's result: the task
// ends itself, before the user's program is in it.
void wait_for_verdict(spank_t spank, const StepPlan& plan) {
  for (int waited = 0; waited < kVerdictWaitMs; waited += 10) {
    if (const auto verdict = read_verdict(plan)) {
      if (!verdict->refused) return;
      int local_rank = 0;
      spank_get_item(spank, S_TASK_ID, &local_rank);
      if (local_rank == 0) {
        std::fprintf(stderr, "%sslurm-mfu: --%s=strict: no task starts on %s%s\n",
                     verdict->text.c_str(), kPlacementOption, plan.node.c_str(),
                     plan.nodes > 1 ? "; --kill-on-bad-exit=1 ends those of other nodes" : "");
      }
      _exit(kRefusedStatus);
    }
    usleep(10'000);
  }
  slurm_info("mfu: placement: no verdict within %d ms: the task starts", kVerdictWaitMs);
}

void in_task(spank_t spank) {
  Plugin& self = plugin();
  self.step_known = false;  // the parent may have read it before this task's environment was known
  know_step(spank);
  if (!self.plan) {
    // Started by a profiled batch step, it would report into that step's records.
    forget_injection(spank);
    return;
  }
  const Placement placement = wanted_placement(*self.site, self.user);
  if (placement != Placement::kOff && !self.plan->batch && tell_place(spank, *self.plan) &&
      placement == Placement::kStrict) {
    wait_for_verdict(spank, *self.plan);
  }
  if (!injection_slot_taken(spank)) {
    inject(spank, *self.plan);
  }
}

void after_task(spank_t spank) {
  Plugin& self = plugin();
  if (!self.plan || self.tasks_left == 0) return;
  int status = 0;
  if (spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS || status != 0) {
    ++self.failed_tasks;
  }
  if (--self.tasks_left == 0) self.collector.step_ended(self.failed_tasks, kEndWaitMs);
}

// The epilog runs in a process of its own, on every node of the job; init is not called there.
void after_job(spank_t spank, int ac, char* argv[]) {
  uint32_t job = 0;
  read_site(ac, argv);
  if (!plugin().site || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return;
  const char* node = getenv("SLURMD_NODENAME");
  if (node == nullptr) return;
  const SiteOptions& site = *plugin().site;
  for (const StepPlan& plan : left_plans(site.spool, node)) {
    // Usually each is claimed by its collector.
    if (!FolderClaim(plan).held()) continue;
    start_takeover(site.collector, site.spool, node, job);
    return;
  }
}

}  // namespace
}  // namespace mfu

MFU_EXPORT int slurm_spank_init(spank_t spank, int ac, char* argv[]) {
  return mfu::guarded("init", [&] {
    mfu::read_site(ac, argv);
    if (spank_context() != S_CTX_SLURMD) mfu::register_options(spank);
  });
}

MFU_EXPORT int slurm_spank_task_post_fork(spank_t spank, int, char**) {
  return mfu::guarded("task_post_fork", [&] { mfu::before_tasks(spank); });
}

MFU_EXPORT int slurm_spank_task_init(spank_t spank, int, char**) {
  return mfu::guarded("task_init", [&] { mfu::in_task(spank); });
}

MFU_EXPORT int slurm_spank_task_exit(spank_t spank, int, char**) {
  return mfu::guarded("task_exit", [&] { mfu::after_task(spank); });
}

MFU_EXPORT int slurm_spank_job_epilog(spank_t spank, int ac, char* argv[]) {
  return mfu::guarded("job_epilog", [&] { mfu::after_job(spank, ac, argv); });
}
