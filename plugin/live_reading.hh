// What of a node's running steps can be read at one instant, and what mfu-live makes of it.
#ifndef MFU_PLUGIN_LIVE_READING_HH_
#define MFU_PLUGIN_LIVE_READING_HH_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plugin/live_step.hh"

namespace mfu {

struct LiveReading {
  uint64_t at_ns = 0;  // CLOCK_REALTIME
  std::vector<LiveStep> steps;
  uint32_t closed = 0;  // steps that this user may not read, batch scripts left out
  std::string missing;  // no step has run yet: the folder that is not there; empty: it is
  std::string fault;    // why there is no reading; empty: there is one
};

// Which steps.
struct LiveFilter {
  std::string spool;
  std::string node;         // empty: all of the spool's
  std::vector<JobId> jobs;  // empty: all
};

// A batch script that leaves the work to its steps has no figures of its own: it is left out, as
// its GPUs would count twice. `filter.jobs` alone decides otherwise which steps there are.
LiveReading read_live(const LiveFilter& filter, uint64_t now_ns);

// `before`: the reading that the later one's last interval began with, or nullptr: there is none.
//
// A table, a GPU a row, with a row for each step of several. Shares, power, clock, temperature and
// the time of a step are those of the last interval, else since the step's begin.
void write_live_table(std::ostream& out, const LiveReading* before, const LiveReading& now);

// One JSON object in one line. mfu-live(1) documents it.
void write_live_json(std::ostream& out, const LiveReading* before, const LiveReading& now);

// Prometheus's text format, for node_exporter's textfile collector. What is not known has no
// series. Of GPUs and steps beyond these numbers there are none either; mfu_live_gpus_left_out and
// mfu_live_steps_left_out count them.
void write_live_metrics(std::ostream& out, const LiveReading* before, const LiveReading& now);
inline constexpr size_t kMostMetricGpus = 256;
inline constexpr size_t kMostMetricSteps = 128;

}  // namespace mfu

#endif
