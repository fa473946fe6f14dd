// The counting of GEMMs as a library of its own, as the injected one is, for tests to load when
// they like.
#include "profiler/gemm_counter.hh"

#define PROBE extern "C" __attribute__((visibility("default")))

PROBE bool gemmProbeOpen() {
  return mfu::gemm_counter::open();
}
PROBE void gemmProbeApply() {
  mfu::gemm_counter::apply();
}
PROBE void gemmProbeAbandon() {
  mfu::gemm_counter::abandon();
}
PROBE const mfu::gemm_counter::Snapshot* gemmProbeTake() {
  const mfu::gemm_counter::Snapshot* snapshot = nullptr;
  return mfu::gemm_counter::take(&snapshot) ? snapshot : nullptr;
}
