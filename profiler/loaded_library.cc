#include "profiler/loaded_library.hh"

#include <string.h>

#include "profiler/loaded_object.hh"
#include "profiler/object_walk.hh"

namespace mfu::loaded_library {
namespace {

bool is_called(const char* path, const char* stem) {
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  const size_t length = strlen(stem);
  if (strncmp(name, stem, length) != 0) return false;
  return (name[length] == '.' || name[length] == '-') && strstr(name, ".so") != nullptr;
}

}  // namespace

bool find(const char* stem, const Function* functions, size_t count) {
  return !for_each_object([&](const dl_phdr_info& info) {
    if (!is_called(info.dlpi_name, stem)) return true;
    const LoadedObject object(info);
    for (size_t i = 0; i < count; ++i) {
      void* found = object.function(functions[i].name);
      if (found != nullptr) __atomic_store_n(functions[i].address, found, __ATOMIC_RELEASE);
    }
    return false;
  });
}

}  // namespace mfu::loaded_library
