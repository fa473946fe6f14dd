#include "tests/bench/trace_writer.hh"

#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <random>

#include "tests/bench/kernel_names.hh"

namespace mfu::bench {
namespace {

constexpr char kOperator[] = R"(  {
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 3113936, "tid": 3113936,
    "ts": %)" PRIu64 R"(.%03u, "dur": 4.%03u,
    "args": {
      "External id": %u,
      "Ev Idx": %u, "Input Dims": [[19410], [1024, 256], [256, 19410], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"], "Fwd thread id": 0, "Sequence number": %u
    }
  },
)";
constexpr char kLaunch[] = R"(  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 3113936, "tid": 3113936,
    "ts": %)" PRIu64 R"(.%03u, "dur": 3.%03u,
    "args": {
      "External id": %u, "cbid": 211, "correlation": %u
    }
  },
)";
constexpr char kKernel[] = R"(  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %u,
    "ts": %)" PRIu64 R"(.%03u, "dur": %u.%03u,
    "args": {
      "External id": %u, "queued": 0, "device": 0, "context": 1, "stream": %u, "correlation": %u,
      "registers per thread": 90, "shared memory": 16384, "blocks per SM": 4.740741, "warps per SM": 18.962963,
      "grid": [128, 4, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 30
    }
  },
)";
constexpr char kFlow[] = R"(  {
    "ph": "%c", "id": %u, "pid": 0, "tid": %u, "ts": %)" PRIu64 R"(.%03u,
    "cat": "ac2g", "name": "ac2g"%s
  },
)";

class Writer {
 public:
  explicit Writer(std::FILE* file) : file_(file) {}

  template <typename... Values>
  void write(const char* format, Values... values) {
    const int length = std::fprintf(file_, format, values...);
    if (length > 0) bytes_ += static_cast<uint64_t>(length);
  }
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::FILE* file_;
  std::mt19937_64 random_{3};
  uint64_t bytes_ = 0;
};

// Two operators, a launch and the kernel of it.
void write_round(Writer* writer, unsigned number) {
  const uint64_t at_us = 1'700'000'000'000'000 + uint64_t{number} * 20;
  const bool communication = number % 16 == 15;
  const unsigned stream = communication ? 20 : 7;
  const char* name = communication
                         ? kCommunicationNames[writer->below(std::size(kCommunicationNames))]
                         : kComputeNames[writer->below(std::size(kComputeNames))];
  for (unsigned i = 0; i < 2; ++i) {
    writer->write(kOperator, at_us + 5 * i, writer->below(1000), writer->below(1000),
                  2 * number + i, 2 * number + i, number);
  }
  writer->write(kLaunch, at_us + 10, writer->below(1000), writer->below(1000), number, number);
  writer->write(kFlow, 's', number, 3113936u, at_us + 10, 0u, "");
  writer->write(kKernel, name, stream, at_us + 100, writer->below(1000),
                communication ? 90u : 5 + writer->below(12), writer->below(1000), number, stream,
                number);
  writer->write(kFlow, 'f', number, stream, at_us + 100, 0u, R"(, "bp": "e")");
}

}  // namespace

WrittenTrace write_trace(const std::string& path, uint64_t least_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return {};
  Writer writer(file);
  writer.write(R"({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "traceEvents": [
)");
  unsigned number = 1;
  while (writer.bytes() < least_bytes) write_round(&writer, number++);
  writer.write(
      R"(  {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1}
  ]
}
)");
  const bool sound = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !sound) return {};
  return {writer.bytes(), number - 1};
}

}  // namespace mfu::bench
