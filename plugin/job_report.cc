#include "plugin/job_report.hh"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

namespace mfu {

FieldReading read_field(std::string_view field) {
  FieldReading reading;
  reading.text = find_comment(field);
  if (reading.text.empty()) {
    // A line that was cut off or edited is not found, yet its reader wants to know.
    constexpr std::string_view kOpening = "mfu/1 ";
    const size_t at = field.starts_with(kOpening) ? 0 : field.find(" mfu/1 ");
    if (at == field.npos) {
      reading.fault = "no line";
      return reading;
    }
    reading.text = field.substr(at == 0 ? 0 : at + 1);
  }
  auto line = parse_comment(reading.text);
  if (line) {
    reading.line = std::move(*line);
  } else {
    reading.fault = "broken line: " + line.error();
  }
  return reading;
}

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint128 allocated_gpu_ns(const Job& job) {
  return uint128{job.gpus} * job.elapsed_seconds * kSecond;
}

uint64_t nanoseconds(time_t time) {
  return time <= 0 ? 0 : static_cast<uint64_t>(time) * kSecond;
}

}  // namespace

GoodputSums goodput_of_run(const Job& run, const std::optional<Comment>& line) {
  GoodputSums parts;
  if (!line) {
    parts.unknown_ns = allocated_gpu_ns(run);
    return parts;
  }
  parts = line->total().goodput();
  if (line->running()) {
    const uint128 told = parts.total_ns();
    parts.unknown_ns += std::max(allocated_gpu_ns(run), told) - told;
  } else {
    add_outside(allocated_gpu_ns(run), &parts);
  }
  return parts;
}

JobGoodput goodput_of_runs(std::span<const Job> runs) {
  JobGoodput job;
  std::optional<uint32_t> run_before;
  for (const Job& run : runs) {
    job.last = &run;
    if (run.elapsed_seconds == 0) continue;  // still waits, or was cancelled before it began
    FieldReading reading = read_field(run.comment);
    if (reading.line) job.told_runs = std::max(job.told_runs, reading.line->run + 1);
    if (reading.line && run_before && reading.line->run <= *run_before) {
      reading = {std::nullopt, {}, "no line"};
    }
    GoodputSums parts = goodput_of_run(run, reading.line);
    if (job.runs.count > 0) parts.restart_ns += std::exchange(parts.start_up_ns, 0);
    job.parts += parts;
    job.allocated_ns += allocated_gpu_ns(run);
    job.runs.add(nanoseconds(run.start), nanoseconds(run.start) + run.elapsed_seconds * kSecond);
    if (!reading.line) {
      job.fault = reading.fault;
      continue;
    }
    run_before = reading.line->run;
    ++job.lines;
    job.together.sums += reading.line->total();
  }
  if (job.told_runs <= runs.size()) job.told_runs = job.runs.count;
  return job;
}

void Totals::add(const Job& job, const std::optional<Comment>& line, const Figures& shown) {
  const uint128 allocated = uint128{job.gpus} * job.elapsed_seconds;
  ++jobs;
  gpu_seconds += allocated;
  parts += goodput_of_run(job, line);
  if (!line) {
    gpu_seconds_without_mfu += allocated;
    return;
  }
  const Sums total = line->total();
  energy_j += total.energy_j;
  energy_ms += total.energy_ms;
  if (shown.mfu < 0) {
    gpu_seconds_without_mfu += allocated;
    return;
  }
  ++jobs_with_mfu;
  model_flops += total.model_flops;
  capacity_flop += total.capacity_flop;
}

double Totals::mfu() const {
  if (capacity_flop == 0) return -1;
  return static_cast<double>(model_flops) / static_cast<double>(capacity_flop);
}

void GoodputTotals::add(const JobGoodput& job) {
  ++jobs;
  if (job.goodput().fraction >= 0) ++jobs_with_goodput;
  runs += job.runs.count;
  allocated_ns += job.allocated_ns;
  queued_ns += job.runs.gap_ns();
  parts += job.parts;
}

namespace {

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
  const std::string why_time = why_no_time(row.line);
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
     [](Row r) { return printable(r.job.id); }},
    {"NAME", kLeft, 16, kAlways, "of the job", [](Row r) { return printable(r.job.name); }},
    {"USER", kLeft, 12, kAlways, "", [](Row r) { return printable(r.job.user); }},
    {"ACCOUNT", kLeft, 12, kAlways, "", [](Row r) { return printable(r.job.account); }},
    {"PARTITION", kLeft, 12, kAlways, "", [](Row r) { return printable(r.job.partition); }},
    {"STATE", kLeft, 13, kAlways, "of the job", [](Row r) { return printable(r.job.state); }},
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
     [](Row r) { return known(r.line.peak_gigaflops == 0 ? "" : peak_text(r.line)); }},
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

using Group = const JobGoodput&;

