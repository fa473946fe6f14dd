#include "profiler/record_reader.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace mfu {
namespace {

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f s", static_cast<double>(ns) / 1e9);
  return text;
}

Attribution attribution_of(const Record& record) {
  Attribution sums;
  sums.time = record.time;
  sums.time.span_start_ns = 0;
  sums.time.span_end_ns = record.time.span_ns();
  sums.late = record.late;
  sums.compute = {record.compute_kernels, record.compute_kernel_ns};
  sums.memory = {record.copies, record.copy_ns};
  sums.communication.count = record.communication_kernels;
  for (int i = 0; i < kCollectives; ++i) {
    sums.collectives[i] = {record.collective_count[i], record.collective_ns[i]};
    sums.communication.ns += record.collective_ns[i];
  }
  std::copy_n(record.gemm_ns, kPrecisions, sums.gemm_ns);
  return sums;
}

// The record's slices, spread over equal parts of the span as a trace has them: a part shows the
// slice that its middle lies in.
std::vector<TimeSums> parts_of(const Record& record) {
  constexpr uint64_t kParts = 240;
  const TimeSeries& series = record.series;
  const uint64_t begin_ns = record.time.span_start_ns;
  const uint64_t end_ns = record.time.span_end_ns;
  std::vector<TimeSums> parts;
  for (uint64_t i = 0; i < kParts && series.count > 0; ++i) {
    const uint64_t middle_ns =
        begin_ns + (end_ns - begin_ns) / kParts * i + (end_ns - begin_ns) / kParts / 2;
    const uint64_t index = middle_ns < series.origin_ns
                               ? series.count
                               : (middle_ns - series.origin_ns) / series.width_ns;
    TimeSums part;
    part.span_end_ns = 1;
    if (index < series.count) {
      const TimeSeries::Slice& slice = series.slices[index];
      const uint64_t start_ns = series.origin_ns + index * series.width_ns;
      part.span_start_ns = std::max(start_ns, begin_ns);
      part.span_end_ns = std::max(std::min(start_ns + series.width_ns, end_ns), middle_ns);
      part.partition_ns[kCompute] = slice.compute_ns - slice.overlapped_communication_ns;
      part.partition_ns[kCompute | kCommunication] = slice.overlapped_communication_ns;
      part.partition_ns[kCommunication] = slice.exposed_communication_ns;
      part.partition_ns[kMemory] = slice.exposed_memory_ns;
    }
    parts.push_back(part);
  }
  return parts;
}

// The reason, or the FLOPs that attention's are added to.
void add_model(const InferredFlops& inferred, ProcessFlops* flops) {
  const auto kernel_ns = static_cast<double>(flops->kernel_ns);
  if (flops->executed() == FlopSum{}) {
    flops->no_model = "no-flops";
  } else if (inferred.verdict > Inference::kKnown) {
    flops->no_model = inference_reason(inferred.verdict);
  } else if (inferred.verdict == Inference::kNothing && flops->gemm != FlopSum{}) {
    flops->no_model = inference_reason(Inference::kFewSteps);
  } else if (static_cast<double>(flops->uncounted_ns) > kMostUncountedTime * kernel_ns) {
    flops->no_model = "uncounted-kernels";
  } else if (static_cast<double>(flops->counted_ns) < kLeastCountedTime * kernel_ns) {
    flops->no_model = "coverage";
  }
  flops->model.add(inferred.flops.value());
  flops->recomputed = inferred.recomputed_permille / 1000.0;
}

Precision heaviest_precision(const double (&weights)[kPrecisions]) {
  const auto* most = std::max_element(std::begin(weights), std::end(weights));
  return *most > 0 ? static_cast<Precision>(most - weights) : Precision::kUnknown;
}

// That of most counted FLOPs, where more time is counted than not; else of most time of GEMMs, as
// far as kernels' names tell it.
void add_peak(std::span<const Record* const> records, const GemmSums& gemms, ProcessFlops* flops) {
  double by_flops[kPrecisions] = {};
  double by_time[kPrecisions] = {};
  const Record* device = nullptr;
  for (const Record* record : records) {
    if (record->time.span_ns() == 0) continue;
    const bool mixed =
        device != nullptr && (record->sm_count != device->sm_count ||
                              std::strcmp(record->device_name, device->device_name) != 0);
    if (mixed) flops->no_peak = "mixed-gpus";
    device = record;
    for (int i = 0; i < kPrecisions; ++i) by_time[i] += static_cast<double>(record->gemm_ns[i]);
  }
  for (int i = 0; i < kPrecisions; ++i) by_flops[i] = gemms.flops[i].approximate();
  if (flops->counted_ns >= flops->uncounted_ns) flops->precision = heaviest_precision(by_flops);
  if (flops->precision == Precision::kUnknown) flops->precision = heaviest_precision(by_time);
  if (!flops->no_peak.empty() || device == nullptr) return;
  flops->peak = known_peak(device->device_name, flops->precision, device->sm_count);
  if (flops->precision == Precision::kUnknown) {
    flops->no_peak = "precision-unknown";
  } else if (flops->peak.gigaflops == 0) {
    flops->no_peak = "peak-unknown";
  }
  flops->capacity =
      static_cast<double>(flops->peak.gigaflops) * static_cast<double>(flops->span_ns);
}

}  // namespace

