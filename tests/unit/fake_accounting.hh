// slurmctld and slurmdbd of one job, in memory: stands for plugin/accounting.cc in programs that
// run collectors. It shows what collectors make of slow, failing and forgetful daemons, and nothing
// of Slurm itself; that is for the private cluster.
#ifndef MFU_TESTS_UNIT_FAKE_ACCOUNTING_HH_
#define MFU_TESTS_UNIT_FAKE_ACCOUNTING_HH_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugin/accounting.hh"

namespace mfu {

struct FakeAccounting {
  using Clock = std::chrono::steady_clock;

  // How it behaves. Not to be changed while a collector runs.
  std::string field;                          // what is there before
  std::chrono::milliseconds answer_after{0};  // how long an edit takes
  int refusals = 0;                           // so many edits fail first
  int lost_writes = 0;                        // another writer overwrites so many of ours
  int edits_before_end = 1'000'000;           // that the controller answers while the job lives
  bool has_database = true;
  std::optional<uint64_t> job_ended_ns;
  int rowless = 0;  // so many edits find no ended row in the database
  std::function<bool()> runs = [] { return true; };      // whether the step does
  std::function<bool()> refuses = [] { return false; };  // edits fail while it says so

  // What it saw.
  struct Seen {
    uint32_t step;  // whose collector
    Clock::time_point begin;
    Clock::time_point end;
    accounting::Outcome outcome;
    bool in_database;
    std::string text;  // of the field, behind it
  };
  std::vector<Seen> edits;
  int most_at_once = 0;  // edits
  int asked = 0;         // whether the step runs

  int count(accounting::Outcome outcome) const;
};

// The one that accounting::'s functions answer for.
extern FakeAccounting fake_accounting;

}  // namespace mfu

#endif
