// Streams of the fake CUDA runtime, for the fake cublasLt and NCCL: work that takes a stated time.
#ifndef MFU_TESTS_GPU_FAKE_STREAM_HH_
#define MFU_TESTS_GPU_FAKE_STREAM_HH_

#include <cuda_runtime_api.h>

#include <cstdint>

extern "C" {
// Enqueues a kernel that runs for `ns` nanoseconds once what the stream waits for has ended; on a
// stream that is being captured it goes into the graph.
cudaError_t fakeStreamRun(cudaStream_t stream, uint64_t ns, const char* name);
}

#endif
