#include "plugin/collector.hh"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/collector_link.hh"
#include "plugin/job_field.hh"
#include "plugin/node_sensors.hh"
#include "plugin/nvlink_cliques.hh"
#include "plugin/spool.hh"
#include "plugin/step_report.hh"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// slurmctld is shared by the whole cluster: no more interim lines than this, whatever is asked for.
constexpr uint32_t kLeastUpdateSeconds = 10;
// A node's last word, and the line's, while slurmstepd waits (2 s at most).
constexpr int kSendMs = 1500;
// How long a takeover waits for other nodes, whose collectors ask again with growing pauses.
constexpr auto kOthersWait = seconds(8);
// How long tasks may take to tell their place; those that start later are not audited.
constexpr auto kNotesWait = seconds(2);
constexpr int kNotesPauseMs = 10;
constexpr auto kAuditLimit = milliseconds(2000);
constexpr auto kEndedAuditLimit = milliseconds(500);  // slurmstepd waits
constexpr size_t kFieldLimit = 60000;                 // MySQL TEXT, less what slurmdbd may add
constexpr size_t kCommentLimit = 1024;                // slurmctld's, of the user's comment

milliseconds jitter(int most_ms) {
  static std::minstd_rand generator(static_cast<unsigned>(getpid()));
  return milliseconds(std::uniform_int_distribution<int>(0, most_ms)(generator));
}

}  // namespace

Collector::Collector(StepPlan plan, int link)
    : plan_(std::move(plan)),
      link_(link),
      step_errors_open_(link >= 0),
      sequence_(wall_clock_ns()) {}

