// Reading the accounting line.
#include "plugin/comment_parse.hh"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "plugin/comment_parse_key.hh"
#include "plugin/value_reader.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu/1 ";

// What the tokens say. The reasons stand in different places and are settled at the end. They lie
// in the line.
struct Parts {
  Comment& comment;
  std::string_view mfu_absence;
  std::string_view hfu_absence;
  std::string_view time_absence;
  std::string_view flops_gap;
  std::string_view counted_gap;
  std::string_view observed_gap;
  bool peak_estimated = false;  // one of several
  bool has_gpus = false;
  bool has_sum = false;
};

constexpr int kPeakBases = 6;

// "n/a(reason)" gives the reason; figures follow from the sums.
std::string_view absence(ValueReader* in) {
  if (!in->skip("n/a(")) {
    in->figure();
    in->expect('%');
    return {};
  }
  const std::string_view reason = in->reason();
  in->expect(')');
  return reason;
}

// "104.2%!" as well.
std::string_view utilization_absence(ValueReader* in) {
  const std::string_view reason = absence(in);
  if (reason.empty()) in->skip('!');
  return reason;
}

void read_mfu(ValueReader* in, Parts* parts) {
  parts->mfu_absence = utilization_absence(in);
}

void read_hfu(ValueReader* in, Parts* parts) {
  parts->hfu_absence = utilization_absence(in);
}

void read_compute(ValueReader* in, Parts* parts) {
  parts->time_absence = absence(in);
}

void read_percent(ValueReader* in, Parts*) {
  in->percent();
}

void read_communication(ValueReader* in, Parts*) {
  if (in->skip("n/a")) return;
  in->percent();
  in->expect('+');
  in->percent();
}

void read_seconds(ValueReader* in, Parts*) {
  in->figure();
  in->expect('s');
}

void read_power(ValueReader* in, Parts*) {
  in->figure();
  in->expect('W');
}

void read_energy(ValueReader* in, Parts*) {
  in->figure();
  if (!in->skip('k') && !in->skip('M')) in->skip('G');
  in->expect('J');
}

void read_goodput(ValueReader* in, Parts*) {
  in->percent();
  in->remark();
}

void read_storage(ValueReader* in, Parts*) {
  in->figure();
  in->expect('+');
  in->figure();
  in->expect("GB/s");
}

// The entry of an enumeration that `name` gives, from 1 on.
template <typename Mark>
Mark read_mark(ValueReader* in, std::string_view text, const char* (*name)(Mark), int count) {
  int mark = count - 1;
  while (mark > 0 && text != name(static_cast<Mark>(mark))) --mark;
  if (text.empty() || mark == 0) in->refuse();
  return static_cast<Mark>(mark);
}

void read_basis(ValueReader* in, Parts* parts) {
  parts->comment.basis = read_mark(in, in->word(), basis_name, kBases);
}

void read_clock(ValueReader* in, Parts* parts) {
  if (!in->skip("n/a")) in->number(10, kMostFlop);
  if (in->skip('/')) {
    parts->comment.clock_limit_mhz = static_cast<uint32_t>(in->number(10, UINT32_MAX));
    if (parts->comment.clock_limit_mhz == 0) in->refuse();
  }
  parts->comment.clock_reason = in->remark();
}

void read_counted(ValueReader* in, Parts* parts) {
  in->percent();
  parts->counted_gap = in->remark();
}

void read_gpus(ValueReader* in, Parts* parts) {
  parts->comment.gpus = static_cast<uint32_t>(in->number(10, UINT32_MAX));
  in->expect('x');
  const std::string_view name = in->word();
  parts->comment.gpu = fit_name(name);
  if (name.empty() || (name != kUnknownGpu && name != parts->comment.gpu)) in->refuse();
  parts->has_gpus = true;
}

void read_peak(ValueReader* in, Parts* parts) {
  if (in->skip("n/a")) return;
  if (in->skip(kMixed)) {
    parts->comment.peak_gigaflops = kMixedPeak;
    return;
  }
  uint128 gigaflops = in->number(10, UINT64_MAX) * 1000;
  if (in->skip('.')) {
    const std::string_view digits = in->word('(');
    if (digits.empty() || digits.size() > 3) in->refuse();
    unsigned unit = 1000;
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') in->refuse();
      unit /= 10;
      gigaflops += static_cast<unsigned>(digit - '0') * unit;
    }
  }
  if (gigaflops >= kMixedPeak) in->refuse();
  parts->comment.peak_gigaflops = static_cast<uint64_t>(gigaflops);
  in->expect('(');
  const std::string_view name = in->word(',', ')');
  parts->comment.precision = precision_from_name(name);
  if (name != precision_name(parts->comment.precision)) in->refuse();
  parts->comment.peak_basis = PeakBasis::kTable;
  if (in->skip(',')) {
    parts->comment.peak_basis = read_mark(in, in->word(')'), peak_basis_name, kPeakBases);
    if (parts->comment.peak_basis == PeakBasis::kTable) in->refuse();  // it goes without saying
  }
  in->expect(')');
}

