#include "profiler/collection.hh"

#include "profiler/neighbour.hh"

namespace mfu::collection {
namespace {

constexpr struct {
  cupti::ActivityKind kind;
  CuptiCall call;
} kKinds[] = {
    {cupti::ActivityKind::kKernel, CuptiCall::kEnableKernel},
    {cupti::ActivityKind::kMemcpy, CuptiCall::kEnableMemcpy},
    {cupti::ActivityKind::kMemcpyPeer, CuptiCall::kEnableMemcpyPeer},
    {cupti::ActivityKind::kMemset, CuptiCall::kEnableMemset},
};

}  // namespace

int begin(const cupti::BufferCallbacks& callbacks, CuptiCall* failed) {
  cupti::promise_zeroed_buffers(true);
  *failed = CuptiCall::kRegisterCallbacks;
  int result = cupti::register_callbacks(callbacks);
  if (result != 0) return result;
  for (const auto& [kind, call] : kKinds) {
    if (neighbour::is_there()) break;
    *failed = call;
    result = cupti::enable(kind);
    if (result != 0) return result;
  }
  return 0;
}

void cancel() {
  for (const auto& [kind, call] : kKinds) {
    if (!neighbour::has_enabled(cupti::number_of(kind))) cupti::disable(kind);
  }
  cupti::promise_zeroed_buffers(false);
}

void end() {
  cancel();
  cupti::flush(true);
}

bool includes(uint32_t kind) {
  for (const auto& entry : kKinds) {
    if (cupti::number_of(entry.kind) == kind) return true;
  }
  return false;
}

}  // namespace mfu::collection
