#include "profiler/cupti_session.hh"

#include <algorithm>
#include <atomic>

#include "profiler/activity_buffers.hh"
#include "profiler/clock_ns.hh"
#include "profiler/collection.hh"
#include "profiler/cupti_gate.hh"
#include "profiler/device_sensors.hh"
#include "profiler/neighbour.hh"
#include "profiler/process_record.hh"
#include "profiler/record.hh"
#include "profiler/record_clock.hh"

namespace mfu::cupti_session {
namespace {

// The cost is judged against the budget from this age of the session on.
constexpr uint64_t kCostWindowNs = 10'000'000'000;

// Longer than any two flushes are apart.
constexpr uint64_t kPatienceNs = 3'000'000'000;

// Times from this much before the process on are CLOCK_REALTIME.
constexpr uint64_t kClockSlackNs = 1'000'000'000;

// A neighbour waits so long at most for our worker to be out of CUPTI.
constexpr int kWaitMs = 1000;

// Who has CUPTI. Only the worker leaves kArming, and makes kOff or kArming of anything; only a
// neighbour makes kYielded of kArmed, in its own thread.
enum class Mode : uint32_t {
  kOff,      // never armed, or for good no more
  kArming,   // about to be ours
  kArmed,    // ours: activity kinds are enabled, buffers are lent
  kYielded,  // a neighbour's. No call to CUPTI but for the parsing of buffers
};

constinit Settings settings{};
constinit std::atomic<Mode> mode{Mode::kOff};
constinit std::atomic<bool> in_cupti{false};  // the worker is, where a neighbour must not meet it
constinit std::atomic<uint64_t> away_since_ns{0};   // of kYielded: everything before it is ours
constinit std::atomic<bool> missing_before{false};  // records were dropped before we gave way
constinit bool stays_away = false;                  // CUPTI would not have us back
constinit bool may_refuse = false;
constinit std::atomic<bool> closed{false};        // nothing of ours is in CUPTI any more
constinit std::atomic<uint64_t> last_look_ns{0};  // CLOCK_REALTIME: records are compared with it
// CLOCK_MONOTONIC, whoever sets the clock: of that look, and of the session's begin. The time in
// which another client has CUPTI is still told by the clock that may be set: of it records are.
constinit uint64_t looked_ns = 0;
constinit uint64_t opened_ns = 0;
constinit std::atomic<uint64_t> callback_ns{0};
constinit std::atomic<CuptiCall> call_under_way{CuptiCall::kNone};  // the worker's
constinit std::atomic<bool> abandoned{false};                       // in a forked child

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
uint64_t withheld_ns(bool last) {
  uint64_t since_ns = activity_buffers::withheld_since_ns();
  uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (since_ns == 0 || now_ns <= since_ns) return 0;
  return last || now_ns - since_ns > kPatienceNs ? now_ns - since_ns : 0;
}

// Time that is not observed for now.
uint64_t unobserved_ns(uint64_t now_ns, bool last) {
  uint64_t since_ns = away_since_ns;
  switch (mode) {
    case Mode::kArmed:
      return withheld_ns(last);
    case Mode::kYielded:
      return now_ns > since_ns ? now_ns - since_ns : 0;
    default:
      return 0;
  }
}

void publish(uint64_t now_ns, uint64_t worker_ns, bool last) {
  process_record::publish(
      now_ns,
      {callback_ns, worker_ns, activity_buffers::mapped_bytes(), unobserved_ns(now_ns, last)},
      last);
}

// The worker's calls of CUPTI, from enter_cupti() to leave_cupti(). False when it is not ours.
bool enter_cupti() {
  in_cupti = true;
  if (mode == Mode::kArmed) return true;
  in_cupti = false;
  return false;
}

void leave_cupti() {
  in_cupti = false;
}

// --- callbacks: any thread, short.

void on_requested(uint8_t** memory, size_t* size) {
  *memory = nullptr;
  *size = 0;
  // The buffer would hold a neighbour's records before long.
  if (abandoned || (closed && may_refuse)) return;
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
      // What had not begun when we gave way runs in the time that counts as lost.
      if (mode != Mode::kYielded || batch[count].start_ns != 0) ++count;
    }
    record_clock::convert(batch, count);
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    if (mode == Mode::kYielded) now_ns = std::min<uint64_t>(now_ns, away_since_ns);
    process_record::take(batch, count, now_ns);
  }
  if (result != 0) fail(CuptiCall::kGetNextRecord, result);
}

