#include "profiler/record.hh"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

namespace mfu {
namespace {

// Files of one pid: devices, and programs executed one after the other.
constexpr int kMaxFilesPerPid = 4096;

// No count and no sum of a sound record comes near: 2^56 ns are 2.3 years. The sums of one record
// fit 64 bits; who adds records up has to stop at a bound of his own.
constexpr uint64_t kMaxSum = uint64_t{1} << 56;

bool text_ends(const char* text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (text[i] == '\0') return true;
    if (text[i] < 0x20 || text[i] > 0x7e) return false;
  }
  return false;
}

// Writes to mapped memory. A page that cannot be had (beyond the end of a file that was truncated;
// no space left for a copy-on-write file system) would raise SIGBUS and end the job: the kernel's
// own copy ends there instead, with what it has copied, or EFAULT before the first byte.
bool store(void* to, const void* from, size_t size) {
  iovec source{const_cast<void*>(from), size};
  iovec target{to, size};
  const ssize_t written = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
  if (written >= 0) return static_cast<size_t>(written) == size;
  if (errno == EFAULT) return false;
  memcpy(to, from, size);  // the call is forbidden here (seccomp)
  return true;
}

// Growing a file beyond this limit raises SIGXFSZ, which ends the process. False with errno set.
bool may_grow_file() {
  rlimit largest;
  if (getrlimit(RLIMIT_FSIZE, &largest) != 0 || largest.rlim_cur >= kRecordFileSize) return true;
  errno = EFBIG;
  return false;
}

bool sane(const uint64_t* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i] > kMaxSum) return false;
  }
  return true;
}

const char* step_fault(const StepEstimate& steps) {
  if (static_cast<uint32_t>(steps.source) > static_cast<uint32_t>(StepSource::kNvtx) ||
      steps.confidence > 1000) {
    return "steps";
  }
  const bool none = steps.source == StepSource::kNone;
  if (none != (steps.count == 0) || steps.last_ns < steps.first_ns) return "steps";
  const uint64_t values[] = {steps.count,         steps.last_ns - steps.first_ns,
                             steps.period_ns,     steps.median_ns,
                             steps.productive_ns, steps.stalled_ns,
                             steps.stalls,        steps.before_ns};
  return sane(values, sizeof(values) / sizeof(values[0])) ? nullptr : "steps";
}

// Each compute kernel is one of the three kinds at most.
const char* counted_fault(const Record& record) {
  const CountedKernels& counted = record.counted;
  if (const char* fault = counted_kernels_fault(counted)) return fault;
  const bool fits =
      counted.gemm_kernels + counted.attention_kernels + counted.uncounted_kernels <=
          record.compute_kernels &&
      counted.gemm_ns + counted.attention_ns + counted.uncounted_ns <= record.compute_kernel_ns;
  return fits ? nullptr : "more counted kernels than all";
}

}  // namespace

const char* state_name(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kNoRecords:
      return "no-records";
    case State::kNoCupti:
      return "no-cupti";
    case State::kCuptiFailed:
      return "cupti";
    case State::kCuptiBusy:
      return "cupti-busy";
    case State::kDenied:
      return "denied";
    case State::kStoodDown:
      return "stood-down";
    case State::kRefused:
      return "cupti-version";
    case State::kNoThread:
      return "no-thread";
  }
  return "unknown";
}

const char* cupti_call_name(CuptiCall call) {
  switch (call) {
    case CuptiCall::kNone:
      return "none";
    case CuptiCall::kGetVersion:
      return "version";
    case CuptiCall::kRegisterCallbacks:
      return "callbacks";
    case CuptiCall::kEnableKernel:
      return "enable-kernel";
    case CuptiCall::kEnableMemcpy:
      return "enable-memcpy";
    case CuptiCall::kEnableMemcpyPeer:
      return "enable-memcpy2";
    case CuptiCall::kEnableMemset:
      return "enable-memset";
    case CuptiCall::kGetNextRecord:
      return "next-record";
    case CuptiCall::kFlushAll:
      return "flush";
    case CuptiCall::kGetDropped:
      return "dropped";
    case CuptiCall::kSubscribe:
      return "subscribe";
  }
  return "unknown";
}

