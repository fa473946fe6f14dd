// Redirects calls between the objects of the process: puts the address of a replacement into the
// global offset table of every object that imports a function. This reaches libraries that were
// opened RTLD_LOCAL, as frameworks' are, which neither LD_PRELOAD nor symbol order does for a
// library that is injected late.
//
// Not reached: calls inside of the library that defines the function, pointers that somebody has
// taken before, and dlsym() (but dlsym may itself be one of the symbols).
//
// No allocation. apply() is for one thread at a time; the replacements may be called by any thread
// from its first moment on.
#ifndef MFU_PROFILER_GOT_PATCH_HH_
#define MFU_PROFILER_GOT_PATCH_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/loaded_object.hh"

namespace mfu {

class GotPatch {
 public:
  static constexpr size_t kMostSymbols = 128;
  struct Symbol {
    const char* name;
    void* replacement;
    // The function itself. If *original is null, every import of this name is redirected, and the
    // first one that was bound already fills it in. Otherwise only those that lead there, or to
    // the library that holds it: several libraries may define the same name. Others may change
    // it at any time, by an atomic store; nowhere() is for one that is not known yet.
    void** original;
  };

  // An address that no import leads to.
  static void* nowhere();

  // The symbols outlive it.
  constexpr GotPatch(const Symbol* symbols, size_t count) : symbols_(symbols), count_(count) {}
  GotPatch(const GotPatch&) = delete;
  GotPatch& operator=(const GotPatch&) = delete;
  // So many symbols are there by now. Before the first apply().
  void extend(size_t count) { count_ = count; }

  // Patches what has been loaded since the last time; next to nothing if nothing has. Never touches
  // the object that holds a replacement, nor the one that holds the original. What cannot be
  // written is left as it is: no error.
  void apply();

  // The entries that some object has for this symbol and that lead to us.
  size_t patched(size_t symbol) const { return patched_[symbol]; }

 private:
  static constexpr size_t kMostObjects = 2048;  // power of two
  struct Visit {
    uintptr_t base;
    uint32_t looks;     // at the object
    uint32_t complete;  // of them: those that found nothing that the dynamic linker was still at
  };
  // Twice: of an object whose tables were not all there at the first look.
  static constexpr uint32_t kEnough = 2;

  bool objects_have_come();
  void name_libraries();
  Visit* visit_of(const dl_phdr_info& info);
  bool patch(const LoadedObject& object, bool settled);
  bool leads_to(const LoadedObject& object, const LoadedObject::Import& import,
                size_t symbol) const;

  const Symbol* symbols_;
  size_t count_;
  bool initials_[256] = {};  // of the names
  size_t patched_[kMostSymbols] = {};
  Visit visits_[kMostObjects] = {};
  unsigned long long adds_ = 0;
  unsigned long long subs_ = 0;
  bool again_ = false;
  // Of the originals' libraries, as far as they were found.
  const char* sonames_[kMostSymbols] = {};
  bool found_[kMostSymbols] = {};
  // An object that was loaded before that library has a function of this name, too: it may have
  // been preloaded to be called in the original's place.
  bool shadowed_[kMostSymbols] = {};
};

// Whether a loaded object holds the address.
bool is_loaded(const void* address);

}  // namespace mfu

#endif