// The records that CUPTI has dropped since the last time.
uint64_t ask_dropped(void* context, uint32_t stream) {
  uint64_t count = 0;
  int result = cupti::dropped(context, stream, &count);
  if (result != 0) process_record::set_drops_unknown(result);
  return count;
}

// Digests the returned buffers in the order of their return. True when records are known to be
// missing.
bool digest_returned() {
  uint64_t missing = 0;
  auto ask = [&](void* context, uint32_t stream) {
    if (!enter_cupti()) return;
    call_under_way = CuptiCall::kGetDropped;
    missing += ask_dropped(context, stream);
    leave_cupti();
  };
  record_clock::read();
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

void note_look(uint64_t now_ns) {
  last_look_ns = now_ns;
  looked_ns = clock_ns(CLOCK_MONOTONIC);
}

void take_returned() {
  bool lossy = digest_returned();
  lossy = missing_before.exchange(false) || lossy;
  uint64_t now_ns = clock_ns(CLOCK_REALTIME);
  uint64_t since_ns = clock_ns(CLOCK_MONOTONIC) - looked_ns;
  if (mode == Mode::kYielded) {
    now_ns = std::min<uint64_t>(now_ns, away_since_ns);
    if (now_ns <= last_look_ns) return;
    since_ns = now_ns - last_look_ns;
  }
  // Records went missing at some time since the last look: nothing is known of all of it.
  if (lossy) process_record::add_lost(since_ns);
  note_look(now_ns);
}

// Takes our hands off CUPTI.
void release_cupti() {
  collection::end();
  uint64_t missing = ask_dropped(nullptr, 0);
  process_record::add_dropped(missing);
  if (missing != 0) missing_before = true;
  closed = true;
}

// --- a neighbour: in its thread

bool collects(uint32_t kind) {
  return (mode == Mode::kArmed || mode == Mode::kArming) && collection::includes(kind);
}

// Bounded: whatever lock this thread holds, CUPTI may need it in the worker's. False: the worker
// hangs in CUPTI.
bool await_worker() {
  for (int i = 0; i < kWaitMs && in_cupti; ++i) {
    pause_ns(1'000'000);
  }
  return !in_cupti;
}

void give_way(bool finalize) {
  if (mode == Mode::kArming) await_worker();
  Mode armed = Mode::kArmed;
  if (mode != armed) return;
  away_since_ns = finalize ? last_look_ns.load() : clock_ns(CLOCK_REALTIME);
  if (!mode.compare_exchange_strong(armed, Mode::kYielded)) return;
  if (await_worker() && !finalize) release_cupti();
  settings.wake();
}

// --- and after it, in the worker's

// As if we had not come back. The neighbour's call that made us stop may be through already.
void withdraw() {
  release_cupti();
  if (neighbour::is_there()) neighbour::restore_callbacks();
  mode = Mode::kYielded;
}

void come_back() {
  if (mode != Mode::kYielded || stays_away) return;
  // From here on a neighbour that comes waits for the end of this.
  in_cupti = true;
  mode = Mode::kArming;
  uint64_t since_ns = away_since_ns;
  if (!neighbour::take_leave()) {
    mode = Mode::kYielded;
    leave_cupti();
    return;
  }
  // What CUPTI still holds of its buffers goes home.
  if (!neighbour::has_flushed() && neighbour::is_reachable()) cupti::flush(true);
  activity_buffers::forget_lent();
  closed = false;
  uint64_t theirs = 0;
  cupti::dropped(nullptr, 0, &theirs);
  CuptiCall failed;
  int result = collection::begin({on_requested, on_completed}, &failed);
  if (result != 0 || neighbour::is_there()) {
    stays_away = result != 0;
    withdraw();
  } else {
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    if (now_ns > since_ns) process_record::add_lost(now_ns - since_ns);
    note_look(now_ns);
    process_record::forgive(State::kCuptiBusy);
    mode = Mode::kArmed;
  }
  leave_cupti();
}

// --- the first time

void arm_first() {
  if (!cupti::load(settings.cupti_path)) {
    return process_record::fail(State::kNoCupti, CuptiCall::kNone, 0);
  }
  uint32_t api = 0;
  int result = cupti::version(&api);
  if (result != 0) return fail(CuptiCall::kGetVersion, result);
  process_record::set_cupti_version(api);
  may_refuse = api >= cupti::kRefusalVersion;
  activity_buffers::set_refusal(may_refuse);
  if (api < cupti::kOldestVersion) {
    return process_record::fail(State::kRefused, CuptiCall::kNone, 0);
  }
  record_clock::open(process_record::started_ns() - kClockSlackNs);
  in_cupti = true;
  mode = Mode::kArming;
  neighbour::watch({give_way, collects});
  result = cupti::probe_subscription();
  if (result == cupti::kMultipleSubscribers) {
    // One in this process may leave; see come_back().
    bool leaves = neighbour::was_first();
    fail(CuptiCall::kSubscribe, result);
    away_since_ns = process_record::started_ns();
    mode = leaves ? Mode::kYielded : Mode::kOff;
    return leave_cupti();
  }
  CuptiCall failed;
  result = collection::begin({on_requested, on_completed}, &failed);
  if (result != 0) {
    collection::cancel();
    fail(failed, result);
    mode = Mode::kOff;
  } else if (neighbour::is_there()) {
    fail(CuptiCall::kSubscribe, cupti::kMultipleSubscribers);
    away_since_ns = process_record::started_ns();
    withdraw();
  } else {
    mode = Mode::kArmed;
  }
  leave_cupti();
}

}  // namespace

