// Any bytes as a trace file: no crash, no undefined behaviour, and the same result whatever the
// size of the window (the fast way and the exact way through the text must agree). The first byte
// chooses how the rest is cut; SQLite files are left to SQLite's own fuzzers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "profiler/trace_figures.hh"
#include "profiler/trace_reader.hh"

namespace {

// A digest of everything that came in, in order; passes it on to the figures.
class Digest : public mfu::TraceSink {
 public:
  explicit Digest(mfu::FigureBuilder* figures) : figures_(figures) {}
  void operation(const mfu::TraceOperation& operation) override {
    mix(1, operation.start_ns, operation.duration_ns);
    text(operation.name);
    text(operation.stream);
    text(operation.group);
    figures_->operation(operation);
  }
  void launch(const mfu::TraceLaunch& launch) override {
    mix(2, launch.start_ns, launch.correlation);
    figures_->launch(launch);
  }
  void step(const mfu::TraceStep& step) override {
    mix(3, step.start_ns, step.end_ns);
    text(step.name);
    figures_->step(step);
  }
  void untimed() override {
    mix(4, 0, 0);
    figures_->untimed();
  }
  uint64_t value = 0xcbf29ce484222325;

 private:
  void mix(int64_t a, int64_t b, int64_t c) {
    for (int64_t part : {a, b, c}) value = (value ^ static_cast<uint64_t>(part)) * 0x100000001b3;
  }
  void text(std::string_view bytes) {
    for (char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  mfu::FigureBuilder* figures_;
};

std::string result_of(const std::string& path, size_t window) {
  mfu::FigureBuilder::Options options;
  options.memory = 2000;
  options.slices = 5;
  mfu::FigureBuilder figures(options);
  Digest digest(&figures);
  mfu::TraceHead head;
  const auto done = mfu::read_trace(
      path, &digest, &head, [](uint64_t, uint64_t) {}, window);
  mfu::TraceFigures out;
  std::string error;
  if (!figures.finish(head, nullptr, 0, &out, &error)) std::abort();
  for (const mfu::DeviceFigures& device : out.devices) {
    const mfu::TimeSums& time = device.sums.time;
    if (device.sums.late != 0 || time.busy_ns() > time.span_ns()) std::abort();
  }
  return std::to_string(digest.value) + (done ? "" : " " + done.error().text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || (size > 16 && std::memcmp(data + 1, "SQLite", 6) == 0)) return 0;
  const int file = memfd_create("trace", 0);
  if (file < 0 || write(file, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const std::string whole = result_of(path, 1 << 16);
  const std::string cut = result_of(path, 1 + data[0]);
  if (whole != cut) std::abort();
  close(file);
  return 0;
}
