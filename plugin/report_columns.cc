// The columns of mfu-report's jobs.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

std::string known(std::string text) {
  return text.empty() ? "-" : text;
}

// For texts of figures that are "n/a" where the line has them.
std::string known(double number, const std::string& text) {
  return number < 0 ? "-" : text;
}

std::string figure(double fraction) {
  return known(fraction, percent_text(fraction));
}

std::string flagged(double fraction) {
  return figure(fraction) + (fraction > 1 ? "!" : "");
}

std::string with_note(std::string text, const std::string& note) {
  return note.empty() || text == "-" ? text : text + "(" + note + ")";
}

// "mixed(estimated)": one of several is.
std::string peak_cell(const Comment& line) {
  if (line.peak_gigaflops == 0) return "-";
  const bool note = line.peak_gigaflops == kMixedPeak && line.peak_basis == PeakBasis::kEstimated;
  return with_note(peak_text(line), note ? peak_basis_name(line.peak_basis) : "");
}

// "2024-05-31T12:00:00", local time, as sacct.
std::string time_text(time_t time) {
  tm parts{};
  char text[64];
  if (time == 0 || localtime_r(&time, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts)};
}

// "no-flops; time: denied; partial: node-lost; interim"
std::string why_text(const JobRow& row) {
  if (!row.reading.line) return row.reading.fault;
  std::string why = row.shown.mfu >= 0 ? "" : why_no_mfu(row.line);
  const std::string why_time = row.shown.compute >= 0 ? "" : why_no_time(row.line);
  const auto add = [&](std::string_view what, std::string_view reason) {
    if (reason.empty()) return;
    if (!why.empty()) why += "; ";
    why.append(what).append(reason);
  };
  if (why_time != why) add("time: ", why_time);
  add("partial: ", row.line.partial);
  // A step whose last word is missing: killed with its node, or it is still running.
  if (row.line.running()) add("", row.job.end == 0 ? "running" : "interim");
  return why;
}

