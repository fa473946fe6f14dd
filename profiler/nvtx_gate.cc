// Every thread keeps its own depth and pace in a slot of a fixed table, found by the thread's and
// the domain's address. What other threads read of it, the finished steps, is published behind a
// version number. Handles that NVTX wants from us carry all we must know of what they stand for, so
// that none has to be looked up, and those of several NVTX instances in a process can meet.
#include "profiler/nvtx_gate.hh"

#define NVTX_NO_IMPL  // types only: nothing here calls NVTX
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "profiler/clock_ns.hh"
#include "profiler/name_search.hh"
#include "profiler/record.hh"

namespace mfu::nvtx_gate {
namespace {

using std::string_view;

constexpr size_t kSlots = 512;  // of threads and domains; power of two
constexpr size_t kProbes = 16;
constexpr size_t kNames = 8;   // of started ranges
constexpr size_t kOpen = 128;  // of started ranges
constexpr size_t kLongestName = 256;
constexpr int kPatience = 1000;

// A pace that one writer at a time changes and anyone reads.
class SharedPace {
 public:
  void add(uint64_t start_ns) {
    pace_.add(start_ns);
    uint64_t words[kWords];
    memcpy(words, &pace_, sizeof(pace_));
    const uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }
  // Empty when the writer was always in the middle: it may have been left behind by a fork.
  StepPace read() const {
    for (int i = 0; i < kPatience; ++i) {
      const uint32_t before = version_.load(std::memory_order_acquire);
      uint64_t words[kWords];
      for (size_t j = 0; j < kWords; ++j) words[j] = words_[j].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 != 0 || version_.load(std::memory_order_relaxed) != before) continue;
      StepPace pace;
      memcpy(&pace, words, sizeof(pace));
      return pace;
    }
    return {};
  }

 private:
  static constexpr size_t kWords = sizeof(StepPace) / sizeof(uint64_t);
  StepPace pace_{};  // the writer's
  std::atomic<uint64_t> words_[kWords]{};
  std::atomic<uint32_t> version_{0};
};

// Pushed ranges of one thread in one domain. Only the thread itself writes.
struct Slot {
  std::atomic<uint64_t> key{0};  // 0: free; never freed
  int depth = 0;
  int step_depth = 0;  // of the running step's range; 0: none runs
  uint64_t step_start_ns = 0;
  SharedPace pace;
};

struct NamedSeries {
  uint64_t key = 0;
  SharedPace pace;
};

struct OpenRange {
  nvtxRangeId_t id = 0;
  NamedSeries* series = nullptr;
  uint64_t start_ns = 0;
};

constinit Slot slots[kSlots];
constinit NamedSeries names[kNames];
constinit OpenRange open_ranges[kOpen];
constinit std::atomic<bool> started_lock{false};  // of names and open_ranges
constinit std::atomic<uint64_t> handles{0};
constinit char declared[kLongestName] = {};
constinit std::atomic<bool> declaring{false};
constinit std::atomic<size_t> declared_length{0};  // 0: none

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// A name's letters without their case, so that "step 1" and "step 2" are one series. 0: no step.
uint64_t step_name(string_view name) {
  const size_t length = declared_length.load(std::memory_order_acquire);
  if (length > 0 ? name != string_view(declared, length) : !is_step_range(name)) return 0;
  uint64_t hash = 1;
  for (const char c : name) {
    const char low = name_search::lower(c);
    if (low >= 'a' && low <= 'z') hash = mix(hash + static_cast<uint64_t>(low));
  }
  return hash | 1;
}

uint64_t step_name(const char* name) {
  if (name == nullptr) return 0;
  const size_t length = strnlen(name, kLongestName);
  return length == kLongestName ? 0 : step_name(string_view(name, length));
}

uint64_t step_name(const wchar_t* name) {
  if (name == nullptr) return 0;
  char narrow[kLongestName];
  size_t length = 0;
  for (; name[length] != 0; ++length) {
    if (length == kLongestName || name[length] < 0 || name[length] > 127) return 0;
    narrow[length] = static_cast<char>(name[length]);
  }
  return step_name(string_view(narrow, length));
}

uint64_t step_name(const nvtxEventAttributes_t* attributes) {
  if (attributes == nullptr ||
      attributes->size < offsetof(nvtxEventAttributes_t, message) + sizeof(nvtxMessageValue_t)) {
    return 0;
  }
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return step_name(attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return step_name(attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED: {
      // Our own handle: a step's hash, which is odd, or an even number.
      const auto handle = reinterpret_cast<uintptr_t>(attributes->message.registered);
      return handle % 2 == 0 ? 0 : handle;
    }
    default:
      return 0;
  }
}

// ---- pushed and popped

// The calling thread's slot, or nullptr when there are too many.
Slot* slot_of(const void* domain) {
  const uint64_t key =
      mix(static_cast<uint64_t>(pthread_self()) ^ mix(reinterpret_cast<uintptr_t>(domain) + 1)) | 1;
  for (size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots[((key >> 32) + i) % kSlots];
    uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == key) return &slot;
    if (found != 0) continue;
    if (slot.key.compare_exchange_strong(found, key)) return &slot;
  }
  return nullptr;
}

int push(const void* domain, uint64_t name) {
  Slot* slot = slot_of(domain);
  if (slot == nullptr) return NVTX_NO_PUSH_POP_TRACKING;
  ++slot->depth;
  if (name != 0 && slot->step_depth == 0) {
    slot->step_depth = slot->depth;
    slot->step_start_ns = clock_ns(CLOCK_REALTIME);
  }
  return slot->depth - 1;
}

int pop(const void* domain) {
  Slot* slot = slot_of(domain);
  if (slot == nullptr || slot->depth == 0) return NVTX_NO_PUSH_POP_TRACKING;
  if (slot->step_depth == slot->depth) {
    slot->step_depth = 0;
    slot->pace.add(slot->step_start_ns);
  }
  return --slot->depth;
}

// ---- started and ended, by any thread

// Does not wait for ever: the holder may not exist in a forked child. What finds it taken is lost.
class StartedLock {
 public:
  StartedLock() {
    for (int i = 0; i < kPatience && !taken_; ++i) taken_ = !started_lock.exchange(true);
  }
  ~StartedLock() {
    if (taken_) started_lock.store(false);
  }
  StartedLock(const StartedLock&) = delete;
  StartedLock& operator=(const StartedLock&) = delete;
  bool taken() const { return taken_; }

