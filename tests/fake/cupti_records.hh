// CUPTI's activity records as CUDA 13.0 lays them out, and the names of its results.
#ifndef MFU_TESTS_FAKE_CUPTI_RECORDS_HH_
#define MFU_TESTS_FAKE_CUPTI_RECORDS_HH_

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

inline constexpr size_t kLargestRecord = 216;

// Bytes from a record of this kind to the next, or 0 for a kind that has no records.
size_t record_size(uint32_t kind);

// The kind under which CUPTI reports the operation (a kernel: CONCURRENT_KERNEL).
CUpti_ActivityKind kind_of(GpuWork work);

// Fills the first record_size(kind) bytes of `record`. `name` is a kernel's name as it will stay
// in the record.
void encode(const GpuOperation& operation, CUpti_ActivityKind kind, uint32_t context_id,
            const char* name, unsigned char (&record)[kLargestRecord]);

// cuptiActivityGetNextRecord, exactly as the real library does it.
CUptiResult next_record(uint8_t* buffer, size_t valid_size, CUpti_Activity** record);

// The code's name in cupti_result.h, or nullptr.
const char* result_name(CUptiResult result);

}  // namespace mfu::fake

#endif
