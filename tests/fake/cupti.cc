// A CUPTI without a GPU: libcupti.so.13 as far as an activity profiler uses it, fed by the fake
// driver. What was measured on the real library without a driver (CUDA 13.0) holds here, too:
// version, time, buffer callbacks, dropped count and record parsing work, all else is
// CUPTI_ERROR_UNKNOWN. The faults that it can be asked for are in cupti_faults.hh.
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/fake/cupti_collector.hh"
#include "tests/fake/cupti_faults.hh"
#include "tests/fake/cupti_records.hh"
#include "tests/fake/gpu_work.hh"

using mfu::fake::Collector;
using mfu::fake::enter;
using mfu::fake::GpuOperation;

// The handle that CUpti_SubscriberHandle points to.
struct CUpti_Subscriber_st {
  std::string name;
};

namespace {

struct Driver {
  decltype(&mfu::fake::fakeGpuObserve) observe = nullptr;
  decltype(&mfu::fake::fakeGpuContextDevice) context_device = nullptr;
};

// The fake driver of this process, or nullptr while none is mapped.
const Driver* driver() {
  static Driver& found = *new Driver;
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  if (found.observe == nullptr) {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    found.context_device =
        reinterpret_cast<decltype(found.context_device)>(dlsym(library, "fakeGpuContextDevice"));
    found.observe = reinterpret_cast<decltype(found.observe)>(dlsym(library, "fakeGpuObserve"));
    if (found.observe == nullptr) return nullptr;
    found.observe([](const GpuOperation& operation, uint32_t context_id) {
      Collector::instance().submitted(operation, context_id);
    });
  }
  return &found;
}

// enter() for the calls that need a driver.
CUptiResult enter_driver(const char* function, int64_t argument = mfu::fake::kNoArgument) {
  CUptiResult failure = enter(function, argument);
  if (failure != CUPTI_SUCCESS) return failure;
  return driver() != nullptr ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
}

bool known(CUpti_ActivityKind kind) {
  return mfu::fake::record_size(kind) != 0;
}

std::mutex& subscriber_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
CUpti_SubscriberHandle the_subscriber = nullptr;

// A subscription keeps nobody from the activity calls: they carry no handle, so that CUPTI cannot
// tell one client of this process from another. A tool outside of it (nsys) is FAKE_CUPTI_FAIL's.
CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, const CUpti_SubscriberParams* params) {
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard lock(subscriber_mutex());
  if (the_subscriber != nullptr) {
    if (params != nullptr && params->oldSubscriberName != nullptr) {
      size_t size = the_subscriber->name.copy(params->oldSubscriberName,
                                              std::max<size_t>(params->oldSubscriberSize, 1) - 1);
      params->oldSubscriberName[size] = '\0';
    }
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  the_subscriber = new CUpti_Subscriber_st;
  if (params != nullptr && params->subscriberName != nullptr) {
    the_subscriber->name = std::string("CUPTI for ") + params->subscriberName;
  }
  *subscriber = the_subscriber;
  return CUPTI_SUCCESS;
}

// Attributes with the sizes and defaults of the header's comments. They are kept; only the promise
// of zeroed buffers changes anything.
struct Attribute {
  size_t size;
  uint64_t value;
};
std::mutex& attribute_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::map<int, Attribute>& attributes() {
  static std::map<int, Attribute>& values = *new std::map<int, Attribute>{
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, {sizeof(size_t), 3200000}},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP, {sizeof(size_t), 8388608}},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, {sizeof(size_t), 250}},
      {CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, {sizeof(uint8_t), 0}},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, {sizeof(size_t), 3}},
      {CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, {sizeof(uint8_t), 0}},
      {CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, {sizeof(uint8_t), 1}},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS, {sizeof(size_t), 16777216}},
  };
  return values;
}

// Finds the attribute and checks the caller's size. The caller holds the mutex.
CUptiResult find_attribute(CUpti_ActivityAttribute attr, const size_t* size, Attribute** found) {
  auto at = attributes().find(attr);
  if (at == attributes().end()) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size < at->second.size) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  *found = &at->second;
  return CUPTI_SUCCESS;
}

}  // namespace

// A failure that was asked for, or that of a missing driver, ends the call.
#define RETURN_IF(call) \
  if (CUptiResult failure = (call); failure != CUPTI_SUCCESS) return failure

