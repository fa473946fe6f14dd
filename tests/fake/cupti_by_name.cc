// CUPTI's functions for a client that is not linked with it, as those who open libcupti when they
// are asked for a profile: each finds its function by dlsym, at its first call.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>

namespace {

void* find(const char* name) {
  static void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) std::abort();
  return found;
}

template <typename Function, typename... Arguments>
CUptiResult call(void* function, Function*, Arguments... arguments) {
  return reinterpret_cast<Function*>(function)(arguments...);
}

}  // namespace

#define BY_NAME(name, ...)                   \
  static void* const function = find(#name); \
  return call(function, &name, ##__VA_ARGS__)

CUptiResult cuptiGetVersion(uint32_t* version) {
  BY_NAME(cuptiGetVersion, version);
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  BY_NAME(cuptiActivityRegisterTimestampCallback, clock);
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  BY_NAME(cuptiActivityRegisterCallbacks, request, complete);
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  BY_NAME(cuptiActivityEnable, kind);
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  BY_NAME(cuptiActivityDisable, kind);
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  BY_NAME(cuptiActivityFlushAll, flag);
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                      void* value) {
  BY_NAME(cuptiActivitySetAttribute, attribute, size, value);
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  BY_NAME(cuptiActivityGetNextRecord, buffer, valid, record);
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* data) {
  BY_NAME(cuptiSubscribe, subscriber, callback, data);
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  BY_NAME(cuptiUnsubscribe, subscriber);
}
CUptiResult cuptiFinalize() {
  BY_NAME(cuptiFinalize);
}
