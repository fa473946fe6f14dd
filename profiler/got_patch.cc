#include "profiler/got_patch.hh"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/object_walk.hh"

namespace mfu {
namespace {

// Looks at an object after which what it still lacks is taken for what it never gets: an import
// that nobody defines (a weak one) stays as it is for ever.
constexpr uint32_t kMostLooks = 60;

// An atomic "add 0" by the kernel: tells without a fault, and without changing a bit.
bool is_writable(void* address) {
  uint32_t unused = 0;
  auto operation = static_cast<uint32_t>(FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
  return syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, address, operation) >= 0;
}

enum class Written {
  kYes,
  kNo,        // not writable, or changed meanwhile
  kTooEarly,  // the dynamic linker is still at work there
};

// Replaces the entry's value unless somebody else has changed it meanwhile: the dynamic linker, at
// the first call of a function that is bound lazily. `settled`: what the linker has not protected
// until now it will not protect any more.
Written write(const LoadedObject& object, const LoadedObject::Import& import, void* value,
              bool settled) {
  void* seen = import.value;
  auto exchange = [&] {
    return __atomic_compare_exchange_n(import.entry, &seen, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)
               ? Written::kYes
               : Written::kNo;
  };
  const bool is_protected = object.protected_after_relocation(import.entry);
  // While the linker relocates the object, to write here would be a fault as soon as it takes the
  // right away, and for us to take it away would be one of the linker's.
  if (is_writable(import.entry)) {
    return is_protected && !settled ? Written::kTooEarly : exchange();
  }
  if (!is_protected) return Written::kNo;
  auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(import.entry) & ~(size - 1));
  if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) return Written::kNo;
  const Written done = exchange();
  mprotect(page, size, PROT_READ);
  return done;
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
    Visit untold{};  // the table is full
    Visit* known = visit_of(info);
    Visit& visit = known != nullptr ? *known : untold;
    if (visit.complete >= kEnough || visit.looks >= kMostLooks) return true;
    ++visit.looks;
    if (patch(LoadedObject(info), visit.looks == kMostLooks)) {
      ++visit.complete;
    } else if (known != nullptr) {
      again_ = true;
    }
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

// The object's, or nullptr where the table is full.
GotPatch::Visit* GotPatch::visit_of(const dl_phdr_info& info) {
  auto base = reinterpret_cast<uintptr_t>(info.dlpi_phdr);
  size_t at = base * 0x9e3779b97f4a7c15 >> 32;
  for (size_t probe = 0; probe < 64; ++probe) {
    Visit& visit = visits_[(at + probe) % kMostObjects];
    if (visit.looks == 0) visit.base = base;
    if (visit.base == base) return &visit;
  }
  return nullptr;
}

// False: the dynamic linker is not through with an import that we want. `settled`: it is.
bool GotPatch::patch(const LoadedObject& object, bool settled) {
  for (size_t i = 0; i < count_; ++i) {
    if (object.contains(symbols_[i].replacement)) return true;
  }
  bool complete = true;
  object.for_each_import([&](const LoadedObject::Import& import) {
    if (!initials_[initial(import.name)]) return;
    for (size_t i = 0; i < count_; ++i) {
      const Symbol& symbol = symbols_[i];
      if (strcmp(import.name, symbol.name) != 0) continue;
      if (import.binding == LoadedObject::Binding::kNone) complete = false;
      if (import.value == symbol.replacement || !leads_to(object, import, i)) continue;
      if (original_of(symbol) == nullptr && import.binding == LoadedObject::Binding::kBound) {
        __atomic_store_n(symbol.original, import.value, __ATOMIC_RELEASE);
      }
      const Written written = write(object, import, symbol.replacement, settled);
      if (written == Written::kYes) ++patched_[i];
      if (written == Written::kTooEarly) complete = false;
    }
  });
  return complete;
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
  return !for_each_object(
      [&](const dl_phdr_info& info) { return !LoadedObject(info).contains(address); });
}

}  // namespace mfu
