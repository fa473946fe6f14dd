// The kernel names of a process: each classified once, and remembered by its pointer, since CUPTI
// gives a kernel's name by the same pointer every time. Fixed memory, no allocation; not
// thread-safe.
#ifndef MFU_PROFILER_NAME_TABLE_HH_
#define MFU_PROFILER_NAME_TABLE_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/attention_flops.hh"
#include "profiler/kernel.hh"
#include "profiler/steps.hh"

namespace mfu {

// The begin of a name that is kept, NUL included. What is not printable ASCII becomes '?'.
inline constexpr size_t kKernelNameSize = 96;

struct KernelName {
  KernelKind kind;
  KernelMark mark;
  AttentionTraits attention;  // where the kind multiplies
  uint32_t number;            // below NameTable::kMostNames; kUnlisted: the table was full
  uint64_t hash;              // of the whole name: the same in every process
};
static_assert(sizeof(KernelName) == 24, "an entry of the table of pointers is a cache line");

class NameTable {
 public:
  static constexpr uint32_t kMostNames = 4096;
  static constexpr uint32_t kUnlisted = 0;  // no name has this number

  // Zeroed memory is an empty table. nullptr is the empty name. A pointer alone does not prove the
  // name, as a module may be unloaded and another one have its name there: the text is looked at
  // again once after each begin().
  const KernelName& find(const char* name);
  // A batch of records begins, within which a pointer stays what it is.
  void begin() { ++batch_; }

  // Names with this part in them get KernelMark::kDeclared. Before the first find(); stays the
  // caller's, for good.
  void declare_step_kernel(const char* part) { step_kernel_ = part; }

  // Numbers given so far are 1 .. count().
  uint32_t count() const { return count_; }
  const char* text(uint32_t number) const { return names_[number].text; }
  const KernelKind& kind(uint32_t number) const { return names_[number].kind; }

 private:
  static constexpr size_t kPointers = 8192;           // power of two
  static constexpr size_t kBuckets = 2 * kMostNames;  // power of two

  struct Pointer {
    const char* name;
    uint64_t batch;  // in which the text was last looked at
    char prefix[24];
    KernelName known;
  };
  struct Name {
    uint64_t hash;
    KernelKind kind;
    char text[kKernelNameSize];
  };

  uint32_t number_of(uint64_t hash, const char* name, size_t length, const KernelKind& kind);

  Pointer pointers_[kPointers];
  uint16_t buckets_[kBuckets];  // numbers by hash, open addressing; 0: free
  Name names_[kMostNames];
  uint32_t count_;
  uint64_t batch_;
  const char* step_kernel_;
};

}  // namespace mfu

#endif
