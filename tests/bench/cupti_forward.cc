// A libcupti without a GPU: its GetNextRecord is the real library's, everything else succeeds and
// does nothing, but that bench_callbacks() tells whom to hand buffers to. So the profiler's session
// runs as in a job, from the buffers' return to the published record.
#include <cupti.h>
#include <dlfcn.h>

namespace {

decltype(&cuptiActivityGetNextRecord) real_next = nullptr;
CUpti_BuffersCallbackRequestFunc requested = nullptr;
CUpti_BuffersCallbackCompleteFunc completed = nullptr;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// False when there is no real libcupti at `path`.
EXPORT bool bench_load_real(const char* path) {
  void* real = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) return false;
  real_next = reinterpret_cast<decltype(real_next)>(dlsym(real, "cuptiActivityGetNextRecord"));
  return real_next != nullptr;
}

EXPORT void bench_callbacks(CUpti_BuffersCallbackRequestFunc* request,
                            CUpti_BuffersCallbackCompleteFunc* complete) {
  *request = requested;
  *complete = completed;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                              CUpti_Activity** record) {
  return real_next(buffer, valid, record);
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                  CUpti_BuffersCallbackCompleteFunc complete) {
  requested = request;
  completed = complete;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind) {
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return CUPTI_SUCCESS;
}
