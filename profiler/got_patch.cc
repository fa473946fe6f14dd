#include "profiler/got_patch.hh"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mfu {
namespace {

// An atomic "add 0" by the kernel: tells without a fault, and without changing a bit.
bool is_writable(void* address) {
  uint32_t unused = 0;
  auto operation = static_cast<uint32_t>(FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
  return syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, address, operation) >= 0;
}

// Replaces the entry's value unless somebody else has changed it meanwhile: the dynamic linker, at
// the first call of a function that is bound lazily.
bool write(const LoadedObject& object, const LoadedObject::Import& import, void* value) {
  void* seen = import.value;
  auto exchange = [&] {
    return __atomic_compare_exchange_n(import.entry, &seen, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
  };
  // To take the right to write away from an object that is still being relocated would be its end:
  // what is writable stays so.
  if (is_writable(import.entry)) return exchange();
  if (!object.protected_after_relocation(import.entry)) return false;
  auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(import.entry) & ~(size - 1));
  if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) return false;
  bool done = exchange();
  mprotect(page, size, PROT_READ);
  return done;
}

// Each object of the process, until function(const dl_phdr_info&) returns false.
template <typename Function>
void for_each_object(Function&& function) {
  auto call = [](dl_phdr_info* info, size_t, void* data) {
    return (*static_cast<Function*>(data))(*info) ? 0 : 1;
  };
  dl_iterate_phdr(call, &function);
}

unsigned char initial(const char* name) {
  return static_cast<unsigned char>(name[0]);
}

void* original_of(const GotPatch::Symbol& symbol) {
  return __atomic_load_n(symbol.original, __ATOMIC_ACQUIRE);
}

}  // namespace

void* GotPatch::nowhere() {
  static char place;
  return &place;
}

void GotPatch::apply() {
  if (!objects_have_come()) return;
  for (size_t i = 0; i < count_; ++i) initials_[initial(symbols_[i].name)] = true;
  name_libraries();
  for_each_object([this](const dl_phdr_info& info) {
    if (!is_done(info)) patch(LoadedObject(info));
    return true;
  });
}

bool GotPatch::objects_have_come() {
  bool news = false;
  for_each_object([&](const dl_phdr_info& info) {
    news = info.dlpi_adds != adds_ || info.dlpi_subs != subs_;
    // Another object may lie now where an unloaded one lay.
    if (info.dlpi_subs != subs_) memset(visits_, 0, sizeof(visits_));
    adds_ = info.dlpi_adds;
    subs_ = info.dlpi_subs;
    return false;
  });
  bool look = news || again_;
  again_ = news;
  return look;
}

void GotPatch::name_libraries() {
  memset(found_, 0, sizeof(found_));
  memset(shadowed_, 0, sizeof(shadowed_));
  for_each_object([this](const dl_phdr_info& info) {
    LoadedObject object(info);
    for (size_t i = 0; i < count_; ++i) {
      void* original = original_of(symbols_[i]);
      if (original == nullptr || found_[i]) continue;
      if (object.contains(original)) {
        sonames_[i] = object.soname();
        found_[i] = true;
      } else if (object.function(symbols_[i].name) != nullptr) {
        shadowed_[i] = true;
      }
    }
    return true;
  });
}

// Whether the object needs no look any more; counts this one. Where the table is full, it does.
bool GotPatch::is_done(const dl_phdr_info& info) {
  auto base = reinterpret_cast<uintptr_t>(info.dlpi_phdr);
  size_t at = base * 0x9e3779b97f4a7c15 >> 32;
  for (size_t probe = 0; probe < 64; ++probe) {
    Visit& visit = visits_[(at + probe) % kMostObjects];
    if (visit.times == 0) visit.base = base;
    if (visit.base == base) return ++visit.times > 2;
  }
  return false;
}

void GotPatch::patch(const LoadedObject& object) {
  for (size_t i = 0; i < count_; ++i) {
    if (object.contains(symbols_[i].replacement)) return;
  }
  object.for_each_import([&](const LoadedObject::Import& import) {
    if (!initials_[initial(import.name)]) return;
    for (size_t i = 0; i < count_; ++i) {
      const Symbol& symbol = symbols_[i];
      if (strcmp(import.name, symbol.name) != 0) continue;
      if (import.value == symbol.replacement || !leads_to(object, import, i)) continue;
      if (original_of(symbol) == nullptr && import.binding == LoadedObject::Binding::kBound) {
        __atomic_store_n(symbol.original, import.value, __ATOMIC_RELEASE);
      }
      if (write(object, import, symbol.replacement)) ++patched_[i];
    }
  });
}

bool GotPatch::leads_to(const LoadedObject& object, const LoadedObject::Import& import,
                        size_t symbol) const {
  const void* original = original_of(symbols_[symbol]);
  switch (import.binding) {
    case LoadedObject::Binding::kBound:
      return original == nullptr || import.value == original;
    case LoadedObject::Binding::kLazy:
      if (original == nullptr) return true;
      if (object.contains(original) || !found_[symbol] || shadowed_[symbol]) return false;
      return sonames_[symbol] != nullptr && object.needs(sonames_[symbol]);
    case LoadedObject::Binding::kNone:
      break;
  }
  return false;
}

bool is_loaded(const void* address) {
  bool found = false;
  for_each_object([&](const dl_phdr_info& info) {
    found = found || LoadedObject(info).contains(address);
    return !found;
  });
  return found;
}

}  // namespace mfu