void read_peaks(ValueReader* in, Parts* parts) {
  in->expect(peak_basis_name(PeakBasis::kEstimated));
  parts->peak_estimated = true;
}

// Percentages; one that is not whole may have the reason behind it.
void read_cover(ValueReader* in, Parts* parts) {
  in->percent();
  parts->flops_gap = in->remark();
  in->expect('/');
  in->percent();
  parts->observed_gap = in->remark();
}

void read_training(ValueReader* in, Parts* parts) {
  in->number(10, UINT64_MAX);
  parts->comment.steps_by = StepsBy::kDeclared;
  if (!in->skip('(')) return;
  parts->comment.steps_by = read_mark(in, in->word(')'), steps_by_name, kStepsBy);
  in->expect(')');
}

void read_wait(ValueReader* in, Parts* parts) {
  in->percent();
  if (!in->skip('(')) return;
  parts->comment.slowest = kSeveralTasks;
  if (!in->skip("several")) {
    in->expect("task");
    parts->comment.slowest = static_cast<uint32_t>(in->number(10, kSeveralTasks - 1));
  }
  in->expect(')');
}

void read_place(ValueReader* in, Parts* parts) {
  Place& place = parts->comment.place;
  if (in->skip("ok")) {
    place.verdict = Place::Verdict::kOk;
    return;
  }
  place.verdict = in->skip("warn:") ? Place::Verdict::kWarn : Place::Verdict::kBad;
  if (place.verdict == Place::Verdict::kBad) in->expect("bad:");
  place.findings = static_cast<uint32_t>(in->number(10, UINT32_MAX));
  if (!in->skip('(')) return;
  place.rules = in->word(')');
  if (place.rules.empty() || fit_rules(place.rules) != place.rules) in->refuse();
  in->expect(')');
}

void read_run(ValueReader* in, Parts* parts) {
  parts->comment.run = static_cast<uint32_t>(in->number(10, UINT32_MAX));
}

void read_state(ValueReader* in, Parts* parts) {
  if (in->skip("running") && !in->skip(',')) return;
  in->expect("partial(");
  parts->comment.partial = in->reason();
  in->expect(')');
}

void read_steps(ValueReader* in, Parts* parts) {
  auto steps = StepSet::parse(in->word());
  if (!steps) return in->refuse();
  parts->comment.merged = std::move(*steps);
}

// A sum of 0 is nothing between commas, and never "0". `zeros`: "k3+6" stands for k3000000.
uint128 read_sum_with_zeros(ValueReader* in, uint128 most) {
  uint128 number = in->number(36, most);
  if (number == 0) in->refuse();
  const bool plain = number % (36 * 36 * 36) != 0;
  if (!in->skip('+')) {
    if (!plain) in->refuse();
    return number;
  }
  const uint128 count = in->number(36, 35);
  if (count < 3 || number % 36 == 0) in->refuse();
  for (uint128 i = 0; i < count && number <= most; ++i) number *= 36;
  if (number > most) in->refuse();
  return number;
}

void read_sums(ValueReader* in, bool zeros, Sums* sums) {
  for (const SumField& field : kSumFields) {
    if (&field != kSumFields) in->expect(',');
    const char next = in->next();
    if (next == ',' || next == '.' || in->at_word_end()) continue;
    const uint128 number = zeros ? read_sum_with_zeros(in, field.most) : in->number(36, field.most);
    if (number == 0) in->refuse();
    sums->*field.member = number;
  }
}

void read_current(ValueReader* in, Parts* parts) {
  parts->comment.running_step = parse_step(in->word(':'));
  if (!parts->comment.running_step) in->refuse();
  in->expect(':');
  read_sums(in, true, &parts->comment.current);
}

void read_sum(ValueReader* in, Parts* parts) {
  read_sums(in, false, &parts->comment.sums);
  in->expect('.');
  parts->has_sum = true;
}

