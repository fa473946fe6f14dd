#include "tests/fake/cupti_collector.hh"

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/fake/cupti_faults.hh"
#include "tests/fake/cupti_records.hh"

namespace mfu::fake {
namespace {

constexpr uint32_t kOwnPeriodMs = 2;

// The quickest of several, lest the thread lose its processor in between.
ClockReading read_both(CUpti_TimestampCallbackFunc clock) {
  ClockReading best;
  uint64_t quickest_ns = UINT64_MAX;
  for (int i = 0; i < 20; ++i) {
    uint64_t before_ns = realtime_ns();
    uint64_t clients = clock();
    uint64_t took_ns = realtime_ns() - before_ns;
    if (took_ns >= quickest_ns) continue;
    quickest_ns = took_ns;
    best = {before_ns + took_ns / 2, clients};
  }
  return best;
}

bool nth(uint64_t every, uint64_t count) {
  return every != 0 && count % every == 0;
}

}  // namespace

uint64_t realtime_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

Collector& Collector::instance() {
  static Collector& self = *new Collector;
  return self;
}

void Collector::set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                              CUpti_BuffersCallbackCompleteFunc complete) {
  Lock lock(state_);
  request_ = request;
  complete_ = complete;
}

bool Collector::has_callbacks() {
  Lock lock(state_);
  return request_ != nullptr;
}

void Collector::set_clock(CUpti_TimestampCallbackFunc clock) {
  ClockReading reading = read_both(clock);
  Lock lock(state_);
  if (clock != clock_) first_reading_ = reading;
  clock_ = clock;
}

uint64_t Collector::clients_time(uint64_t real_ns) {
  const ClockReading& a = first_reading_;
  ClockReading b = read_both(clock_);
  if (b.real_ns == a.real_ns) return b.clients;
  long double rate = static_cast<long double>(static_cast<int64_t>(b.clients - a.clients)) /
                     static_cast<long double>(static_cast<int64_t>(b.real_ns - a.real_ns));
  return b.clients - static_cast<uint64_t>(
                         static_cast<int64_t>(rate * static_cast<int64_t>(b.real_ns - real_ns)));
}

void Collector::reset() {
  Lock lock(state_);
  request_ = nullptr;
  complete_ = nullptr;
  clock_ = nullptr;
  zeroed_ = false;
  kinds_.clear();
  context_kinds_.clear();
  for (auto& [context_id, channel] : channels_) channel = {};
  held_back_.clear();
  retired_.clear();
  dropped_ = 0;
}

uint64_t Collector::now() {
  CUpti_TimestampCallbackFunc clock = clock_;
  return clock != nullptr ? clock() : realtime_ns();
}

void Collector::enable(CUpti_ActivityKind kind, bool on) {
  Lock lock(state_);
  if (on) {
    kinds_.insert(kind);
  } else {
    kinds_.erase(kind);
  }
  if (thread_started_) return;
  thread_started_ = true;
  std::thread([this] { run(); }).detach();
}

void Collector::enable(CUcontext context, CUpti_ActivityKind kind, bool on) {
  Lock lock(state_);
  context_kinds_[{context, kind}] = on;
}

// Kernels are reported as CONCURRENT_KERNEL, or as KERNEL if only that is enabled.
bool Collector::wanted(const GpuOperation& operation, CUpti_ActivityKind* kind) {
  auto enabled = [&](CUpti_ActivityKind asked) {
    auto own = context_kinds_.find({operation.context, asked});
    return own != context_kinds_.end() ? own->second : kinds_.contains(asked);
  };
  *kind = kind_of(operation.work);
  if (enabled(*kind)) return true;
  if (operation.work != GpuWork::kKernel) return false;
  *kind = CUPTI_ACTIVITY_KIND_KERNEL;
  return enabled(*kind);
}

void Collector::submitted(const GpuOperation& operation, uint32_t context_id) {
  Lock lock(state_);
  Pending pending = {operation, CUPTI_ACTIVITY_KIND_INVALID};
  if (record_faults().silence || !wanted(operation, &pending.kind)) return;
  if (operation.name != nullptr) {
    pending.operation.name = names_.emplace(operation.name).first->c_str();
  }
  Channel& channel = channels_[context_id];
  channel.pending.emplace(operation.end_ns, pending);
  work_.notify_one();
  if (channel.open.bytes == nullptr) offer_buffer(&channel, &lock);
}

