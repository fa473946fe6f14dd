// Another CUPTI client in the process, such as torch.profiler's Kineto: knows when it comes and
// when it has left, by its own calls. They are redirected to wrappers here (got_patch.hh), which
// pass them on; who asks dlsym for one of these functions finds its wrapper (dlsym_patch.hh). A
// client that has asked before we came, or by dlvsym, is not seen.
//
// It comes with the first call that takes something from us: a registration of buffer callbacks or
// of a clock, a subscription, or an activity kind if it has registered callbacks before: they are
// put back then. It has left when no activity kind and no subscription of its own is there any
// more, and its buffers are back: it has flushed by force after its last kind went, or has been
// quiet for long. What it leaves for good after cuptiFinalize is CUPTI: whoever uses it again then
// is not safe (CUDA graphs crash before CUDA 12.6), so that does not count as leaving.
//
// The wrappers run in the application's threads, under whatever locks it holds: they allocate
// nothing and lock nothing. In a forked child they only pass on.
#ifndef MFU_PROFILER_NEIGHBOUR_HH_
#define MFU_PROFILER_NEIGHBOUR_HH_

#include <cstdint>

namespace mfu::neighbour {

struct Host {
  // In the neighbour's thread, before its call reaches CUPTI: give way. `finalize`: it is about to
  // tear CUPTI down, from inside a callback of CUPTI perhaps: make no call.
  void (*give_way)(bool finalize);
  // While there is no neighbour: whether we collect this kind (a CUpti_ActivityKind). To disable it
  // then is to switch off ours, and is not passed on.
  bool (*collects)(uint32_t kind);
};

// Begins to watch, when cupti::load() has found the library.
void watch(const Host& host);
// Objects that have been loaded meanwhile. For one thread at a time.
void watch_new_objects();

// Somebody had subscribed before we came. False when nobody in this process could: then it is a
// tool outside of it, which never leaves.
bool was_first();

bool is_there();
// Whether it has enabled this kind, also before it came.
bool has_enabled(uint32_t kind);

// The neighbour has left: from now on it is not there, until it comes again. False: it has not, or
// is just coming back.
bool take_leave();
// Asked after take_leave(): its buffers are surely back.
bool has_flushed();
// Its callbacks can still be called: they are registered, and their library is loaded.
bool is_reachable();
// Puts its callbacks back in place, should ours have taken theirs while it came.
void restore_callbacks();

}  // namespace mfu::neighbour

#endif
