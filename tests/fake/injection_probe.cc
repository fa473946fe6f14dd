// An injected library that only notes down that it was called: appends "<pid> <result>" to the file
// in FAKE_INJECTION_LOG, the result being that of cuDeviceGetName while cuInit is still running.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  auto name = reinterpret_cast<decltype(&cuDeviceGetName)>(dlsym(driver, "cuDeviceGetName"));
  char text[64];
  int result = name(text, sizeof(text), 0);
  std::FILE* log = std::fopen(std::getenv("FAKE_INJECTION_LOG"), "a");
  std::fprintf(log, "%d %d\n", getpid(), result);
  std::fclose(log);
  return 1;
}
