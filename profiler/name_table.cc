#include "profiler/name_table.hh"

#include <string.h>

#include <algorithm>

namespace mfu {
namespace {

// FNV-1a, and a last mixing, so that any bits of it will do.
uint64_t name_hash(const char* name, size_t length) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x100000001b3;
  }
  hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

const KernelName& NameTable::find(const char* name) {
  if (name == nullptr) name = "";
  auto address = reinterpret_cast<uintptr_t>(name);
  Pointer& slot = pointers_[(address >> 3) * 0x9e3779b97f4a7c15 >> 51 & (kPointers - 1)];
  if (slot.name == name && slot.batch == batch_) return slot.known;
  if (slot.name != name || strncmp(slot.prefix, name, sizeof(slot.prefix)) != 0) {
    const size_t length = strlen(name);
    slot.name = name;
    memcpy(slot.prefix, name, std::min(length + 1, sizeof(slot.prefix)));
    slot.known.kind = classify_kernel({name, length});
    slot.known.attention =
        slot.known.kind.multiplies ? attention_traits({name, length}) : AttentionTraits{};
    slot.known.mark = step_kernel_ != nullptr && strstr(name, step_kernel_) != nullptr
                          ? KernelMark::kDeclared
                      : is_optimizer_kernel({name, length}) ? KernelMark::kOptimizer
                                                            : KernelMark::kNone;
    slot.known.hash = name_hash(name, length);
    slot.known.number = number_of(slot.known.hash, name, length, slot.known.kind);
  }
  slot.batch = batch_;
  return slot.known;
}

uint32_t NameTable::number_of(uint64_t hash, const char* name, size_t length,
                              const KernelKind& kind) {
  size_t bucket = hash & (kBuckets - 1);
  for (; buckets_[bucket] != 0; bucket = (bucket + 1) & (kBuckets - 1)) {
    if (names_[buckets_[bucket]].hash == hash) return buckets_[bucket];
  }
  if (count_ + 1 == kMostNames) return kUnlisted;
  buckets_[bucket] = static_cast<uint16_t>(++count_);
  Name& fresh = names_[count_];
  fresh.hash = hash;
  fresh.kind = kind;
  for (size_t i = 0; i < std::min(length, kKernelNameSize - 1); ++i) {
    fresh.text[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
  }
  return count_;
}

}  // namespace mfu