using Row = const JobRow&;
constexpr auto kAlways = Shown::kAlways, kFilled = Shown::kFilled, kAsked = Shown::kAsked;
constexpr bool kRight = true, kLeft = false;
constexpr Column<JobRow> kRowColumns[] = {
    {"JOBID", kRight, 0, kAlways, "job, array task, part of a heterogeneous job",
     [](Row r) { return cell_text(r.job.id); }},
    {"NAME", kLeft, 16, kAlways, "of the job", [](Row r) { return cell_text(r.job.name); }},
    {"USER", kLeft, 12, kAlways, "", [](Row r) { return cell_text(r.job.user); }},
    {"ACCOUNT", kLeft, 12, kAlways, "", [](Row r) { return cell_text(r.job.account); }},
    {"PARTITION", kLeft, 12, kAlways, "", [](Row r) { return cell_text(r.job.partition); }},
    {"STATE", kLeft, 13, kAlways, "of the job", [](Row r) { return cell_text(r.job.state); }},
    {"START", kLeft, 0, kAsked, "of the run", [](Row r) { return time_text(r.job.start); }},
    {"END", kLeft, 0, kAsked, "of the run", [](Row r) { return time_text(r.job.end); }},
    {"ELAPSED", kRight, 0, kAlways, "wall time, [days-]hh:mm:ss",
     [](Row r) { return duration_text(r.job.elapsed_seconds); }},
    {"NODES", kRight, 0, kAlways, "allocated", [](Row r) { return std::to_string(r.job.nodes); }},
    {"GPUS", kRight, 0, kAlways, "allocated", [](Row r) { return std::to_string(r.job.gpus); }},
    {"MFU", kRight, 0, kAlways, "model FLOPs utilisation",
     [](Row r) { return flagged(r.shown.mfu); }},
    {"HFU", kRight, 0, kFilled, "the same with the FLOPs that were executed",
     [](Row r) { return flagged(r.shown.hfu); }},
    {"BASIS", kLeft, 0, kAsked, "where MFU's FLOPs come from: model, gemm, several",
     [](Row r) { return known(basis_name(r.line.basis)); }},
    {"COUNTED", kRight, 0, kAsked, "share of compute kernels' time that HFU's FLOPs are of",
     [](Row r) {
       return known(r.shown.counted_coverage, coverage_text(r.shown.counted_coverage));
     }},
    {"GPU", kLeft, 0, kAsked, "model of the GPUs", [](Row r) { return known(r.line.gpu); }},
    {"PEAK", kRight, 0, kAsked, "of one GPU: TFLOP/s(precision,basis)",
     [](Row r) { return peak_cell(r.line); }},
    {"COMPUTE", kRight, 0, kAlways, "share of GPU time: a compute kernel ran",
     [](Row r) { return figure(r.shown.compute); }},
    {"COMM", kRight, 0, kAlways, "communication, exposed+overlapped",
     [](Row r) {
       if (r.shown.exposed_communication < 0) return std::string("-");
       return percent_text(r.shown.exposed_communication) + "+" +
              percent_text(r.shown.overlapped_communication);
     }},
    {"MEM", kRight, 0, kAlways, "only copies or fills ran",
     [](Row r) { return figure(r.shown.exposed_memory); }},
    {"IDLE", kRight, 0, kAlways, "nothing ran", [](Row r) { return figure(r.shown.idle); }},
    {"WAIT", kRight, 0, kAsked, "share of collectives' time: waiting for the last rank(which)",
     [](Row r) { return with_note(figure(r.shown.wait), task_text(r.line.slowest)); }},
    {"STEPS", kRight, 0, kAsked, "training steps(found by)",
     [](Row r) {
       if (r.total.training_steps == 0) return std::string("-");
       return with_note(decimal(r.total.training_steps), steps_by_name(r.line.steps_by));
     }},
    {"STEP", kRight, 0, kAsked, "wall time of a training step",
     [](Row r) { return known(r.shown.step_seconds, seconds_text(r.shown.step_seconds)); }},
    {"GOODPUT", kRight, 0, kFilled, "share of job steps' time that was training steps",
     [](Row r) { return figure(r.shown.goodput.fraction); }},
    {"LOSS", kLeft, 0, kAsked, "what most of the rest went into",
     [](Row r) { return known(r.shown.goodput.largest_loss); }},
    {"POWER", kRight, 0, kFilled, "mean of a GPU",
     [](Row r) { return known(r.shown.watts, std::to_string(std::lround(r.shown.watts)) + "W"); }},
    {"ENERGY", kRight, 0, kAsked, "of all GPUs in a training step",
     [](Row r) { return known(r.shown.joules_per_step, energy_text(r.shown.joules_per_step)); }},
    {"CLOCK", kRight, 0, kAsked, "mean MHz while not idle/highest(why held back)",
     [](Row r) { return known(r.shown.clock_mhz, clock_text(r.line, r.shown)); }},
    {"UTIL", kRight, 0, kAsked, "share of time with busy tensor cores; no MFU",
     [](Row r) { return figure(r.shown.tensor_activity); }},
    {"IO", kRight, 0, kAsked, "read+written by a GPU's processes, 10^9 bytes a second",
     [](Row r) { return known(r.shown.read_gb_per_s, storage_text(r.shown)); }},
    {"COVER", kRight, 0, kAlways, "share of GPU time with known FLOPs/observed",
     [](Row r) {
       if (r.shown.flops_coverage < 0) return std::string("-");
       return coverage_text(r.shown.flops_coverage) + "/" +
              coverage_text(r.shown.observed_coverage);
     }},
    {"RUN", kRight, 0, kAsked, "how often the job had been requeued",
     [](Row r) { return r.reading.line ? std::to_string(r.line.run) : "-"; }},
    {"PLACE", kLeft, 0, kFilled, "placement: ok, warn:N or bad:N, with the audit's rules",
     [](Row r) { return known(place_text(r.line.place)); }},
    {"PARTIAL", kLeft, 0, kAsked, "why a part of the job steps is missing",
     [](Row r) { return known(r.line.partial); }},
    {"NO-HFU", kLeft, 0, kAsked, "why there is no HFU",
     [](Row r) { return r.reading.line ? known(why_no_hfu(r.line)) : r.reading.fault; }},
    {"NO-GOODPUT", kLeft, 0, kAsked, "why there is no goodput",
     [](Row r) { return r.reading.line ? known(r.shown.goodput.why_not) : r.reading.fault; }},
    {"WHY", kLeft, 0, kFilled, "why there is no MFU, and what else is missing", why_text},
};

using Over = const JobGoodput&;

