#include "profiler/cupti_session.hh"

#include <time.h>

#include <algorithm>
#include <atomic>

#include "profiler/activity_buffers.hh"
#include "profiler/cupti_gate.hh"
#include "profiler/process_record.hh"
#include "profiler/record.hh"

namespace mfu::cupti_session {
namespace {

// The cost is judged against the budget from this age of the session on.
constexpr uint64_t kCostWindowNs = 10'000'000'000;

// Longer than any two flushes are apart.
constexpr uint64_t kPatienceNs = 3'000'000'000;

constinit Settings settings{};
constinit bool armed = false;         // activity kinds are enabled
constinit uint64_t last_look_ns = 0;  // the worker's
constinit std::atomic<uint64_t> callback_ns{0};
constinit std::atomic<CuptiCall> call_under_way{CuptiCall::kNone};  // the worker's
constinit std::atomic<bool> abandoned{false};                       // in a forked child

uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

State state_of(int result) {
  if (result == cupti::kMultipleSubscribers) return State::kCuptiBusy;
  if (result == cupti::kInsufficientPrivileges) return State::kDenied;
  return State::kCuptiFailed;
}

void fail(CuptiCall call, int result) {
  process_record::fail(state_of(result), call, result);
}

// Records that lie in a buffer and do not come: of an operation that takes its time, or another
// client's by now. Until they come they count as lost; at the end there is nothing left to come.
uint64_t withheld_ns(uint64_t now_ns, bool last) {
  uint64_t since_ns = activity_buffers::withheld_since_ns();
  if (since_ns == 0 || now_ns <= since_ns) return 0;
  return last || now_ns - since_ns > kPatienceNs ? now_ns - since_ns : 0;
}

void publish(uint64_t now_ns, uint64_t worker_ns, bool last) {
  process_record::publish(now_ns,
                          {callback_ns, worker_ns, activity_buffers::mapped_bytes(),
                           armed ? withheld_ns(now_ns, last) : 0},
                          last);
}

// --- callbacks: any thread, short.

void on_requested(uint8_t** memory, size_t* size) {
  *memory = nullptr;
  *size = 0;
  if (abandoned) return;
  uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  *memory = activity_buffers::lend();
  if (*memory != nullptr) *size = activity_buffers::kSize;
  callback_ns += clock_ns(CLOCK_MONOTONIC) - begin;
}

// A buffer that is not of our pool: another client's, whose callbacks CUPTI mixed up with ours. It
// is not ours to keep or to free, so it is digested while we have it.
void digest(uint8_t* memory, size_t valid);

void on_completed(void* context, uint32_t stream, uint8_t* memory, size_t size, size_t valid) {
  if (abandoned || memory == nullptr) return;
  uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  valid = std::min(valid, size);
  if (!activity_buffers::take_back({memory, valid, context, stream})) digest(memory, valid);
  bool scarce = activity_buffers::scarce();
  callback_ns += clock_ns(CLOCK_MONOTONIC) - begin;
  if (scarce) settings.wake();
}

// Records are copied out in batches: GetNextRecord is a CUPTI call, and no lock is held across one.
void digest(uint8_t* memory, size_t valid) {
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
    process_record::take(batch, count, clock_ns(CLOCK_REALTIME));
  }
  if (result != 0) fail(CuptiCall::kGetNextRecord, result);
}

// Digests the returned buffers in the order of their return. True when records are known to be
// missing.
bool digest_returned() {
  uint64_t missing = 0;
  auto ask = [&](void* context, uint32_t stream) {
    uint64_t count = 0;
    call_under_way = CuptiCall::kGetDropped;
    int result = cupti::dropped(context, stream, &count);
    if (result != 0) process_record::set_drops_unknown(result);
    missing += count;
  };
  activity_buffers::Returned buffer;
  while (activity_buffers::oldest(&buffer)) {
    call_under_way = CuptiCall::kGetNextRecord;
    digest(buffer.memory, buffer.valid);
    if (buffer.context != nullptr) ask(buffer.context, buffer.stream);
    activity_buffers::recycle(buffer.memory);
  }
  ask(nullptr, 0);
  call_under_way = CuptiCall::kNone;
  process_record::add_dropped(missing);
  return activity_buffers::take_refusals() + missing != 0;
}

void take_returned() {
  if (!armed) return;
  bool lossy = digest_returned();
  uint64_t now_ns = clock_ns(CLOCK_REALTIME);
  // Records went missing at some time since the last look: nothing is known of all of it.
  if (lossy && now_ns > last_look_ns) process_record::add_lost(now_ns - last_look_ns);
  last_look_ns = now_ns;
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
void enable_all() {
  if (!cupti::load(settings.cupti_path)) {
    return process_record::fail(State::kNoCupti, CuptiCall::kNone, 0);
  }
  uint32_t api = 0;
  int result = cupti::version(&api);
  if (result != 0) return fail(CuptiCall::kGetVersion, result);
  process_record::set_cupti_version(api);
  activity_buffers::set_refusal(api >= cupti::kRefusalVersion);
  if (api < cupti::kOldestVersion) {
    return process_record::fail(State::kRefused, CuptiCall::kNone, 0);
  }
  cupti::promise_zeroed_buffers();
  result = cupti::register_callbacks({on_requested, on_completed});
  if (result != 0) return fail(CuptiCall::kRegisterCallbacks, result);
  for (const auto& [kind, call] : kKinds) {
    result = cupti::enable(kind);
    if (result == 0) continue;
    disarm();
    return fail(call, result);
  }
  armed = true;
}

}  // namespace

bool open(const Settings& wanted) {
  settings = wanted;
  return process_record::create(settings.record_folder);
}

void arm() {
  last_look_ns = process_record::started_ns();
  enable_all();
  publish(last_look_ns, 0, false);
}

void give_up_thread() {
  process_record::fail(State::kNoThread, CuptiCall::kNone, 0);
  publish(process_record::started_ns(), 0, false);
}

void turn(bool last) {
  if (armed) {
    process_record::publish_call(true);
    call_under_way = CuptiCall::kFlushAll;
    int result = cupti::flush(last);
    if (result != 0) {
      fail(CuptiCall::kFlushAll, result);
      process_record::add_flags(kFlushFailed);
    }
  }
  take_returned();
  process_record::describe_devices();
  uint64_t now_ns = clock_ns(CLOCK_REALTIME);
  uint64_t started_ns = process_record::started_ns();
  uint64_t age_ns = now_ns > started_ns ? now_ns - started_ns : 0;
  uint64_t worker_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  double cost_ns = static_cast<double>(worker_ns + callback_ns);
  if (armed && !last && settings.budget_percent > 0 && age_ns > kCostWindowNs &&
      cost_ns * 100 > settings.budget_percent * static_cast<double>(age_ns)) {
    disarm();
    process_record::fail(State::kStoodDown, CuptiCall::kNone, 0);
  }
  publish(now_ns, worker_ns, last);
}

void drain() {
  if (!armed) return;
  process_record::publish_call(true);
  take_returned();
  process_record::publish_call(false);
}

void publish_without_cupti() {
  process_record::publish_hang(clock_ns(CLOCK_REALTIME), call_under_way);
}

void abandon() {
  abandoned = true;
}

}  // namespace mfu::cupti_session
