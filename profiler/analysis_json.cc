// mfu-analyze's JSON: every figure, times in integer nanoseconds.
#include <nlohmann/json.hpp>

#include "profiler/analysis.hh"
#include "profiler/model_flops.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json counted(const CountedTime& time) {
  return {{"count", time.count}, {"sum_ns", time.ns}};
}

Json sums_of(const Attribution& sums) {
  const TimeSums& time = sums.time;
  Json json = {{"span_ns", time.span_ns()},
               {"busy_ns", time.busy_ns()},
               {"idle_ns", time.idle_ns()},
               {"compute_ns", time.compute_ns()},
               {"communication_ns", sums.communication_ns()},
               {"exposed_communication_ns", time.exposed_communication_ns()},
               {"overlapped_communication_ns", time.overlapped_communication_ns()},
               {"memory_ns", sums.memory_ns()},
               {"exposed_memory_ns", time.exposed_memory_ns()}};
  static constexpr const char* kParts[] = {nullptr, "C", "N", "CN", "M", "CM", "NM", "CNM"};
  for (int mask = 1; mask < kMasks; ++mask) {
    json["partition_ns"][kParts[mask]] = time.partition_ns[mask];
  }
  json["classes"] = {{"compute", counted(sums.compute)},
                     {"communication", counted(sums.communication)},
                     {"memory", counted(sums.memory)}};
  json["collectives"] = Json::object();
  for (int i = 0; i < kCollectives; ++i) {
    if (sums.collectives[i].count == 0) continue;
    json["collectives"][collective_name(static_cast<Collective>(i))] = counted(sums.collectives[i]);
  }
  json["gemm_ns"] = Json::object();
  for (int i = 0; i < kPrecisions; ++i) {
    if (sums.gemm_ns[i] == 0) continue;
    json["gemm_ns"][precision_name(static_cast<Precision>(i))] = sums.gemm_ns[i];
  }
  json["late"] = sums.late;
  return json;
}

Json kernels_of(const std::vector<KernelFigures>& kernels) {
  Json list = Json::array();
  for (const KernelFigures& kernel : kernels) {
    Json json = {{"name", kernel.name},
                 {"class", kernel.kind.communication ? "communication" : "compute"}};
    if (kernel.kind.communication) json["collective"] = collective_name(kernel.kind.collective);
    if (kernel.kind.gemm) json["gemm"] = precision_name(kernel.kind.precision);
    json["count"] = kernel.time.count;
    json["sum_ns"] = kernel.time.ns;
    json["longest_ns"] = kernel.longest_ns;
    list.push_back(std::move(json));
  }
  return list;
}

// Null where NCCL told nothing.
Json communicators_of(const Record& record) {
  const CommunicatorSums& sums = record.communicators;
  if (sums.abi == 0) return {};
  Json json = {{"abi", sums.abi}, {"communicators", sums.communicators}};
  json["collectives"] = Json::object();
  for (int i = 0; i < kCollectives; ++i) {
    const CollectiveTraffic& traffic = sums.collectives[i];
    if (traffic.count + traffic.captured == 0) continue;
    json["collectives"][collective_name(static_cast<Collective>(i))] = {
        {"count", traffic.count},
        {"bytes", traffic.bytes},
        {"bus_bytes", traffic.bus_bytes},
        {"unsized", traffic.unsized},
        {"unrated", traffic.unrated},
        {"captured", traffic.captured},
        {"captured_bytes", traffic.captured_bytes},
        {"engine_count", traffic.engine_count},
        {"engine_bytes", traffic.engine_bytes},
        {"engine_bus_bytes", traffic.engine_bus_bytes}};
  }
  json["list"] = Json::array();
  for (uint32_t i = 0; i < sums.listed; ++i) {
    const CommunicatorTraffic& one = sums.list[i];
    json["list"].push_back({{"name", one.name},
                            {"hash", one.hash},
                            {"rank", one.rank},
                            {"ranks", one.ranks},
                            {"nodes", one.nodes},
                            {"count", one.count},
                            {"bytes", one.bytes},
                            {"bus_bytes", one.bus_bytes},
                            {"captured", one.captured}});
  }
  return json;
}

