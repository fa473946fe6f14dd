// A SPANK plugin that stands between Slurm and another one, and writes down what each of the
// other's hooks takes, loading it included. In plugstack.conf:
//
//   optional spank_clock.so FILE PLUGIN [arguments of PLUGIN]
//
// Slurmstepd and its tasks append a line a hook to FILE, which all of them may write to:
//
//   JOB STEP HOOK WALL CPU      STEP is "-" in the epilog; nanoseconds, CPU time is the thread's
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

#define MFU_EXPORT extern "C" __attribute__((visibility("default")))

MFU_EXPORT const char plugin_name[] = "spank_clock";
MFU_EXPORT const char plugin_type[] = "spank";
MFU_EXPORT const unsigned int plugin_version = SLURM_VERSION_NUMBER;
MFU_EXPORT const unsigned int spank_plugin_version = 1;

namespace {

uint64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Of srun, salloc and slurmd nothing is written.
void write_down(spank_t spank, const char* file, const char* hook, uint64_t wall_ns,
                uint64_t cpu_ns) {
  const spank_context_t context = spank_context();
  uint32_t job = 0;
  uint32_t step = 0;
  const bool in_step = context == S_CTX_REMOTE;
  if (!in_step && context != S_CTX_JOB_SCRIPT) return;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return;
  if (in_step && spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS) return;
  const std::string line = std::to_string(job) + " " + (in_step ? std::to_string(step) : "-") +
                           " " + hook + " " + std::to_string(wall_ns) + " " +
                           std::to_string(cpu_ns) + "\n";
  const int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, line.data(), line.size()) < 0) slurm_error("spank_clock: %s: %m", file);
  close(fd);
}

int pass_on(const char* hook, spank_t spank, int ac, char* argv[]) {
  if (ac < 2) return ESPANK_SUCCESS;
  const uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);
  const uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  static void* const library = dlopen(argv[1], RTLD_LAZY);
  if (library == nullptr) {
    slurm_error("spank_clock: %s", dlerror());
    return ESPANK_SUCCESS;
  }
  const auto function = reinterpret_cast<spank_f*>(dlsym(library, hook));
  const int result = function == nullptr ? ESPANK_SUCCESS : function(spank, ac - 2, argv + 2);
  write_down(spank, argv[0], hook, now_ns(CLOCK_MONOTONIC) - wall_ns,
             now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
  return result;
}

}  // namespace

MFU_EXPORT int slurm_spank_init(spank_t spank, int ac, char* argv[]) {
  return pass_on("slurm_spank_init", spank, ac, argv);
}
MFU_EXPORT int slurm_spank_task_post_fork(spank_t spank, int ac, char* argv[]) {
  return pass_on("slurm_spank_task_post_fork", spank, ac, argv);
}
MFU_EXPORT int slurm_spank_task_init(spank_t spank, int ac, char* argv[]) {
  return pass_on("slurm_spank_task_init", spank, ac, argv);
}
MFU_EXPORT int slurm_spank_task_exit(spank_t spank, int ac, char* argv[]) {
  return pass_on("slurm_spank_task_exit", spank, ac, argv);
}
MFU_EXPORT int slurm_spank_job_epilog(spank_t spank, int ac, char* argv[]) {
  return pass_on("slurm_spank_job_epilog", spank, ac, argv);
}
