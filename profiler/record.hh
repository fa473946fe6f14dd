// The record: what one process knows of one device, in a file of fixed size that is mapped, written
// in place and readable at any time, also after the process was killed.
//
// One file holds two slots of kSlotSize bytes. The writer fills the slot that is not current,
// computes its checksum last and only then moves on, so that a kill at any instant leaves at least
// one whole slot. A reader takes the valid slot with the higher sequence number.
//
// The file lies in a folder that the job's user owns: to a reader its bytes are hostile. All
// numbers are host-endian integers; times are CLOCK_REALTIME nanoseconds.
//
// File name: "<pid>.<n>.mfu", n counting the files of that pid (one per device; exec goes on
// counting).
//
// A process that cannot create its file says so on the board, a file that exists before the first
// task starts: byte number errno of it becomes 1.
#ifndef MFU_PROFILER_RECORD_HH_
#define MFU_PROFILER_RECORD_HH_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "profiler/collective_samples.hh"
#include "profiler/communicator_sums.hh"
#include "profiler/counted_kernels.hh"
#include "profiler/gemm_calls.hh"
#include "profiler/kernel.hh"
#include "profiler/model_inference.hh"
#include "profiler/name_table.hh"
#include "profiler/sensor_sums.hh"
#include "profiler/steps.hh"
#include "profiler/storage_io.hh"
#include "profiler/time_series.hh"
#include "profiler/timeline.hh"

namespace mfu {

inline constexpr uint64_t kRecordMagic = 0x31436552'55464d00;  // "\0MFUReC1"
inline constexpr uint32_t kRecordVersion = 1;
inline constexpr size_t kSlotSize = 12'288;
inline constexpr size_t kRecordFileSize = 2 * kSlotSize;
inline constexpr char kRecordSuffix[] = ".mfu";
inline constexpr char kBoardName[] = "board";
inline constexpr size_t kBoardSize = 256;
// The environment of a profiled task.
inline constexpr char kRecordFolderVariable[] = "MFU_RECORD_DIR";
inline constexpr char kBudgetVariable[] = "MFU_BUDGET";           // percent, decimal
inline constexpr char kCuptiVariable[] = "MFU_CUPTI";             // path of libcupti, optional
inline constexpr char kStepKernelVariable[] = "MFU_STEP_KERNEL";  // part of a name, optional
inline constexpr char kStepRangeVariable[] = "MFU_STEP_RANGE";    // name of an NVTX range, optional
inline constexpr char kSensorsVariable[] = "MFU_SENSORS";         // "off": NVML is left alone
inline constexpr char kCountVariable[] = "MFU_COUNT";    // "off": no call of cuBLAS is counted
inline constexpr char kKeepVariable[] = "MFU_KEEP_DIR";  // folder for copies, optional

// Why a process has no (or no more) attribution. Order is severity's: a merge keeps the largest.
enum class State : uint32_t {
  kOk,
  kNoRecords,    // CUPTI accepted everything and delivered nothing
  kNoCupti,      // no libcupti in the process or on the search path
  kCuptiFailed,  // a CUPTI call failed: `cupti_call` and `cupti_result` tell which
  kCuptiBusy,    // another profiler owns CUPTI (result 39)
  kDenied,       // the driver denies profiling to this user (result 35)
  kStoodDown,    // own cost passed the budget
  kRefused,      // CUPTI version outside of what this library knows
  kNoThread,     // the process may not have one more thread
};
inline constexpr uint32_t kStates = 9;
// "ok", "no-records", ...: as in n/a(reason).
const char* state_name(State state);

// The CUPTI calls that can fail a session.
enum class CuptiCall : uint32_t {
  kNone,
  kGetVersion,
  kRegisterCallbacks,
  kEnableKernel,
  kEnableMemcpy,
  kEnableMemcpyPeer,
  kEnableMemset,
  kGetNextRecord,
  kFlushAll,
  kGetDropped,  // fails no session: see kDroppedUnknown
  kSubscribe,   // a probe: somebody else has CUPTI
};
inline constexpr uint32_t kCuptiCalls = 11;
const char* cupti_call_name(CuptiCall call);
// Record::cupti_result of a call that never returned.
inline constexpr int32_t kHung = -2;

enum RecordFlags : uint32_t {
  kFinished = 1,        // the process's last word: nothing is missing after published_ns
  kPrimary = 2,         // carries the process-wide fields (losses, cost, state)
  kDroppedUnknown = 4,  // CUPTI would not say how many records it dropped
  kDeviceKnown = 8,     // device_name, uuid, ... are filled
  kFlushFailed = 16,    // the flush at exit failed or hung: the tail may be missing
  kInCupti = 32,        // inside a CUPTI call that may hang: what came after is not known
};

// The kernels of one name.
struct RecordedKernel {
  char name[kKernelNameSize] = {};  // its begin, NUL-terminated
  uint64_t count = 0;
  uint64_t ns = 0;  // sum of durations: concurrent ones count twice
  uint64_t longest_ns = 0;
  uint8_t communication = 0;
  uint8_t collective = 0;  // Collective
  uint8_t gemm = 0;
  uint8_t precision = 0;  // Precision
  uint32_t unused = 0;