// Slices of equal width: compute, exposed and overlapped communication, exposed memory.
Json series_of(const TimeSeries& series) {
  Json json = {{"origin_ns", series.origin_ns}, {"width_ns", series.width_ns}};
  json["slices"] = Json::array();
  for (size_t i = 0; i < series.count; ++i) {
    const TimeSeries::Slice& slice = series.slices[i];
    json["slices"].push_back({slice.compute_ns, slice.exposed_communication_ns,
                              slice.overlapped_communication_ns, slice.exposed_memory_ns});
  }
  return json;
}

// A figure and its result: null, and why, where it is not known.
Json sensors_of(const SensorSums& sums) {
  const auto mean = [](uint64_t sum, uint64_t ns, double scale) {
    return ns == 0 ? Json() : Json(static_cast<double>(sum) * scale / static_cast<double>(ns));
  };
  static constexpr const char* kSources[] = {nullptr, "counter", "power"};
  const char* source = kSources[static_cast<int>(sums.energy_source) % 3];
  Json json = {{"energy_mj", sums.energy_ns == 0 ? Json() : Json(sums.energy_mj)},
               {"energy_ns", sums.energy_ns},
               {"energy_source", source == nullptr ? Json() : Json(source)},
               {"power_w", mean(sums.energy_mj, sums.energy_ns, 1e6)},
               {"most_power_w", sums.most_power_mw / 1e3},
               {"sm_clock_mhz", mean(sums.sm_cycles, sums.clock_ns, 1e3)},
               {"sm_clock_limit_mhz", sums.clock_limit_mhz},
               {"clock_ns", sums.clock_ns},
               {"temperature_c", mean(sums.temperature_c_us, sums.temperature_ns, 1e3)},
               {"most_temperature_c", sums.most_temperature_c},
               {"tensor_active", mean(sums.tensor_active_ns, sums.tensor_ns, 1)},
               {"tensor_ns", sums.tensor_ns},
               {"throttled_ns", Json::object()},
               {"results", Json::object()}};
  for (int i = 0; i < kClockReasons; ++i) {
    json["throttled_ns"][clock_reason_name(static_cast<ClockReason>(i))] = sums.reason_ns[i];
  }
  for (int i = 0; i < kSensors; ++i) {
    json["results"][sensor_name(static_cast<Sensor>(i))] = sums.result[i];
  }
  return json;
}

Json storage_of(const StorageSums& sums) {
  if (sums.ns == 0) return {};
  return {{"read_bytes", sums.read_bytes()},
          {"written_bytes", sums.written_bytes()},
          {"ns", sums.ns},
          {"stalled_reading_ns", sums.reading_ns},
          {"stalled_writing_ns", sums.writing_ns}};
}

// More than 2^53: as text, to the digit.
Json digits(const FlopSum& sum) {
  return to_text(sum.value());
}

// Null where no call of cuBLAS went through us.
Json gemms_of(const GemmSums& sums) {
  if (sums.entries == 0) return {};
  Json json = {{"by_precision", Json::object()}};
  for (int i = 0; i < kPrecisions; ++i) {
    if (sums.calls[i] == 0) continue;
    json["by_precision"][precision_name(static_cast<Precision>(i))] = {
        {"calls", sums.calls[i]}, {"flops", digits(sums.flops[i])}};
  }
  json["replayed"] = sums.replayed;
  json["captured"] = sums.captured;
  json["in_no_graph"] = sums.in_no_graph;
  json["uncovered"] = sums.uncovered;
  json["shapes"] = sums.shapes;
  return json;
}

Json counted_of(const CountedKernels& kernels) {
  return {{"gemm",
           {{"count", kernels.gemm_kernels},
            {"sum_ns", kernels.gemm_ns},
            {"in_graphs", kernels.graph_gemm_kernels}}},
          {"attention",
           {{"count", kernels.attention_kernels},
            {"sum_ns", kernels.attention_ns},
            {"flops", digits(kernels.attention_flops)},
            {"model_flops", digits(kernels.attention_model_flops)}}},
          {"uncounted", {{"count", kernels.uncounted_kernels}, {"sum_ns", kernels.uncounted_ns}}}};
}

