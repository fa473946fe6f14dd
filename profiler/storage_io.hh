// Bytes that a process read from and wrote to files, from the kernel's own counters in
// /proc/self/io, and which of its training steps' stalls they were read or written in.
//
// The kernel keeps two views, and each misses something:
//   rchar, wchar            bytes that read() and write() and their like returned. Counted above
//   the
//                           file system, hence the same on Lustre, GPFS, BeeGFS, NFS and local
//                           disks; Slurm's sacct takes them too (AveDiskRead). What was in the page
//                           cache counts, and pipes and terminals; sockets by send() and recv(),
//                           as NCCL uses them, do not. Files that are mapped (safetensors),
//                           io_uring and GPUDirect Storage are missing.
//   read_bytes, write_bytes what the block layer was asked for, and what file systems that do
//                           without it report on their own (NFS, CIFS and Ceph do, on reading;
//                           Lustre, GPFS and tmpfs cannot be relied on). Mapped files are in it,
//                           the page cache's hits are not.
// So the first view tells storage traffic on the file systems of clusters, and the second one adds
// what is mapped. The larger of the two totals is taken, never their sum and never the larger one
// of each second: reading ahead would count twice.
//
// Children that are alive count as well, as PyTorch's data loaders read in them; the kernel adds
// those that were waited for to their parent. A child that nobody waits for takes its bytes along.
//
// Runs inside the injected library: no C++ runtime, no allocation. Not thread-safe.
#ifndef MFU_PROFILER_STORAGE_IO_HH_
#define MFU_PROFILER_STORAGE_IO_HH_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "profiler/steps.hh"

namespace mfu {

struct IoCounters {
  uint64_t called_read;  // rchar
  uint64_t called_written;
  uint64_t device_read;  // read_bytes
  uint64_t device_written;
};

// The text of an io file. False when a counter is missing.
bool parse_io(std::string_view text, IoCounters* out);
// Of a file such as /proc/self/io: 0, or an errno (EPROTO: another format).
int read_io(const char* path, IoCounters* out);
// Of this process and its main thread's live children, 64 of them at most.
int read_process_io(IoCounters* out);

// Since the first reading. All zero bytes are a valid empty one.
struct StorageSums {
  uint64_t called_read_bytes;
  uint64_t called_written_bytes;
  uint64_t device_read_bytes;
  uint64_t device_written_bytes;
  uint64_t ns;          // from the first reading to the last good one
  uint64_t reading_ns;  // of the steps' stalls: see StallWatch
  uint64_t writing_ns;
  int32_t result;  // of the last reading: 0 or an errno
  uint32_t unused;

  uint64_t read_bytes() const {
    return called_read_bytes > device_read_bytes ? called_read_bytes : device_read_bytes;
  }
  uint64_t written_bytes() const {
    return called_written_bytes > device_written_bytes ? called_written_bytes
                                                       : device_written_bytes;
  }
};
static_assert(std::is_trivially_copyable_v<StorageSums>);
static_assert(std::has_unique_object_representations_v<StorageSums>, "padding would leak memory");

// Why hostile bytes are no StorageSums, or nullptr.
const char* storage_fault(const StorageSums& sums);

// Tells stalls in which the process wrote from those in which it read and those in which it did
// neither: a blocking checkpoint, waiting for data, and all else (a slow network, evaluation). Of
// ranks that wait for another one's checkpoint, the stall is of the third kind: they do nothing.
//
// A stall ends with the step after it, and what was read and written since the step before is held
// against it. It is writing when at least kLeastBytesPerS of the stall were written, and more than
// read; reading when so much was read, and no more slowly than on average until now: a loader whose
// queue is full pauses.
class StallWatch {
 public:
  static constexpr uint64_t kLeastBytesPerS = 1'000'000;

  // Once a second or so, with the process's estimate at that time. Sets the sums' two times; in all
  // they are no more than steps.stalled_ns.
  void add(const StepEstimate& steps, StorageSums* sums);

 private:
  StepEstimate last_;
  uint64_t read_bytes_;  // when the last step before was seen
  uint64_t written_bytes_;
  uint64_t at_ns_;
};

// Folds readings into sums. All zero bytes are a valid empty one.
struct StorageFold {
  StorageSums sums;

  // `result` is what read_process_io() returned. A counter that goes backwards counts anew.
  void add(const IoCounters& counters, int result, uint64_t at_ns, const StepEstimate& steps);

 private:
  bool begun_;
  IoCounters last_;
  uint64_t last_ns_;
  StallWatch stalls_;
};

}  // namespace mfu

#endif