bool is_record_path(const std::string& path) {
  return path.ends_with(kRecordSuffix);
}

tl::expected<TraceFigures, TraceError> read_record(const std::string& path) {
  TraceError error{.path = path};
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    error.what = std::strerror(errno);
    return tl::make_unexpected(error);
  }
  unsigned char bytes[kRecordFileSize];
  file.read(reinterpret_cast<char*>(bytes), sizeof(bytes));
  const auto size = static_cast<size_t>(file.gcount());
  if (size != sizeof(bytes) || file.peek() != std::ifstream::traits_type::eof()) {
    error.has_byte = true;
    error.byte = size;
    error.what = "a record file has " + std::to_string(kRecordFileSize) + " bytes";
    return tl::make_unexpected(error);
  }
  auto record = std::make_shared<Record>();
  if (!newest_record(bytes, record.get())) {
    const char* faults[2];
    for (size_t slot = 0; slot < 2; ++slot) {
      std::memcpy(static_cast<void*>(record.get()), bytes + slot * kSlotSize, sizeof(Record));
      faults[slot] = record_fault(*record);
    }
    error.has_byte = true;
    error.what = std::string("no sound record (") + faults[0] + "), nor at byte " +
                 std::to_string(kSlotSize) + " (" + faults[1] + ")";
    return tl::make_unexpected(error);
  }

  TraceFigures figures;
  figures.path = path;
  if (record->task != UINT32_MAX) figures.head.rank = record->task;
  if (record->device_name[0] != '\0') figures.head.gpus[record->device] = record->device_name;
  figures.head.note = record_note(*record);
  figures.kernel_count = record->compute_kernels + record->communication_kernels;
  figures.operations = figures.kernel_count + record->copies;
  figures.invalid = record->zero_times + record->implausible;
  if (figures.operations > 0) {
    DeviceFigures device;
    device.device = record->device;
    device.start_ns = static_cast<int64_t>(record->time.span_start_ns);
    device.sums = attribution_of(*record);
    device.steps = record->steps;
    device.steps.first_ns -= std::min(device.steps.first_ns, record->time.span_start_ns);
    device.steps.last_ns -= std::min(device.steps.last_ns, record->time.span_start_ns);
    device.series = parts_of(*record);
    figures.other_kernels.add(device.sums.compute);
    figures.other_kernels.add(device.sums.communication);
    figures.devices.push_back(std::move(device));
  }
  for (const RecordedKernel& kernel : record->kernels) {
    if (kernel.count == 0) continue;
    figures.kernels.push_back(
        {kernel.name, kernel.kind(), {kernel.count, kernel.ns}, kernel.longest_ns});
    // Hostile sums need not agree.
    figures.other_kernels.count -= std::min(figures.other_kernels.count, kernel.count);
    figures.other_kernels.ns -= std::min(figures.other_kernels.ns, kernel.ns);
  }
  figures.kernel_names = record->kernel_names;
  figures.unlisted_kernels = record->unlisted_kernels;
  figures.record = std::move(record);
  return figures;
}