// Asks the client for a buffer. Channels are never removed, so that the pointer stays good while
// the lock is open; another thread may have been faster, then the buffer goes straight back.
bool Collector::offer_buffer(Channel* channel, Lock* lock) {
  CUpti_BuffersCallbackRequestFunc request = request_;
  if (request == nullptr || record_faults().no_buffers) return false;
  Buffer fresh;
  lock->unlock();
  request(&fresh.bytes, &fresh.size, &fresh.max_records);
  lock->lock();
  if (fresh.bytes == nullptr) return channel->open.bytes != nullptr;
  if (channel->open.bytes != nullptr) {
    retired_.push_back(fresh);
  } else {
    channel->open = fresh;
  }
  return true;
}

void Collector::place(uint32_t context_id, const Pending& pending, Lock* lock) {
  size_t size = record_size(pending.kind);
  Channel& channel = channels_[context_id];
  auto full = [&] {
    const Buffer& open = channel.open;
    return open.bytes != nullptr && (open.used + size > open.size ||
                                     (open.max_records != 0 && open.records >= open.max_records));
  };
  if (full()) retire(&channel);
  if (channel.open.bytes == nullptr && !offer_buffer(&channel, lock)) {
    ++dropped_;
    return;
  }
  if (full()) {  // a fresh buffer too small for one record
    ++dropped_;
    return;
  }
  unsigned char record[kLargestRecord] = {};
  encode(pending.operation, pending.kind, context_id, pending.operation.name, record);
  uint8_t* to = channel.open.bytes + channel.open.used;
  for (size_t i = 0; i < size; ++i) {
    to[i] = zeroed_ ? static_cast<uint8_t>(to[i] | record[i]) : record[i];
  }
  channel.open.used += size;
  ++channel.open.records;
}

// One record that is due, with the faults that hit it.
void Collector::write(uint32_t context_id, Pending pending, bool forced, Lock* lock) {
  const RecordFaults& faults = record_faults();
  uint64_t count = ++written_;
  if (nth(faults.drop, count)) {
    ++dropped_;
    return;
  }
  GpuOperation& operation = pending.operation;
  if (clock_ != nullptr) {
    if (operation.start_ns != 0) operation.start_ns = clients_time(operation.start_ns);
    if (operation.end_ns != 0) operation.end_ns = clients_time(operation.end_ns);
  }
  if (nth(faults.late, count) && !forced) {
    held_back_.emplace_back(context_id, pending);
    return;
  }
  if (nth(faults.zero_times, count)) operation.start_ns = operation.end_ns = 0;
  if (nth(faults.reversed, count)) std::swap(operation.start_ns, operation.end_ns);
  place(context_id, pending, lock);
  if (nth(faults.duplicate, count)) place(context_id, pending, lock);
}

void Collector::deliver(bool partly_filled, bool forced) {
  std::lock_guard delivery(delivery_);
  Lock lock(state_);
  uint64_t now_ns = realtime_ns();
  for (auto& [context_id, channel] : channels_) {
    while (!channel.pending.empty()) {
      auto first = channel.pending.begin();
      bool complete = first->first <= now_ns;
      if (!complete && !forced) break;
      Pending pending = channel.pending.extract(first).mapped();
      if (!complete) {
        pending.operation.end_ns = 0;
        if (pending.operation.start_ns > now_ns) pending.operation.start_ns = 0;
      }
      write(context_id, pending, forced, &lock);
    }
  }
  if (forced) {
    for (auto& [context_id, pending] : std::exchange(held_back_, {})) {
      place(context_id, pending, &lock);
    }
  }
  for (auto& [context_id, channel] : channels_) {
    bool nonempty = channel.open.records != 0;
    if ((partly_filled && nonempty) || (forced && channel.open.bytes != nullptr)) retire(&channel);
  }
  std::vector<Buffer> ready = std::exchange(retired_, {});
  CUpti_BuffersCallbackCompleteFunc complete = complete_;
  lock.unlock();
  for (const Buffer& buffer : ready) {
    complete(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
  }
}

void Collector::flush(bool forced) {
  deliver(true, forced);
}

size_t Collector::take_dropped() {
  Lock lock(state_);
  return std::exchange(dropped_, 0);
}

void Collector::run() {
  pthread_setname_np(pthread_self(), "fake-cupti");
  while (true) {
    {
      Lock lock(state_);
      work_.wait(lock, [this] {
        for (auto& [context_id, channel] : channels_) {
          if (!channel.pending.empty()) return true;
        }
        return false;
      });
    }
    uint32_t period_ms = period_ms_;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(period_ms != 0 ? period_ms : kOwnPeriodMs));
    deliver(false, false);
  }
}

}  // namespace mfu::fake
