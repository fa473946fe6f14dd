// The GPUs' device files that a process may open.
#ifndef MFU_PLUGIN_DEVICE_FILES_HH_
#define MFU_PLUGIN_DEVICE_FILES_HH_

#include <string>

namespace mfu {

// "0,2": numbers of FOLDER/nvidiaN that this process may read and write, ascending, with commas
// between; empty: none. Asked of the kernel, cgroups included, without opening one: that would wake
// the GPU. Of a folder with more than 128 of them, some.
std::string openable_gpus(const std::string& folder);
// Whether openable_gpus() may have written it.
bool is_gpu_list(const std::string& text);

}  // namespace mfu

#endif
