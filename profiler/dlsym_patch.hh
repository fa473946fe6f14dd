// Those who find a function by dlsym() get its replacement as well: their calls of dlsym are
// redirected (got_patch.hh), and for the functions that somebody has registered here the answer is
// the replacement, if dlsym's own answer is the function that is being replaced.
//
// dlsym asks who its caller is where the handle is RTLD_NEXT or RTLD_DEFAULT: these calls reach it
// as if nobody stood between, and are never answered here, as are all that ask for other names or
// find nothing. dlvsym is left alone.
#ifndef MFU_PROFILER_DLSYM_PATCH_HH_
#define MFU_PROFILER_DLSYM_PATCH_HH_

#include <cstddef>

#include "profiler/got_patch.hh"

namespace mfu::dlsym_patch {

// Symbols whose names begin with "cu". An original that is GotPatch::nowhere() becomes the first
// function of that name that anybody finds. They outlive the process; four tables have room, and
// the same one may come again.
void add(const GotPatch::Symbol* symbols, size_t count);

// Begins with the first call; later ones patch what has been loaded since. For one thread at a
// time.
void apply();

}  // namespace mfu::dlsym_patch

#endif