bool open(const Settings& wanted) {
  settings = wanted;
  opened_ns = clock_ns(CLOCK_MONOTONIC);
  return process_record::create(settings.record_folder);
}

void arm() {
  note_look(process_record::started_ns());
  arm_first();
  publish(last_look_ns, 0, false);
}

void give_up_thread() {
  process_record::fail(State::kNoThread, CuptiCall::kNone, 0);
  publish(process_record::started_ns(), 0, false);
}

void turn(bool last) {
  if (mode != Mode::kOff) neighbour::watch_new_objects();
  if (enter_cupti()) {
    process_record::publish_call(true);
    call_under_way = CuptiCall::kFlushAll;
    int result = cupti::flush(last);
    leave_cupti();
    if (result != 0) {
      fail(CuptiCall::kFlushAll, result);
      process_record::add_flags(kFlushFailed);
    }
  }
  if (mode != Mode::kOff) take_returned();
  if (!last) come_back();
  process_record::describe_devices();
  uint64_t age_ns = clock_ns(CLOCK_MONOTONIC) - opened_ns;
  uint64_t worker_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + device_sensors::cpu_ns();
  double cost_ns = static_cast<double>(worker_ns + callback_ns);
  if (!last && settings.budget_percent > 0 && age_ns > kCostWindowNs &&
      cost_ns * 100 > settings.budget_percent * static_cast<double>(age_ns) && enter_cupti()) {
    release_cupti();
    mode = Mode::kOff;
    leave_cupti();
    take_returned();
    process_record::fail(State::kStoodDown, CuptiCall::kNone, 0);
  }
  if (last) device_sensors::finish();
  publish(clock_ns(CLOCK_REALTIME), worker_ns, last);
}

void drain() {
  if (mode == Mode::kOff) return;
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
