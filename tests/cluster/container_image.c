/* A SPANK plugin that puts a task into a user container, as pyxis does with enroot: in task_init,
 * as the task's user, in a user and a mount namespace of its own. The image has nothing below the
 * folders of IMAGE_HIDES (tmpfs), save for those of IMAGE_MOUNTS, which are mounted from outside.
 * Both are lists with colons, in the environment of the job. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(container_image, 1)

enum { kMost = 8 };

/* Cuts a list in place. */
static int split(char* list, char* items[kMost]) {
  int count = 0;
  char* rest = list;
  for (char* item; count < kMost && (item = strsep(&rest, ":")) != NULL;) {
    if (*item != '\0') items[count++] = item;
  }
  return count;
}

static int write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY);
  if (file < 0) return -1;
  const ssize_t written = write(file, text, strlen(text));
  close(file);
  return written == (ssize_t)strlen(text) ? 0 : -1;
}

static int enter(char* hidden[], int hides, char* mounted[], int mounts) {
  char uid_map[64], gid_map[64], from[64];
  int outside[kMost];
  snprintf(uid_map, sizeof(uid_map), "%u %u 1", geteuid(), geteuid());
  snprintf(gid_map, sizeof(gid_map), "%u %u 1", getegid(), getegid());
  /* slurmstepd has just become the user: until an exec its /proc/self is root's. */
  prctl(PR_SET_DUMPABLE, 1);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return -1;
  if (write_file("/proc/self/setgroups", "deny") != 0) return -1;
  if (write_file("/proc/self/uid_map", uid_map) != 0) return -1;
  if (write_file("/proc/self/gid_map", gid_map) != 0) return -1;
  for (int i = 0; i < mounts; ++i) {
    outside[i] = open(mounted[i], O_PATH | O_DIRECTORY);
    if (outside[i] < 0) return -1;
  }
  for (int i = 0; i < hides; ++i) {
    if (mount("image", hidden[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) return -1;
  }
  for (int i = 0; i < mounts; ++i) {
    snprintf(from, sizeof(from), "/proc/self/fd/%d", outside[i]);
    if (mkdir(mounted[i], 0755) != 0) return -1;
    if (mount(from, mounted[i], NULL, MS_BIND | MS_REC, NULL) != 0) return -1;
    close(outside[i]);
  }
  return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char* av[]) {
  char hides[1024], mounts[1024] = "";
  char *hidden[kMost], *mounted[kMost];
  (void)ac, (void)av;
  if (spank_getenv(spank, "IMAGE_HIDES", hides, sizeof(hides)) != ESPANK_SUCCESS) return 0;
  spank_getenv(spank, "IMAGE_MOUNTS", mounts, sizeof(mounts));
  const int hidden_count = split(hides, hidden);
  if (enter(hidden, hidden_count, mounted, split(mounts, mounted)) == 0) return 0;
  fprintf(stderr, "container_image: %s\n", strerror(errno));
  return -1;
}
