#include "profiler/cupti_library.hh"

#include <dlfcn.h>
#include <string.h>

#include "profiler/loaded_object.hh"
#include "profiler/object_walk.hh"

namespace mfu::cupti {
namespace {

constexpr size_t kMostCandidates = 8;
constexpr size_t kPathSize = 1024;

struct Candidate {
  char path[kPathSize];
  char soname[64];
  const void* headers;  // tells it from other objects
  const void* begin;    // of its segments
  const void* end;
  uint32_t imports;  // functions that other objects have from it
};

struct Search {
  Candidate candidates[kMostCandidates];
  size_t count;
};

// libcupti.so.13, and libcupti-1a2b3c4d.so.13 as auditwheel renames what it packs.
bool is_cupti(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  if (strncmp(name, "libcupti", 8) != 0) return false;
  return (name[8] == '.' || name[8] == '-') && strstr(name, ".so") != nullptr;
}

void note(const dl_phdr_info& info, Search* search) {
  const char* path = info.dlpi_name;
  if (search->count == kMostCandidates || path == nullptr || strlen(path) >= kPathSize ||
      !is_cupti(path)) {
    return;
  }
  Candidate& candidate = search->candidates[search->count++];
  strcpy(candidate.path, path);
  const char* soname = LoadedObject(info).soname();
  if (soname != nullptr && strlen(soname) < sizeof(candidate.soname)) {
    strcpy(candidate.soname, soname);
  }
  candidate.headers = info.dlpi_phdr;
  ElfW(Addr) end = 0;
  for (size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type == PT_LOAD) end = header.p_vaddr + header.p_memsz;  // in ascending order
  }
  candidate.begin = reinterpret_cast<const void*>(info.dlpi_addr);
  candidate.end = reinterpret_cast<const void*>(info.dlpi_addr + end);
}

// Whom the object imports CUPTI's functions from.
void count_imports(const dl_phdr_info& info, Search* search) {
  for (size_t i = 0; i < search->count; ++i) {
    if (search->candidates[i].headers == info.dlpi_phdr) return;
  }
  LoadedObject object(info);
  object.for_each_import([&](const LoadedObject::Import& import) {
    if (strncmp(import.name, "cupti", 5) != 0) return;
    for (size_t i = 0; i < search->count; ++i) {
      Candidate& candidate = search->candidates[i];
      bool from = import.binding == LoadedObject::Binding::kBound
                      ? import.value >= candidate.begin && import.value < candidate.end
                      : candidate.soname[0] != '\0' && object.needs(candidate.soname);
      if (!from) continue;
      ++candidate.imports;
      return;
    }
  });
}

void* mapped_library() {
  static constinit Search search{};  // too large for a stack that is not ours
  search = {};
  auto each = [](void (*look)(const dl_phdr_info&, Search*)) {
    for_each_object([look](const dl_phdr_info& info) {
      look(info, &search);
      return true;
    });
  };
  each(note);
  if (search.count > 1) each(count_imports);
  const Candidate* best = nullptr;
  for (size_t i = 0; i < search.count; ++i) {
    const Candidate& candidate = search.candidates[i];
    if (best == nullptr || candidate.imports > best->imports) best = &candidate;
  }
  return best != nullptr ? dlopen(best->path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
}

}  // namespace

void* open_library(const char* path) {
  if (void* mapped = mapped_library()) return mapped;
  if (path != nullptr && path[0] == '/') return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  static constexpr const char* kNames[] = {
      "libcupti.so.13",
      "libcupti.so.12",
      "libcupti.so.11.8",
      "libcupti.so.11.7",
      "libcupti.so.11.6",
      "libcupti.so.11.5",
      "libcupti.so.11.4",
      "libcupti.so.11.3",
      "libcupti.so.11.2",
      "libcupti.so.11.1",
      "libcupti.so.11.0",
      "/usr/local/cuda/lib64/libcupti.so",
      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
  };
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace mfu::cupti
