// The matrix multiplications that a process has called for: how many of which shape, and the FLOPs
// that they amount to. The table's memory is fixed; any thread may add at any time, without a lock.
#ifndef MFU_PROFILER_GEMM_CALLS_HH_
#define MFU_PROFILER_GEMM_CALLS_HH_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "profiler/kernel.hh"

namespace mfu {

// Of D[m x n] = op(A)[m x k] op(B)[k x n], column-major as in BLAS, `batch` times.
struct GemmShape {
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  uint64_t batch = 1;
  Precision precision = Precision::kUnknown;  // of the inputs
  bool complex = false;
  bool transposed_a = false;  // or conjugated
  bool transposed_b = false;

  // 2 m n k batch, and four times that for complex numbers: the multiplications and additions of
  // the definition, whatever the algorithm saves (Gemm3m) or pads.
  unsigned __int128 flops() const;
  // Nothing is computed.
  bool empty() const { return m == 0 || n == 0 || k == 0 || batch == 0; }
  bool operator==(const GemmShape&) const = default;
};

// A grouped call multiplies several shapes of one precision, in as many kernels as cuBLAS likes:
// its first shape stands for the call, and the further ones are no calls of their own.
enum class GemmPart { kCall, kFurther };

enum GemmOperation { kTN, kNN, kNT, kTT, kOperations };  // of A and B
inline GemmOperation operation_of(const GemmShape& shape) {
  if (shape.transposed_a) return shape.transposed_b ? kTT : kTN;
  return shape.transposed_b ? kNT : kNN;
}

// 8 bits and less: inputs that are often copied, transposed, to suit (T,N).
constexpr bool is_narrow(Precision precision) {
  return precision == Precision::kFp8 || precision == Precision::kFp4 ||
         precision == Precision::kInt8;
}

// A sum of FLOPs: a petaflop/s fills 64 bits in five hours.
struct FlopSum {
  static constexpr int kRestBits = 20;
  uint64_t mega = 0;  // units of 2^20
  uint64_t rest = 0;  // below 2^20

  void add(unsigned __int128 flops);
  unsigned __int128 value() const {
    return (static_cast<unsigned __int128>(mega) << kRestBits) + rest;
  }
  double approximate() const {
    return static_cast<double>(mega) * (1 << kRestBits) + static_cast<double>(rest);
  }
  bool operator==(const FlopSum&) const = default;
};

// Threads that call for GEMMs are told apart by the order of their first call; the last number
// stands for all further ones. PyTorch runs forward passes in the first, backward passes, with what
// they recompute, in the second.
inline constexpr size_t kGemmThreads = 4;

struct GemmCount {
  GemmShape shape;
  uint64_t calls[kGemmThreads] = {};  // that ran, by thread; of a grouped call every shape's
  uint64_t first = 0;  // when it was called for first and last, counted in calls of any shape,
  uint64_t last = 0;   // from 1. Captured calls: when they were captured.

  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t each : calls) sum += each;
    return sum;
  }
};

// FLOPs of calls whose shapes found no place in the table: tokens of a batch, or of an expert, that
// are another number each time.
struct UnlistedGemms {
  FlopSum flops[kGemmThreads][kOperations];  // but of narrow inputs
};

// What a record says of them. Calls are those that ran: direct ones, and captured ones as often as
// their graph was launched. A grouped call is one. A call that failed is none, and neither is an
// empty one.
struct GemmSums {
  uint64_t calls[kPrecisions] = {};
  FlopSum flops[kPrecisions];
  uint64_t replayed = 0;        // of the calls: those by graph launches
  uint64_t graph_launches = 0;  // of graphs that hold GEMMs
  uint64_t captured = 0;        // calls that went into a graph once; not in `calls` by that
  uint64_t in_no_graph = 0;     // of the captured ones: those in graphs that nobody instantiated
  uint64_t uncovered =
      0;                  // calls whose FLOPs, or how often they ran, are not known: not in `calls`
  uint64_t shapes = 0;    // different ones
  uint64_t unlisted = 0;  // of the calls: those whose shape found no place in the table
  uint64_t entries = 0;   // places that call cuBLAS through us; 0: nobody does
};
static_assert(std::is_trivially_copyable_v<GemmSums>);

// Why these are no sums, or nullptr. They come from a file that is not trusted.
const char* gemm_sums_fault(const GemmSums& sums);

class GemmTable {
 public:
  static constexpr size_t kShapes = 1024;  // power of two
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  // A call that ran, or a further shape of it.
  void add(const GemmShape& shape, uint32_t thread, GemmPart part = GemmPart::kCall);
  // A call that was captured: the number of its shape, or kNoNumber when the table is full.
  uint32_t note(const GemmShape& shape);
  // Launches of a captured one. For numbers of note().
  void add_replays(uint32_t number, uint32_t thread, uint64_t times);
  // So many of those were further shapes of calls of this precision. After add_replays().
  void add_further(Precision precision, uint64_t times);
  void add_uncovered(uint64_t calls) { uncovered_.fetch_add(calls, std::memory_order_relaxed); }

  // What calls of each precision have to be diminished by. Before counts(): otherwise it may be
  // more.
  void further(uint64_t (&out)[kPrecisions]) const;
  // All shapes, by number; unused ones are empty().
  void counts(GemmCount (&out)[kShapes]) const;
  void unlisted(UnlistedGemms* out) const;
  // Adds calls, FLOPs and shapes of `counts` and `further`, which may hold more than the table
  // said, and what is unlisted or uncovered.
  void sum(const GemmCount (&counts)[kShapes], const uint64_t (&further)[kPrecisions],
           GemmSums* sums) const;

 private:
  struct Slot {
    std::atomic<uint64_t> key;  // 0: free
    std::atomic<bool> filled;
    GemmShape shape;
    std::atomic<uint64_t> calls[kGemmThreads];
    std::atomic<uint64_t> first;
    std::atomic<uint64_t> last;
  };
  struct Unlisted {
    void add(unsigned __int128 flops, GemmPart part);

    std::atomic<uint64_t> calls;
    std::atomic<uint64_t> mega;
    std::atomic<uint64_t> rest;  // 2^44 calls have room
  };

  Slot slots_[kShapes];
  std::atomic<uint64_t> further_[kPrecisions];  // listed ones
  Unlisted unlisted_[kPrecisions];
  Unlisted unlisted_by_[kGemmThreads][kOperations];  // of those that are not narrow
  std::atomic<uint64_t> order_;
  std::atomic<uint64_t> uncovered_;
};

}  // namespace mfu

#endif
