#include "profiler/activity_buffers.hh"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <span>

#include "profiler/clock_ns.hh"

namespace mfu::activity_buffers {
namespace {

struct Buffer {
  enum Place { kFree, kLent, kForgotten, kReturned, kDigested };
  Returned content;  // content.memory == nullptr: not mapped yet
  Place place;
  uint64_t order;  // of its return
};

constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
constinit Buffer buffers[kMostWithoutRefusal] = {};  // mapped from the front
constinit bool refuses = false;
constinit int waiting = 0;  // returned or digested
constinit uint64_t returns = 0;
constinit uint64_t last_return_ns = 0;
constinit std::atomic<uint64_t> refusals{0};
constinit size_t mapped_count = 0;

bool is_spare(size_t number) {
  return number >= size_t{kMostWaiting};
}

std::span<Buffer> mapped() {
  return {buffers, mapped_count};
}

Buffer* find(const uint8_t* memory) {
  for (Buffer& buffer : mapped()) {
    if (buffer.content.memory == memory) return &buffer;
  }
  return nullptr;
}

// The first free one, so that few are touched where few suffice.
Buffer* find_free() {
  if (refuses && waiting >= kMostWaiting) return nullptr;
  for (Buffer& buffer : mapped()) {
    if (buffer.place == Buffer::kFree) return &buffer;
  }
  if (mapped_count == (refuses ? kMostCount : kMostWithoutRefusal)) return nullptr;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A huge page would hold eight of them, for a thread that writes one record.
  if (is_spare(mapped_count)) madvise(memory, kSize, MADV_NOHUGEPAGE);
  Buffer& fresh = buffers[mapped_count++];
  fresh.content.memory = static_cast<uint8_t*>(memory);
  return &fresh;
}

}  // namespace

void set_refusal(bool may_refuse) {
  refuses = may_refuse;
}

uint8_t* lend() {
  uint8_t* memory = nullptr;
  pthread_mutex_lock(&lock);
  if (Buffer* buffer = find_free()) {
    buffer->place = Buffer::kLent;
    if (last_return_ns == 0) last_return_ns = clock_ns(CLOCK_MONOTONIC);
    memory = buffer->content.memory;
  }
  pthread_mutex_unlock(&lock);
  if (memory == nullptr) ++refusals;
  return memory;
}

bool take_back(const Returned& returned) {
  pthread_mutex_lock(&lock);
  Buffer* buffer = find(returned.memory);
  // A buffer that comes back twice is digested once: it may be on its way out again.
  if (buffer != nullptr &&
      (buffer->place == Buffer::kLent || buffer->place == Buffer::kForgotten)) {
    buffer->content = returned;
    if (buffer->content.valid > kSize) buffer->content.valid = kSize;
    buffer->place = Buffer::kReturned;
    buffer->order = ++returns;
    ++waiting;
    last_return_ns = clock_ns(CLOCK_MONOTONIC);
  }
  pthread_mutex_unlock(&lock);
  return buffer != nullptr;
}

bool scarce() {
  pthread_mutex_lock(&lock);
  bool many = waiting > kMostWaiting / 4;
  pthread_mutex_unlock(&lock);
  return many;
}

bool oldest(Returned* out) {
  Buffer* first = nullptr;
  pthread_mutex_lock(&lock);
  for (Buffer& buffer : mapped()) {
    if (buffer.place != Buffer::kReturned) continue;
    if (first == nullptr || buffer.order < first->order) first = &buffer;
  }
  if (first != nullptr) {
    first->place = Buffer::kDigested;
    *out = first->content;
  }
  pthread_mutex_unlock(&lock);
  return first != nullptr;
}

void recycle(uint8_t* memory) {
  pthread_mutex_lock(&lock);
  Buffer* buffer = find(memory);
  pthread_mutex_unlock(&lock);
  if (buffer == nullptr) return;
  // CUPTI was promised zeros. Fresh pages are zero as well.
  const bool spare = is_spare(static_cast<size_t>(buffer - buffers));
  if (!spare || madvise(memory, kSize, MADV_DONTNEED) != 0) memset(memory, 0, kSize);
  pthread_mutex_lock(&lock);
  buffer->place = Buffer::kFree;
  --waiting;
  pthread_mutex_unlock(&lock);
}

uint64_t withheld_since_ns() {
  uint64_t since_ns = 0;
  pthread_mutex_lock(&lock);
  for (const Buffer& buffer : mapped()) {
    if (buffer.place != Buffer::kLent) continue;
    // CUPTI may be writing: any byte but zero will do, and a record begins with its kind.
    auto* kind = reinterpret_cast<const uint32_t*>(buffer.content.memory);
    if (__atomic_load_n(kind, __ATOMIC_RELAXED) != 0) since_ns = last_return_ns;
  }
  pthread_mutex_unlock(&lock);
  return since_ns;
}

void forget_lent() {
  pthread_mutex_lock(&lock);
  for (Buffer& buffer : mapped()) {
    if (buffer.place == Buffer::kLent) buffer.place = Buffer::kForgotten;
  }
  last_return_ns = 0;
  pthread_mutex_unlock(&lock);
}

uint64_t take_refusals() {
  return refusals.exchange(0);
}

uint64_t mapped_bytes() {
  pthread_mutex_lock(&lock);
  const uint64_t bytes = mapped_count * kSize;
  pthread_mutex_unlock(&lock);
  return bytes;
}

}  // namespace mfu::activity_buffers
