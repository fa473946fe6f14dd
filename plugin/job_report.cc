#include "plugin/job_report.hh"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "plugin/comment_parse.hh"

namespace mfu {

namespace {

constexpr std::string_view kOpening = "mfu/1 ";

// A field that seems to be our line and nothing else: find_comment() looks at each of its bytes.
bool is_line_alone(std::string_view field) {
  if (!field.starts_with(kOpening) || !field.ends_with('.')) return false;
  const void* const blank = memrchr(field.data(), ' ', field.size());  // there is one
  return field.substr(static_cast<size_t>(static_cast<const char*>(blank) - field.data()))
      .starts_with(" sum=");
}

}  // namespace

FieldReading read_field(std::string_view field) {
  FieldReading reading;
  const auto is_sound = [&](std::string_view line) {
    reading.text = line;
    reading.fault = read_comment(line, &reading.line.emplace());
    return reading.fault.empty();
  };
  if (is_line_alone(field) && is_sound(field)) return reading;
  const std::string_view found = find_comment(field);
  if (!found.empty()) {
    if (is_sound(found)) return reading;
  } else {
    // A line that was cut off or edited is not found, yet its reader wants to know.
    const size_t at = field.starts_with(kOpening) ? 0 : field.find(" mfu/1 ");
    if (at == field.npos) {
      reading.line.reset();
      reading.text = {};
      reading.fault = "no line";
      return reading;
    }
    if (is_sound(field.substr(at == 0 ? 0 : at + 1))) return reading;
  }
  reading.line.reset();
  reading.fault.insert(0, "broken line: ");
  return reading;
}

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr std::string_view kResizing = "RESIZING";

uint128 allocated_gpu_ns(const Job& job) {
  return uint128{job.gpus} * job.elapsed_seconds * kSecond;
}

uint64_t nanoseconds(time_t time) {
  return time <= 0 ? 0 : static_cast<uint64_t>(time) * kSecond;
}

}  // namespace

GoodputSums goodput_of_run(const Job& run, const Comment* line) {
  GoodputSums parts;
  if (line == nullptr) {
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

FieldReading RunReader::read(const Job& run) {
  FieldReading reading = read_field(run.comment);
  if (!reading.line) return reading;
  told_runs_ = std::max(told_runs_, reading.line->run + 1);
  const bool handed_on = run_before_ && reading.line->run <= *run_before_;
  if (handed_on || run.start == 0 || run.state == kResizing) {
    reading.line.reset();
    reading.text = {};
    reading.fault = "no line";
    return reading;
  }
  run_before_ = reading.line->run;
  return reading;
}

void read_rows(std::span<const Job> runs, bool last_only, const VisitRow& visit) {
  size_t first = last_only ? runs.size() : 0;
  if (first > 0) --first;
  while (last_only && first > 0 && runs[first - 1].state == kResizing) --first;
  RunReader reader;
  for (size_t i = 0; i < runs.size(); ++i) {
    const FieldReading reading = reader.read(runs[i]);
    if (i >= first) visit(runs[i], reading);
  }
}

JobGoodput goodput_of_runs(std::span<const Job> runs) {
  JobGoodput job;
  RunReader reader;
  for (const Job& run : runs) {
    job.last = &run;
    if (run.elapsed_seconds == 0) continue;  // still waits, or was cancelled before it began
    const FieldReading reading = reader.read(run);
    GoodputSums parts = goodput_of_run(run, reading.line ? &*reading.line : nullptr);
    if (job.runs.count > 0) parts.restart_ns += std::exchange(parts.start_up_ns, 0);
    job.parts += parts;
    job.allocated_ns += allocated_gpu_ns(run);
    job.runs.add(nanoseconds(run.start), nanoseconds(run.start) + run.elapsed_seconds * kSecond);
    if (!reading.line) {
      job.fault = reading.fault;
      continue;
    }
    ++job.lines;
    job.together.sums += reading.line->total();
  }
  job.told_runs = reader.told_runs();
  if (job.told_runs <= runs.size()) job.told_runs = job.runs.count;
  return job;
}

void Totals::begin_job() {
  ++jobs;
  job_has_mfu_ = false;
}

void Totals::add(const Job& run, const std::optional<Comment>& line, const Figures& shown) {
  const uint128 allocated = uint128{run.gpus} * run.elapsed_seconds;
  ++runs;
  gpu_seconds += allocated;
  parts += goodput_of_run(run, line ? &*line : nullptr);
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
  if (!std::exchange(job_has_mfu_, true)) ++jobs_with_mfu;
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

std::string cell_text(std::string_view text) {
  std::string result(text.empty() ? "-" : text);
  std::replace_if(
      result.begin(), result.end(),
      [](char byte) { return byte < ' ' || byte > '~' || byte == '|'; }, '?');
  return result;
}

std::string fixed_text(double number) {
  char text[400];  // the largest double has 309 digits
  const auto end = std::to_chars(text, text + sizeof(text), number, std::chars_format::fixed, 1);
  return {text, end.ptr};
}

std::string number_text(double number) {
  char text[32];
  const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
  const auto end = whole ? std::to_chars(text, text + sizeof(text), static_cast<int64_t>(number))
                         : std::to_chars(text, text + sizeof(text), number);
  return {text, end.ptr};
}

std::string counted(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string in_runs(uint64_t jobs, uint64_t runs) {
  return runs == jobs ? "" : " in " + counted(runs, "run");
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
  std::string text = whole < 86400 ? "" : std::to_string(whole / 86400) + "-";
  const char* before = "";
  for (const uint64_t number : {whole / 3600 % 24, whole / 60 % 60, whole % 60}) {
    text += std::exchange(before, ":");
    text += static_cast<char>('0' + number / 10);
    text += static_cast<char>('0' + number % 10);
  }
  return text;
}

}  // namespace mfu