std::string share(Over job, uint128 GoodputSums::*part) {
  const uint128 total = job.parts.total_ns();
  return total == 0 ? "-" : percent_text(double(job.parts.*part) / double(total));
}

// "checkpoint,tail": the largest loss first, without those that show as 0.0%.
std::string losses_text(Over job) {
  const double total = static_cast<double>(job.parts.total_ns());
  std::string text;
  for (const GoodputPart* part : losses(job.parts)) {
    if (static_cast<double>(job.parts.*part->member) < total / 2000) break;
    text.append(text.empty() ? "" : ",").append(part->loss);
  }
  return known(text);
}

constexpr Column<JobGoodput> kGoodputColumns[] = {
    {"JOBID", kRight, 0, kAlways, "job, array task, part of a heterogeneous job",
     [](Over g) { return cell_text(g.last->id); }},
    {"NAME", kLeft, 16, kAlways, "of the job", [](Over g) { return cell_text(g.last->name); }},
    {"USER", kLeft, 12, kAsked, "", [](Over g) { return cell_text(g.last->user); }},
    {"ACCOUNT", kLeft, 12, kAsked, "", [](Over g) { return cell_text(g.last->account); }},
    {"PARTITION", kLeft, 12, kAsked, "", [](Over g) { return cell_text(g.last->partition); }},
    {"STATE", kLeft, 13, kAsked, "of the last run",
     [](Over g) { return cell_text(g.last->state); }},
    {"RUNS", kRight, 0, kAlways, "runs, or: runs shown/runs that there were",
     [](Over g) {
       const std::string runs = std::to_string(g.runs.count);
       return g.told_runs > g.runs.count ? runs + "/" + std::to_string(g.told_runs) : runs;
     }},
    {"QUEUED", kRight, 0, kFilled, "wall time between the runs",
     [](Over g) { return g.runs.gap_ns() == 0 ? "-" : duration_text(g.runs.gap_ns() / kSecond); }},
    {"ALLOCATED", kRight, 0, kAlways, "GPU time, [days-]hh:mm:ss",
     [](Over g) { return duration_text(g.allocated_ns / kSecond); }},
    {"GOODPUT", kRight, 0, kAlways, "share of it that was training steps",
     [](Over g) { return figure(g.goodput().fraction); }},
    {"START-UP", kRight, 0, kAlways, "before the first training step",
     [](Over g) { return share(g, &GoodputSums::start_up_ns); }},
    {"RESTART", kRight, 0, kAlways, "the same in later runs",
     [](Over g) { return share(g, &GoodputSums::restart_ns); }},
    {"CHECKPOINT", kRight, 0, kAlways, "stalls with writing",
     [](Over g) { return share(g, &GoodputSums::writing_ns); }},
    {"DATA", kRight, 0, kAlways, "stalls with reading",
     [](Over g) { return share(g, &GoodputSums::reading_ns); }},
    {"STALLED", kRight, 0, kAlways, "stalls with neither",
     [](Over g) { return share(g, &GoodputSums::stalled_ns); }},
    {"TAIL", kRight, 0, kAlways, "after the last training step",
     [](Over g) { return share(g, &GoodputSums::tail_ns); }},
    {"OUTSIDE", kRight, 0, kAlways, "no job step ran",
     [](Over g) { return share(g, &GoodputSums::outside_ns); }},
    {"UNKNOWN", kRight, 0, kAlways, "no training steps were found, or no line",
     [](Over g) { return share(g, &GoodputSums::unknown_ns); }},
    {"IO", kRight, 0, kFilled, "read+written by a GPU's processes, 10^9 bytes a second",
     [](Over g) {
       const Figures shown = figures(g.together);
       return known(shown.read_gb_per_s, storage_text(shown));
     }},
    {"LOSSES", kLeft, 20, kAlways, "by name, the largest one first", losses_text},
    {"WHY", kLeft, 0, kFilled, "why a run's time is unknown",
     [](Over g) {
       const char* why_not = g.goodput().why_not;
       return g.fault.empty() && why_not != nullptr ? why_not : g.fault;
     }},
};

}  // namespace

std::span<const Column<JobRow>> row_columns() {
  return kRowColumns;
}
std::span<const Column<JobGoodput>> goodput_columns() {
  return kGoodputColumns;
}

}  // namespace mfu
