/* Preloaded into a workload (LD_PRELOAD), makes it behave as some programs do. ODD names how:
 *   closes   a thread closes every descriptor above 2, again and again
 *   blocks   all signals are blocked
 *   term     SIGTERM is handled, by exit(3)
 *   threads  eight threads call cuInit at the same time
 *   unload   the profiler is loaded, initialised and unloaded by somebody else before
 *   clone    a child made by a bare clone() calls exit()
 *   kineto   profiles itself as torch.profiler does: other callbacks, and in the end no activity at
 * all alone    no thread may be created by the profiler */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t together;

static void* close_descriptors(void* unused) {
  (void)unused;
  // Not while libraries are being read: what is closed then is the loader's, and another libcupti of
  // this machine may take the fake one's place.
  for (int wait = 0; wait < 500 && dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD) == NULL; ++wait) {
    usleep(10000);
  }
  for (int round = 0; round < 20; ++round) {
    usleep(10000);
    for (int fd = 3; fd < 256; ++fd) close(fd);
  }
  return NULL;
}

static void* initialize_cuda(void* unused) {
  (void)unused;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*initialize)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  pthread_barrier_wait(&together);
  initialize(0);
  return NULL;
}

static void* clone_and_exit(void* unused) {
  (void)unused;
  usleep(150000);
  long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) exit(0);
  usleep(1000000);
  if (waitpid((pid_t)child, NULL, WNOHANG) != child) _exit(9);
  return NULL;
}

static void on_requested(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 1 << 20;
  *buffer = calloc(1, *size);
  *records = 0;
}

static void on_completed(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                         size_t valid) {
  (void)context, (void)stream, (void)buffer, (void)size, (void)valid;
}

static void* profile_itself(void* unused) {
  (void)unused;
  void* cupti = NULL;
  for (int wait = 0; wait < 3000 && cupti == NULL; ++wait) {
    usleep(10000);
    cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  }
  if (cupti == NULL) _exit(9);
  usleep(600000);  // and at work
  ((int (*)(void*, void*))dlsym(cupti, "cuptiActivityRegisterCallbacks"))(on_requested,
                                                                          on_completed);
  usleep(300000);
  int (*disable)(int) = (int (*)(int))dlsym(cupti, "cuptiActivityDisable");
  for (int kind = 0; kind < 32; ++kind) disable(kind);
  return NULL;
}

static void on_term(int signal) {
  (void)signal;
  exit(3);
}

static void in_thread(void* (*function)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, NULL);
  pthread_detach(thread);
}

__attribute__((constructor)) static void begin(void) {
  const char* odd = getenv("ODD");
  if (odd == NULL) return;
  unsetenv("LD_PRELOAD");
  if (strcmp(odd, "closes") == 0) in_thread(close_descriptors);
  if (strcmp(odd, "kineto") == 0) in_thread(profile_itself);
  if (strcmp(odd, "clone") == 0) in_thread(clone_and_exit);
  if (strcmp(odd, "term") == 0) signal(SIGTERM, on_term);
  if (strcmp(odd, "blocks") == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
  }
  if (strcmp(odd, "threads") == 0) {
    pthread_t threads[8];
    pthread_barrier_init(&together, NULL, 8);
    for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, initialize_cuda, NULL);
    for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  }
  if (strcmp(odd, "unload") == 0) {
    void* profiler = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL);
    if (profiler == NULL) abort();
    ((int (*)(void))dlsym(profiler, "InitializeInjection"))();
    dlclose(profiler);
  }
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (real == NULL) real = dlsym(RTLD_NEXT, "pthread_create");
  const char* odd = getenv("ODD");
  Dl_info caller;
  if (odd != NULL && strcmp(odd, "alone") == 0 &&
      dladdr(__builtin_return_address(0), &caller) != 0 &&
      strstr(caller.dli_fname, "libmfu_profiler") != NULL) {
    return EAGAIN;
  }
  return real(thread, attributes, function, argument);
}
