#include "profiler/neighbour.hh"

#include <unistd.h>

#include <atomic>

#include "profiler/clock_ns.hh"
#include "profiler/cupti_gate.hh"
#include "profiler/dlsym_patch.hh"
#include "profiler/got_patch.hh"
#include "profiler/record_clock.hh"

namespace mfu::neighbour {
namespace {

// A client that disables its kinds and only then begins to think of its buffers.
constexpr uint64_t kQuietNs = 3'000'000'000;

constexpr uint32_t kFlushForced = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

constinit Host host{};
constinit pid_t owner = 0;
constinit std::atomic<bool> there{false};
constinit std::atomic<bool> finalized{false};
constinit std::atomic<uint32_t> inside{0};  // threads in a wrapper
constinit std::atomic<uint64_t> enabled{0};
constinit std::atomic<uint32_t> context_kinds{0};  // enabled for one context alone, in all
constinit std::atomic<uint32_t> subscriptions{0};
constinit std::atomic<bool> flushed{false};  // by force, since the last change of kinds
constinit std::atomic<uint64_t> last_call_ns{0};
constinit std::atomic<void*> requested{nullptr};
constinit std::atomic<void*> completed{nullptr};

uint64_t bit(uint32_t kind) {
  return kind < 64 ? uint64_t{1} << kind : 0;
}

void decrease(std::atomic<uint32_t>& count) {
  uint32_t left = count;
  while (left > 0 && !count.compare_exchange_weak(left, left - 1)) {
  }
}

// A call of the neighbour's, from its begin to its end.
class Call {
 public:
  Call() {
    if (!ours_) return;
    ++inside;
    last_call_ns = clock_ns(CLOCK_MONOTONIC);
  }
  ~Call() {
    if (!ours_) return;
    last_call_ns = clock_ns(CLOCK_MONOTONIC);
    --inside;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // This call takes something from us. True when it is the first one that does.
  bool comes(bool finalize = false) const {
    if (!ours_) return false;
    flushed = false;
    if (there.exchange(true)) return false;
    host.give_way(finalize);
    return true;
  }
  bool counts(int result) const { return ours_ && result == 0; }
  bool has_cupti() const { return !ours_ || there; }

 private:
  const bool ours_ = getpid() == owner;  // not in a forked child
};

// The functions themselves.
enum Function {
  kRegisterCallbacks,
  kRegisterClock,
  kEnable,
  kEnableAndDump,
  kEnableContext,
  kDisable,
  kDisableContext,
  kFlushAll,
  kSubscribe,
  kSubscribe2,
  kUnsubscribe,
  kFinalize,
  kFunctions,
};
constinit void* real[kFunctions] = {};

// Stands for a function that this libcupti does not have: no import leads to it.
int missing() {
  return cupti::kNoLibrary;
}

template <typename... Arguments>
int pass_on(Function function, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(real[function])(arguments...);
}

// --- the wrappers: the types are those of cupti.h as the machine sees them

int register_callbacks(void* request, void* complete) {
  Call call;
  call.comes();
  int result = pass_on(kRegisterCallbacks, request, complete);
  if (call.counts(result)) {
    requested = request;
    completed = complete;
  }
  return result;
}

int register_clock(void* clock) {
  Call call;
  call.comes();
  int result = pass_on(kRegisterClock, clock);
  if (call.counts(result)) record_clock::follow(reinterpret_cast<uint64_t (*)()>(clock));
  return result;
}

void register_again() {
  pass_on(kRegisterCallbacks, requested.load(), completed.load());
}

// A client that registered its callbacks in an earlier stay, and has no reason to think that they
// are gone, comes with the kinds.
void come_with_kinds(const Call& call) {
  if (completed != nullptr && call.comes()) register_again();
}

int enable_by(Function function, uint32_t kind) {
  Call call;
  come_with_kinds(call);
  int result = pass_on(function, kind);
  if (call.counts(result)) {
    enabled |= bit(kind);
    flushed = false;
  }
  return result;
}

int enable(uint32_t kind) {
  return enable_by(kEnable, kind);
}

int enable_and_dump(uint32_t kind) {
  return enable_by(kEnableAndDump, kind);
}

int enable_context(void* context, uint32_t kind) {
  Call call;
  come_with_kinds(call);
  int result = pass_on(kEnableContext, context, kind);
  if (call.counts(result)) {
    ++context_kinds;
    flushed = false;
  }
  return result;
}

int disable(uint32_t kind) {
  Call call;
  bool passes = call.has_cupti() || !host.collects(kind);
  int result = passes ? pass_on(kDisable, kind) : 0;
  if (call.counts(result)) {
    enabled &= ~bit(kind);
    flushed = false;
  }
  return result;
}

int disable_context(void* context, uint32_t kind) {
  Call call;
  bool passes = call.has_cupti() || !host.collects(kind);
  int result = passes ? pass_on(kDisableContext, context, kind) : 0;
  if (call.counts(result)) {
    decrease(context_kinds);
    flushed = false;
  }
  return result;
}

int flush_all(uint32_t flag) {
  Call call;
  int result = pass_on(kFlushAll, flag);
  if (call.counts(result) && (flag & kFlushForced) != 0) flushed = true;
  return result;
}

int subscribe(void* subscriber, void* callback, void* data) {
  Call call;
  call.comes();
  int result = pass_on(kSubscribe, subscriber, callback, data);
  if (call.counts(result)) ++subscriptions;
  return result;
}

int subscribe2(void* subscriber, void* callback, void* data, void* parameters) {
  Call call;
  call.comes();
  int result = pass_on(kSubscribe2, subscriber, callback, data, parameters);
  if (call.counts(result)) ++subscriptions;
  return result;
}

int unsubscribe(void* subscriber) {
  Call call;
  int result = pass_on(kUnsubscribe, subscriber);
  if (call.counts(result)) decrease(subscriptions);
  return result;
}

int finalize() {
  Call call;
  call.comes(true);
  if (call.counts(0)) finalized = true;
  return pass_on(kFinalize);
}

const GotPatch::Symbol kSymbols[kFunctions] = {
    {"cuptiActivityRegisterCallbacks", reinterpret_cast<void*>(register_callbacks),
     &real[kRegisterCallbacks]},
    {"cuptiActivityRegisterTimestampCallback", reinterpret_cast<void*>(register_clock),
     &real[kRegisterClock]},
    {"cuptiActivityEnable", reinterpret_cast<void*>(enable), &real[kEnable]},
    {"cuptiActivityEnableAndDump", reinterpret_cast<void*>(enable_and_dump), &real[kEnableAndDump]},
    {"cuptiActivityEnableContext", reinterpret_cast<void*>(enable_context), &real[kEnableContext]},
    {"cuptiActivityDisable", reinterpret_cast<void*>(disable), &real[kDisable]},
    {"cuptiActivityDisableContext", reinterpret_cast<void*>(disable_context),
     &real[kDisableContext]},
    {"cuptiActivityFlushAll", reinterpret_cast<void*>(flush_all), &real[kFlushAll]},
    {"cuptiSubscribe", reinterpret_cast<void*>(subscribe), &real[kSubscribe]},
    {"cuptiSubscribe_v2", reinterpret_cast<void*>(subscribe2), &real[kSubscribe2]},
    {"cuptiUnsubscribe", reinterpret_cast<void*>(unsubscribe), &real[kUnsubscribe]},
    {"cuptiFinalize", reinterpret_cast<void*>(finalize), &real[kFinalize]},
};

constinit GotPatch patch(kSymbols, kFunctions);

}  // namespace

void watch(const Host& wanted) {
  host = wanted;
  owner = getpid();
  for (int i = 0; i < kFunctions; ++i) {
    real[i] = cupti::function(kSymbols[i].name);
    if (real[i] == nullptr) real[i] = reinterpret_cast<void*>(missing);
  }
  dlsym_patch::add(kSymbols, kFunctions);
  watch_new_objects();
}

void watch_new_objects() {
  patch.apply();
  dlsym_patch::apply();
}

bool was_first() {
  if (patch.patched(kUnsubscribe) == 0) return false;
  subscriptions = 1;
  there = true;
  return true;
}

bool is_there() {
  return there;
}

bool has_enabled(uint32_t kind) {
  return (enabled & bit(kind)) != 0;
}

bool take_leave() {
  auto is_gone = [] {
    if (inside != 0 || finalized || subscriptions != 0 || enabled != 0 || context_kinds != 0) {
      return false;
    }
    return flushed || clock_ns(CLOCK_MONOTONIC) - last_call_ns > kQuietNs;
  };
  if (!is_gone()) return false;
  // A call that begins before this is seen below; one that begins after it makes us give way.
  there = false;
  if (inside == 0) return true;
  there = true;
  return false;
}

bool has_flushed() {
  return flushed;
}

bool is_reachable() {
  return completed != nullptr && is_loaded(completed);
}

void restore_callbacks() {
  if (completed != nullptr) register_again();
}

}  // namespace mfu::neighbour
