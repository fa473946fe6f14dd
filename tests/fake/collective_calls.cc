#include "tests/fake/collective_calls.hh"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace mfu::fake {

CollectiveCalls::CollectiveCalls(int abi, int rank, int ranks) {
  if (abi == 0) return;
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  void* library = name == nullptr ? nullptr : dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(std::string("NCCL_PROFILER_PLUGIN: ") +
                             (name == nullptr ? "not set" : dlerror()));
  }
  auto find = [library](const char* symbol) -> const void* { return dlsym(library, symbol); };
  host_ = std::make_unique<NcclHost>(find, abi);
  if (host_->plugin() == nullptr) throw std::runtime_error(std::string(name) + ": no plugin");
  world_.name = "world";
  world_.hash = 4711;
  world_.rank = rank;
  world_.ranks = ranks;
  if (host_->create(world_) != 0) throw std::runtime_error(std::string(name) + ": init fails");
}

CollectiveCalls::~CollectiveCalls() {
  if (host_ != nullptr) host_->destroy(world_);
}

void CollectiveCalls::submitted(const GpuOperation& operation) {
  if (host_ == nullptr || operation.name == nullptr) return;
  if (std::strstr(operation.name, "AllReduce") == nullptr) return;
  host_->launch(world_,
                {{.function = "AllReduce", .count = kElements, .datatype = "ncclBfloat16"}});
}

}  // namespace mfu::fake
