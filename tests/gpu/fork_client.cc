// fork_client N: fills memory N times on the GPU, forks a child that ends by exit() at once, and
// fills it N times more. Ends with the child's exit status, or 3 when the child has not ended in 20
// s.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "fork_client: %s\n", cudaGetErrorString(result));
  std::exit(4);
}

void fill(void* memory, int times) {
  for (int i = 0; i < times; ++i) check(cudaMemset(memory, i, 1 << 20));
  check(cudaDeviceSynchronize());
}

int status_of(pid_t child) {
  for (int i = 0; i < 2000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
    }
    usleep(10'000);
  }
  kill(child, SIGKILL);
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::atoi(argv[1]) : 100;
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  void* memory = nullptr;
  check(cudaMalloc(&memory, 1 << 20));
  fill(memory, times);
  const pid_t child = fork();
  if (child < 0) return 4;
  if (child == 0) std::exit(0);  // with all handlers that libraries registered
  const int status = status_of(child);
  fill(memory, times);
  return status;
}
