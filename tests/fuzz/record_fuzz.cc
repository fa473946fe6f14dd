// Any bytes as the record files of a job step's processes: no crash, no undefined behaviour; what
// the reader takes keeps every bound that a peer's sums must keep, and gives a line that can be
// read. The first byte tells how many files there are; those behind the first 32 are raw bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "plugin/comment.hh"
#include "plugin/live_step.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sensors.hh"
#include "plugin/node_sums.hh"
#include "plugin/step_report.hh"
#include "profiler/record.hh"
#include "profiler/record_reader.hh"
#include "tests/fuzz/fuzz_input.hh"

namespace {

using mfu::require;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'700'000'000 * kSecond;

mfu::Record plausible_record(uint32_t process) {
  mfu::Record record;
  record.size = sizeof(record);
  record.sequence = 1 + process;
  record.pid = 100 + process / 2;
  record.task = process / 2;
  record.flags = mfu::kFinished | mfu::kDeviceKnown | (process % 2 == 0 ? mfu::kPrimary : 0u);
  record.uuid[0] = static_cast<uint8_t>(process % 4);
  std::snprintf(record.device_name, sizeof(record.device_name), "NVIDIA H100 80GB HBM3");
  std::snprintf(record.pci_bus_id, sizeof(record.pci_bus_id), "00000000:4E:00.0");
  record.sm_count = 132;
  record.compute_capability = 90;
  record.started_ns = kStart;
  record.published_ns = kStart + 100 * kSecond;
  record.time.span_start_ns = kStart + 2 * kSecond;
  record.time.span_end_ns = kStart + 98 * kSecond;
  record.time.partition_ns[mfu::kCompute] = 70 * kSecond;
  record.time.partition_ns[mfu::kCommunication] = 10 * kSecond;
  record.time.partition_ns[mfu::kMemory] = kSecond;
  record.compute_kernels = 1000;
  record.compute_kernel_ns = 70 * kSecond;
  record.communication_kernels = 10;
  record.gemm_ns[static_cast<int>(mfu::Precision::kBf16)] = 60 * kSecond;
  record.collective_ns[1] = 10 * kSecond;
  record.collective_count[1] = 10;
  record.samples.count = 2;
  record.samples.samples[0] = {64, kSecond};
  record.samples.samples[1] = {128, kSecond};
  return record;
}

// A file of two slots, of which the changes may have sound ones or not.
struct File {
  unsigned char bytes[mfu::kRecordFileSize] = {};
};

File forged_file(uint32_t process, mfu::FuzzInput* in) {
  File file;
  for (size_t slot = 0; slot < 2; ++slot) {
    const uint8_t how = in->take<uint8_t>();
    if (how % 4 == 3) continue;  // never written
    mfu::Record record = in->changed(plausible_record(process));
    if (how % 4 != 2) record.checksum = mfu::record_checksum(record);
    std::memcpy(file.bytes + slot * mfu::kSlotSize, &record, sizeof(record));
  }
  return file;
}

File raw_file(mfu::FuzzInput* in) {
  File file;
  const std::string_view bytes = in->take_bytes(sizeof(file.bytes));
  std::memcpy(file.bytes, bytes.data(), bytes.size());
  return file;
}

// mfu-analyze's reader takes the same files.
void check_analysis(const File& file, bool sound) {
  const int memory = memfd_create("record", 0);
  require(memory >= 0 && write(memory, file.bytes, sizeof(file.bytes)) == sizeof(file.bytes));
  const auto figures = mfu::read_record("/proc/self/fd/" + std::to_string(memory));
  close(memory);
  require(figures.has_value() == sound);
  if (!figures) {
    require(!figures.error().text().empty());
    return;
  }
  for (const mfu::DeviceFigures& device : figures->devices) {
    require(device.sums.time.busy_ns() <= device.sums.time.span_ns());
    for (const mfu::TimeSums& part : device.series) require(part.span_end_ns >= part.span_start_ns);
  }
  const mfu::Record* record = figures->record.get();
  mfu::process_flops({&record, 1});
}

// Written, it can be read, and says the same again.
void check_line(const mfu::Comment& step) {
  mfu::Comment job;
  require(mfu::merge_step(&job, step, 0));
  const std::string line = mfu::format_comment(job);
  require(line.size() <= mfu::kMaxLine && mfu::find_comment(line) == line);
  const auto again = mfu::parse_comment(line);
  require(again && mfu::format_comment(*again) == line);
}

void check_sums(const mfu::NodeSums& sums) {
  require(mfu::node_sums_fault(sums, sums.job, sums.step, 1) == nullptr);
  if (sums.span_ns < uint64_t{1} << 60) {
    require(sums.compute_ns + sums.exposed_communication_ns + sums.exposed_memory_ns <=
            sums.span_ns);
  }
  require(sums.overlapped_communication_ns <= sums.compute_ns);
  require(sums.unattributed_devices <= sums.devices && sums.cut_off_processes <= sums.processes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mfu::FuzzInput in(data, size);
  const uint32_t files = in.take<uint8_t>() % 40;
  mfu::SpoolRecords found;
  for (uint32_t i = 0; i < files && !in.empty(); ++i) {
    const File file = i < 32 ? forged_file(i, &in) : raw_file(&in);
    mfu::Record record;
    const bool sound = mfu::newest_record(file.bytes, &record);
    check_analysis(file, sound);
    if (sound) {
      require(mfu::record_fault(record) == nullptr);
      found.records.push_back(record);
    } else {
      ++found.broken;
    }
  }

  mfu::StepPlan plan;
  plan.node = "n1";
  plan.gpus = 4;
  plan.started_ns = kStart;
  const uint64_t now_ns = kStart + in.take<uint8_t>() * kSecond;
  mfu::NodeSums sums;
  sums.gpus = plan.gpus;
  sums.last = 1;
  sums.until_ns = now_ns;
  sums.broken_records = found.broken;
  const mfu::CollectiveSpreads spreads =
      mfu::add_records(found.records, plan.started_ns, now_ns, &sums);
  check_sums(sums);
  require(spreads.fault() == nullptr);
  require(mfu::top_findings(mfu::link_findings(found.records, plan.node)).fault() == nullptr);
  check_line(mfu::report_step(plan, {{0, sums}}, spreads, {}, now_ns, true));

  mfu::RunningStep running;
  running.plan = plan;
  running.planned = true;
  const mfu::LiveStep live = mfu::live_step(running, found, {}, now_ns);
  require(live.gpus.size() <= mfu::kMostLiveGpus);
  for (const mfu::LiveGpu& gpu : live.gpus) mfu::figures(gpu.figures.line);
  return 0;
}