 private:
  bool taken_ = false;
};

NamedSeries* series_of(uint64_t key) {
  for (NamedSeries& series : names) {
    if (series.key == 0) series.key = key;
    if (series.key == key) return &series;
  }
  return nullptr;
}

// Ids of steps are odd. The place in open_ranges follows from the id; one that was never ended is
// written over.
nvtxRangeId_t start(const void* domain, uint64_t name) {
  const nvtxRangeId_t id = handles.fetch_add(2, std::memory_order_relaxed) + 2;
  if (name == 0) return id;
  const uint64_t start_ns = clock_ns(CLOCK_REALTIME);
  const StartedLock lock;
  if (!lock.taken()) return id;
  NamedSeries* series = series_of(mix(name ^ mix(reinterpret_cast<uintptr_t>(domain))) | 1);
  if (series == nullptr) return id;
  open_ranges[id / 2 % kOpen] = {id | 1, series, start_ns};
  return id | 1;
}

void end(nvtxRangeId_t id) {
  if (id % 2 == 0) return;
  const StartedLock lock;
  OpenRange& range = open_ranges[id / 2 % kOpen];
  if (!lock.taken() || range.id != id) return;
  range.id = 0;
  range.series->pace.add(range.start_ns);
}

// ---- what NVTX calls

int push_a(const char* name) {
  return push(nullptr, step_name(name));
}
int push_w(const wchar_t* name) {
  return push(nullptr, step_name(name));
}
int push_ex(const nvtxEventAttributes_t* attributes) {
  return push(nullptr, step_name(attributes));
}
int pop_default() {
  return pop(nullptr);
}
nvtxRangeId_t start_a(const char* name) {
  return start(nullptr, step_name(name));
}
nvtxRangeId_t start_w(const wchar_t* name) {
  return start(nullptr, step_name(name));
}
nvtxRangeId_t start_ex(const nvtxEventAttributes_t* attributes) {
  return start(nullptr, step_name(attributes));
}

int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  return push(domain, step_name(attributes));
}
int domain_pop(nvtxDomainHandle_t domain) {
  return pop(domain);
}
nvtxRangeId_t domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  return start(domain, step_name(attributes));
}
void domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) {
  end(id);
}
template <typename Char>
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const Char* text) {
  const uint64_t name = step_name(text);
  return reinterpret_cast<nvtxStringHandle_t>(static_cast<uintptr_t>(name == 0 ? 2 : name));
}
template <typename Char>
nvtxDomainHandle_t create_domain(const Char*) {
  return reinterpret_cast<nvtxDomainHandle_t>(
      static_cast<uintptr_t>(handles.fetch_add(2, std::memory_order_relaxed) + 2));
}

