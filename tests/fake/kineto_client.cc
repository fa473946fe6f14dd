#include "tests/fake/kineto_client.hh"

#include <cupti.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

using mfu::fake::KinetoProfile;

constexpr size_t kBufferSize = 4 << 20;
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
};

struct Client {
  std::mutex mutex;
  std::map<uint8_t*, size_t> lent;   // to CUPTI
  std::map<uint8_t*, size_t> ready;  // with the bytes that are valid
  uint64_t foreign_buffers = 0;
  uint64_t start_ticks = 0;
  CUptiResult failure = CUPTI_SUCCESS;
  CUpti_SubscriberHandle subscriber = nullptr;

  void check(CUptiResult result) {
    if (failure == CUPTI_SUCCESS) failure = result;
  }
};

Client& client() {
  static Client& instance = *new Client;
  return instance;
}

// A time stamp counter of 2.5 GHz that began when the machine did: neither rate nor origin are
// those of the wall clock.
uint64_t ticks() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec)) * 5 /
         2;
}

void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* limit) {
  *buffer = static_cast<uint8_t*>(std::malloc(kBufferSize));
  *size = kBufferSize;
  *limit = 0;
  std::memset(*buffer, 0xa5, kBufferSize);
  std::lock_guard lock(client().mutex);
  client().lent[*buffer] = kBufferSize;
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard lock(client().mutex);
  if (client().lent.erase(buffer) == 0) {
    ++client().foreign_buffers;
  } else {
    client().ready[buffer] = valid;
  }
}

bool nothing_lent() {
  std::lock_guard lock(client().mutex);
  return client().lent.empty();
}

std::map<uint8_t*, size_t> take_ready() {
  std::lock_guard lock(client().mutex);
  return std::exchange(client().ready, {});
}

template <typename Record>
void count_times(const CUpti_Activity* record, KinetoProfile* profile) {
  auto* timed = reinterpret_cast<const Record*>(record);
  bool by_our_clock = timed->start >= client().start_ticks && timed->end <= ticks();
  if (!by_our_clock || timed->end < timed->start) ++profile->foreign_clock;
  profile->busy_ns += (timed->end - timed->start) * 2 / 5;
}

void count(const CUpti_Activity* record, KinetoProfile* profile) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      ++profile->kernels;
      return count_times<CUpti_ActivityKernel10>(record, profile);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      ++profile->copies;
      return count_times<CUpti_ActivityMemcpy6>(record, profile);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      ++profile->fills;
      return count_times<CUpti_ActivityMemset4>(record, profile);
    default:
      ++profile->others;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int kinetoStart() {
  Client& self = client();
  self.failure = CUPTI_SUCCESS;
  self.start_ticks = ticks();
  self.check(cuptiActivityRegisterTimestampCallback(ticks));
  uint32_t version;
  self.check(cuptiGetVersion(&version));
  self.check(cuptiActivityRegisterCallbacks(request, complete));
  for (CUpti_ActivityKind kind : kKinds) self.check(cuptiActivityEnable(kind));
  if (!nothing_lent()) self.check(cuptiActivityFlushAll(0));
  for (auto& [buffer, valid] : take_ready()) std::free(buffer);
  return self.failure;
}

int kinetoResume() {
  for (CUpti_ActivityKind kind : kKinds) client().check(cuptiActivityEnable(kind));
  return client().failure;
}

int kinetoStop() {
  for (CUpti_ActivityKind kind : kKinds) client().check(cuptiActivityDisable(kind));
  return client().failure;
}

void kinetoCollect(KinetoProfile* profile) {
  Client& self = client();
  *profile = {};
  if (!nothing_lent()) {
    self.check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    uint8_t no = 0;
    size_t size = sizeof(no);
    self.check(
        cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &no));
  }
  for (auto& [buffer, valid] : take_ready()) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      count(record, profile);
    }
    std::free(buffer);
  }
  std::lock_guard lock(self.mutex);
  profile->foreign_buffers = self.foreign_buffers;
  profile->outstanding = self.lent.size();
  profile->failure = self.failure;
}

int kinetoSubscribe() {
  auto nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  return cuptiSubscribe(&client().subscriber, nothing, nullptr);
}

int kinetoUnsubscribe() {
  return cuptiUnsubscribe(client().subscriber);
}

int kinetoTeardown() {
  Client& self = client();
  self.check(static_cast<CUptiResult>(kinetoSubscribe()));
  self.check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  self.check(static_cast<CUptiResult>(kinetoUnsubscribe()));
  self.check(cuptiFinalize());
  return self.failure;
}
}
#pragma GCC visibility pop