// Trouble is told once, not once a second.
void Collector::report(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (last_report_ == text) return;
  last_report_ = text;
  if (plan_.site.log.empty()) {
    syslog(LOG_WARNING, "job %u step %u: %s", plan_.job, plan_.step, text);
    return;
  }
  int fd =
      open(plan_.site.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (fd < 0) return;
  dprintf(fd, "mfu-collector[%d]: node %s job %u step %u: %s\n", getpid(), plan_.node.c_str(),
          plan_.job, plan_.step, text);
  close(fd);
}

NodeSums Collector::sum_node(bool last) {
  NodeSums sums;
  sums.job = plan_.job;
  sums.step = plan_.step;
  sums.restart = plan_.restart;
  sums.node_id = plan_.node_id;
  sums.sequence = ++sequence_;
  sums.last = last ? 1 : 0;
  sums.failed_tasks = failed_tasks_;
  sums.gpus = plan_.gpus;
  SpoolRecords found = read_records(plan_);
  sums.broken_records = found.broken;
  sums.record_errno = found.record_errno;
  sums.until_ns = wall_clock_ns();
  for (const Record& record : found.records) {
    last_record_ns_ = std::max(last_record_ns_, std::min(record.published_ns, sums.until_ns));
  }
  // What came after the records, up to this late moment, was not the step's.
  if (taken_over_ && last_record_ns_ != 0) {
    sums.until_ns = std::min(sums.until_ns, last_record_ns_ + kRecordTurnNs);
  }
  own_spreads_ = add_records(found.records, plan_.started_ns, sums.until_ns, &sums);
  // What only the end tells of where the step sat.
  if (last && placement_is_wanted()) {
    for (Finding& finding : link_findings(found.records, plan_.node)) {
      placement_.findings.push_back(std::move(finding));
    }
  }
  add_placement(placement_, placement_known_, &sums);
  own_findings_ = top_findings(placement_.findings);
  if (found.broken != 0) report("%u files in the record folder are no records", found.broken);
  return sums;
}

// A broken file must not cost the line.
void Collector::read_peaks() {
  if (plan_.site.peaks.empty()) return;
  auto peaks = read_peak_additions(plan_.site.peaks);
  if (peaks) {
    peaks_ = std::move(*peaks);
  } else {
    report("%s", peaks.error().c_str());
  }
}

// The step's standard error ends for its reader when the last one closes it.
void Collector::close_step_errors() {
  if (step_errors_open_) close(kStepErrorFd);
  step_errors_open_ = false;
}

// Before anything that asks Slurm: tasks may wait for the verdict, and the step's standard error is
// held open until it is told. Over when the step is.
void Collector::audit_tasks() {
  if (!placement_is_wanted() || plan_.folder.empty() || plan_.tasks == 0) {
    return close_step_errors();
  }
  const auto deadline = Clock::now() + kNotesWait;
  std::vector<TaskNote> notes;
  bool ended = false;
  while (!ended && Clock::now() < deadline) {
    notes = read_notes(plan_);
    if (notes.size() == plan_.tasks) break;
    pollfd link{link_, POLLIN, 0};
    ended = poll(&link, 1, kNotesPauseMs) > 0;
  }
  if (ended) notes = read_notes(plan_);
  placement_ = audit_placement(plan_, notes, ended ? kEndedAuditLimit : kAuditLimit);
  placement_known_ = placement_.whole();
  if (wanted_placement(plan_.site, plan_.user) == Placement::kStrict) {
    leave_verdict(plan_, placement_);
  }
  const std::string text = placement_text(plan_, placement_, 6).substr(0, PIPE_BUF);
  pollfd errors{kStepErrorFd, POLLOUT, 0};
  if (step_errors_open_ && !text.empty() && poll(&errors, 1, 0) > 0 &&
      write(kStepErrorFd, text.data(), text.size()) < 0) {
    report("placement: cannot tell the step: %m");
  }
  close_step_errors();
  // A line, whatever was found: users can make many findings.
  const uint32_t high = placement_.count(Severity::kHigh);
  if (!placement_.fault.empty()) {
    report("placement: %s", placement_.fault.c_str());
    placement_.findings.push_back({"not-audited", Severity::kInformation, plan_.node,
                                   placement_.fault, "the collector's log, on the node"});
  }
  if (high != 0) report("placement: %u of high severity: %s", high, placement_.rules(200).c_str());
}

void Collector::release_stepd() {
  if (link_ < 0) return;
  send(link_, "done", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Collector::node_ended(uint32_t failed_tasks) {
  if (ended_) return;
  ended_ = true;
  failed_tasks_ = failed_tasks;
  const NodeSums sums = sum_node(true);
  take_node(sums, own_spreads_, own_findings_);
}

void Collector::read_link() {
  char text[64];
  ssize_t size = recv(link_, text, sizeof(text) - 1, MSG_DONTWAIT);
  if (size < 0) return;
  if (size == 0) {
    // slurmstepd has gone: after the step's end as it should, or killed, and with it the tasks.
    close(link_);
    link_ = -1;
    node_ended(1);
    return;
  }
  text[size] = '\0';
  if (strncmp(text, kStepEnd, sizeof(kStepEnd) - 1) == 0) {
    node_ended(static_cast<uint32_t>(strtoul(text + sizeof(kStepEnd) - 1, nullptr, 10)));
  }
}

// A last word may come twice; its collectives count once.
void Collector::take_node(const NodeSums& sums, const CollectiveSpreads& spreads,
                          const NodeFindings& findings) {
  NodeSums& known = nodes_[sums.node_id];
  if (known.last == 0 && sums.last != 0) {
    spreads_.add(spreads);
    ++ended_nodes_;
  }
  if (known.last <= sums.last) known = sums;
  for (const Finding& finding : findings.findings()) findings_.add(finding);
  findings_.left_out = findings_.left_out || findings.left_out != 0;
}

// What the nodes found, and what only all of them together tell.
PlaceNote Collector::found_places() const {
  PlaceNote found = findings_;
  found.run = plan_.run;
  if (const auto crossed = crossed_cliques(plan_, nodes_)) found.add(*crossed);
  return found;
}

// True: the peer need not wait. The last node's last word waits for the line to be written.
bool Collector::take_peer(const peer::Message& message) {
  take_node(message.sums, message.spreads, message.findings);
  return !all_ended();
}

void Collector::send_sums(int wait_ms) {
  if (first_host_.empty()) {
    first_host_ = accounting::node_address(accounting::first_node(plan_.node_list));
  }
  const NodeSums& sums = nodes_[plan_.node_id];
  auto sent =
      peer::send(plan_, first_host_, {sums, own_spreads_, own_findings_}, wait_ms, &first_port_);
  if (!sent) {
    report("cannot reach the first node's collector: %s", sent.error().c_str());
  } else if (sums.last != 0) {
    delivered_ = true;
  }
}

void Collector::update() {
  if (!ended_) {
    const NodeSums sums = sum_node(false);
    take_node(sums, own_spreads_, own_findings_);
  }
  if (is_first()) {
    write_line(false);
  } else {
    send_sums(kSendMs);
  }
}

// Nodes that do not report may run for hours yet, or be dead: Slurm knows.
void Collector::check_missing_nodes() {
  if (accounting::step_runs(plan_)) return;
  // Last words may still be on their way: their collectors ask again.
  gave_up_ = std::exchange(ended_when_over_, ended_nodes_) == ended_nodes_;
}

accounting::Outcome Collector::write_line(bool final_line) {
  Comment step = report_step(plan_, nodes_, spreads_, peaks_,
                             final_line ? ended_ns_ : wall_clock_ns(), final_line);
  // A batch script that leaves the work to its steps must not count their GPUs once more: it says
  // only, should no step of it use CUDA, that there was nothing to see.
  const bool nothing_ran = plan_.batch && nodes_[plan_.node_id].processes == 0;
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
  if (!why.empty()) report("%s", why.c_str());
  return outcome;
}

void Collector::write_final() {
  ended_ns_ = wall_clock_ns();
  write_line(true);
  release_stepd();
  listener_.answer_waiting();
}

// Comes back until the line is where sacct will read it: first to see that no other step has
// overwritten it in the controller, then, once the job has ended, in the database.
void Collector::settle_final(seconds patience) {
  using accounting::Outcome;
  auto give_up = Clock::now() + patience;
  auto pause = milliseconds(150);
  int unchanged = 0;
  while (Clock::now() < give_up) {
    const auto wake = Clock::now() + pause + jitter(100);
    do {
      std::this_thread::sleep_for(milliseconds(20));
      // Nodes that did not wait for their answer ask again.
      if (listener_.is_open()) listener_.turn([](const peer::Message&) { return true; });
    } while (Clock::now() < wake);
    bool controller = in_controller_;
    Outcome outcome = write_line(true);
    if (outcome == Outcome::kForbidden) return remove_spool(plan_);
    unchanged = outcome == Outcome::kUnchanged ? unchanged + 1 : 0;
    // Twice unchanged in the controller: every other writer has read our line by now. In the
    // database the row has ended, and nobody but collectors writes to it.
    if (unchanged >= 2 || (unchanged == 1 && !controller)) return remove_spool(plan_);
    pause = outcome == Outcome::kFinished ? milliseconds(20)
            : outcome == Outcome::kUnchanged || outcome == Outcome::kWritten
                ? milliseconds(400)
                : std::min(pause * 2, milliseconds(5000));
  }
  report("gave up writing the line; the records stay in %s", plan_.folder.c_str());
}

void Collector::follow() {
  audit_tasks();
  if (is_first()) {
    plan_.run = accounting::restart_count(plan_.job).value_or(plan_.restart);
    if (plan_.run != plan_.restart) store_plan(plan_);
    read_peaks();
  }
  if (is_first() && plan_.nodes > 1 && !listener_.open(plan_)) {
    report("no free port in %u-%u: other nodes cannot report", plan_.site.first_port,
           plan_.site.last_port);
  }
  const auto period = seconds(std::max(plan_.site.update_seconds, kLeastUpdateSeconds));
  auto never = Clock::time_point::max();
  // The others' first words come before the first interim line, which then knows all GPUs.
  auto next_update = never;
  if (plan_.site.update_seconds != 0) {
    next_update = Clock::now() + (is_first() ? period : period / 2) + jitter(1000);
  }
  auto next_check = never;
  auto check_pause = seconds(1);
  auto give_up_sending = never;
  while (!(is_first() && all_ended()) && !delivered_) {
    std::vector<pollfd> waited;
    if (link_ >= 0) waited.push_back({link_, POLLIN, 0});
    if (listener_.is_open()) {
      for (int fd : listener_.descriptors()) waited.push_back({fd, POLLIN, 0});
    }
    auto wake = std::min({next_update, next_check, Clock::now() + seconds(3600)});
    auto left = std::chrono::ceil<milliseconds>(wake - Clock::now()).count();
    poll(waited.data(), waited.size(), static_cast<int>(std::max<int64_t>(left, 0)));

    bool was_ended = ended_;
    if (link_ >= 0) read_link();
    if (listener_.is_open()) {
      listener_.turn([this](const peer::Message& message) { return take_peer(message); });
    }
    auto now = Clock::now();
    if (ended_ && !was_ended) {
      next_check = now + check_pause;
      if (is_first()) {
        if (!all_ended()) release_stepd();  // other nodes still work: this one may go
      } else {
        next_update = never;
        give_up_sending = now + kPatience;
        send_sums(kSendMs);
        release_stepd();
      }
    } else if (now >= next_update) {
      update();
      next_update = now + period + jitter(1000);
    } else if (now >= next_check) {
      if (is_first()) {
        check_missing_nodes();
      } else if (!delivered_) {
        send_sums(kSendMs);
      }
      check_pause = ended_when_over_ ? seconds(2) : std::min(check_pause * 2, seconds(30));
      next_check = now + check_pause + jitter(1000);  // thousands of nodes ask the first one
    }
    if (now >= give_up_sending) {
      report("gave up: this node's sums are missing from the line");
      return remove_spool(plan_);  // the line is written, and nobody else would read them
    }
  }
  if (!is_first()) return remove_spool(plan_);
  write_final();
  settle_final(kPatience);
}

void Collector::take_over(seconds patience) {
  taken_over_ = true;
  if (is_first()) read_peaks();
  node_ended(1);
  if (!is_first()) {
    send_sums(kSendMs);
    return remove_spool(plan_);  // delivered or not: nobody else reads them
  }
  // The step's end is where its records end: this may be long after it.
  ended_ns_ = last_record_ns_ != 0 ? last_record_ns_ : wall_clock_ns();
  auto give_up = Clock::now() + kOthersWait;
  if (plan_.nodes > 1 && listener_.open(plan_)) {
    while (!all_ended() && Clock::now() < give_up) {
      std::this_thread::sleep_for(milliseconds(50));
      listener_.turn([this](const peer::Message& message) {
        take_peer(message);
        return true;
      });
    }
  }
  gave_up_ = true;
  settle_final(patience);
}

}  // namespace mfu