// A figure that is not known is null, and its reason beside it.
Json flops_of(const ProcessFlops& flops) {
  const auto share = [](const std::string& why_not, double value) {
    return why_not.empty() ? Json(value) : Json();
  };
  const bool model = flops.no_model.empty();
  return {{"gpus", flops.gpus},
          {"gemm", digits(flops.gemm)},
          {"attention", digits(flops.attention)},
          {"executed", digits(flops.executed())},
          {"model", model ? digits(flops.model) : Json()},
          {"recomputed", model ? Json(flops.recomputed) : Json()},
          {"kernel_ns", flops.kernel_ns},
          {"counted_ns", flops.counted_ns},
          {"uncounted_ns", flops.uncounted_ns},
          {"span_ns", flops.span_ns},
          {"precision",
           known(flops.precision == Precision::kUnknown ? std::string()
                                                        : precision_name(flops.precision))},
          {"peak_gigaflops", flops.peak.gigaflops == 0 ? Json() : Json(flops.peak.gigaflops)},
          {"peak_basis", peak_basis_name(flops.peak.basis)},
          {"mfu", share(flops.no_mfu(), flops.mfu())},
          {"no_mfu", known(flops.no_mfu())},
          {"hfu", share(flops.no_hfu(), flops.hfu())},
          {"no_hfu", known(flops.no_hfu())}};
}

// Null where nothing told FLOPs.
Json all_flops_of(const Analysis& analysis) {
  if (analysis.flops().empty()) return {};
  Json json = flops_of(analysis.total_flops());
  json["processes"] = Json::array();
  for (const Analysis::Flops& process : analysis.flops()) {
    Json one = {{"rank", process.label}};
    one.update(flops_of(process.flops));
    json["processes"].push_back(std::move(one));
  }
  return json;
}

// What only a record knows: how it came about, what it lost and what it cost.
Json record_of(const Record& record) {
  return {{"pid", record.pid},
          {"task", record.task == UINT32_MAX ? Json() : Json(record.task)},
          {"state", state_name(record.state)},
          {"cupti_version", record.cupti_version},
          {"cupti_call", cupti_call_name(record.cupti_call)},
          {"cupti_result", record.cupti_result},
          {"finished", (record.flags & kFinished) != 0},
          {"started_ns", record.started_ns},
          {"published_ns", record.published_ns},
          {"lost",
           {{"ns", record.lost_ns},
            {"dropped", record.dropped},
            {"unfinished", record.unfinished},
            {"zero_times", record.zero_times},
            {"reversed", record.reversed},
            {"implausible", record.implausible},
            {"duplicates", record.duplicates},
            {"late", record.late},
            {"late_ns", record.late_ns}}},
          {"cost",
           {{"callback_ns", record.callback_ns},
            {"worker_ns", record.worker_ns},
            {"memory_bytes", record.memory_bytes}}},
          {"nccl", communicators_of(record)},
          {"gemms", gemms_of(record.gemms)},
          {"multiplying_kernels", counted_of(record.counted)},
          {"sensors", record.sensors.readings == 0 ? Json() : sensors_of(record.sensors)},
          {"storage", storage_of(record.storage)},
          {"series", series_of(record.series)}};
}

// Null where nothing tells the steps.
Json found_of(const StepEstimate& steps) {
  if (steps.source == StepSource::kNone) return {};
  return {{"source", step_source_name(steps.source)},
          {"confidence", steps.confidence / 1000.0},
          {"count", steps.count},
          {"period_ns", steps.period_ns},
          {"median_ns", steps.median_ns},
          {"first_ns", steps.first_ns},
          {"last_ns", steps.last_ns},
          {"productive_ns", steps.productive_ns},
          {"stalled_ns", steps.stalled_ns},
          {"stalls", steps.stalls},
          {"before_ns", steps.before_ns}};
}