  KernelKind kind() const {
    return {communication != 0, static_cast<Collective>(collective), gemm != 0,
            static_cast<Precision>(precision)};
  }
  void set_kind(const KernelKind& kind) {
    communication = kind.communication;
    collective = static_cast<uint8_t>(kind.collective);
    gemm = kind.gemm;
    precision = static_cast<uint8_t>(kind.precision);
  }
};
inline constexpr uint32_t kTopKernels = 16;

struct Record {
  uint64_t magic = kRecordMagic;
  uint32_t version = kRecordVersion;
  uint32_t size = 0;      // sizeof(Record)
  uint64_t sequence = 0;  // of the writing; 0 = never written

  // Who and where.
  uint32_t pid = 0;
  uint32_t task = 0;    // SLURM_PROCID; UINT32_MAX when unknown
  uint32_t device = 0;  // CUDA ordinal inside the process
  uint32_t sm_count = 0;
  uint32_t compute_capability = 0;  // 10 * major + minor
  uint32_t flags = 0;               // RecordFlags
  State state = State::kOk;
  CuptiCall cupti_call = CuptiCall::kNone;
  int32_t cupti_result = 0;    // of cupti_call
  uint32_t cupti_version = 0;  // CUPTI_API_VERSION found at run time
  uint8_t uuid[16] = {};
  char device_name[96] = {};  // NUL-terminated
  char pci_bus_id[24] = {};   // NUL-terminated

  // When.
  uint64_t started_ns = 0;    // the library came into the process
  uint64_t published_ns = 0;  // of this writing

  // What ran on the device.
  TimeSums time;
  uint64_t compute_kernels = 0;
  uint64_t communication_kernels = 0;
  uint64_t copies = 0;             // memcpy, peer copies and memset
  uint64_t compute_kernel_ns = 0;  // sums of durations: concurrent ones count twice
  uint64_t copy_ns = 0;
  uint64_t gemm_ns[kPrecisions] = {};  // kernel time of GEMMs by input precision
  CountedKernels counted;
  uint64_t collective_ns[kCollectives] = {};  // kernel time by collective
  uint64_t collective_count[kCollectives] = {};
  RecordedKernel kernels[kTopKernels] = {};  // longest time first; the unused ones have count 0
  uint64_t kernel_names = 0;                 // different ones, listed here or not
  uint64_t unlisted_kernels = 0;             // of names beyond what NameTable holds
  CollectiveSamples samples = {};

  TimeSeries series;        // `time` over the run
  StepEstimate steps = {};  // the process's own NVTX ranges, if they tell, in every device's

  SensorSums sensors = {};   // of the device, whoever used it
  StorageSums storage = {};  // of the process (primary record only)

  // What was kept out of `time`, in records.
  uint64_t zero_times = 0;   // start or end was 0: CUPTI lost the time stamps
  uint64_t reversed = 0;     // end < start
  uint64_t implausible = 0;  // before the process or after now
  uint64_t duplicates = 0;   // the same operation once more
  uint64_t late = 0;         // came after its time had been folded
  uint64_t late_ns = 0;      // time of the late ones, and of the unfinished ones up to the end

  // What was not observed (primary record only).
  uint64_t dropped = 0;     // records that CUPTI had no buffer for
  uint64_t unfinished = 0;  // kernels still running at the last flush
  uint64_t lost_ns = 0;     // time in which records were dropped or another profiler had its turn

  // Matrix multiplications that were called for (primary record only).
  GemmSums gemms;
  InferredFlops inferred;

  // What NCCL's profiler interface told (primary record only, but for `abi`).
  CommunicatorSums communicators;

  // Own cost (primary record only).
  uint64_t callback_ns = 0;   // spent in the application's or CUPTI's threads
  uint64_t worker_ns = 0;     // CPU time of our own thread
  uint64_t memory_bytes = 0;  // mapped for buffers and the timelines

  uint64_t checksum = 0;  // record_checksum() of all bytes before
};
static_assert(std::is_trivially_copyable_v<Record>);
static_assert(sizeof(Record) <= kSlotSize);
static_assert(sizeof(Record) % sizeof(uint64_t) == 0);

// FNV-1a over 64-bit words of everything before `checksum`. Tells a torn record from a whole one;
// it is no protection against a forger.
inline uint64_t record_checksum(const Record& record) {
  unsigned char bytes[offsetof(Record, checksum)];
  std::memcpy(bytes, &record, sizeof(bytes));
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < sizeof(bytes); i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes + i, sizeof(word));
    hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

// Why the bytes are no record, or nullptr for a sound one. Checks every field's range, so that no
// sum inside of one record overflows and every string ends.
const char* record_fault(const Record& record);

// Takes the newer sound slot of a file's bytes. False when neither is sound.
bool newest_record(const unsigned char (&file)[kRecordFileSize], Record* out);

// The writer's side: the mapped file.
class RecordFile {
 public:
  // Creates a new file in `folder` for this process: exclusive, 0600, its blocks allocated before
  // it is mapped (a full disk must not become a SIGBUS in the job). False with errno set.
  bool create(const char* folder, uint32_t pid);
  bool is_open() const { return map_ != nullptr; }
  // Fills in sequence, size and checksum and writes the slot that is not current. False when the
  // file's memory has gone (truncated by its owner, a full copy-on-write file system).
  bool publish(Record* record);

 private:
  unsigned char* map_ = nullptr;
  uint64_t sequence_ = 0;
};

// Leaves a copy of a published record in the file `path`, in place of an earlier one. It may lie on
// a slow file system. False with errno set.
bool keep_record(const char* path, const Record& record);

// Says on the folder's board why a record is missing. A failure to say it leaves "no process
// reported", which is true as well.
void note_on_board(const char* folder, int error);

}  // namespace mfu

#endif