// CUPTI's headers declare no visibility to its users, and the build hides what is not asked for.
#pragma GCC visibility push(default)
extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  RETURN_IF(enter("cuptiGetVersion"));
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  RETURN_IF(enter("cuptiGetTimestamp"));
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = Collector::instance().now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** str) {
  RETURN_IF(enter("cuptiGetResultString"));
  if (str == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *str = mfu::fake::result_name(result);
  if (*str != nullptr) return CUPTI_SUCCESS;
  *str = "<unknown>";
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                                           CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  RETURN_IF(enter("cuptiActivityRegisterCallbacks"));
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  Collector::instance().set_callbacks(funcBufferRequested, funcBufferCompleted);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  RETURN_IF(enter_driver("cuptiActivityEnable", kind));
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  Collector::instance().enable(kind, true);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  RETURN_IF(enter_driver("cuptiActivityDisable", kind));
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  Collector::instance().enable(kind, false);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  RETURN_IF(enter_driver("cuptiActivityEnableContext", kind));
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  Collector::instance().enable(context, kind, true);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  RETURN_IF(enter_driver("cuptiActivityDisableContext", kind));
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  Collector::instance().enable(context, kind, false);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  RETURN_IF(enter_driver("cuptiActivityFlushAll", flag));
  if (!Collector::instance().has_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  Collector::instance().flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushPeriod(uint32_t time) {
  RETURN_IF(enter_driver("cuptiActivityFlushPeriod", time));
  Collector::instance().set_period_ms(time);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
                                       CUpti_Activity** record) {
  RETURN_IF(enter("cuptiActivityGetNextRecord"));
  return mfu::fake::next_record(buffer, validBufferSizeBytes, record);
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  RETURN_IF(enter("cuptiActivityGetNumDroppedRecords"));
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = Collector::instance().take_dropped();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize,
                                      void* value) {
  RETURN_IF(enter("cuptiActivitySetAttribute", attr));
  if (valueSize == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_UNKNOWN;
  std::lock_guard lock(attribute_mutex());
  Attribute* attribute;
  RETURN_IF(find_attribute(attr, valueSize, &attribute));
  attribute->value = 0;
  std::memcpy(&attribute->value, value, attribute->size);
  if (attr == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
    Collector::instance().set_zeroed(attribute->value != 0);
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize,
                                      void* value) {
  RETURN_IF(enter("cuptiActivityGetAttribute", attr));
  if (valueSize == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_UNKNOWN;
  std::lock_guard lock(attribute_mutex());
  Attribute* attribute;
  RETURN_IF(find_attribute(attr, valueSize, &attribute));
  std::memcpy(value, &attribute->value, attribute->size);
  *valueSize = attribute->size;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  RETURN_IF(enter("cuptiActivityRegisterTimestampCallback"));
  if (funcTimestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_UNKNOWN;
  Collector::instance().set_clock(funcTimestamp);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  RETURN_IF(enter_driver("cuptiSubscribe"));
  return subscribe(subscriber, nullptr);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*,
                              CUpti_SubscriberParams* pParams) {
  RETURN_IF(enter_driver("cuptiSubscribe_v2"));
  if (pParams != nullptr && pParams->structSize != sizeof(*pParams)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return subscribe(subscriber, pParams);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  RETURN_IF(enter("cuptiUnsubscribe"));
  std::lock_guard lock(subscriber_mutex());
  if (subscriber == nullptr || subscriber != the_subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  delete the_subscriber;
  the_subscriber = nullptr;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* deviceId) {
  RETURN_IF(enter_driver("cuptiGetDeviceId"));
  CUdevice device;
  if (driver()->context_device(context, &device) != CUDA_SUCCESS) {
    return CUPTI_ERROR_INVALID_CONTEXT;
  }
  *deviceId = static_cast<uint32_t>(device);
  return CUPTI_SUCCESS;
}

// Our profiler must never call it; another client may. CUPTI begins anew at the next call.
CUptiResult cuptiFinalize(void) {
  RETURN_IF(enter_driver("cuptiFinalize"));
  Collector::instance().reset();
  std::lock_guard lock(subscriber_mutex());
  delete the_subscriber;
  the_subscriber = nullptr;
  return CUPTI_SUCCESS;
}
}
#pragma GCC visibility pop
