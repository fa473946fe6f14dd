#include "plugin/collector.hh"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/collector_link.hh"
#include "plugin/spool.hh"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// slurmctld is shared by the whole cluster: no more interim lines than this, whatever is asked for.
constexpr uint32_t kLeastUpdateSeconds = 10;
// A node's last word, and the line's, while slurmstepd waits (2 s at most).
constexpr int kSendMs = 1500;
// How much longer than their pauses other nodes are waited for before the line goes without them.
constexpr auto kOthersWait = seconds(4);

}  // namespace

Collector::Collector(StepPlan plan, int link)
    : plan_(std::move(plan)),
      link_(link),
      // Thousands of collectors start at the same time, in pods with the same process number.
      random_(std::random_device{}()),
      log_(plan_),
      task_audit_(plan_, &log_, link >= 0),
      sequence_(wall_clock_ns()) {}

milliseconds Collector::longest_pause() const {
  return std::clamp(milliseconds(10) * plan_.nodes, milliseconds(5000), milliseconds(30'000));
}

milliseconds Collector::most_patience() const {
  return count_steps(plan_) > kMostPatient ? milliseconds(kShortOutage) : milliseconds(kPatience);
}

milliseconds Collector::jitter(milliseconds most) {
  return milliseconds(std::uniform_int_distribution<int64_t>(0, most.count())(random_));
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
  task_audit_.add_to(&sums, found.records, last);
  own_findings_ = task_audit_.findings();
  if (found.broken != 0) log_.report("%u files in the record folder are no records", found.broken);
  return sums;
}

void Collector::release_stepd() {
  if (link_ < 0) return;
  send(link_, "done", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Collector::node_ended(uint32_t failed_tasks) {
  if (ended_) return;
  ended_ = true;
  failed_tasks_ = failed_tasks;
  own_sums_ = sum_node(true);
  heard_.take(own_sums_, own_spreads_, own_findings_);
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

// True: the peer need not wait. The last node's last word waits for the line to be written.
bool Collector::take_peer(const peer::Message& message) {
  if (heard_.take(message.sums, message.spreads, message.findings)) heard_kept_ = false;
  if (plan_.step_gpus == 0) learn_gpus(heard_.step_gpus(plan_));
  return !all_ended();
}

// For mfu-live: a node's share of declared FLOPs. An ended step's folder may be a later run's.
void Collector::learn_gpus(uint32_t step_gpus) {
  if (step_gpus == 0 || step_gpus == plan_.step_gpus || ended_) return;
  plan_.step_gpus = step_gpus;
  listener_.know_gpus(step_gpus);
  store_plan(plan_);
}

// Others have removed what they have told: it must not be in this process alone.
void Collector::keep_heard() {
  if (plan_.nodes > 1) {
    const std::string trouble = heard_.store(plan_, end_is_guess_ ? 0 : ended_ns_);
    if (!trouble.empty())
      log_.report("what other nodes told is in memory only: %s", trouble.c_str());
  }
  heard_kept_ = true;
}

// The first one when it comes, and at the end how many there were.
void Collector::tell_refusals() {
  const peer::Refusals& refusals = listener_.refusals();
  if (refusals.count == refusals_told_) return;
  refusals_told_ = refusals.count;
  log_.report("network: %s", refusals.text().c_str());
}

void Collector::send_sums(int wait_ms) {
  if (first_host_.empty()) {
    first_host_ = accounting::node_address(accounting::first_node(plan_.node_list));
  }
  auto sent = peer::send(plan_, first_host_, {own_sums_, own_spreads_, own_findings_}, wait_ms,
                         &first_port_);
  if (!sent) {
    log_.report("cannot reach the first node's collector: %s", sent.error().c_str());
  } else if (own_sums_.last != 0) {
    delivered_ = true;
  } else {
    learn_gpus(*sent);
  }
}

void Collector::update() {
  if (!ended_) {
    own_sums_ = sum_node(false);
    heard_.take(own_sums_, own_spreads_, own_findings_);
  }
  if (is_first()) {
    write_line(false);
    keep_heard();
  } else {
    send_sums(kSendMs);
  }
}

// Nodes that do not report may run for hours yet, or be dead: Slurm knows. When it says that the
// step is over, those that live say their last word within a pause: a step is merged once.
void Collector::check_missing_nodes() {
  if (accounting::step_runs(plan_)) return;
  if (!give_up_on_others_) give_up_on_others_ = Clock::now() + longest_pause() + kOthersWait;
  gave_up_ = Clock::now() >= *give_up_on_others_;
}

void Collector::follow() {
  task_audit_.run(link_);
  if (is_first()) {
    plan_.run = accounting::restart_count(plan_.job).value_or(plan_.restart);
    if (plan_.run != plan_.restart) store_plan(plan_);
    read_peaks();
  }
  if (is_first() && plan_.nodes > 1 && !listener_.open(plan_)) {
    log_.report("no free port in %u-%u: other nodes cannot report", plan_.site.first_port,
                plan_.site.last_port);
  }
  const auto period = seconds(std::max(plan_.site.update_seconds, kLeastUpdateSeconds));
  auto never = Clock::time_point::max();
  // The others' first words come before the first interim line, which then knows all GPUs.
  auto next_update = never;
  if (plan_.site.update_seconds != 0) {
    next_update = Clock::now() + (is_first() ? period : period / 2) + jitter(milliseconds(1000));
  }
  auto next_check = never;
  auto check_pause = milliseconds(1000);
  auto give_up_sending = never;
  auto next_keep = never;
  while (!(is_first() && all_ended()) && !delivered_) {
    std::vector<pollfd> waited;
    if (link_ >= 0) waited.push_back({link_, POLLIN, 0});
    if (listener_.is_open()) {
      for (int fd : listener_.descriptors()) waited.push_back({fd, POLLIN, 0});
    }
    auto wake = std::min({next_update, next_check, next_keep, Clock::now() + seconds(3600)});
    auto left = std::chrono::ceil<milliseconds>(wake - Clock::now()).count();
    poll(waited.data(), waited.size(), static_cast<int>(std::max<int64_t>(left, 0)));

    bool was_ended = ended_;
    if (link_ >= 0) read_link();
    if (listener_.is_open()) {
      listener_.turn([this](const peer::Message& message) { return take_peer(message); });
      if (refusals_told_ == 0) tell_refusals();
    }
    auto now = Clock::now();
    if (now >= next_keep) keep_heard();
    next_keep = heard_kept_ ? never : std::min(next_keep, now + kKeepAfter);
    if (ended_ && !was_ended) {
      next_check = now + check_pause;
      if (is_first()) {
        if (!all_ended()) release_stepd();  // other nodes still work: this one may go
      } else {
        next_update = never;
        give_up_sending = now + most_patience();
        send_sums(kSendMs);
        release_stepd();
      }
    } else if (now >= next_update) {
      update();
      next_update = now + period + jitter(milliseconds(1000));
    } else if (now >= next_check) {
      if (is_first()) {
        check_missing_nodes();
      } else if (!delivered_) {
        send_sums(kSendMs);
      }
      check_pause =
          give_up_on_others_ ? milliseconds(1000) : std::min(check_pause * 2, longest_pause());
      next_check = now + check_pause + jitter(milliseconds(1000));  // thousands ask the first one
    }
    if (now >= give_up_sending) {
      give_up();
      return;
    }
  }
  if (!is_first()) return remove_spool(plan_);
  write_final();
  settle_final(kPatience);
}

// Where a step ended that nobody has seen end: this may be long ago. It is where its nodes' sums
// end; of a step that left none it is the job's end at the latest.
uint64_t Collector::last_end() const {
  uint64_t end_ns = last_record_ns_;
  for (const auto& [id, sums] : heard_.sums()) {
    const bool from_records = id == plan_.node_id && last_record_ns_ != 0;
    if (sums.processes != 0 && !from_records) end_ns = std::max(end_ns, sums.until_ns);
  }
  if (end_ns != 0) return end_ns;
  const uint64_t now_ns = wall_clock_ns();
  return std::min(now_ns, accounting::job_end_ns(plan_).value_or(now_ns));
}

bool Collector::take_over(milliseconds patience) {
  taken_over_ = true;
  if (!is_first()) {
    node_ended(1);
    return hand_over(patience);
  }
  read_peaks();
  ended_ns_ = heard_.load(plan_);
  end_is_guess_ = ended_ns_ == 0;
  // What the step's own collector said of this node is better than what its records say now.
  const auto own = heard_.sums().find(plan_.node_id);
  if (own != heard_.sums().end() && own->second.last != 0) {
    own_sums_ = own->second;
    ended_ = true;
  } else {
    node_ended(1);
  }
  const auto until = Clock::now() + longest_pause() + kOthersWait;
  if (plan_.nodes > 1 && listener_.open(plan_)) {
    while (!all_heard() && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(50));
      listener_.turn([this](const peer::Message& message) {
        take_late(message);
        return true;
      });
    }
  }
  gave_up_ = true;
  if (end_is_guess_) ended_ns_ = last_end();
  if (!heard_kept_) keep_heard();
  return settle_final(patience);
}

// The last word of a node that is not the first, where the step is over. Who takes over on the
// first node may do so at another time: then the records stay for the next try.
bool Collector::hand_over(milliseconds patience) {
  const auto until = Clock::now() + std::min(patience, longest_pause() + kOthersWait);
  for (auto pause = milliseconds(1000);; pause = std::min(pause * 2, longest_pause())) {
    send_sums(kSendMs);
    if (delivered_) return finish();
    if (Clock::now() + pause > until) break;
    std::this_thread::sleep_for(pause + jitter(milliseconds(500)));
  }
  return give_up();
}

}  // namespace mfu