const char* record_fault(const Record& record) {
  if (record.magic != kRecordMagic) return "not a record";
  if (record.version != kRecordVersion) return "another version";
  if (record.size != sizeof(Record)) return "another size";
  if (record.checksum != record_checksum(record)) return "checksum";
  if (record.sequence == 0) return "never written";
  if (static_cast<uint32_t>(record.state) >= kStates) return "state";
  if (static_cast<uint32_t>(record.cupti_call) >= kCuptiCalls) return "cupti_call";
  if (!text_ends(record.device_name, sizeof(record.device_name))) return "device_name";
  if (!text_ends(record.pci_bus_id, sizeof(record.pci_bus_id))) return "pci_bus_id";
  if (record.published_ns < record.started_ns) return "published before started";
  const TimeSums& time = record.time;
  if (time.span_end_ns < time.span_start_ns) return "span";
  if (time.partition_ns[0] != 0 || !sane(time.partition_ns, kMasks)) return "partition";
  if (time.busy_ns() > time.span_ns()) return "busy beyond the span";
  const uint64_t counts[] = {record.compute_kernels,
                             record.communication_kernels,
                             record.copies,
                             record.compute_kernel_ns,
                             record.copy_ns,
                             record.kernel_names,
                             record.unlisted_kernels,
                             record.duplicates,
                             record.zero_times,
                             record.reversed,
                             record.implausible,
                             record.late,
                             record.late_ns,
                             record.dropped,
                             record.unfinished,
                             record.lost_ns,
                             record.callback_ns,
                             record.worker_ns,
                             record.memory_bytes,
                             time.span_ns(),
                             record.published_ns - record.started_ns};
  if (!sane(counts, sizeof(counts) / sizeof(counts[0]))) return "count";
  if (!sane(record.gemm_ns, kPrecisions)) return "gemm_ns";
  if (const char* fault = counted_fault(record)) return fault;
  if (!sane(record.collective_ns, kCollectives)) return "collective_ns";
  if (!sane(record.collective_count, kCollectives)) return "collective_count";
  for (const RecordedKernel& kernel : record.kernels) {
    if (!text_ends(kernel.name, sizeof(kernel.name))) return "kernel name";
    if (kernel.communication > 1 || kernel.collective >= kCollectives || kernel.gemm > 1 ||
        kernel.precision >= kPrecisions) {
      return "kernel kind";
    }
    if (!sane(&kernel.count, 3)) return "kernel sums";
  }
  if (const char* fault = step_fault(record.steps)) return fault;
  if (const char* fault = record.series.fault()) return fault;
  if (const char* fault = communicator_fault(record.communicators)) return fault;
  if (const char* fault = gemm_sums_fault(record.gemms)) return fault;
  if (const char* fault = inferred_flops_fault(record.inferred)) return fault;
  if (const char* fault = sensor_fault(record.sensors)) return fault;
  if (const char* fault = storage_fault(record.storage)) return fault;
  return record.samples.fault();
}

bool newest_record(const unsigned char (&file)[kRecordFileSize], Record* out) {
  bool found = false;
  for (size_t slot = 0; slot < 2; ++slot) {
    Record record;
    memcpy(static_cast<void*>(&record), file + slot * kSlotSize, sizeof(record));
    if (record_fault(record) != nullptr) continue;
    if (found && record.sequence <= out->sequence) continue;
    *out = record;
    found = true;
  }
  return found;
}

bool RecordFile::create(const char* folder, uint32_t pid) {
  if (!may_grow_file()) return false;
  char path[4096];
  int fd = -1;
  for (int n = 0; n < kMaxFilesPerPid; ++n) {
    int length = snprintf(path, sizeof(path), "%s/%u.%d%s", folder, pid, n, kRecordSuffix);
    if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) {
      errno = ENAMETOOLONG;
      return false;
    }
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) break;
  }
  if (fd < 0) return false;
  int error = posix_fallocate(fd, 0, kRecordFileSize);
  void* map = MAP_FAILED;
  if (error == 0) {
    map = mmap(nullptr, kRecordFileSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = errno;
  }
  close(fd);
  if (map == MAP_FAILED) {
    unlink(path);
    errno = error;
    return false;
  }
  map_ = static_cast<unsigned char*>(map);
  return true;
}

bool RecordFile::publish(Record* record) {
  if (map_ == nullptr) return false;
  record->size = sizeof(Record);
  record->sequence = ++sequence_;
  record->checksum = record_checksum(*record);
  // A reader that sees a half-written slot finds its checksum wrong and takes the other one.
  return store(map_ + (sequence_ % 2) * kSlotSize, record, sizeof(Record));
}

bool keep_record(const char* path, const Record& record) {
  if (!may_grow_file()) return false;
  char fresh[4096];
  int length = snprintf(fresh, sizeof(fresh), "%s.new", path);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(fresh)) {
    errno = ENAMETOOLONG;
    return false;
  }
  int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  bool written = ftruncate(fd, kRecordFileSize) == 0 &&
                 pwrite(fd, &record, sizeof(record), 0) == static_cast<ssize_t>(sizeof(record));
  int error = errno;
  if (close(fd) != 0) written = false;
  if (written && rename(fresh, path) == 0) return true;
  unlink(fresh);
  errno = error;
  return false;
}

void note_on_board(const char* folder, int error) {
  if (error <= 0 || static_cast<size_t>(error) >= kBoardSize) return;
  char path[4096];
  int length = snprintf(path, sizeof(path), "%s/%s", folder, kBoardName);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return;
  int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  // Mapped, because write() under RLIMIT_FSIZE may raise SIGXFSZ.
  void* map = mmap(nullptr, kBoardSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return;
  unsigned char mark = 1;
  store(static_cast<unsigned char*>(map) + error, &mark, 1);
  munmap(map, kBoardSize);
}

}  // namespace mfu
