#include "profiler/process_record.hh"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "profiler/clock_ns.hh"
#include "profiler/communicators.hh"
#include "profiler/device_activity.hh"
#include "profiler/device_sensors.hh"
#include "profiler/gemm_counter.hh"
#include "profiler/name_table.hh"
#include "profiler/nvtx_gate.hh"

namespace mfu::process_record {
namespace {

constexpr uint32_t kMaxDevices = 16;

// CUPTI's clock and ours agree within microseconds; an operation outside of the process's life by
// more than this has an impossible time.
constexpr uint64_t kClockSlackNs = 1'000'000'000;

constexpr uint64_t kKeepEveryNs = 30'000'000'000;

static_assert(kMaxDevices <= device_sensors::kMostDevices);

struct Device {
  bool used;
  bool watched;  // its sensors are read
  uint32_t ordinal;
  DeviceActivity* activity;
  uint64_t unfinished_ns;  // from the first unfinished operation's start to the last flush
  RecordFile file;
  Record record;
};

constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards everything below
constinit Device devices[kMaxDevices] = {};
constinit NameTable* names = nullptr;
constinit const char* folder = nullptr;
constinit char kept_path[1024] = {};  // "FOLDER/JOB.STEP.TASK.PID"; empty: nothing is kept
constinit StorageFold storage{};      // of the thread that publishes
constinit bool no_sensors = false;    // the user wants none
constinit uint64_t kept_ns = 0;       // when (CLOCK_MONOTONIC)
constinit bool finished = false;      // the last word was published
constinit bool slots_failed = false;  // a device could not get a record
constinit bool file_failed = false;   // a record's file has lost its memory
constinit uint64_t memory_bytes = 0;
constinit uint64_t lost_ns = 0;

Record& primary() {
  return devices[0].record;
}

class Locked {
 public:
  Locked() { pthread_mutex_lock(&lock); }
  ~Locked() { pthread_mutex_unlock(&lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

void* map_memory(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  memory_bytes += size;
  return memory;
}

bool prepare(Device* device, uint32_t ordinal) {
  void* memory = map_memory(sizeof(DeviceActivity));
  if (memory == nullptr) return false;
  device->activity = new (memory) DeviceActivity;
  device->ordinal = ordinal;
  device->record.device = ordinal;
  device->used = true;
  return true;
}

// A device without a record would pass for an idle one: the board says that it is missing. Once:
// trying again for each of its records would cost the job more than it is worth.
Device* lose_device(int error) {
  if (!slots_failed) note_on_board(folder, error);
  slots_failed = true;
  return nullptr;
}

// The device's slot, or nullptr. Slot 0 exists from the start without a device and takes the first.
Device* device_of(uint32_t ordinal) {
  for (Device& device : devices) {
    if (device.used && device.ordinal == ordinal) return &device;
    if (device.used) continue;
    if (slots_failed) return nullptr;
    bool first = &device == devices;
    if (!first) {
      device.record = Record{};
      device.record.pid = primary().pid;
      device.record.task = primary().task;
      device.record.started_ns = primary().started_ns;
      device.record.cupti_version = primary().cupti_version;
      if (!device.file.create(folder, primary().pid)) return lose_device(errno);
    } else if (device.record.device != ordinal) {
      device.record.flags &= ~static_cast<uint32_t>(kDeviceKnown);
    }
    return prepare(&device, ordinal) ? &device : lose_device(ENOMEM);
  }
  return lose_device(ERANGE);
}

void take_one(const cupti::Activity& activity, uint64_t now_ns) {
  if (activity.kind == cupti::ActivityKind::kOther) return;
  Device* device = device_of(activity.device);
  if (device == nullptr) {
    ++primary().dropped;
    return;
  }
  Record& record = device->record;
  if (activity.start_ns == 0) {
    ++record.zero_times;
    return;
  }
  if (activity.end_ns == 0) {
    // Returned while it ran: only a forced flush does that. The device's time from here on is not
    // known.
    ++primary().unfinished;
    if (activity.start_ns < now_ns && activity.start_ns + kClockSlackNs >= record.started_ns) {
      device->unfinished_ns = std::max(device->unfinished_ns, now_ns - activity.start_ns);
    }
    return;
  }
  if (activity.end_ns < activity.start_ns) {
    ++record.reversed;
    return;
  }
  if (activity.start_ns + kClockSlackNs < record.started_ns ||
      activity.end_ns > now_ns + kClockSlackNs) {
    ++record.implausible;
    return;
  }
  static constexpr KernelName kNoKernel{};
  const bool kernel = activity.kind == cupti::ActivityKind::kKernel;
  device->activity->take(activity, kernel ? names->find(activity.name) : kNoKernel, &record);
}

// The environment is read now, in the application's first cuInit: later the application may be
// changing it.
void prepare_keeping(const Record& record) {
  const char* user_folder = getenv(kKeepVariable);
  if (user_folder == nullptr || user_folder[0] != '/') return;
  const char* job = getenv("SLURM_JOB_ID");
  const char* step = getenv("SLURM_STEP_ID");
  int length = snprintf(kept_path, sizeof(kept_path), "%s/%s.%s.%u.%u", user_folder,
                        job != nullptr ? job : "job", step != nullptr ? step : "step",
                        record.task == UINT32_MAX ? 0 : record.task, record.pid);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(kept_path)) kept_path[0] = '\0';
}

// Needs the lock, or to be alone.
void set_failure(State state, CuptiCall call, int result) {
  Record& record = primary();
  if (state <= record.state) return;
  record.state = state;
  record.cupti_call = call;
  record.cupti_result = result;
}

void publish_locked(uint64_t now_ns, bool last) {
  if (finished) return;
  const Record& process = primary();
  const StepEstimate ranges = nvtx_gate::estimate();
  bool stored = true;
  for (Device& device : devices) {
    if (&device != devices && !device.used) continue;
    Record& record = device.record;
    if (device.used) {
      device.activity->fill(*names, &record);
      record.late_ns += device.unfinished_ns;
      record.steps = better_steps(record.steps, ranges);
    }
    record.communicators.abi = process.communicators.abi;
    record.state = process.state;
    record.cupti_call = process.cupti_call;
    record.cupti_result = process.cupti_result;
    record.published_ns = std::max(now_ns, record.started_ns);
    if (last) record.flags |= kFinished;
    stored = device.file.publish(&record) && stored;
  }
  if (!stored && !file_failed) {
    file_failed = true;
    note_on_board(folder, EIO);
  }
  finished = last;
}

void keep() {
  if (kept_path[0] == '\0') return;
  static constinit Record record{};
  for (Device& device : devices) {
    pthread_mutex_lock(&lock);
    const bool exists = &device == devices || device.used;
    if (exists) record = device.record;
    pthread_mutex_unlock(&lock);
    if (!exists) return;
    char path[sizeof(kept_path) + 32];
    snprintf(path, sizeof(path), "%s.%u%s", kept_path, record.device, kRecordSuffix);
    keep_record(path, record);
  }
}

// Of devices that work ran on: the first slot takes another device before that.
void watch_sensors() {
  for (Device& device : devices) {
    char pci_bus_id[24];
    uint8_t uuid[16];
    {
      Locked locked;
      const bool known = (device.record.flags & kDeviceKnown) != 0;
      if (no_sensors || !device.used || device.watched || !known) continue;
      memcpy(pci_bus_id, device.record.pci_bus_id, sizeof(pci_bus_id));
      memcpy(uuid, device.record.uuid, sizeof(uuid));
      device.watched = true;
    }
    device_sensors::watch(static_cast<uint32_t>(&device - devices), pci_bus_id, uuid);
  }
}

}  // namespace

bool create(const char* record_folder) {
  folder = record_folder;
  names = static_cast<NameTable*>(map_memory(sizeof(NameTable)));
  if (names == nullptr) {
    note_on_board(folder, ENOMEM);
    return false;
  }
  if (const char* part = getenv(kStepKernelVariable); part != nullptr && part[0] != '\0') {
    static constinit char step_kernel[256];
    snprintf(step_kernel, sizeof(step_kernel), "%s", part);
    names->declare_step_kernel(step_kernel);
  }
  Record& record = primary();
  record = Record{};
  record.pid = static_cast<uint32_t>(getpid());
  const char* task = getenv("SLURM_PROCID");
  record.task = task != nullptr ? static_cast<uint32_t>(strtoul(task, nullptr, 10)) : UINT32_MAX;
  record.flags = kPrimary;
  record.started_ns = clock_ns(CLOCK_REALTIME);
  prepare_keeping(record);
  const char* sensors = getenv(kSensorsVariable);
  no_sensors = sensors != nullptr && strcmp(sensors, "off") == 0;
  kept_ns = clock_ns(CLOCK_MONOTONIC);
  if (devices[0].file.create(folder, record.pid)) return true;
  note_on_board(folder, errno);
  return false;
}

uint64_t started_ns() {
  return primary().started_ns;
}

void set_cupti_version(uint32_t version) {
  Locked locked;
  primary().cupti_version = version;
}

void fail(State state, CuptiCall call, int result) {
  Locked locked;
  set_failure(state, call, result);
}

void forgive(State state) {
  Locked locked;
  Record& record = primary();
  if (record.state != state) return;
  record.state = State::kOk;
  record.cupti_call = CuptiCall::kNone;
  record.cupti_result = 0;
}

void add_flags(uint32_t flags) {
  Locked locked;
  primary().flags |= flags;
}

void set_drops_unknown(int result) {
  Locked locked;
  Record& process = primary();
  process.flags |= kDroppedUnknown;
  if (process.state != State::kOk) return;
  process.cupti_call = CuptiCall::kGetDropped;
  process.cupti_result = result;
}

void add_dropped(uint64_t records) {
  Locked locked;
  primary().dropped += records;
}

void add_lost(uint64_t ns) {
  Locked locked;
  lost_ns += ns;
}

void take(const cupti::Activity* activities, size_t count, uint64_t now_ns) {
  Locked locked;
  names->begin();
  for (size_t i = 0; i < count; ++i) take_one(activities[i], now_ns);
}

void describe_devices() {
  for (Device& device : devices) {
    pthread_mutex_lock(&lock);
    bool exists = &device == devices || device.used;
    bool wanted = exists && (device.record.flags & kDeviceKnown) == 0;
    uint32_t ordinal = device.record.device;
    pthread_mutex_unlock(&lock);
    cupti::DeviceIdentity identity;
    if (!wanted || !cupti::identify(ordinal, &identity)) continue;
    Locked locked;
    Record& record = device.record;
    if (record.device != ordinal) continue;  // the first slot has taken another device meanwhile
    memcpy(record.device_name, identity.name, sizeof(record.device_name));
    memcpy(record.pci_bus_id, identity.pci_bus_id, sizeof(record.pci_bus_id));
    memcpy(record.uuid, identity.uuid, sizeof(record.uuid));
    record.sm_count = identity.sm_count;
    record.compute_capability = identity.compute_capability;
    record.flags |= kDeviceKnown;
  }
  watch_sensors();
}

void publish(uint64_t now_ns, const Account& account, bool last) {
  IoCounters io{};
  const int io_result = read_process_io(&io);
  const uint64_t at_ns = clock_ns(CLOCK_MONOTONIC);
  const gemm_counter::Snapshot* gemms = nullptr;
  const bool counted = gemm_counter::take(&gemms);
  InferredFlops inferred;
  if (counted) inferred = infer_model_flops(gemms->shapes, gemms->sums, gemms->unlisted);
  {
    Locked locked;
    Record& process = primary();
    if (counted) {  // otherwise those of the last turn stay
      process.gemms = gemms->sums;
      process.inferred = inferred;
    }
    process.callback_ns = account.callback_ns;
    process.worker_ns = account.worker_ns;
    process.memory_bytes = memory_bytes + account.buffer_bytes;
    process.lost_ns = lost_ns + account.withheld_ns;
    communicators::snapshot(&process.communicators);
    storage.add(io, io_result, at_ns, process.steps);  // steps of the turn before
    process.storage = storage.sums;
    for (uint32_t i = 0; i < kMaxDevices; ++i) {
      SensorSums sums;
      if (devices[i].watched && device_sensors::sums(i, &sums)) devices[i].record.sensors = sums;
    }
    publish_locked(now_ns, last);
  }
  if (!last && at_ns < kept_ns + kKeepEveryNs) return;
  kept_ns = at_ns;
  keep();
}

void publish_call(bool inside) {
  Locked locked;
  if (finished) return;
  if (inside) primary().flags |= kInCupti;
  devices[0].file.publish(&primary());
  primary().flags &= ~static_cast<uint32_t>(kInCupti);
}

void publish_hang(uint64_t now_ns, CuptiCall call) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (pthread_mutex_trylock(&lock) == 0) {
      primary().flags |= kFlushFailed;
      set_failure(State::kCuptiFailed, call, kHung);
      publish_locked(now_ns, false);
      pthread_mutex_unlock(&lock);
      return;
    }
    pause_ns(1'000'000);
  }
}

}  // namespace mfu::process_record
