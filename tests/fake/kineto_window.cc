#include "tests/fake/kineto_window.hh"

#include <dlfcn.h>

#include <cmath>
#include <stdexcept>

#include "tests/fake/kineto_client.hh"

namespace mfu::fake {
namespace {

template <typename Function>
Function find(void* library, const char* name) {
  auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(dlerror());
  return function;
}

void check(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string(what) + ": " + std::to_string(result));
}

}  // namespace

KinetoWindow::KinetoWindow(int from, int steps) : from_(from), steps_(steps) {
  if (from < 0) return;
  library_ = dlopen("libkineto_client.so", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw std::runtime_error(dlerror());
}

void KinetoWindow::submitted(const GpuOperation& operation) {
  if (!open_ || operation.work == GpuWork::kMemcpyPeer) return;
  if (operation.work == GpuWork::kKernel) ++kernels_;
  if (operation.work == GpuWork::kMemcpy) ++copies_;
  if (operation.work == GpuWork::kMemset) ++fills_;
  busy_ns_ += operation.end_ns - operation.start_ns;
}

void KinetoWindow::start() {
  check(find<decltype(&kinetoStart)>(library_, "kinetoStart")(), "kinetoStart");
  open_ = true;
}

void KinetoWindow::stop() {
  open_ = false;
  check(find<decltype(&kinetoStop)>(library_, "kinetoStop")(), "kinetoStop");
  KinetoProfile profile;
  find<decltype(&kinetoCollect)>(library_, "kinetoCollect")(&profile);
  check(profile.failure, "kinetoCollect");
  auto expect = [](uint64_t value, uint64_t expected, const char* what) {
    if (value == expected) return;
    throw std::runtime_error("the user's profile has " + std::to_string(value) + " " + what +
                             ", not " + std::to_string(expected));
  };
  expect(profile.kernels, kernels_, "kernels");
  expect(profile.copies, copies_, "copies");
  expect(profile.fills, fills_, "fills");
  expect(profile.others, 0, "records of other kinds");
  expect(profile.foreign_clock, 0, "records by another clock");
  expect(profile.foreign_buffers, 0, "buffers of others");
  expect(profile.outstanding, 0, "buffers that did not come back");
  // Its clock is converted twice, from readings of it: to a thousandth.
  double busy_ns = static_cast<double>(busy_ns_);
  if (std::abs(static_cast<double>(profile.busy_ns) - busy_ns) > busy_ns / 1000) {
    expect(profile.busy_ns, busy_ns_, "ns of operations");
  }
}

}  // namespace mfu::fake
