// train's --kineto-*: some of its steps under a profiler of its own, as torch.profiler is used.
#ifndef MFU_TESTS_FAKE_KINETO_WINDOW_HH_
#define MFU_TESTS_FAKE_KINETO_WINDOW_HH_

#include <cstdint>
#include <string>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

class KinetoWindow {
 public:
  // From step `from` on, `steps` steps; from < 0: never. Loads the client's library now, as a
  // program that is linked with it. Throws std::runtime_error, as all of it.
  KinetoWindow(int from, int steps);

  // Before a step: starts, or waits until the device is done, stops, and checks that the profile
  // has every operation that was submitted in between, and nothing else.
  template <typename Synchronize>
  void before_step(int step, Synchronize&& synchronize) {
    if (from_ < 0) return;
    if (step == from_) start();
    if (step != from_ + steps_) return;
    synchronize();
    stop();
  }
  void submitted(const GpuOperation& operation);

 private:
  void start();
  void stop();

  int from_;
  int steps_;
  void* library_ = nullptr;
  bool open_ = false;
  uint64_t kernels_ = 0;
  uint64_t copies_ = 0;
  uint64_t fills_ = 0;
  uint64_t busy_ns_ = 0;
};

}  // namespace mfu::fake

#endif
