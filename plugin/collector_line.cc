// The line of a collector's step: what is written, and how long it is tried.
#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plugin/collector.hh"
#include "plugin/job_field.hh"
#include "plugin/nvlink_cliques.hh"
#include "plugin/spool.hh"
#include "plugin/step_report.hh"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// slurmdbd answers, but has no ended row of the job: how long it may take until the controller's
// word reaches it.
constexpr auto kRowWait = std::chrono::minutes(10);
// What nobody could be told for so long is forgotten.
constexpr uint64_t kForgetNs = 7ull * 24 * 3600 * 1'000'000'000;
constexpr size_t kFieldLimit = 60000;   // MySQL TEXT, less what slurmdbd may add
constexpr size_t kCommentLimit = 1024;  // slurmctld's, of the user's comment

bool is_stored(accounting::Outcome outcome) {
  return outcome == accounting::Outcome::kWritten || outcome == accounting::Outcome::kUnchanged;
}

}  // namespace

// A broken file must not cost the line.
void Collector::read_peaks() {
  if (plan_.site.peaks.empty()) return;
  auto peaks = read_peak_additions(plan_.site.peaks);
  if (!peaks) return log_.report("peaks: %s", peaks.error().c_str());
  peaks_ = std::move(*peaks);
}

// What the nodes found, and what only all of them together tell.
PlaceNote Collector::found_places() const {
  PlaceNote found = heard_.findings();
  found.run = plan_.run;
  if (const auto crossed = crossed_cliques(plan_, heard_.sums())) found.add(*crossed);
  return found;
}

accounting::Outcome Collector::write_line(bool final_line) {
  Comment step = report_step(plan_, heard_.sums(), heard_.spreads(), peaks_,
                             final_line ? ended_ns_ : wall_clock_ns(), final_line);
  // A batch script that leaves the work to its steps must not count their GPUs once more: it says
  // only, should no step of it use CUDA, that there was nothing to see.
  const bool nothing_ran = plan_.batch && own_sums_.processes == 0;
  if (nothing_ran) step.sums = Sums{};
  // The user's comment is too short for findings.
  const PlaceNote findings = found_places();
  const bool in_comment = plan_.site.field == Field::kComment;
  const StepWords words = {step,
                           plan_.step,
                           final_line,
                           nothing_ran,
                           in_comment ? nullptr : &findings,
                           in_comment ? kCommentLimit : kFieldLimit};
  const accounting::Edit edit = [&](std::string_view field) {
    return edit_job_field(field, words);
  };
  std::string why;
  JobLock lock(plan_, 500);
  auto outcome = in_controller_ ? accounting::edit_in_controller(plan_, edit, &why)
                                : accounting::edit_in_database(plan_, edit, &why);
  if (outcome == accounting::Outcome::kFinished) in_controller_ = false;
  if (!why.empty()) log_.report("accounting: %s", why.c_str());
  stored_ = stored_ || (final_line && is_stored(outcome));
  return outcome;
}

void Collector::write_final() {
  ended_ns_ = wall_clock_ns();
  write_line(true);
  release_stepd();
  if (!stored_) keep_heard();
  listener_.answer_waiting();
}

// A late node's word still counts while no line is stored: a step is merged once. One that ran on
// after Slurm had let the step go has time that the step's GPUs had not.
void Collector::take_late(const peer::Message& message) {
  if (stored_ || (!end_is_guess_ && message.sums.until_ns > ended_ns_)) return;
  take_peer(message);
  if (end_is_guess_) ended_ns_ = last_end();
}

// Nodes that did not wait for their answer ask again, and some come late.
void Collector::listen_until(Clock::time_point wake) {
  auto next_keep = Clock::now() + kKeepAfter;
  for (auto now = Clock::now(); now < wake; now = Clock::now()) {
    const bool listens = listener_.is_open();
    auto left = std::chrono::ceil<milliseconds>(wake - now);
    std::vector<pollfd> waited;
    if (listens) {
      left = std::min(left, milliseconds(1000));  // connections have deadlines, too
      for (int fd : listener_.descriptors()) waited.push_back({fd, POLLIN, 0});
    }
    poll(waited.data(), waited.size(), static_cast<int>(left.count()));
    if (!listens) continue;
    listener_.turn([this](const peer::Message& message) {
      take_late(message);
      return true;
    });
    if (!heard_kept_ && Clock::now() >= next_keep) {
      keep_heard();
      next_keep = Clock::now() + kKeepAfter;
    }
  }
  if (!heard_kept_) keep_heard();
}

// Comes back until the line is where sacct will read it: first to see that no other step has
// overwritten it in the controller, then, once the job has ended, in the database.
bool Collector::settle_final(milliseconds patience) {
  using accounting::Outcome;
  const auto begin = Clock::now();
  patience = std::min(patience, most_patience());
  auto answered = begin;  // by anybody, with anything but that there is no row yet
  auto pause = milliseconds(150);
  int unchanged = 0;
  while (Clock::now() < begin + patience && Clock::now() < answered + kRowWait) {
    listen_until(Clock::now() + pause + jitter(std::max(milliseconds(100), pause / 2)));
    const bool controller = in_controller_;
    const Outcome outcome = write_line(true);
    if (outcome == Outcome::kForbidden) return finish();
    if (outcome == Outcome::kFinished && !accounting::has_database()) return finish();
    if (outcome != Outcome::kNotYet) answered = Clock::now();
    unchanged = outcome == Outcome::kUnchanged ? unchanged + 1 : 0;
    // Twice unchanged in the controller: every other writer has read our line by now. In the
    // database the row has ended, and nobody but collectors writes to it.
    if (unchanged >= 2 || (unchanged == 1 && !controller)) return finish();
    const auto longest = milliseconds(Clock::now() > begin + kShortOutage ? 60'000 : 5000);
    pause = outcome == Outcome::kFinished ? milliseconds(20)
            : is_stored(outcome)          ? milliseconds(400)
                                          : std::min(pause * 2, longest);
  }
  return give_up();
}

bool Collector::finish() {
  tell_refusals();
  remove_spool(plan_);
  return true;
}

// For now: the epilog of a later job on this node finds the folder.
bool Collector::give_up() {
  log_.report("gave up for now: what the line lacks stays in %s", plan_.folder.c_str());
  tell_refusals();
  const uint64_t end_ns = std::max({last_record_ns_, ended_ns_, plan_.started_ns});
  const uint64_t now_ns = wall_clock_ns();
  if (now_ns < end_ns || now_ns - end_ns < kForgetNs) return false;  // clocks are set back, too
  log_.report("gave up for good: it is missing from the line");
  return finish();
}

}  // namespace mfu
