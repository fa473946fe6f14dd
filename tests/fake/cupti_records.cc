#include "tests/fake/cupti_records.hh"

#include <cstring>

namespace mfu::fake {
namespace {

// Measured on libcupti.so.13 of CUDA 13.0 (API 130001): the step of cuptiActivityGetNextRecord over
// a record of each kind, which does not depend on the record's contents. 0:
// CUPTI_ERROR_INVALID_KIND. fake_cupti_test holds the table against the library.
constexpr uint8_t kSizes[] = {
    0,   96,  88,  216, 40, 40, 0,   0,   // 0 invalid .. 7 metric
    184, 32,  216, 32,  56, 40, 0,   0,   // 8 device .. 15 global access
    0,   56,  144, 40,  40, 0,  96,  0,   // 16 branch .. 23 metric instance
    0,   104, 32,  24,  24, 0,  0,   0,   // 24 instruction execution .. 31 PC sampling info
    0,   152, 152, 120, 56, 24, 56,  24,  // 32 .. 39 external correlation
    136, 0,   0,   0,   0,  80, 168, 40,  // 40 nvlink .. 47 openmp
    40,  128, 80,  56,  72, 56, 64,  32,  // 48 .. 55 confidential compute rotation
};

static_assert(sizeof(CUpti_ActivityKernel10) == kSizes[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]);
static_assert(sizeof(CUpti_ActivityMemcpy6) == kSizes[CUPTI_ACTIVITY_KIND_MEMCPY]);
static_assert(sizeof(CUpti_ActivityMemcpyPtoP4) == kSizes[CUPTI_ACTIVITY_KIND_MEMCPY2]);
static_assert(sizeof(CUpti_ActivityMemset4) == kSizes[CUPTI_ACTIVITY_KIND_MEMSET]);
static_assert(sizeof(CUpti_ActivityKernel10) <= kLargestRecord);

// Source and destination memory of a copy kind.
void memory_kinds(uint32_t copy_kind, uint8_t* source, uint8_t* destination) {
  *source = *destination = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  if (copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) *source = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  if (copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) {
    *destination = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  }
}

// The fields that all four structures have under the same names.
template <typename Record>
void encode_common(const GpuOperation& operation, CUpti_ActivityKind kind, uint32_t context_id,
                   Record* record) {
  record->kind = kind;
  record->start = operation.start_ns;
  record->end = operation.end_ns;
  record->deviceId = static_cast<uint32_t>(operation.device);
  record->contextId = context_id;
  record->streamId = operation.stream;
  record->correlationId = operation.correlation;
  record->graphNodeId = operation.graph_node;
  record->graphId = operation.graph_node != 0 ? 1 : 0;
}

CUpti_ActivityKernel10 kernel(const GpuOperation& operation, const char* name) {
  CUpti_ActivityKernel10 record = {};
  record.name = name;
  record.registersPerThread = 128;
  record.completed = operation.end_ns;
  record.gridX = static_cast<int32_t>(operation.grid[0]);
  record.gridY = static_cast<int32_t>(operation.grid[1]);
  record.gridZ = static_cast<int32_t>(operation.grid[2]);
  record.blockX = static_cast<int32_t>(operation.block[0]);
  record.blockY = static_cast<int32_t>(operation.block[1]);
  record.blockZ = static_cast<int32_t>(operation.block[2]);
  record.gridId = operation.correlation;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return record;
}

CUpti_ActivityMemcpy6 copy(const GpuOperation& operation) {
  CUpti_ActivityMemcpy6 record = {};
  record.copyKind = static_cast<uint8_t>(operation.copy_kind);
  memory_kinds(operation.copy_kind, &record.srcKind, &record.dstKind);
  record.bytes = operation.bytes;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  record.copyCount = 1;
  return record;
}

CUpti_ActivityMemcpyPtoP4 peer_copy(const GpuOperation& operation, uint32_t context_id) {
  CUpti_ActivityMemcpyPtoP4 record = {};
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcKind = record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = operation.bytes;
  record.srcDeviceId = static_cast<uint32_t>(operation.device);
  record.srcContextId = context_id;
  record.dstDeviceId = static_cast<uint32_t>(operation.peer);
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  return record;
}

CUpti_ActivityMemset4 fill(const GpuOperation& operation) {
  CUpti_ActivityMemset4 record = {};
  record.bytes = operation.bytes;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return record;
}

}  // namespace

size_t record_size(uint32_t kind) {
  return kind < sizeof(kSizes) ? kSizes[kind] : 0;
}

CUpti_ActivityKind kind_of(GpuWork work) {
  switch (work) {
    case GpuWork::kKernel:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case GpuWork::kMemcpy:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case GpuWork::kMemcpyPeer:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case GpuWork::kMemset:
      return CUPTI_ACTIVITY_KIND_MEMSET;
  }
  return CUPTI_ACTIVITY_KIND_INVALID;
}

void encode(const GpuOperation& operation, CUpti_ActivityKind kind, uint32_t context_id,
            const char* name, unsigned char (&record)[kLargestRecord]) {
  auto write = [&](auto structure) {
    encode_common(operation, kind, context_id, &structure);
    std::memcpy(record, &structure, sizeof(structure));
  };
  switch (operation.work) {
    case GpuWork::kKernel:
      return write(kernel(operation, name));
    case GpuWork::kMemcpy:
      return write(copy(operation));
    case GpuWork::kMemcpyPeer:
      return write(peer_copy(operation, context_id));
    case GpuWork::kMemset:
      return write(fill(operation));
  }
}

// The real one compares addresses, so that a valid size which wraps around is as good as 0; it
// takes kind FORCE_INT for the end of the buffer, but not as the kind of the record before; and it
// reads the whole kind even if fewer than four bytes are valid.
CUptiResult next_record(uint8_t* buffer, size_t valid_size, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  auto address = [](const uint8_t* at) { return reinterpret_cast<uintptr_t>(at); };
  auto kind_at = [](const uint8_t* at) {
    uint32_t kind;
    std::memcpy(&kind, at, sizeof(kind));
    return kind;
  };
  const uintptr_t end = address(buffer) + valid_size;
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<uint8_t*>(*record);
    size_t step = record_size(kind_at(next));
    if (step == 0) return CUPTI_ERROR_INVALID_KIND;
    next += step;
  }
  if (address(next) >= end) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  uint32_t kind = kind_at(next);
  if (kind == CUPTI_ACTIVITY_KIND_FORCE_INT) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  size_t size = record_size(kind);
  if (size == 0) return CUPTI_ERROR_INVALID_KIND;
  if (address(next) + size > end) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

}  // namespace mfu::fake
