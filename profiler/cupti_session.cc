#include "profiler/cupti_session.hh"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "profiler/cupti_gate.hh"
#include "profiler/kernel.hh"
#include "profiler/record.hh"
#include "profiler/timeline.hh"

namespace mfu::cupti_session {
namespace {

// Memory: buffers 8 MiB at most, timelines 0.4 MiB a device, names 0.4 MiB.
constexpr size_t kBufferSize = 1 << 20;
constexpr int kBuffers = 8;
// A CUPTI that may crash when a request is refused gets more, for bursts that outrun the worker.
constexpr int kMostBuffers = 32;
constexpr uint32_t kMaxDevices = 16;
constexpr size_t kTimelineCapacity = 8192;
constexpr size_t kNameSlots = 8192;  // power of two

// CUPTI's clock and ours agree within microseconds; an operation outside of the process's life by
// more than this has an impossible time.
constexpr uint64_t kClockSlackNs = 1'000'000'000;
// The cost is judged against the budget from this age of the session on.
constexpr uint64_t kCostWindowNs = 10'000'000'000;

uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void* map_memory(size_t size) {
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// --- buffers. Free ones and returned ones, both lists under one short lock.

struct Buffer {
  uint8_t* memory;
  void* context;
  uint32_t stream;
  size_t valid;
  enum { kAbsent, kFree, kLent, kReturned } place;
  uint64_t order;  // of its return
};

constinit pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
constinit Buffer buffers[kMostBuffers] = {};
constinit uint64_t returns = 0;

struct Device {
  bool used;
  uint32_t ordinal;
  Timeline* timeline;
  RecordFile file;
  Record record;
};

struct NameSlot {
  const char* name;
  char prefix[24];  // the pointer alone does not prove the name: a module may be unloaded
  KernelKind kind;
};

constinit Settings settings{};
constinit Device devices[kMaxDevices] = {};
constinit NameSlot* names = nullptr;
constinit uint32_t cupti_api = 0;
constinit bool armed = false;     // activity kinds are enabled
constinit bool finished = false;  // the last word was published
constinit uint64_t last_turn_ns = 0;
constinit uint64_t records_seen = 0;
constinit std::atomic<uint64_t> callback_ns{0};
constinit std::atomic<uint64_t> memory_bytes{0};
constinit std::atomic<uint64_t> refused_requests{0};
// Guards the devices' records and timelines; never held across a CUPTI call.
constinit pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;

Record& primary() { return devices[0].record; }

// The first of equally severe failures stays. Needs state_lock, or to be alone.
void fail(State state, CuptiCall call, int result) {
  Record& record = primary();
  if (state <= record.state) return;
  record.state = state;
  record.cupti_call = call;
  record.cupti_result = result;
}

State state_of(int result) {
  if (result == cupti::kMultipleSubscribers) return State::kCuptiBusy;
  if (result == cupti::kInsufficientPrivileges) return State::kDenied;
  return State::kCuptiFailed;
}

// --- callbacks: any thread, short.

void on_requested(uint8_t** memory, size_t* size) {
  uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  *memory = nullptr;
  *size = 0;
  pthread_mutex_lock(&buffer_lock);
  int limit = cupti_api < cupti::kRefusalVersion ? kMostBuffers : kBuffers;
  Buffer* chosen = nullptr;
  for (int i = 0; i < limit && (chosen == nullptr || chosen->place != Buffer::kFree); ++i) {
    bool better = buffers[i].place == Buffer::kFree ||
                  (buffers[i].place == Buffer::kAbsent && chosen == nullptr);
    if (better) chosen = &buffers[i];
  }
  if (chosen != nullptr && chosen->memory == nullptr) {
    chosen->memory = static_cast<uint8_t*>(map_memory(kBufferSize));
    if (chosen->memory == nullptr) {
      chosen = nullptr;
    } else {
      memory_bytes += kBufferSize;
    }
  }
  if (chosen != nullptr) {
    chosen->place = Buffer::kLent;
    *memory = chosen->memory;
    *size = kBufferSize;
  }
  pthread_mutex_unlock(&buffer_lock);
  if (*memory == nullptr) ++refused_requests;
  callback_ns += clock_ns(CLOCK_MONOTONIC) - begin;
}

// A buffer that is not of our pool: another client's, whose callbacks CUPTI mixed up with ours. It is
// not ours to keep or to free, so it is digested while we have it.
void digest(uint8_t* memory, size_t valid);

void on_completed(void* context, uint32_t stream, uint8_t* memory, size_t size, size_t valid) {
  uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  bool pooled = false;
  pthread_mutex_lock(&buffer_lock);
  for (Buffer& buffer : buffers) {
    if (buffer.memory != memory || memory == nullptr) continue;
    buffer.context = context;
    buffer.stream = stream;
    buffer.valid = valid <= size ? valid : size;
    buffer.place = Buffer::kReturned;
    buffer.order = ++returns;
    pooled = true;
  }
  pthread_mutex_unlock(&buffer_lock);
  if (!pooled && memory != nullptr) digest(memory, valid);
  callback_ns += clock_ns(CLOCK_MONOTONIC) - begin;
  settings.wake();
}

// --- digestion: buffers to timelines.

const KernelKind& kind_of(const char* name) {
  static constinit KernelKind unnamed{};
  if (name == nullptr) return unnamed;
  size_t length = strlen(name);
  auto address = reinterpret_cast<uintptr_t>(name);
  NameSlot& slot = names[(address >> 3) * 0x9e3779b97f4a7c15 >> 51 & (kNameSlots - 1)];
  size_t compared = std::min(length + 1, sizeof(slot.prefix));
  if (slot.name != name || memcmp(slot.prefix, name, compared) != 0) {
    slot.name = name;
    memcpy(slot.prefix, name, compared);
    slot.kind = classify_kernel({name, length});
  }
  return slot.kind;
}

void describe(Device* device) {
  Record& record = device->record;
  cupti::DeviceIdentity identity;
  if ((record.flags & kDeviceKnown) != 0 || !cupti::identify(record.device, &identity)) return;
  pthread_mutex_lock(&state_lock);
  memcpy(record.device_name, identity.name, sizeof(record.device_name));
  memcpy(record.pci_bus_id, identity.pci_bus_id, sizeof(record.pci_bus_id));
  memcpy(record.uuid, identity.uuid, sizeof(record.uuid));
  record.sm_count = identity.sm_count;
  record.compute_capability = identity.compute_capability;
  record.flags |= kDeviceKnown;
  pthread_mutex_unlock(&state_lock);
}

bool prepare(Device* device, uint32_t ordinal) {
  size_t size = sizeof(Timeline) + 2 * kTimelineCapacity * sizeof(Interval);
  void* memory = map_memory(size);
  if (memory == nullptr) return false;
  memory_bytes += size;
  auto* storage = reinterpret_cast<Interval*>(static_cast<char*>(memory) + sizeof(Timeline));
  static_assert(sizeof(Timeline) % alignof(Interval) == 0);
  device->timeline = new (memory) Timeline(storage, kTimelineCapacity);
  device->ordinal = ordinal;
  device->record.device = ordinal;
  device->used = true;
  return true;
}

// The device's slot. Slot 0 exists from the start without a device and takes the first one.
Device* device_of(uint32_t ordinal) {
  for (Device& device : devices) {
    if (device.used && device.ordinal == ordinal) return &device;
    if (device.used) continue;
    bool first = &device == devices;
    if (!first) {
      device.record = Record{};
      device.record.pid = primary().pid;
      device.record.task = primary().task;
      device.record.started_ns = primary().started_ns;
      device.record.cupti_version = primary().cupti_version;
      if (!device.file.create(settings.record_folder, primary().pid)) return nullptr;
    } else if (device.record.device != ordinal) {
      device.record.flags &= ~static_cast<uint32_t>(kDeviceKnown);
    }
    return prepare(&device, ordinal) ? &device : nullptr;
  }
  return nullptr;
}

void take(const cupti::Activity& activity, uint64_t now_ns) {
  if (activity.kind == cupti::ActivityKind::kOther) return;
  ++records_seen;
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
    // Returned while it ran: only a forced flush does that.
    ++primary().unfinished;
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
  if (duration_ns != 0) device->timeline->add(activity.start_ns, activity.end_ns, mask);
}

void digest(uint8_t* memory, size_t valid) {
  // Records are copied out in batches: GetNextRecord is a CUPTI call, and the state lock must not be
  // held across it.
  constexpr size_t kBatch = 256;
  cupti::Activity batch[kBatch];
  void* cursor = nullptr;
  int result = 0;
  bool more = true;
  while (more) {
    size_t count = 0;
    while (count < kBatch && (more = cupti::next(memory, valid, &cursor, &batch[count], &result))) {
      ++count;
    }
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    pthread_mutex_lock(&state_lock);
    for (size_t i = 0; i < count; ++i) take(batch[i], now_ns);
    if (result != 0) fail(state_of(result), CuptiCall::kGetNextRecord, result);
    pthread_mutex_unlock(&state_lock);
  }
}

// Digests the returned buffers in the order of their return. True when CUPTI says that records were
// dropped.
bool digest_returned() {
  uint64_t dropped_total = 0;
  bool unknown = false;
  for (;;) {
    Buffer* oldest = nullptr;
    pthread_mutex_lock(&buffer_lock);
    for (Buffer& buffer : buffers) {
      if (buffer.place != Buffer::kReturned) continue;
      if (oldest == nullptr || buffer.order < oldest->order) oldest = &buffer;
    }
    pthread_mutex_unlock(&buffer_lock);
    if (oldest == nullptr) break;
    digest(oldest->memory, oldest->valid);
    uint64_t count = 0;
    if (oldest->context != nullptr &&
        cupti::dropped(oldest->context, oldest->stream, &count) == 0) {
      dropped_total += count;
    }
    memset(oldest->memory, 0, kBufferSize);  // promised to CUPTI
    pthread_mutex_lock(&buffer_lock);
    oldest->place = Buffer::kFree;
    pthread_mutex_unlock(&buffer_lock);
  }
  uint64_t count = 0;
  if (cupti::dropped(nullptr, 0, &count) == 0) {
    dropped_total += count;
  } else {
    unknown = true;
  }
  pthread_mutex_lock(&state_lock);
  primary().dropped += dropped_total;
  if (unknown) primary().flags |= kDroppedUnknown;
  pthread_mutex_unlock(&state_lock);
  return dropped_total != 0;
}

// --- publication

void publish(uint64_t now_ns, bool last) {
  pthread_mutex_lock(&state_lock);
  Record& process = primary();
  if (finished) {
    pthread_mutex_unlock(&state_lock);
    return;
  }
  process.callback_ns = callback_ns;
  process.memory_bytes = memory_bytes;
  for (Device& device : devices) {
    if (&device != devices && !device.used) continue;
    Record& record = device.record;
    if (device.used) {
      record.time = device.timeline->sums();
      record.late = device.timeline->late();
      record.late_ns = device.timeline->late_ns();
    }
    record.state = process.state;
    record.cupti_call = process.cupti_call;
    record.cupti_result = process.cupti_result;
    record.published_ns = std::max(now_ns, record.started_ns);
    if (last) record.flags |= kFinished;
    device.file.publish(&record);
  }
  if (last) finished = true;
  pthread_mutex_unlock(&state_lock);
}

constexpr struct {
  cupti::ActivityKind kind;
  CuptiCall call;
} kKinds[] = {
    {cupti::ActivityKind::kKernel, CuptiCall::kEnableKernel},
    {cupti::ActivityKind::kMemcpy, CuptiCall::kEnableMemcpy},
    {cupti::ActivityKind::kMemcpyPeer, CuptiCall::kEnableMemcpyPeer},
    {cupti::ActivityKind::kMemset, CuptiCall::kEnableMemset},
};

void disarm() {
  for (const auto& [kind, call] : kKinds) cupti::disable(kind);
  armed = false;
}

// All kinds or none: without copies, for one, idle time would be wrong.
void arm() {
  if (!cupti::load(settings.cupti_path)) return fail(State::kNoCupti, CuptiCall::kNone, 0);
  int result = cupti::version(&cupti_api);
  if (result != 0) return fail(state_of(result), CuptiCall::kGetVersion, result);
  primary().cupti_version = cupti_api;
  if (cupti_api < cupti::kOldestVersion) return fail(State::kRefused, CuptiCall::kNone, 0);
  cupti::promise_zeroed_buffers();
  result = cupti::register_callbacks({on_requested, on_completed});
  if (result != 0) return fail(state_of(result), CuptiCall::kRegisterCallbacks, result);
  for (const auto& [kind, call] : kKinds) {
    result = cupti::enable(kind);
    if (result == 0) continue;
    disarm();
    return fail(state_of(result), call, result);
  }
  armed = true;
}

// The collector cannot see a record that was never created: leave the reason on the board.
void note_on_board(const char* folder, int error) {
  char path[4096];
  int length = snprintf(path, sizeof(path), "%s/%s", folder, kBoardName);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return;
  int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (error > 0 && static_cast<size_t>(error) < kBoardSize) {
    // A failure to say it leaves "no process reported", which is true as well.
    [[maybe_unused]] ssize_t written = pwrite(fd, "\1", 1, error);
  }
  close(fd);
}

}  // namespace

bool start(const Settings& wanted) {
  settings = wanted;
  names = static_cast<NameSlot*>(map_memory(kNameSlots * sizeof(NameSlot)));
  if (names == nullptr) {
    note_on_board(settings.record_folder, ENOMEM);
    return false;
  }
  memory_bytes += kNameSlots * sizeof(NameSlot);
  Record& record = primary();
  record = Record{};
  record.pid = static_cast<uint32_t>(getpid());
  const char* task = getenv("SLURM_PROCID");
  record.task = task != nullptr ? static_cast<uint32_t>(strtoul(task, nullptr, 10)) : UINT32_MAX;
  record.flags = kPrimary;
  record.started_ns = clock_ns(CLOCK_REALTIME);
  last_turn_ns = record.started_ns;
  if (!devices[0].file.create(settings.record_folder, record.pid)) {
    note_on_board(settings.record_folder, errno);
    return false;
  }
  arm();
  publish(record.started_ns, false);
  return true;
}

void give_up_thread() {
  if (armed) disarm();
  fail(State::kNoThread, CuptiCall::kNone, 0);
  publish(clock_ns(CLOCK_REALTIME), false);
}

void turn(bool last) {
  if (armed) {
    int result = cupti::flush(last);
    if (result != 0) {
      pthread_mutex_lock(&state_lock);
      fail(state_of(result), CuptiCall::kFlushAll, result);
      primary().flags |= kFlushFailed;
      pthread_mutex_unlock(&state_lock);
    }
  }
  uint64_t now_ns = clock_ns(CLOCK_REALTIME);
  if (armed) {
    bool lossy = digest_returned() || refused_requests.exchange(0) != 0;
    now_ns = clock_ns(CLOCK_REALTIME);
    if (lossy && now_ns > last_turn_ns) primary().lost_ns += now_ns - last_turn_ns;
  }
  last_turn_ns = now_ns;
  for (Device& device : devices) {
    if (&device == devices || device.used) describe(&device);
  }
  Record& record = primary();
  record.worker_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  uint64_t age_ns = now_ns > record.started_ns ? now_ns - record.started_ns : 0;
  double cost_ns = static_cast<double>(record.worker_ns + callback_ns);
  if (armed && !last && settings.budget_percent > 0 && age_ns > kCostWindowNs &&
      cost_ns * 100 > settings.budget_percent * static_cast<double>(age_ns)) {
    disarm();
    pthread_mutex_lock(&state_lock);
    fail(State::kStoodDown, CuptiCall::kNone, 0);
    pthread_mutex_unlock(&state_lock);
  }
  publish(now_ns, last);
}

void publish_without_cupti() {
  // The worker hangs in CUPTI and may hold nothing but its own stack; yet a lock held by a thread
  // that no longer runs would hang the exit: try, and leave the last published record otherwise.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (pthread_mutex_trylock(&state_lock) == 0) {
      primary().flags |= kFlushFailed;
      fail(State::kCuptiFailed, CuptiCall::kFlushAll, 0);
      pthread_mutex_unlock(&state_lock);
      publish(clock_ns(CLOCK_REALTIME), false);
      return;
    }
    timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace mfu::cupti_session