Json file_of(const TraceFigures& file) {
  Json json = {{"file", file.path}, {"partial", file.partial}};
  if (file.partial) json["error"] = file.error;
  if (file.record != nullptr) json["record"] = record_of(*file.record);
  json["rank"] = known(file.head.rank);
  json["world_size"] = known(file.head.world_size);
  json["backend"] = known(file.head.backend);
  json["nccl_version"] = known(file.head.nccl_version);
  json["base_time_ns"] = known(file.head.base_time_ns);
  json["operations"] = file.operations;
  json["kernels"] = file.kernel_count;
  json["streams"] = file.streams;
  json["launches"] = file.launches;
  json["uncorrelated"] = file.launches_known ? Json(file.uncorrelated) : Json();
  json["launches_without_kernel"] = file.launches_without_kernel;
  json["kernels_before_launch"] = file.kernels_before_launch;
  json["kept_out"] = {{"invalid", file.invalid}, {"untimed", file.untimed}};
  json["zero_durations"] = file.zero;
  json["negative_durations"] = file.reversed;
  json["gpu_step_marks"] = file.gpu_step_marks;
  json["devices"] = Json::array();
  for (const DeviceFigures& device : file.devices) {
    Json one = {{"device", device.device}};
    if (device.process != 0) one["process"] = device.process & 0xffffff;
    auto named = file.head.gpus.find(device.device);
    one["name"] = named == file.head.gpus.end() ? Json() : Json(named->second);
    one["start_ns"] = device.start_ns;
    one.update(sums_of(device.sums));
    one["steps_found"] = found_of(device.steps);
    json["devices"].push_back(std::move(one));
  }
  json["steps"] = Json::array();
  for (const StepFigures& step : file.steps) {
    Json one = {{"step", step.name},
                {"cpu_start_ns", step.start_ns},
                {"cpu_duration_ns", step.duration_ns},
                {"operations", step.operations}};
    one["by_launch"] = step.operations == 0 ? Json() : sums_of(step.sums);
    json["steps"].push_back(std::move(one));
  }
  json["unlisted_steps"] = file.unlisted_steps;
  json["top_kernels"] = kernels_of(file.kernels);
  json["unlisted_kernels"] = file.unlisted_kernels;
  return json;
}

Json skew_of(const Analysis& analysis) {
  if (!analysis.has_skew()) return {};
  const SkewFigures& skew = analysis.skew_figures();
  Json json = {{"groups", skew.groups},
               {"aligned_groups", skew.aligned_groups},
               {"aligned_collectives", skew.aligned},
               {"transfer_ns", skew.transfer_ns}};
  json["start_spread_ns"] = {{"median", skew.start_spread.median_ns},
                             {"largest", skew.start_spread.largest_ns}};
  json["end_spread_ns"] = {{"median", skew.end_spread.median_ns},
                           {"largest", skew.end_spread.largest_ns}};
  json["ranks"] = Json::array();
  for (size_t i = 0; i < analysis.rows().size(); ++i) {
    auto found = skew.participants.find(analysis.participant_of(i));
    if (found == skew.participants.end()) continue;
    const SkewFigures::Participant& rank = found->second;
    json["ranks"].push_back({{"rank", analysis.rows()[i].label},
                             {"device", analysis.rows()[i].device->device},
                             {"collectives", rank.collectives},
                             {"wait_ns", rank.wait_ns},
                             {"last", rank.last},
                             {"caused_ns", rank.caused_ns}});
  }
  json["slowest"] = skew.has_slowest ? Json(analysis.row_of(skew.slowest).label) : Json();
  return json;
}

}  // namespace

void write_json(std::ostream& out, const Analysis& analysis) {
  Json json = {{"mfu-analyze", MFU_VERSION},
               {"partial", analysis.partial()},
               {"errors", analysis.errors()},
               {"notes", analysis.notes()},
               {"gpus", analysis.rows().size()},
               {"total", sums_of(analysis.total())},
               {"top_kernels", kernels_of(analysis.kernels())},
               {"other_kernels", counted(analysis.other_kernels().time)},
               {"stragglers", skew_of(analysis)},
               {"flops", all_flops_of(analysis)}};
  json["files"] = Json::array();
  for (const TraceFigures& file : analysis.files()) json["files"].push_back(file_of(file));
  // A path need not be UTF-8.
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace mfu