std::string share(Group job, uint128 GoodputSums::*part) {
  const uint128 total = job.parts.total_ns();
  return total == 0 ? "-" : percent_text(double(job.parts.*part) / double(total));
}

// "checkpoint,tail": the largest loss first, without those that show as 0.0%.
std::string losses_text(Group job) {
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
     [](Group g) { return printable(g.last->id); }},
    {"NAME", kLeft, 16, kAlways, "of the job", [](Group g) { return printable(g.last->name); }},
    {"USER", kLeft, 12, kAsked, "", [](Group g) { return printable(g.last->user); }},
    {"ACCOUNT", kLeft, 12, kAsked, "", [](Group g) { return printable(g.last->account); }},
    {"PARTITION", kLeft, 12, kAsked, "", [](Group g) { return printable(g.last->partition); }},
    {"STATE", kLeft, 13, kAsked, "of the last run",
     [](Group g) { return printable(g.last->state); }},
    {"RUNS", kRight, 0, kAlways, "runs, or: runs shown/runs that there were",
     [](Group g) {
       const std::string runs = std::to_string(g.runs.count);
       return g.told_runs > g.runs.count ? runs + "/" + std::to_string(g.told_runs) : runs;
     }},
    {"QUEUED", kRight, 0, kFilled, "wall time between the runs",
     [](Group g) { return g.runs.gap_ns() == 0 ? "-" : duration_text(g.runs.gap_ns() / kSecond); }},
    {"ALLOCATED", kRight, 0, kAlways, "GPU time, [days-]hh:mm:ss",
     [](Group g) { return duration_text(g.allocated_ns / kSecond); }},
    {"GOODPUT", kRight, 0, kAlways, "share of it that was training steps",
     [](Group g) { return figure(g.goodput().fraction); }},
    {"START-UP", kRight, 0, kAlways, "before the first training step",
     [](Group g) { return share(g, &GoodputSums::start_up_ns); }},
    {"RESTART", kRight, 0, kAlways, "the same in later runs",
     [](Group g) { return share(g, &GoodputSums::restart_ns); }},
    {"CHECKPOINT", kRight, 0, kAlways, "stalls with writing",
     [](Group g) { return share(g, &GoodputSums::writing_ns); }},
    {"DATA", kRight, 0, kAlways, "stalls with reading",
     [](Group g) { return share(g, &GoodputSums::reading_ns); }},
    {"STALLED", kRight, 0, kAlways, "stalls with neither",
     [](Group g) { return share(g, &GoodputSums::stalled_ns); }},
    {"TAIL", kRight, 0, kAlways, "after the last training step",
     [](Group g) { return share(g, &GoodputSums::tail_ns); }},
    {"OUTSIDE", kRight, 0, kAlways, "no job step ran",
     [](Group g) { return share(g, &GoodputSums::outside_ns); }},
    {"UNKNOWN", kRight, 0, kAlways, "no training steps were found, or no line",
     [](Group g) { return share(g, &GoodputSums::unknown_ns); }},
    {"IO", kRight, 0, kFilled, "read+written by a GPU's processes, 10^9 bytes a second",
     [](Group g) {
       const Figures shown = figures(g.together);
       return known(shown.read_gb_per_s, storage_text(shown));
     }},
    {"LOSSES", kLeft, 20, kAlways, "by name, the largest one first", losses_text},
    {"WHY", kLeft, 0, kFilled, "why a run's time is unknown",
     [](Group g) {
       const char* why_not = g.goodput().why_not;
       return g.fault.empty() && why_not != nullptr ? why_not : g.fault;
     }},
};

}  // namespace

std::string printable(std::string_view text) {
  std::string result(text.empty() ? "-" : text);
  std::replace_if(
      result.begin(), result.end(),
      [](char byte) { return byte < ' ' || byte > '~' || byte == '|'; }, '?');
  return result;
}

std::span<const Column<JobRow>> row_columns() {
  return kRowColumns;
}
std::span<const Column<JobGoodput>> goodput_columns() {
  return kGoodputColumns;
}

std::string decimal(uint128 number) {
  constexpr uint64_t kChunk = 1'000'000'000'000'000'000;  // 128-bit divisions are slow: one a chunk
  std::string digits;
  for (; number >= kChunk; number /= kChunk) {
    digits.insert(0, std::to_string(kChunk + static_cast<uint64_t>(number % kChunk)).substr(1));
  }
  return std::to_string(static_cast<uint64_t>(number)) + digits;
}

std::string duration_text(uint128 seconds) {
  constexpr uint128 kMost = UINT64_MAX;  // far beyond what Slurm can account
  const auto whole = static_cast<uint64_t>(std::min(seconds, kMost));
  const auto two = [](uint64_t number) { return std::to_string(100 + number).substr(1); };
  const std::string time =
      two(whole / 3600 % 24) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
  return whole < 86400 ? time : std::to_string(whole / 86400) + "-" + time;
}

}  // namespace mfu