struct Key {
  std::string_view name;
  void (*read)(ValueReader*, Parts*);
  const char* form;
};
constexpr Key kKeys[] = {
    {"mfu", read_mfu, "a percentage or n/a(reason)"},
    {"hfu", read_hfu, "a percentage or n/a(reason)"},
    {"basis", read_basis, "model, gemm or several"},
    {"gpus", read_gpus, "COUNTxNAME"},
    {"peak", read_peak, "TFLOP/s(precision), n/a or mixed"},
    {"peaks", read_peaks, "estimated"},
    {"compute", read_compute, "a percentage or n/a(reason)"},
    {"comm", read_communication, "two percentages with a plus between, or n/a"},
    {"mem", read_percent, "a percentage or n/a"},
    {"idle", read_percent, "a percentage or n/a"},
    {"wait", read_wait, "a percentage, with (taskN) or (several) behind it or not"},
    {"steps", read_training, "a number, with its source in parentheses or not"},
    {"step", read_seconds, "a number of seconds"},
    {"goodput", read_goodput, "a percentage, with the loss in parentheses or not"},
    {"power", read_power, "a number of watts"},
    {"energy", read_energy, "a number in J, kJ, MJ or GJ"},
    {"clock", read_clock, "MHz, with /LIMIT and (reason) behind it or not"},
    {"util", read_percent, "a percentage or n/a"},
    {"io", read_storage, "two numbers with a plus between, and GB/s"},
    {"cover", read_cover, "two percentages with a slash between"},
    {"counted", read_counted, "a percentage"},
    {"place", read_place, "ok, warn:NUMBER(rules) or bad:NUMBER(rules)"},
    {"run", read_run, "a number"},
    {"state", read_state, "running, partial(reason) or both with a comma between"},
    {"s", read_steps, "steps in ascending order"},
    {"cur", read_current, "a step, a colon and 37 numbers in base 36"},
    {"sum", read_sum, "37 numbers in base 36 and a full stop"},
};
static_assert(std::size(kSumFields) == 37);
static_assert(std::size(kKeys) <= 32, "one bit each");

constexpr KeyFinder<std::size(kKeys)> kFinder([] {
  std::array<std::string_view, std::size(kKeys)> names;
  std::transform(std::begin(kKeys), std::end(kKeys), names.begin(),
                 [](const Key& key) { return key.name; });
  return names;
}());

std::string fault(size_t at, std::string_view what) {
  return "byte " + std::to_string(at) + ": " + std::string(what);
}

void settle(const Parts& parts) {
  Comment& comment = parts.comment;
  Sums both;
  if (comment.running()) both = comment.total();
  const Sums& total = comment.running() ? both : comment.sums;
  // Such an n/a says "coverage" or "overflow", which is no reason that anybody gave.
  const auto told = [&](bool known) { return known || total.overflowed(); };
  const bool mfu_told = told(total.model_flops > 0 && total.capacity_flop > 0);
  const bool hfu_told = told(total.executed_flops > 0 && total.executed_capacity_flop > 0);
  const bool time_told = told(total.attributed_ns > 0);
  if (comment.peak_gigaflops == kMixedPeak && parts.peak_estimated) {
    comment.peak_basis = PeakBasis::kEstimated;
  }
  comment.no_mfu = mfu_told ? parts.flops_gap : parts.mfu_absence;
  comment.no_hfu = hfu_told ? parts.counted_gap : parts.hfu_absence;
  comment.no_time = time_told ? parts.observed_gap : parts.time_absence;
  // Left out of a line that was too long.
  if (total.training_steps > 0 && comment.steps_by == StepsBy::kNobody) {
    comment.steps_by = StepsBy::kSeveral;
  }
}

}  // namespace

std::string read_comment(std::string_view line, Comment* comment) {
  if (line.size() > kMaxLine) {
    return fault(kMaxLine, "the line is longer than " + std::to_string(kMaxLine) + " bytes");
  }
  ValueReader in(line);
  if (!in.skip(kOpening)) return fault(0, "a line begins with \"mfu/1 \"");
  Parts parts{*comment};
  uint32_t seen = 0;
  size_t expected = 0;
  do {
    const size_t at = in.at();
    if (parts.has_sum) return fault(at, "text after the end of the line");
    const auto sound = [&] {
      const std::string_view token = ValueReader(line.substr(at)).word();
      return std::all_of(token.begin(), token.end(), is_value_byte);
    };
    const auto no_token = [&] { return fault(at, "not a key=value token"); };
    const size_t place = kFinder.find(in.rest(), expected);
    if (place == std::size(kKeys)) {
      const size_t size = in.word().size();
      const size_t equals = line.substr(at, size).find('=');
      if (equals == 0 || equals == line.npos || equals + 1 == size || !sound()) return no_token();
      continue;
    }
    const Key& key = kKeys[place];
    in.pass(key.name.size() + 1);
    if (in.at_word_end()) return no_token();
    expected = place + 1;
    const uint32_t bit = 1U << place;
    if (seen & bit) return sound() ? fault(at, std::string(key.name) + "= twice") : no_token();
    seen |= bit;
    key.read(&in, &parts);
    if (in.at_word_end()) continue;
    // What a known key's value may be is a part of what any value may be.
    if (!sound()) return no_token();
    return fault(in.at(), std::string(key.name) + "= must be " + key.form);
  } while (in.skip(' '));
  if (!parts.has_sum) return fault(line.size(), "the line is cut off: it must end with sum=");
  if (!parts.has_gpus) return fault(line.size(), "gpus= is missing");
  settle(parts);
  return "";
}

tl::expected<Comment, std::string> parse_comment(std::string_view line) {
  tl::expected<Comment, std::string> result;
  std::string wrong = read_comment(line, &*result);
  if (!wrong.empty()) result = tl::make_unexpected(std::move(wrong));
  return result;
}

}  // namespace mfu
