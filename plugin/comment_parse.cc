// Reading the accounting line.
#include <algorithm>
#include <iterator>
#include <utility>

#include "plugin/comment.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu/1 ";

// A value being read from front to back. After the first thing that is wrong it stands still.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return ok_ && at_ == text_.size(); }
  size_t at() const { return at_; }
  void refuse() { ok_ = false; }

  bool skip(std::string_view expected) {
    if (!ok_ || !text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  void expect(std::string_view expected) {
    if (!skip(expected)) refuse();
  }

  // Up to the first of `stops`, or to the end.
  std::string_view until(std::string_view stops) {
    if (!ok_) return {};
    const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  // A number without leading zeros, at most `most`, which is at most kMostFlop.
  uint128 number(unsigned base, uint128 most) {
    const size_t start = at_;
    uint128 result = 0;
    for (; ok_ && at_ < text_.size(); ++at_) {
      const char byte = text_[at_];
      unsigned digit = base;
      if (byte >= '0' && byte <= '9') digit = static_cast<unsigned>(byte - '0');
      if (byte >= 'a' && byte <= 'z') digit = static_cast<unsigned>(byte - 'a') + 10;
      if (digit >= base) break;
      result = result * base + digit;  // no more than 36 * kMostFlop: far from 128 bits
      if (result > most) refuse();
    }
    if (at_ == start || (text_[start] == '0' && at_ > start + 1)) refuse();
    return ok_ ? result : 0;
  }

  std::string reason() {
    const std::string_view found = until(")");
    if (found.empty() || fit_reason(found) != found) refuse();
    return std::string(found);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
};

// What the tokens say. The reasons stand in different places and are settled at the end.
struct Parts {
  Comment comment;
  std::string mfu_absence;
  std::string time_absence;
  std::string flops_gap;
  std::string observed_gap;
  bool has_gpus = false;
  bool has_sum = false;
};

// "n/a(reason)" gives the reason; figures follow from the sums and are not read.
std::string absence(Reader* in) {
  if (!in->skip("n/a(")) {
    in->until("");
    return "";
  }
  std::string reason = in->reason();
  in->expect(")");
  return reason;
}

void read_mfu(Reader* in, Parts* parts) {
  parts->mfu_absence = absence(in);
}

void read_compute(Reader* in, Parts* parts) {
  parts->time_absence = absence(in);
}

void read_gpus(Reader* in, Parts* parts) {
  parts->comment.gpus = static_cast<uint32_t>(in->number(10, UINT32_MAX));
  in->expect("x");
  const std::string_view name = in->until("");
  parts->comment.gpu = fit_name(name);
  if (name.empty() || (name != kUnknownGpu && name != parts->comment.gpu)) in->refuse();
  parts->has_gpus = true;
}

void read_peak(Reader* in, Parts* parts) {
  if (in->skip("n/a")) return;
  if (in->skip(kMixed)) {
    parts->comment.peak_gigaflops = kMixedPeak;
    return;
  }
  uint128 gigaflops = in->number(10, UINT64_MAX) * 1000;
  if (in->skip(".")) {
    std::string digits(in->until("("));
    if (digits.empty() || digits.size() > 3) in->refuse();
    digits.resize(3, '0');
    digits.insert(0, 1, '1');
    Reader fraction(digits);
    gigaflops += fraction.number(10, 1999) - 1000;
    if (!fraction.at_end()) in->refuse();
  }
  if (gigaflops >= kMixedPeak) in->refuse();
  parts->comment.peak_gigaflops = static_cast<uint64_t>(gigaflops);
  in->expect("(");
  const std::string_view name = in->until(")");
  parts->comment.precision = precision_from_name(name);
  if (name != precision_name(parts->comment.precision)) in->refuse();
  in->expect(")");
}

// "60.0%(no-flops)" gives the reason.
std::string coverage_gap(Reader* in) {
  if (!in->skip("n/a")) in->until("(/");
  if (!in->skip("(")) return "";
  std::string reason = in->reason();
  in->expect(")");
  return reason;
}

void read_cover(Reader* in, Parts* parts) {
  parts->flops_gap = coverage_gap(in);
  in->expect("/");
  parts->observed_gap = coverage_gap(in);
}

void read_training(Reader* in, Parts* parts) {
  in->number(10, UINT64_MAX);
  parts->comment.steps_by = StepsBy::kDeclared;
  if (!in->skip("(")) return;
  const std::string_view name = in->until(")");
  int by = kStepsBy - 1;
  while (by > 0 && name != steps_by_name(static_cast<StepsBy>(by))) --by;
  parts->comment.steps_by = static_cast<StepsBy>(by);
  if (name.empty() || by == 0) in->refuse();
  in->expect(")");
}

void read_wait(Reader* in, Parts* parts) {
  in->until("(");
  if (!in->skip("(")) return;
  parts->comment.slowest = kSeveralTasks;
  if (!in->skip("several")) {
    in->expect("task");
    parts->comment.slowest = static_cast<uint32_t>(in->number(10, kSeveralTasks - 1));
  }
  in->expect(")");
}

void read_run(Reader* in, Parts* parts) {
  parts->comment.run = static_cast<uint32_t>(in->number(10, UINT32_MAX));
}

void read_state(Reader* in, Parts* parts) {
  if (in->skip("running") && !in->skip(",")) return;
  in->expect("partial(");
  parts->comment.partial = in->reason();
  in->expect(")");
}

void read_steps(Reader* in, Parts* parts) {
  auto steps = StepSet::parse(in->until(""));
  if (!steps) return in->refuse();
  parts->comment.merged = std::move(*steps);
}

void read_sums(Reader* in, Sums* sums) {
  for (const SumField& field : kSumFields) {
    if (&field != kSumFields) in->expect(",");
    sums->*field.member = in->number(36, field.most);
  }
}

void read_current(Reader* in, Parts* parts) {
  parts->comment.running_step = parse_step(in->until(":"));
  if (!parts->comment.running_step) in->refuse();
  in->expect(":");
  read_sums(in, &parts->comment.current);
}

void read_sum(Reader* in, Parts* parts) {
  read_sums(in, &parts->comment.sums);
  in->expect(".");
  parts->has_sum = true;
}

struct Key {
  std::string_view name;
  void (*read)(Reader*, Parts*);
  const char* form;
};
constexpr Key kKeys[] = {
    {"mfu", read_mfu, "a figure or n/a(reason)"},
    {"gpus", read_gpus, "COUNTxNAME"},
    {"peak", read_peak, "TFLOP/s(precision), n/a or mixed"},
    {"compute", read_compute, "a figure or n/a(reason)"},
    {"steps", read_training, "a number, with its source in parentheses or not"},
    {"wait", read_wait, "a figure, with (taskN) or (several) behind it or not"},
    {"cover", read_cover, "two figures with a slash between"},
    {"run", read_run, "a number"},
    {"state", read_state, "running, partial(reason) or both with a comma between"},
    {"s", read_steps, "steps in ascending order"},
    {"cur", read_current, "a step, a colon and 15 numbers in base 36"},
    {"sum", read_sum, "15 numbers in base 36 and a full stop"},
};
static_assert(std::size(kSumFields) == 15);

std::string fault(size_t at, std::string_view what) {
  return "byte " + std::to_string(at) + ": " + std::string(what);
}

Comment settled(Parts parts) {
  const Sums total = parts.comment.total();
  const bool overflowed = total.overflowed();
  // Such an n/a says "coverage" or "overflow", which is no reason that anybody gave.
  const bool mfu_told = overflowed || (total.model_flops > 0 && total.capacity_flop > 0);
  const bool time_told = overflowed || total.attributed_ns > 0;
  parts.comment.no_mfu = mfu_told ? parts.flops_gap : parts.mfu_absence;
  parts.comment.no_time = time_told ? parts.observed_gap : parts.time_absence;
  // Left out of a line that was too long.
  if (total.training_steps > 0 && parts.comment.steps_by == StepsBy::kNobody) {
    parts.comment.steps_by = StepsBy::kSeveral;
  }
  return std::move(parts.comment);
}

}  // namespace

tl::expected<Comment, std::string> parse_comment(std::string_view line) {
  if (line.size() > kMaxLine) {
    return tl::make_unexpected(fault(kMaxLine, "the line is longer than 512 bytes"));
  }
  if (!line.starts_with(kOpening)) {
    return tl::make_unexpected(fault(0, "a line begins with \"mfu/1 \""));
  }
  Parts parts;
  uint32_t seen = 0;
  for (size_t at = kOpening.size(); at <= line.size();) {
    if (parts.has_sum) return tl::make_unexpected(fault(at, "text after the end of the line"));
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view token = line.substr(at, end - at);
    const size_t equals = token.find('=');
    if (equals == 0 || equals == token.npos || equals + 1 == token.size() ||
        !std::all_of(token.begin(), token.end(), is_value_byte)) {
      return tl::make_unexpected(fault(at, "not a key=value token"));
    }
    const auto* key = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& candidate) {
      return candidate.name == token.substr(0, equals);
    });
    if (key != std::end(kKeys)) {
      const uint32_t bit = 1U << (key - std::begin(kKeys));
      if (seen & bit) return tl::make_unexpected(fault(at, std::string(key->name) + "= twice"));
      seen |= bit;
      Reader in(token.substr(equals + 1));
      key->read(&in, &parts);
      if (!in.at_end()) {
        return tl::make_unexpected(
            fault(at + equals + 1 + in.at(), std::string(key->name) + "= must be " + key->form));
      }
    }
    at = end + 1;
  }
  if (!parts.has_sum) {
    return tl::make_unexpected(fault(line.size(), "the line is cut off: it must end with sum="));
  }
  if (!parts.has_gpus) return tl::make_unexpected(fault(line.size(), "gpus= is missing"));
  return settled(std::move(parts));
}

}  // namespace mfu
