// Which libcupti: the one that the process uses already, under whatever name and path its
// distribution gave it; else one from the search path.
#ifndef MFU_PROFILER_CUPTI_LIBRARY_HH_
#define MFU_PROFILER_CUPTI_LIBRARY_HH_

namespace mfu::cupti {

// A handle for dlsym(), or nullptr. Where several are mapped, it is the one that most of the
// process's other objects import from; where none imports, the one that came first. Where none is
// mapped: `path` alone if it is not null, else the search path and the toolkit's usual folders.
void* open_library(const char* path);

}  // namespace mfu::cupti

#endif