std::string record_note(const Record& record) {
  std::string note;
  const auto say = [&note](const std::string& sentence) {
    note += (note.empty() ? "" : "; ") + sentence;
  };
  const auto count = [&say](uint64_t records, const char* what) {
    if (records > 0) say(std::to_string(records) + " " + what);
  };
  if (record.state != State::kOk) {
    say(std::string("not observed (") + state_name(record.state) +
        (record.cupti_call == CuptiCall::kNone
             ? ")"
             : std::string(", ") + cupti_call_name(record.cupti_call) + ": " +
                   (record.cupti_result == kHung ? "hangs" : std::to_string(record.cupti_result)) +
                   ")"));
  }
  if ((record.flags & kPrimary) != 0 && (record.flags & kFinished) == 0) {
    say("no last word: the process runs, or was killed " +
        seconds(record.published_ns - record.started_ns) + " after its start");
  }
  if (record.lost_ns > 0) say(seconds(record.lost_ns) + " not observed");
  count(record.dropped, "records dropped by CUPTI");
  count(record.unfinished, "operations unfinished at the end");
  count(record.zero_times, "records without times kept out");
  count(record.reversed, "records that end before they start kept out");
  count(record.implausible, "records with impossible times kept out");
  count(record.duplicates, "records that came twice counted once");
  if (record.late > 0) {
    say(std::to_string(record.late) + " records too late by " + seconds(record.late_ns) +
        " in all kept out");
  }
  if ((record.flags & kPrimary) != 0 && record.published_ns > record.started_ns) {
    char text[160];
    const auto life_ns = static_cast<double>(record.published_ns - record.started_ns);
    std::snprintf(
        text, sizeof(text),
        "recording cost %.3f%% of the process's %.1f s (%.1f ms in its threads, %.1f ms in "
        "its own) and %.1f MiB",
        100 * static_cast<double>(record.callback_ns + record.worker_ns) / life_ns, life_ns / 1e9,
        static_cast<double>(record.callback_ns) / 1e6, static_cast<double>(record.worker_ns) / 1e6,
        static_cast<double>(record.memory_bytes) / (1 << 20));
    say(text);
  }
  return note;
}

FlopSum ProcessFlops::executed() const {
  FlopSum sum = gemm;
  sum.add(attention.value());
  return sum;
}

std::string ProcessFlops::no_hfu() const {
  if (executed() == FlopSum{}) return "no-flops";
  const bool covered =
      static_cast<double>(counted_ns) >= kLeastCountedTime * static_cast<double>(kernel_ns);
  return covered ? no_peak : "coverage";
}

void ProcessFlops::add(const ProcessFlops& other) {
  const bool differs = peak.gigaflops != other.peak.gigaflops || precision != other.precision;
  if (gpus == 0 || differs) {
    peak = gpus == 0 ? other.peak : Peak{};
    precision = gpus == 0 ? other.precision : Precision::kUnknown;
  }
  const double weight = gemm.approximate();
  const double other_weight = other.gemm.approximate();
  if (weight + other_weight > 0) {
    recomputed = (recomputed * weight + other.recomputed * other_weight) / (weight + other_weight);
  }
  gpus += other.gpus;
  span_ns += other.span_ns;
  kernel_ns += other.kernel_ns;
  counted_ns += other.counted_ns;
  uncounted_ns += other.uncounted_ns;
  gemm.add(other.gemm.value());
  attention.add(other.attention.value());
  model.add(other.model.value());
  capacity += other.capacity;
  if (no_model.empty()) no_model = other.no_model;
  if (no_peak.empty()) no_peak = other.no_peak;
}

std::optional<ProcessFlops> process_flops(std::span<const Record* const> records) {
  const Record* primary = nullptr;
  ProcessFlops flops;
  CountedKernels kernels;
  for (const Record* record : records) {
    if ((record->flags & kPrimary) != 0) primary = record;
    if (record->time.span_ns() == 0) continue;
    ++flops.gpus;
    flops.span_ns += record->time.span_ns();
    flops.kernel_ns += record->compute_kernel_ns;
    kernels.gemm_kernels += record->counted.gemm_kernels;
    kernels.gemm_ns += record->counted.gemm_ns;
    kernels.attention_kernels += record->counted.attention_kernels;
    kernels.attention_ns += record->counted.attention_ns;
    kernels.uncounted_ns += record->counted.uncounted_ns;
    flops.attention.add(record->counted.attention_flops.value());
    flops.model.add(record->counted.attention_model_flops.value());
  }
  const GemmSums gemms = primary != nullptr ? primary->gemms : GemmSums{};
  for (const FlopSum& sum : gemms.flops) flops.gemm.add(sum.value());
  const bool told = gemms.entries > 0 || flops.executed() != FlopSum{};
  if (flops.gpus == 0 || !told) return {};
  const uint64_t gemm_ns = counted_gemm_ns(kernels, gemms);
  flops.counted_ns = gemm_ns + kernels.attention_ns;
  flops.uncounted_ns = kernels.gemm_ns - gemm_ns + kernels.uncounted_ns;
  add_model(primary != nullptr ? primary->inferred : InferredFlops{}, &flops);
  add_peak(records, gemms, &flops);
  return flops;
}

}  // namespace mfu
