// mfu-analyze's table: 100 columns.
#include <algorithm>
#include <map>

#include "profiler/analysis.hh"
#include "profiler/text_table.hh"

namespace mfu {
namespace {

using namespace text_table;

constexpr size_t kWidth = 100;
constexpr size_t kMostRows = 64;  // of a table over ranks or steps; --json has all

std::vector<std::string> time_cells(const Attribution& sums) {
  const TimeSums& time = sums.time;
  const uint64_t span = time.span_ns();
  return {duration(span),
          share(time.compute_ns(), span),
          share(time.exposed_communication_ns(), span),
          share(time.overlapped_communication_ns(), span),
          share(time.exposed_memory_ns(), span),
          share(time.idle_ns(), span)};
}

void write_title(std::ostream& out, const Analysis& analysis) {
  std::string gpus;
  for (const TraceFigures& file : analysis.files()) {
    for (const DeviceFigures& device : file.devices) {
      auto named = file.head.gpus.find(device.device);
      if (named != file.head.gpus.end() && gpus.find(named->second) == gpus.npos) {
        gpus += (gpus.empty() ? "" : ", ") + named->second;
      }
    }
  }
  const size_t files = analysis.files().size();
  const size_t devices = analysis.rows().size();
  out << files << (files == 1 ? " trace, " : " traces, ") << devices
      << (devices == 1 ? " GPU" : " GPUs");
  if (!gpus.empty()) out << " (" << printable(gpus, 60) << ")";
  if (analysis.partial()) out << "  -- PARTIAL, see the notes";
  out << '\n';
}

void write_time(std::ostream& out, const Analysis& analysis) {
  out << "\nGPU time, of each GPU's span from the first start to the last end\n";
  Columns table({"rank", "gpu", "span", "compute", "comm", "comm+comp", "memory", "idle", "kernels",
                 "copies"});
  const auto& rows = analysis.rows();
  for (size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    const Attribution& sums = rows[i].device->sums;
    std::vector<std::string> cells = {printable(rows[i].label, 20),
                                      number(static_cast<uint64_t>(rows[i].device->device))};
    append(&cells, time_cells(sums));
    append(&cells,
           {number(sums.compute.count + sums.communication.count), number(sums.memory.count)});
    table.add(std::move(cells));
  }
  if (rows.size() > 1) {
    const Attribution& sums = analysis.total();
    std::vector<std::string> cells = {"all", number(rows.size())};
    append(&cells, time_cells(sums));
    append(&cells,
           {number(sums.compute.count + sums.communication.count), number(sums.memory.count)});
    table.add(std::move(cells));
  }
  table.write(out);
  if (rows.size() > kMostRows) {
    out << "  (" << rows.size() - kMostRows << " more; --json has all)\n";
  }
  out << "  comm: communication not covered by compute; comm+comp: covered; memory: copies covered"
         " by neither\n";
}

// Steps that no mark tells.
void write_found_steps(std::ostream& out, const Analysis& analysis) {
  Columns table({"rank", "gpu", "steps", "mean", "median", "start-up", "stalls", "lost in them",
                 "confidence", "told by"},
                1);
  size_t found = 0;
  for (const Analysis::Row& row : analysis.rows()) {
    const StepEstimate& steps = row.device->steps;
    if (steps.source == StepSource::kNone) continue;
    if (++found > kMostRows) continue;
    table.add({printable(row.label, 20), number(static_cast<uint64_t>(row.device->device)),
               number(steps.count), duration(steps.period_ns), duration(steps.median_ns),
               duration(steps.before_ns), number(steps.stalls), duration(steps.stalled_ns),
               format("%.1f%%", steps.confidence / 10.0), step_source_name(steps.source)});
  }
  if (found == 0) return;
  out << "\nTraining steps, as the kernels tell\n";
  table.write(out);
  if (found > kMostRows) out << "  (" << found - kMostRows << " more; --json has all)\n";
}

void write_steps(std::ostream& out, const Analysis& analysis) {
  const std::vector<MergedStep> steps = merged_steps(analysis.files());
  if (steps.empty()) return write_found_steps(out, analysis);
  const bool ranks = std::any_of(steps.begin(), steps.end(),
                                 [](const MergedStep& step) { return step.files > 1; });
  out << "\nSteps: what was launched in each" << (ranks ? ", averaged over ranks\n" : "\n");
  std::vector<std::string> head = {"step",      "span",   "compute", "comm",
                                   "comm+comp", "memory", "idle"};
  if (ranks) append(&head, {"ranks", "shortest", "longest"});
  Columns table(std::move(head));
  for (size_t i = 0; i < std::min(steps.size(), kMostRows); ++i) {
    const MergedStep& step = steps[i];
    std::vector<std::string> cells = {printable(step.name, 24)};
    append(&cells, time_cells(step.sums));
    cells[1] = duration(step.sums.time.span_ns() / step.files);
    if (ranks) {
      append(&cells, {number(step.files), duration(step.shortest_ns), duration(step.longest_ns)});
    }
    table.add(std::move(cells));
  }
  table.write(out);
  if (steps.size() > kMostRows) {
    out << "  (" << steps.size() - kMostRows << " more; --json has all)\n";
  }
}

void write_collectives(std::ostream& out, const Analysis& analysis) {
  const Attribution& total = analysis.total();
  const Analysis::Traffic& traffic = analysis.traffic();
  if (total.communication.count == 0) return;
  out << "\nCollectives (kernel time, concurrent ones counted twice)\n";
  std::vector<std::string> head = {"collective", "time", "of comm", "kernels", "mean"};
  if (traffic.told) append(&head, {"calls", "bytes", "bus GB/s"});
  Columns table(std::move(head));
  for (int i = 0; i < kCollectives; ++i) {
    const CountedTime& time = total.collectives[i];
    const CollectiveTraffic& calls = traffic.collectives[i];
    if (time.count == 0 && calls.count + calls.captured == 0) continue;
    std::vector<std::string> cells = {collective_name(static_cast<Collective>(i)),
                                      duration(time.ns), share(time.ns, total.communication.ns),
                                      number(time.count),
                                      time.count == 0 ? "-" : duration(time.ns / time.count)};
    if (traffic.told) {
      const double bandwidth = bus_bandwidth_of(traffic, i);
      append(&cells, {number(calls.count + calls.captured), bytes(calls.bytes),
                      bandwidth < 0 ? "n/a" : format("%.1f", bandwidth)});
    }
    table.add(std::move(cells));
  }
  table.write(out);
  if (traffic.told) {
    out << "  calls and bytes as NCCL tells them; bus GB/s: bus bytes as nccl-tests defines them, "
           "by"
           " kernel time;\n  n/a where NCCL does not tell all bytes, or calls were captured into "
           "CUDA"
           " graphs\n";
  }
}

void write_kernels(std::ostream& out, const Analysis& analysis) {
  if (analysis.kernels().empty()) return;
  const uint64_t whole = analysis.total().compute.ns + analysis.total().communication.ns;
  out << "\nKernels by time, " << analysis.kernels().size() << " of " << analysis.kernel_names()
      << " names\n";
  Columns table({"time", "share", "calls", "mean", "kind", ""}, 2);
  for (const KernelFigures& kernel : analysis.kernels()) {
    table.add({duration(kernel.time.ns), share(kernel.time.ns, whole), number(kernel.time.count),
               duration(kernel.time.ns / kernel.time.count), kind_name(kernel.kind),
               short_kernel_name(kernel.name, 47)});
  }
  if (analysis.other_kernels().time.count > 0) {
    const CountedTime& time = analysis.other_kernels().time;
    table.add({duration(time.ns), share(time.ns, whole), number(time.count),
               duration(time.ns / time.count), "", "(all others)"});
  }
  table.write(out);
}

// What the sensors of a record's device said; "-": it could not be read.
std::vector<std::string> sensor_cells(const SensorSums& sums) {
  const auto mean = [](uint64_t sum, uint64_t ns, double scale, const char* pattern) {
    if (ns == 0) return std::string("-");
    return format(pattern, static_cast<double>(sum) * scale / static_cast<double>(ns));
  };
  std::string held;
  for (ClockReason reason : {kClockPower, kClockThermal, kClockHardware}) {
    if (sums.reasons_ns == 0 || sums.reason_ns[reason] == 0) continue;
    held += (held.empty() ? "" : ", ") + share(sums.reason_ns[reason], sums.reasons_ns) + " " +
            clock_reason_name(reason);
  }
  return {mean(sums.energy_mj, sums.energy_ns, 1e6, "%.0f W"),
          sums.energy_ns == 0 ? "-" : format("%.1f kJ", static_cast<double>(sums.energy_mj) / 1e6),
          mean(sums.sm_cycles, sums.clock_ns, 1e3, "%.0f MHz"),
          sums.clock_limit_mhz == 0 ? "-" : format("%u MHz", sums.clock_limit_mhz),
          mean(sums.temperature_c_us, sums.temperature_ns, 1e3, "%.0f C"),
          mean(sums.tensor_active_ns, sums.tensor_ns, 100, "%.1f%%"),
          held.empty() ? "-" : held};
}

void write_sensors(std::ostream& out, const Analysis& analysis) {
  Columns table({"rank", "gpu", "power", "energy", "clock", "of", "temperature", "tensor cores",
                 "clock held back"},
                1);
  size_t found = 0;
  for (const Analysis::Row& row : analysis.rows()) {
    if (row.file->record == nullptr || row.file->record->sensors.readings == 0) continue;
    if (++found > kMostRows) continue;
    std::vector<std::string> cells = {printable(row.label, 20),
                                      number(static_cast<uint64_t>(row.device->device))};
    append(&cells, sensor_cells(row.file->record->sensors));
    table.add(std::move(cells));
  }
  if (found == 0) return;
  out << "\nSensors, as NVML reads them: means, of the whole device\n";
  table.write(out);
  if (found > kMostRows) out << "  (" << found - kMostRows << " more; --json has all)\n";
}

std::string peak_text(const ProcessFlops& flops) {
  if (flops.peak.gigaflops == 0) return flops.no_peak.empty() ? "several" : "n/a";
  return format("%.1f %s%s", static_cast<double>(flops.peak.gigaflops) / 1e3,
                precision_name(flops.precision),
                flops.peak.basis == PeakBasis::kTable ? "" : " mig");
}

std::vector<std::string> flop_cells(const ProcessFlops& flops) {
  const auto percent = [](const std::string& why_not, double value) {
    return why_not.empty() ? format("%.1f%%", 100 * value) : "n/a";
  };
  const bool model = flops.no_model.empty();
  return {number(flops.gpus),
          scaled(flops.gemm.approximate(), kDecimalPrefixes),
          scaled(flops.attention.approximate(), kDecimalPrefixes),
          share(flops.counted_ns, flops.kernel_ns),
          model ? scaled(flops.model.approximate(), kDecimalPrefixes) : "n/a",
          percent(flops.no_model, flops.recomputed),
          percent(flops.no_mfu(), flops.mfu()),
          percent(flops.no_hfu(), flops.hfu()),
          peak_text(flops)};
}

void write_flops(std::ostream& out, const Analysis& analysis) {
  const auto& processes = analysis.flops();
  if (processes.empty()) return;
  out << "\nFLOPs that were counted: calls of cuBLAS, and attention by its kernels\n";
  Columns table({"rank", "gpus", "gemm", "attention", "counted", "model", "recomputed", "mfu",
                 "hfu", "TFLOP/s peak"},
                1);
  std::map<std::string, size_t> reasons;
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessFlops& flops = processes[i].flops;
    if (!flops.no_mfu().empty()) ++reasons["mfu n/a(" + flops.no_mfu() + ")"];
    if (!flops.no_hfu().empty()) ++reasons["hfu n/a(" + flops.no_hfu() + ")"];
    if (i >= kMostRows) continue;
    std::vector<std::string> cells = {printable(processes[i].label, 12)};
    append(&cells, flop_cells(flops));
    table.add(std::move(cells));
  }
  if (processes.size() > 1) {
    std::vector<std::string> cells = {"all"};
    append(&cells, flop_cells(analysis.total_flops()));
    table.add(std::move(cells));
  }
  table.write(out);
  if (processes.size() > kMostRows) {
    out << "  (" << processes.size() - kMostRows << " more; --json has all)\n";
  }
  for (const auto& [reason, count] : reasons) {
    out << "  " << reason << ": " << count << (count == 1 ? " process\n" : " processes\n");
  }
  out << "  counted: share of compute kernels' time whose FLOPs these are; model: without what was "
         "recomputed;\n  mfu, hfu: model and all FLOPs as shares of what the peak allows in the "
         "span\n";
}

void write_skew(std::ostream& out, const Analysis& analysis) {
  if (!analysis.has_skew() || analysis.skew_figures().aligned == 0) return;
  const SkewFigures& skew = analysis.skew_figures();
  out << "\nStragglers: " << skew.aligned << " collectives aligned over ranks. Transfer "
      << duration(skew.transfer_ns) << " (their shortest instances);\n"
      << "  what a rank spends beyond that is waiting for the last one\n";
  Columns table({"rank", "collectives", "waiting", "came last", "others waited for it"});
  const auto& rows = analysis.rows();
  for (size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    auto found = skew.participants.find(analysis.participant_of(i));
    if (found == skew.participants.end()) continue;
    table.add({printable(rows[i].label, 20), number(found->second.collectives),
               duration(found->second.wait_ns), number(found->second.last),
               duration(found->second.caused_ns)});
  }
  table.write(out);
  if (skew.has_slowest) {
    const SkewFigures::Participant& slowest = skew.participants.at(skew.slowest);
    out << "  slowest: " << printable(analysis.row_of(skew.slowest).label, 40) << ", last at "
        << slowest.last << " of " << skew.aligned << " collectives; the others waited "
        << duration(slowest.caused_ns) << " for it, all ranks together\n";
  }
  out << "  starts are spread by " << duration(skew.start_spread.median_ns) << " (median), ends by "
      << duration(skew.end_spread.median_ns) << ", as far as the ranks' clocks agree\n";
}

}  // namespace

void write_table(std::ostream& out, const Analysis& analysis) {
  write_title(out, analysis);
  if (!analysis.rows().empty()) {
    write_time(out, analysis);
    write_steps(out, analysis);
    write_collectives(out, analysis);
    write_skew(out, analysis);
    write_flops(out, analysis);
    write_sensors(out, analysis);
    write_kernels(out, analysis);
  }
  const std::vector<std::string> notes = analysis.notes();
  if (notes.empty()) return;
  out << "\nNotes\n";
  for (size_t i = 0; i < std::min(notes.size(), kMostRows); ++i) {
    std::string note = "  " + printable(notes[i], 1000);
    // Folded at blanks.
    while (note.size() > kWidth) {
      const size_t blank = note.rfind(' ', kWidth);
      if (blank == note.npos || blank <= 4) break;
      out << note.substr(0, blank) << '\n';
      note = "    " + note.substr(blank + 1);
    }
    out << note << '\n';
  }
  if (notes.size() > kMostRows) out << "  (" << notes.size() - kMostRows << " more)\n";
}

}  // namespace mfu
