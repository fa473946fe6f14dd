// libnccl.so.2 without a GPU: all-reduces that take FAKE_NCCL_US microseconds (default 100) and
// leave the data as it is. Ranks of other processes are taken to be there once they have the id.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu/fake_stream.hh"

namespace {

uint64_t duration_ns() {
  const char* text = std::getenv("FAKE_NCCL_US");
  return 1000 * (text != nullptr ? std::strtoull(text, nullptr, 10) : 100);
}

ncclComm_t a_communicator() {
  return reinterpret_cast<ncclComm_t>(new int);
}

constexpr char kId[] = "fake NCCL";

std::string trace_of(int rank) {
  const char* folder = std::getenv("FAKE_NCCL_FOLDER");
  return std::string(folder != nullptr ? folder : ".") + "/rank." + std::to_string(rank);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  std::memcpy(id->internal, kId, sizeof(kId));
  return ncclSuccess;
}
ncclResult_t ncclCommInitAll(ncclComm_t* out, int count, const int*) {
  for (int i = 0; i < count; ++i) out[i] = a_communicator();
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  if (std::memcmp(id.internal, kId, sizeof(kId)) != 0) return ncclInvalidArgument;
  FILE* trace = std::fopen(trace_of(rank).c_str(), "w");
  if (trace == nullptr) return ncclSystemError;
  std::fclose(trace);
  // As the real one: it returns when all are there.
  for (int other = 0; other < ranks; ++other) {
    while (access(trace_of(other).c_str(), F_OK) != 0) usleep(10'000);
  }
  *out = a_communicator();
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete reinterpret_cast<int*>(communicator);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t stream) {
  const cudaError_t result =
      fakeStreamRun(stream, duration_ns(), "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)");
  return result == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidArgument ? "invalid argument" : "an error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
}
#pragma GCC visibility pop
