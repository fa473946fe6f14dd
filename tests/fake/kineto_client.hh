// A second CUPTI client in the process, which does what PyTorch's Kineto does (libkineto's
// CuptiActivityProfiler and CuptiActivityApi): no subscription; at each start a clock of its own,
// its buffer callbacks and its kinds; a flush that throws away what the warm-up brought; at the
// stop it disables its kinds first and asks for its buffers later, by force and only if CUPTI has
// any.
//
// It lives in libkineto_client.so, which is linked with libcupti as libtorch_cpu.so is, so that its
// calls go through a global offset table of its own, and in libkineto_client_by_name.so, which
// finds CUPTI by dlsym (cupti_by_name.cc). Workloads find it by dlsym. Its buffers come from
// malloc() and are not zeroed.
#ifndef MFU_TESTS_FAKE_KINETO_CLIENT_HH_
#define MFU_TESTS_FAKE_KINETO_CLIENT_HH_

#include <cstdint>

namespace mfu::fake {

struct KinetoProfile {
  uint64_t kernels;
  uint64_t copies;
  uint64_t fills;
  uint64_t busy_ns;          // sum of the durations, by its own clock
  uint64_t others;           // records of kinds that it never asked for
  uint64_t foreign_clock;    // records whose times are not by its clock
  uint64_t foreign_buffers;  // handed to it, but not its own: left alone
  uint64_t outstanding;      // its buffers that never came back
  int failure;               // the first CUPTI result that was not 0
};

extern "C" {
// Returns the first CUPTI result that is not 0.
int kinetoStart();
// Enables its kinds and no more: as a client that registers its callbacks once for all.
int kinetoResume();
// Disables. Nothing is collected any more.
int kinetoStop();
// Flushes if it has to, counts, and frees what has come back.
void kinetoCollect(mfu::fake::KinetoProfile* profile);
// TEARDOWN_CUPTI=1: subscribes, flushes, unsubscribes, finalizes.
int kinetoTeardown();

// A subscriber to callbacks, as a tool in the process that takes no activity records.
int kinetoSubscribe();
int kinetoUnsubscribe();
}

}  // namespace mfu::fake

#endif
