// A test double of NCCL as a host of profiler plugins. It looks for the plugin's tables, newest
// first, and calls init, startEvent, stopEvent, recordEventState and finalize in the order and with
// the descriptors of the NCCL version that brought the table: the layouts are those of its
// headers, whole (nccl_layouts.hh). It moves no data.
//
// It proves that the plugin understands these layouts and this order; that NCCL has them was read
// in its sources, releases 2.23 to 2.30.
#ifndef MFU_TESTS_FAKE_NCCL_HOST_HH_
#define MFU_TESTS_FAKE_NCCL_HOST_HH_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/fake/nccl_callers.hh"

namespace mfu::fake {

// The symbol of a plugin that is loaded, or nullptr.
using FindSymbol = std::function<const void*(const char* name)>;

class NcclHost {
 public:
  // Takes the newest table of version `newest` or older. Without one, plugin() is null.
  NcclHost(const FindSymbol& find, int newest);

  NcclPlugin* plugin() { return plugin_.get(); }
  int mask() const { return mask_; }

  // ncclCommInitRank. What the plugin's init returned.
  int create(NcclCommunicator& communicator) { return plugin_->init(communicator, &mask_); }
  void destroy(NcclCommunicator& communicator);

  // ncclGroupStart .. ncclGroupEnd on one communicator, all tasks in one kernel. Captured: into a
  // graph that then runs `replays` times, whose kernels need the proxy: version 1 to 4 and the task
  // events of 5 and 6 come with each.
  void launch(NcclCommunicator& communicator, const std::vector<NcclTask>& tasks,
              bool captured = false, int replays = 1);

 private:
  template <int version, typename Init, typename Event>
  void take(const FindSymbol& find, int newest);
  void launch_kernel(NcclCommunicator& communicator, const std::vector<NcclTask>& tasks,
                     const std::vector<void*>& apis, bool captured);
  void launch_engine(NcclCommunicator& communicator, const NcclTask& task, void* api);

  std::unique_ptr<NcclPlugin> plugin_;
  int mask_ = 0;
};

template <int version, typename Init, typename Event>
void NcclHost::take(const FindSymbol& find, int newest) {
  if (plugin_ != nullptr || version > newest) return;
  const void* table = find(("ncclProfiler_v" + std::to_string(version)).c_str());
  if (table != nullptr) plugin_ = std::make_unique<Caller<version, Init, Event>>(table);
}

inline NcclHost::NcclHost(const FindSymbol& find, int newest) {
  take<6, Init5, Descriptor6>(find, newest);
  take<5, Init5, Descriptor5>(find, newest);
  take<4, Init4, Descriptor4>(find, newest);
  take<3, Init1, Descriptor3>(find, newest);
  take<2, Init1, Descriptor2>(find, newest);
  take<1, Init1, Descriptor1>(find, newest);
}

inline void NcclHost::destroy(NcclCommunicator& communicator) {
  // Since 2.28 only with a context.
  if (plugin_->abi() < 5 || communicator.context != nullptr)
    plugin_->finalize(communicator.context);
}

inline void NcclHost::launch(NcclCommunicator& communicator, const std::vector<NcclTask>& tasks,
                             bool captured, int replays) {
  if (mask_ == 0) return;
  std::vector<void*> apis(tasks.size(), nullptr);
  if (plugin_->abi() >= 5) {
    void* group = plugin_->start(communicator.context, kGroupApi);
    if (group != nullptr) plugin_->record_state(group, 23);
    for (size_t i = 0; i < tasks.size(); ++i) {
      apis[i] = plugin_->start_api(communicator, tasks[i], group, captured);
      if (apis[i] != nullptr) plugin_->stop(apis[i]);
    }
    if (group != nullptr) plugin_->stop(group);
  }
  std::vector<NcclTask> kernel;
  std::vector<void*> kernel_apis;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].engine) {
      launch_engine(communicator, tasks[i], apis[i]);
    } else {
      kernel.push_back(tasks[i]);
      kernel_apis.push_back(apis[i]);
    }
  }
  for (int i = 0; i < replays && !kernel.empty(); ++i) {
    launch_kernel(communicator, kernel, kernel_apis, captured);
  }
}

inline void NcclHost::launch_engine(NcclCommunicator& communicator, const NcclTask& task,
                                    void* api) {
  if ((mask_ & kCeColl) == 0) return;
  void* handle = plugin_->start_engine(communicator, task, api);
  if (handle != nullptr) plugin_->stop(handle);
}

inline void NcclHost::launch_kernel(NcclCommunicator& communicator,
                                    const std::vector<NcclTask>& tasks,
                                    const std::vector<void*>& apis, bool captured) {
  void* group = plugin_->start(communicator.context, kGroup);
  if (plugin_->abi() < 5 && group == nullptr) return;
  std::vector<void*> handles;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if ((mask_ & (point_to_point(tasks[i]) ? kP2p : kColl)) == 0) continue;
    handles.push_back(plugin_->start_task(communicator, tasks[i], apis[i], group));
    if (!captured && !point_to_point(tasks[i])) ++communicator.sequence[tasks[i].function];
  }
  // 2.23 to 2.25 stop what has no handle, too.
  for (void* handle : handles) {
    if (plugin_->abi() <= 2 || handle != nullptr) plugin_->stop(handle);
  }
  if (group != nullptr) plugin_->stop(group);
}

}  // namespace mfu::fake

#endif
