#include "profiler/record_reader.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

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

}  // namespace mfu
