// A library to inject that does wrong what MFU_PLANTED_BUG says. It is compiled and linked as
// libmfu_profiler.so is: what a sanitizer sees here, it would see there.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

namespace {

constinit int shared = 0;
constinit std::atomic<bool> written{false};
constinit int numbers[4] = {1, 2, 3, 4};
constinit volatile int four = 4;
constinit volatile int largest = 0x7fffffff;
constinit volatile int sink = 0;
constinit pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
constinit pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;

void* write_shared(void*) {
  ++shared;
  written.store(true, std::memory_order_relaxed);
  return nullptr;
}

// The thread is detached and its creation has the old symbol version, as the worker's.
void race() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, write_shared, nullptr) != 0) return;
  ++shared;
  while (!written.load(std::memory_order_relaxed)) {
  }
}

void lock_in_both_orders() {
  pthread_mutex_lock(&first);
  pthread_mutex_lock(&second);
  pthread_mutex_unlock(&second);
  pthread_mutex_unlock(&first);
  pthread_mutex_lock(&second);
  pthread_mutex_lock(&first);
  pthread_mutex_unlock(&first);
  pthread_mutex_unlock(&second);
}

// Through a pointer whose array the compiler does not know: the address sanitizer's to find.
void overrun(int* array) {
  int* volatile unknown = array;
  sink = unknown[four];
}

void overrun_stack() {
  int local[4] = {four, four, four, four};
  overrun(local);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* bug = getenv("MFU_PLANTED_BUG");
  if (bug == nullptr) return 1;
  if (strcmp(bug, "race") == 0) race();
  if (strcmp(bug, "lock-order") == 0) lock_in_both_orders();
  if (strcmp(bug, "global") == 0) overrun(numbers);
  if (strcmp(bug, "stack") == 0) overrun_stack();
  if (strcmp(bug, "overflow") == 0) sink = largest + four;
  return 1;
}