struct Callback {
  unsigned int id;
  NvtxFunctionPointer function;
};

template <typename Function>
Callback callback(unsigned int id, Function* function) {
  return {id, reinterpret_cast<NvtxFunctionPointer>(function)};
}

bool attach(const NvtxExportTableCallbacks& table, NvtxCallbackModule module,
            const Callback* callbacks, size_t count) {
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (table.GetModuleFunctionTable(module, &functions, &size) == 0 || functions == nullptr) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const Callback& each = callbacks[i];
    if (each.id < size && functions[each.id] != nullptr) *functions[each.id] = each.function;
  }
  return true;
}

// The first NVTX instance's call; others meanwhile may still look for steps by pattern.
void read_declaration() {
  const char* name = getenv(kStepRangeVariable);
  if (name == nullptr || declaring.exchange(true)) return;
  const size_t length = strnlen(name, kLongestName);
  if (length == kLongestName) return;
  memcpy(declared, name, length);
  declared_length.store(length, std::memory_order_release);
}

int initialize(NvtxGetExportTableFunc_t get_table) {
  if (get_table == nullptr) return 0;
  const auto* table = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (table == nullptr || table->struct_size < sizeof(*table) ||
      table->GetModuleFunctionTable == nullptr) {
    return 0;
  }
  read_declaration();
  const Callback core[] = {
      callback(NVTX_CBID_CORE_RangePushA, push_a),
      callback(NVTX_CBID_CORE_RangePushW, push_w),
      callback(NVTX_CBID_CORE_RangePushEx, push_ex),
      callback(NVTX_CBID_CORE_RangePop, pop_default),
      callback(NVTX_CBID_CORE_RangeStartA, start_a),
      callback(NVTX_CBID_CORE_RangeStartW, start_w),
      callback(NVTX_CBID_CORE_RangeStartEx, start_ex),
      callback(NVTX_CBID_CORE_RangeEnd, end),
  };
  const Callback domains[] = {
      callback(NVTX_CBID_CORE2_DomainRangePushEx, domain_push),
      callback(NVTX_CBID_CORE2_DomainRangePop, domain_pop),
      callback(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start),
      callback(NVTX_CBID_CORE2_DomainRangeEnd, domain_end),
      callback(NVTX_CBID_CORE2_DomainRegisterStringA, register_string<char>),
      callback(NVTX_CBID_CORE2_DomainRegisterStringW, register_string<wchar_t>),
      callback(NVTX_CBID_CORE2_DomainCreateA, create_domain<char>),
      callback(NVTX_CBID_CORE2_DomainCreateW, create_domain<wchar_t>),
  };
  const bool plain = attach(*table, NVTX_CB_MODULE_CORE, core, std::size(core));
  return attach(*table, NVTX_CB_MODULE_CORE2, domains, std::size(domains)) || plain ? 1 : 0;
}

}  // namespace

StepEstimate estimate() {
  StepPace best{};
  auto consider = [&best](const SharedPace& shared) {
    const StepPace pace = shared.read();
    if (pace.count > best.count ||
        (pace.count == best.count && pace.last_ns - pace.first_ns > best.last_ns - best.first_ns)) {
      best = pace;
    }
  };
  for (const Slot& slot : slots) {
    if (slot.key.load(std::memory_order_relaxed) != 0) consider(slot.pace);
  }
  for (const NamedSeries& series : names) consider(series.pace);
  return best.estimate(StepSource::kNvtx);
}

}  // namespace mfu::nvtx_gate

// 1: attached. At 0, NVTX unloads us and all its functions do nothing.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  return mfu::nvtx_gate::initialize(get_table);
}
