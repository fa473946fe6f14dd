// Libraries that others have loaded, found by their file's name. Nothing is opened.
#ifndef MFU_PROFILER_LOADED_LIBRARY_HH_
#define MFU_PROFILER_LOADED_LIBRARY_HH_

#include <cstddef>

namespace mfu::loaded_library {

struct Function {
  const char* name;
  void** address;  // is set atomically
};

// Finds functions in the first loaded library called `stem`: "libcublas" stands for
// libcublas.so.13, and for libcublas-1a2b3c4d.so.13 as auditwheel renames what it packs. What is
// not found stays as it is. False when there is no such library.
bool find(const char* stem, const Function* functions, size_t count);

}  // namespace mfu::loaded_library

#endif
