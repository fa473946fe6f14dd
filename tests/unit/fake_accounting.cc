#include "tests/unit/fake_accounting.hh"

#include <algorithm>
#include <mutex>
#include <thread>

namespace mfu {

FakeAccounting fake_accounting;

int FakeAccounting::count(accounting::Outcome outcome) const {
  return static_cast<int>(std::ranges::count(edits, outcome, &Seen::outcome));
}

namespace accounting {
namespace {

std::mutex mutex;
int at_once = 0;

// Reads, merges and writes as the real ones do: what others write in between is lost.
Outcome edit_field(const Edit& edit, std::string* why) {
  std::string before;
  {
    const std::lock_guard lock(mutex);
    if (fake_accounting.refusals > 0 || fake_accounting.refuses()) {
      fake_accounting.refusals = std::max(fake_accounting.refusals - 1, 0);
      *why = "refused";
      return Outcome::kFailed;
    }
    before = fake_accounting.field;
  }
  const auto text = edit(before);
  if (!text) {
    *why = text.error();
    return Outcome::kForbidden;
  }
  std::this_thread::sleep_for(fake_accounting.answer_after);
  if (!*text) return Outcome::kUnchanged;
  const std::lock_guard lock(mutex);
  if (fake_accounting.lost_writes > 0) {
    --fake_accounting.lost_writes;  // the other one had read the same field, and writes it back
  } else {
    fake_accounting.field = **text;
  }
  return Outcome::kWritten;
}

// Notes an edit.
template <typename Answer>
Outcome seen(const StepPlan& plan, bool in_database, Answer answer) {
  {
    const std::lock_guard lock(mutex);
    fake_accounting.most_at_once = std::max(fake_accounting.most_at_once, ++at_once);
  }
  const auto begin = FakeAccounting::Clock::now();
  const Outcome outcome = answer();
  const std::lock_guard lock(mutex);
  --at_once;
  fake_accounting.edits.push_back({plan.step, begin, FakeAccounting::Clock::now(), outcome,
                                   in_database, fake_accounting.field});
  return outcome;
}

// Counts down to 0. True: it was there.
bool is_spent(int* left) {
  const std::lock_guard lock(mutex);
  if (*left == 0) return true;
  --*left;
  return false;
}

}  // namespace

Outcome edit_in_controller(const StepPlan& plan, const Edit& edit, std::string* why) {
  return seen(plan, false, [&] {
    if (is_spent(&fake_accounting.edits_before_end)) return Outcome::kFinished;
    return edit_field(edit, why);
  });
}

Outcome edit_in_database(const StepPlan& plan, const Edit& edit, std::string* why) {
  return seen(plan, true, [&] {
    if (!is_spent(&fake_accounting.rowless)) return Outcome::kNotYet;
    return edit_field(edit, why);
  });
}

bool has_database() {
  return fake_accounting.has_database;
}

std::optional<uint32_t> restart_count(uint32_t) {
  return 0;
}

std::optional<uint64_t> job_end_ns(const StepPlan&) {
  return fake_accounting.job_ended_ns;
}

bool step_runs(const StepPlan&) {
  {
    const std::lock_guard lock(mutex);
    ++fake_accounting.asked;
  }
  return fake_accounting.runs();
}

std::string first_node(const std::string& node_list) {
  return node_list.substr(0, node_list.find(','));
}

std::string node_address(const std::string&) {
  return "localhost";
}

}  // namespace accounting
}  // namespace mfu
