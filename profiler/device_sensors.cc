#include "profiler/device_sensors.hh"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "profiler/clock_ns.hh"
#include "profiler/nvml_gate.hh"
#include "profiler/worker_thread.hh"

namespace mfu::device_sensors {
namespace {

constexpr uint64_t kEveryNs = 1'000'000'000;
constexpr uint64_t kShare = 100;  // of the time, that NVML may take
constexpr uint64_t kGpmApartNs = 100'000'000;
constexpr uint32_t kLoadedPercent = 50;  // of the time kernels run: the device is under load
constexpr uint64_t kLastWordNs = 100'000'000;
constexpr uint64_t kForkWaitNs = 20'000'000;
constexpr uint64_t kPollNs = 200'000;
constexpr int kTries = 1000;           // to copy sums while they are not being written
constexpr uint32_t kMostSearches = 3;  // for a device

struct Watched {
  // Of the worker, until `wanted`.
  char pci_bus_id[24];
  uint8_t uuid[16];
  std::atomic<bool> wanted;
  // Of our thread.
  bool found;
  uint32_t searches;
  nvml::Device device;
  uint64_t gpm_at_ns;
  SensorReading reading;  // the last one
  SensorFold fold;
  // What is published: whole while `version` is even and does not change.
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> words[sizeof(SensorSums) / sizeof(uint64_t)];
};
static_assert(sizeof(SensorSums) % sizeof(uint64_t) == 0);

constinit Watched watched[kMostDevices] = {};
constinit bool started = false;               // of the worker
constinit std::atomic<uint32_t> bell{0};      // there is something new
constinit std::atomic<bool> stop{false};      // one last reading
constinit std::atomic<bool> done{false};      // it has been
constinit std::atomic<bool> inside{false};    // calls may be under way
constinit std::atomic<uint32_t> holds{0};     // reasons not to begin one
constinit std::atomic<uint64_t> since_ns{0};  // when the call under way began, 0: none is
constinit std::atomic<uint64_t> spent_ns{0};
constinit int32_t library_result = 0;

// NVML's calls are between enter() and leave(). Whoever holds sees that we are inside, or we see
// that it holds: both are sequentially consistent.
bool enter() {
  inside = true;
  if (holds == 0) {
    since_ns = clock_ns(CLOCK_MONOTONIC);
    return true;
  }
  inside = false;
  return false;
}

void leave() {
  since_ns = 0;
  inside = false;
}

bool is_hung() {
  uint64_t begin_ns = since_ns;
  uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  return begin_ns != 0 && now_ns > begin_ns && now_ns - begin_ns > kHungNs;
}

void publish(Watched* one) {
  uint64_t words[sizeof(SensorSums) / sizeof(uint64_t)];
  memcpy(words, &one->fold.sums, sizeof(words));
  uint64_t version = one->version.load(std::memory_order_relaxed);
  one->version.store(version + 1, std::memory_order_relaxed);
  // Whoever sees one of the new words sees that the version has changed.
  for (size_t i = 0; i < std::size(words); ++i) {
    one->words[i].store(words[i], std::memory_order_release);
  }
  one->version.store(version + 2, std::memory_order_release);
}

void set_all(SensorReading* reading, int32_t result) {
  for (int32_t& sensor : reading->result) sensor = result;
}

// A sensor that has said for good that it tells nothing is not asked again.
template <typename Ask>
void ask(SensorReading* reading, Sensor sensor, Ask&& read) {
  if (!nvml::is_final(reading->result[sensor])) reading->result[sensor] = read();
}

void find(Watched* one) {
  SensorReading& reading = one->reading;
  set_all(&reading, library_result);
  if (library_result == 0) {
    set_all(&reading, nvml::find(one->pci_bus_id, one->uuid, &one->device));
  }
  if (reading.result[0] != 0) return;
  one->found = true;
  uint32_t limit_mhz = 0;
  if (nvml::most_sm_clock_mhz(one->device, &limit_mhz) == 0 && limit_mhz <= kMostClockMhz) {
    one->fold.sums.clock_limit_mhz = limit_mhz;
  }
  int32_t result = nvml::open_tensor_activity(&one->device);
  // What failed while it was opened cannot be read later.
  reading.result[kTensorSensor] = result == 0 ? 0 : result;
}

void read_tensor(Watched* one) {
  SensorReading& reading = one->reading;
  reading.tensor_ns = 0;
  uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns - one->gpm_at_ns < kGpmApartNs || one->device.samples[1] == nullptr) return;
  ask(&reading, kTensorSensor,
      [&] { return nvml::tensor_activity(&one->device, &reading.tensor); });
  if (reading.result[kTensorSensor] == 0) reading.tensor_ns = now_ns - one->gpm_at_ns;
  // After a failure GPM's older sample is still that of the last success.
  bool taken = reading.result[kTensorSensor] == 0 || reading.result[kTensorSensor] == nvml::kNoData;
  if (taken) one->gpm_at_ns = now_ns;
}

// Once the link was seen at its most nothing more is asked. NVML's result.
int32_t read_link(Watched* one) {
  uint32_t busy_percent = 0;
  int32_t result = nvml::busy_percent(one->device, &busy_percent);
  if (result != 0 || busy_percent < kLoadedPercent) return result;
  DeviceLink& known = one->fold.sums.most_link;
  if (!known.known()) {
    DeviceLink most{};
    result = nvml::most_pcie_link(one->device, &most.generation, &most.width);
    if (result != 0) return result;
    if (!most.known() || !most.plausible()) return kImplausible;
    known = most;
  }
  DeviceLink& link = one->reading.link;
  return nvml::pcie_link(one->device, &link.generation, &link.width);
}

void read(Watched* one) {
  if (!one->found && one->searches++ < kMostSearches) find(one);
  SensorReading& reading = one->reading;
  reading.at_ns = clock_ns(CLOCK_MONOTONIC);
  if (one->found) {
    const nvml::Device& device = one->device;
    ask(&reading, kEnergySensor, [&] { return nvml::energy_mj(device, &reading.energy_mj); });
    ask(&reading, kPowerSensor, [&] { return nvml::power_mw(device, &reading.power_mw); });
    ask(&reading, kClockSensor, [&] { return nvml::sm_clock_mhz(device, &reading.sm_clock_mhz); });
    ask(&reading, kTemperatureSensor,
        [&] { return nvml::temperature_c(device, &reading.temperature_c); });
    ask(&reading, kReasonSensor, [&] { return nvml::clock_reasons(device, &reading.reasons); });
    read_tensor(one);
    reading.link = {};
    if (!one->fold.sums.link_at_most()) ask(&reading, kLinkSensor, [&] { return read_link(one); });
  }
  one->fold.add(reading);
  publish(one);
}

void read_all() {
  for (Watched& one : watched) {
    if (!one.wanted.load(std::memory_order_acquire)) continue;
    if (!enter()) continue;
    read(&one);
    leave();
  }
  spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void* work(void*) {
  while (!stop && !enter()) pause_ns(kPollNs);
  if (stop) return nullptr;
  library_result = nvml::open();
  leave();
  while (true) {
    uint32_t heard = bell;
    bool last = stop;
    uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    read_all();
    if (last) break;
    uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
    if (!stop) sleep_by(bell, heard, std::max(kEveryNs, kShare * took_ns));
  }
  done = true;
  return nullptr;
}

}  // namespace

bool watch(uint32_t slot, const char* pci_bus_id, const uint8_t (&uuid)[16]) {
  if (slot >= kMostDevices || stop) return false;
  Watched& one = watched[slot];
  if (!one.wanted) {
    snprintf(one.pci_bus_id, sizeof(one.pci_bus_id), "%s", pci_bus_id);
    memcpy(one.uuid, uuid, sizeof(one.uuid));
    one.wanted.store(true, std::memory_order_release);
    if (started) ring(bell);
  }
  if (!started) started = start_thread(work);
  return started;
}

bool sums(uint32_t slot, SensorSums* out) {
  if (slot >= kMostDevices) return false;
  const Watched& one = watched[slot];
  uint64_t words[sizeof(SensorSums) / sizeof(uint64_t)];
  uint64_t version = 1;
  bool whole = false;
  for (int tries = 0; tries < kTries && !whole; ++tries) {
    version = one.version.load(std::memory_order_acquire);
    for (size_t i = 0; i < std::size(words); ++i) {
      words[i] = one.words[i].load(std::memory_order_acquire);
    }
    whole = version % 2 == 0 && one.version.load(std::memory_order_relaxed) == version;
  }
  if (!whole) return false;
  memcpy(out, words, sizeof(words));
  bool hung = is_hung();
  if (hung) {
    for (int32_t& result : out->result) result = kSensorHung;
  }
  return version != 0 || hung;
}

uint64_t cpu_ns() {
  return spent_ns;
}

void finish() {
  if (!started) return;
  stop = true;
  ring(bell);
  for (uint64_t ns = 0; !done && !is_hung() && ns < kLastWordNs; ns += kPollNs) pause_ns(kPollNs);
  hold();  // for ever
}

void hold() {
  ++holds;
  for (uint64_t ns = 0; inside && !is_hung() && ns < kForkWaitNs; ns += kPollNs) pause_ns(kPollNs);
}

void release() {
  --holds;
}

}  // namespace mfu::device_sensors
