// An ELF object that the dynamic linker has mapped, as dl_iterate_phdr() shows it: which functions
// it imports, and where their addresses lie (its global offset table).
//
// Good inside of dl_iterate_phdr()'s callback only: nothing is unloaded meanwhile. The object may
// still be being loaded by another thread, though: an entry that has not been relocated yet is told
// apart from one that has, and each is relocated once.
//
// Only 64-bit objects with RELA relocations (x86-64, aarch64) whose tables lie in their own
// segments are readable; prelinked and otherwise odd ones are not, and have no imports here.
#ifndef MFU_PROFILER_LOADED_OBJECT_HH_
#define MFU_PROFILER_LOADED_OBJECT_HH_

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace mfu {

class LoadedObject {
 public:
  enum class Binding {
    kNone,   // not relocated yet: hands off
    kLazy,   // the dynamic linker will find the function at the first call
    kBound,  // the entry is the function's address
  };
  struct Import {
    const char* name;
    void** entry;
    void* value;  // of the entry, when it was read
    Binding binding;
  };

  explicit LoadedObject(const dl_phdr_info& info);

  bool contains(const void* address) const { return inside(address, 1); }
  const char* soname() const { return string(soname_); }  // nullptr if it has none
  bool needs(const char* soname) const;
  // The function of this name that the object defines, whatever its version, or nullptr. By the
  // object's GNU hash table: the dynamic linker's locks are not taken.
  void* function(const char* name) const;
  // Whether the entry lies in a page where the dynamic linker takes the right to write away after
  // relocation.
  bool protected_after_relocation(const void* entry) const;

  // function(const Import&) for every imported function, also those whose address is only taken.
  template <typename Function>
  void for_each_import(Function&& function) const {
    for (const Table& table : tables_) {
      for (size_t i = 0; i < table.count; ++i) {
        Import import;
        if (read(table.first[i], &import)) function(import);
      }
    }
  }

 private:
  struct Table {
    const ElfW(Rela) * first;
    size_t count;
  };

  bool inside(const void* address, size_t size) const;
  // A pointer of the dynamic section: glibc relocates it in place, others do not.
  const void* resolved(ElfW(Addr) value) const;
  const char* string(size_t offset) const;
  bool read(const ElfW(Rela) & relocation, Import* import) const;

  const dl_phdr_info& info_;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;  // nullptr: not readable
  size_t strings_size_ = 0;
  size_t soname_ = SIZE_MAX;
  const uint32_t* hash_ = nullptr;  // DT_GNU_HASH
  Table tables_[2] = {};
};

}  // namespace mfu

#endif
