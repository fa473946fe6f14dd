#include "profiler/process_record.hh"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "profiler/kernel.hh"
#include "profiler/timeline.hh"

namespace mfu::process_record {
namespace {

// Memory: timelines 0.4 MiB a device, names 0.3 MiB.
constexpr uint32_t kMaxDevices = 16;
constexpr size_t kTimelineCapacity = 8192;
constexpr size_t kNameSlots = 8192;  // power of two

// CUPTI's clock and ours agree within microseconds; an operation outside of the process's life by
// more than this has an impossible time.
constexpr uint64_t kClockSlackNs = 1'000'000'000;

struct Device {
  bool used;
  uint32_t ordinal;
  Timeline* timeline;
  uint64_t unfinished_ns;  // from the first unfinished operation's start to the last flush
  RecordFile file;
  Record record;
};

struct NameSlot {
  const char* name;
  char prefix[24];  // the pointer alone does not prove the name: a module may be unloaded
  KernelKind kind;
};

constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards everything below
constinit Device devices[kMaxDevices] = {};
constinit NameSlot* names = nullptr;
constinit const char* folder = nullptr;
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

const KernelKind& kind_of(const char* name) {
  static constinit KernelKind unnamed{};
  if (name == nullptr) return unnamed;
  auto address = reinterpret_cast<uintptr_t>(name);
  NameSlot& slot = names[(address >> 3) * 0x9e3779b97f4a7c15 >> 51 & (kNameSlots - 1)];
  if (slot.name != name || strncmp(slot.prefix, name, sizeof(slot.prefix)) != 0) {
    size_t length = strlen(name);
    slot.name = name;
    memcpy(slot.prefix, name, std::min(length + 1, sizeof(slot.prefix)));
    slot.kind = classify_kernel({name, length});
  }
  return slot.kind;
}

bool prepare(Device* device, uint32_t ordinal) {
  size_t size = sizeof(Timeline) + 2 * kTimelineCapacity * sizeof(Interval);
  void* memory = map_memory(size);
  if (memory == nullptr) return false;
  auto* storage = reinterpret_cast<Interval*>(static_cast<char*>(memory) + sizeof(Timeline));
  static_assert(sizeof(Timeline) % alignof(Interval) == 0);
  device->timeline = new (memory) Timeline(storage, kTimelineCapacity);
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
  uint64_t duration_ns = activity.end_ns - activity.start_ns;
  ActivityMask mask = kMemory;
  if (activity.kind == cupti::ActivityKind::kKernel) {
    const KernelKind& kind = kind_of(activity.name);
    if (kind.communication) {
      mask = kCommunication;
      ++record.communication_kernels;
      ++record.collective_count[static_cast<size_t>(kind.collective)];
      record.collective_ns[static_cast<size_t>(kind.collective)] += duration_ns;
    } else {
      mask = kCompute;
      ++record.compute_kernels;
      if (kind.gemm) record.gemm_ns[static_cast<size_t>(kind.precision)] += duration_ns;
    }
  } else {
    ++record.copies;
  }
  device->timeline->add(activity.start_ns, activity.end_ns, mask);
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
  bool stored = true;
  for (Device& device : devices) {
    if (&device != devices && !device.used) continue;
    Record& record = device.record;
    if (device.used) {
      record.time = device.timeline->sums();
      record.late = device.timeline->late();
      record.late_ns = device.timeline->late_ns() + device.unfinished_ns;
    }
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

}  // namespace

bool create(const char* record_folder) {
  folder = record_folder;
  names = static_cast<NameSlot*>(map_memory(kNameSlots * sizeof(NameSlot)));
  if (names == nullptr) {
    note_on_board(folder, ENOMEM);
    return false;
  }
  Record& record = primary();
  record = Record{};
  record.pid = static_cast<uint32_t>(getpid());
  const char* task = getenv("SLURM_PROCID");
  record.task = task != nullptr ? static_cast<uint32_t>(strtoul(task, nullptr, 10)) : UINT32_MAX;
  record.flags = kPrimary;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record.started_ns =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
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
}

void publish(uint64_t now_ns, const Account& account, bool last) {
  Locked locked;
  Record& process = primary();
  process.callback_ns = account.callback_ns;
  process.worker_ns = account.worker_ns;
  process.memory_bytes = memory_bytes + account.buffer_bytes;
  process.lost_ns = lost_ns + account.withheld_ns;
  publish_locked(now_ns, last);
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
    timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace mfu::process_record
