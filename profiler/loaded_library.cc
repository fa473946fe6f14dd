#include "profiler/loaded_library.hh"

#include <string.h>

#include "profiler/loaded_object.hh"

namespace mfu::loaded_library {
namespace {

struct Search {
  const char* stem;
  const Function* functions;
  size_t count;
};

bool is_called(const char* path, const char* stem) {
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  const size_t length = strlen(stem);
  if (strncmp(name, stem, length) != 0) return false;
  return (name[length] == '.' || name[length] == '-') && strstr(name, ".so") != nullptr;
}

int look(dl_phdr_info* info, size_t, void* data) {
  const auto* search = static_cast<const Search*>(data);
  if (!is_called(info->dlpi_name, search->stem)) return 0;
  const LoadedObject object(*info);
  for (size_t i = 0; i < search->count; ++i) {
    const Function& function = search->functions[i];
    void* found = object.function(function.name);
    if (found != nullptr) __atomic_store_n(function.address, found, __ATOMIC_RELEASE);
  }
  return 1;
}

}  // namespace

bool find(const char* stem, const Function* functions, size_t count) {
  Search search{stem, functions, count};
  return dl_iterate_phdr(look, &search) != 0;
}

}  // namespace mfu::loaded_library
