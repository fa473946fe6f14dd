#include "profiler/loaded_object.hh"

#include <string.h>
#include <unistd.h>

namespace mfu {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr uint32_t kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kGlobalData = R_AARCH64_GLOB_DAT;
#else
#error "name this architecture's relocations of imported functions"
#endif

}  // namespace

LoadedObject::LoadedObject(const dl_phdr_info& info) : info_(info) {
  for (size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + header.p_vaddr);
  }
  if (dynamic_ == nullptr || !inside(dynamic_, sizeof(*dynamic_))) return;
  ElfW(Addr) strings = 0;
  ElfW(Addr) symbols = 0;
  ElfW(Addr) data = 0;
  ElfW(Addr) jumps = 0;
  size_t data_size = 0;
  size_t data_relative = 0;
  size_t jumps_size = 0;
  bool rela = true;
  for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_STRTAB:
        strings = entry->d_un.d_ptr;
        break;
      case DT_STRSZ:
        strings_size_ = entry->d_un.d_val;
        break;
      case DT_SYMTAB:
        symbols = entry->d_un.d_ptr;
        break;
      case DT_RELA:
        data = entry->d_un.d_ptr;
        break;
      case DT_RELASZ:
        data_size = entry->d_un.d_val;
        break;
      case DT_RELACOUNT:  // so many relative ones come first: half a million in a large library
        data_relative = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        jumps = entry->d_un.d_ptr;
        break;
      case DT_PLTRELSZ:
        jumps_size = entry->d_un.d_val;
        break;
      case DT_PLTREL:
        rela = entry->d_un.d_val == DT_RELA;
        break;
      case DT_GNU_HASH:
        hash_ = static_cast<const uint32_t*>(resolved(entry->d_un.d_ptr));
        break;
      case DT_SONAME:
        soname_ = entry->d_un.d_val;
        break;
    }
  }
  auto table = [&](ElfW(Addr) address, size_t size, size_t skipped) -> Table {
    auto* first = static_cast<const ElfW(Rela)*>(resolved(address));
    size_t count = size / sizeof(*first);
    if (address == 0 || count <= skipped || !inside(first, size)) return {};
    return {first + skipped, count - skipped};
  };
  symbols_ = static_cast<const ElfW(Sym)*>(resolved(symbols));
  strings_ = static_cast<const char*>(resolved(strings));
  if (symbols == 0 || strings == 0 || !rela || strings_size_ == 0 || !inside(symbols_, 1) ||
      !inside(strings_, strings_size_)) {
    strings_ = nullptr;
    return;
  }
  tables_[0] = table(jumps, jumps_size, 0);
  tables_[1] = table(data, data_size, data_relative);
}

bool LoadedObject::inside(const void* address, size_t size) const {
  auto begin = reinterpret_cast<ElfW(Addr)>(address);
  for (size_t i = 0; i < info_.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info_.dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    ElfW(Addr) segment = info_.dlpi_addr + header.p_vaddr;
    if (begin >= segment && size <= header.p_memsz && begin - segment <= header.p_memsz - size) {
      return true;
    }
  }
  return false;
}

const void* LoadedObject::resolved(ElfW(Addr) value) const {
  ElfW(Addr) address = value < info_.dlpi_addr ? info_.dlpi_addr + value : value;
  return reinterpret_cast<const void*>(address);
}

const char* LoadedObject::string(size_t offset) const {
  return strings_ != nullptr && offset < strings_size_ ? strings_ + offset : nullptr;
}

bool LoadedObject::needs(const char* soname) const {
  if (strings_ == nullptr) return false;
  for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* name = string(entry->d_un.d_val);
    if (name != nullptr && strcmp(name, soname) == 0) return true;
  }
  return false;
}

void* LoadedObject::function(const char* name) const {
  // Header: number of buckets, first hashed symbol, words of the Bloom filter, its shift. Then the
  // filter, the buckets, and a hash for each symbol, whose lowest bit ends a bucket's chain.
  constexpr size_t kHeader = 4;
  if (strings_ == nullptr || hash_ == nullptr || !inside(hash_, kHeader * sizeof(*hash_))) {
    return nullptr;
  }
  uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const uint32_t buckets = hash_[0];
  const uint32_t first = hash_[1];
  const uint32_t* bucket = hash_ + kHeader + size_t{hash_[2]} * sizeof(ElfW(Addr)) / 4;
  if (buckets == 0 || !inside(bucket, buckets * sizeof(*bucket))) return nullptr;
  const uint32_t* chain = bucket + buckets;
  for (uint32_t at = bucket[hash % buckets]; at >= first; ++at) {
    if (!inside(chain + (at - first), sizeof(*chain)) ||
        !inside(symbols_ + at, sizeof(*symbols_))) {
      return nullptr;
    }
    const uint32_t here = chain[at - first];
    const ElfW(Sym)& symbol = symbols_[at];
    const char* found = string(symbol.st_name);
    if ((here | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF && found != nullptr &&
        ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && strcmp(found, name) == 0) {
      return reinterpret_cast<void*>(info_.dlpi_addr + symbol.st_value);
    }
    if ((here & 1) != 0) break;
  }
  return nullptr;
}

bool LoadedObject::protected_after_relocation(const void* entry) const {
  const auto address = reinterpret_cast<ElfW(Addr)>(entry);
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < info_.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info_.dlpi_phdr[i];
    if (header.p_type != PT_GNU_RELRO) continue;
    // A last page that is not all of it is left as it is.
    const ElfW(Addr) begin = (info_.dlpi_addr + header.p_vaddr) & ~(page - 1);
    const ElfW(Addr) end = (info_.dlpi_addr + header.p_vaddr + header.p_memsz) & ~(page - 1);
    if (address >= begin && address < end) return true;
  }
  return false;
}

bool LoadedObject::read(const ElfW(Rela) & relocation, Import* import) const {
  uint32_t type = ELF64_R_TYPE(relocation.r_info);
  if (type != kJumpSlot && type != kGlobalData) return false;
  const ElfW(Sym)* symbol = symbols_ + ELF64_R_SYM(relocation.r_info);
  auto** entry = reinterpret_cast<void**>(info_.dlpi_addr + relocation.r_offset);
  if (!inside(symbol, sizeof(*symbol)) || !inside(entry, sizeof(*entry))) return false;
  if (symbol->st_shndx != SHN_UNDEF) return false;
  import->name = string(symbol->st_name);
  import->entry = entry;
  import->value = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
  // What the linker has left there is an offset in the object, or nothing.
  auto value = reinterpret_cast<ElfW(Addr)>(import->value);
  bool relocated = value != 0 && (value >= info_.dlpi_addr || !inside(resolved(value), 1));
  import->binding = !relocated                ? Binding::kNone
                    : contains(import->value) ? Binding::kLazy
                                              : Binding::kBound;
  return import->name != nullptr;
}

}  // namespace mfu
