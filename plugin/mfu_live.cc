// mfu-live: the GPU efficiency of the steps that run on this node, out of the spool.
#include <signal.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cmath>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <tuple>

#include "plugin/live_reading.hh"
#include "plugin/live_textfile.hh"

namespace {

namespace options = boost::program_options;

constexpr int kNothing = 1;
constexpr int kUsage = 2;
constexpr double kLeastInterval = 1;  // the profiler speaks once a second
constexpr double kMostInterval = 3600;

options::options_description described_options() {
  options::options_description described("Options");
  described.add_options()  //
      ("jobs,j", options::value<std::vector<std::string>>(),
       "these jobs alone: 12, array tasks 12_3 or 12_[1-3,7]")  //
      ("interval,i", options::value<double>()->default_value(5),
       "seconds between two readings, from 1; shares, power and clock are of this time")  //
      ("once,1",
       "one reading, of the time since the steps' begin; with --interval two, and what is "
       "between")                                       //
      ("json", "a JSON object a reading, in one line")  //
      ("prometheus", options::value<std::string>(),
       "write metrics to this file, which ends in .prom, for node_exporter's textfile collector")  //
      ("spool", options::value<std::string>()->default_value("/var/spool/slurm-mfu"),
       "the spool= of plugstack.conf")  //
      ("node", options::value<std::string>()->default_value(""),
       "this node's folder in it (default: all there are)")  //
      ("help,h", "this text")                                //
      ("version,V", "the version");
  return described;
}

int usage_error(const std::string& what) {
  std::cerr << "mfu-live: " << what << "\nTry mfu-live --help.\n";
  return kUsage;
}

struct Wanted {
  mfu::LiveFilter filter;
  double interval = 0;  // seconds
  bool once = false;
  bool two_readings = false;  // with `once`
  bool json = false;
  std::string textfile;  // empty: none
};

tl::expected<Wanted, std::string> wanted_of(const options::variables_map& given) {
  Wanted wanted;
  if (given.count("jobs") != 0) {
    for (const std::string& text : given["jobs"].as<std::vector<std::string>>()) {
      auto ids = mfu::parse_job_ids(text);
      if (!ids) return tl::make_unexpected("--jobs: " + ids.error());
      wanted.filter.jobs.insert(wanted.filter.jobs.end(), ids->begin(), ids->end());
    }
  }
  wanted.filter.spool = given["spool"].as<std::string>();
  wanted.filter.node = given["node"].as<std::string>();
  if (wanted.filter.node.find('/') != std::string::npos || wanted.filter.node == "..") {
    return tl::make_unexpected("--node: '" + wanted.filter.node + "' is no node's name");
  }
  wanted.interval = given["interval"].as<double>();
  if (!(wanted.interval >= kLeastInterval && wanted.interval <= kMostInterval)) {
    return tl::make_unexpected("--interval: from 1 to 3600 seconds");
  }
  wanted.once = given.count("once") != 0;
  wanted.two_readings = !given["interval"].defaulted();
  wanted.json = given.count("json") != 0;
  if (given.count("prometheus") != 0) wanted.textfile = given["prometheus"].as<std::string>();
  if (given.count("prometheus") != 0) {
    const std::string fault = mfu::textfile_name_fault(wanted.textfile);
    if (!fault.empty()) return tl::make_unexpected("--prometheus: " + fault);
  }
  if (wanted.json && !wanted.textfile.empty()) {
    return tl::make_unexpected("--json and --prometheus exclude each other");
  }
  return wanted;
}

// Waits until `deadline` (CLOCK_MONOTONIC) or for a signal that ends the program. True: it came.
bool wait_for_signal(const sigset_t& ending, const timespec& deadline) {
  for (;;) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    timespec left{deadline.tv_sec - now.tv_sec, deadline.tv_nsec - now.tv_nsec};
    if (left.tv_nsec < 0) left = {left.tv_sec - 1, left.tv_nsec + 1'000'000'000};
    if (left.tv_sec < 0) left = {0, 0};  // late: a signal is to be seen all the same
    if (sigtimedwait(&ending, nullptr, &left) > 0) return true;
    if (errno == EAGAIN) return false;
  }
}

// Why a reading has no steps.
std::string nothing_text(const Wanted& wanted, const mfu::LiveReading& reading) {
  if (!reading.missing.empty()) {
    return "no profiled step has run on this node yet (no " + reading.missing + ")";
  }
  if (reading.closed != 0) {
    return std::to_string(reading.closed) +
           " steps run here that you may not read: only root and their users may";
  }
  return wanted.filter.jobs.empty() ? "no profiled step runs on this node"
                                    : "no profiled step of these jobs runs on this node";
}

class Output {
 public:
  explicit Output(const Wanted& wanted) : wanted_(wanted), screen_(isatty(STDOUT_FILENO) == 1) {}

  // False: it cannot be written. A textfile may be written the next time.
  bool write(const mfu::LiveReading* before, const mfu::LiveReading& now) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    if (!wanted_.textfile.empty()) {
      mfu::write_live_metrics(text, before, now);
      const std::string fault = mfu::replace_textfile(wanted_.textfile, text.str());
      if (!fault.empty()) std::cerr << "mfu-live: " << fault << '\n';
      return fault.empty();
    }
    if (wanted_.json) {
      mfu::write_live_json(text, before, now);
    } else {
      mfu::write_live_table(text, before, now);
      if (!wanted_.once && now.steps.empty()) text << nothing_text(wanted_, now) << '\n';
    }
    if (!wanted_.json && !wanted_.once) std::cout << (screen_ ? "\033[H\033[J" : separator_);
    separator_ = "\n";
    std::cout << text.str() << std::flush;
    if (!std::cout) std::cerr << "mfu-live: the output could not be written\n";
    return static_cast<bool>(std::cout);
  }

 private:
  const Wanted& wanted_;
  const bool screen_;
  const char* separator_ = "";
};

int watch(const Wanted& wanted) {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending, number);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  Output output(wanted);
  std::optional<mfu::LiveReading> before;
  std::string told;  // once, not with every reading
  timespec turn;
  clock_gettime(CLOCK_MONOTONIC, &turn);
  const auto whole = static_cast<time_t>(wanted.interval);
  const auto rest = static_cast<long>((wanted.interval - std::floor(wanted.interval)) * 1e9);
  for (bool first = true;; first = false) {
    mfu::LiveReading now = mfu::read_live(wanted.filter, mfu::wall_clock_ns());
    const bool more_to_come = wanted.once && wanted.two_readings && first;
    const bool to_metrics = !wanted.textfile.empty();
    const bool unused = to_metrics && !now.missing.empty();
    const std::string trouble = unused ? nothing_text(wanted, now) : now.fault;
    if (trouble != told && !trouble.empty()) std::cerr << "mfu-live: " << trouble << '\n';
    told = trouble;
    if (!now.fault.empty() && (wanted.once || (first && !to_metrics))) return kNothing;
    if (!more_to_come) {
      const bool written = output.write(before ? &*before : nullptr, now);
      if (wanted.once) {
        if (written && now.steps.empty() && !to_metrics) {
          std::cerr << "mfu-live: " << nothing_text(wanted, now) << '\n';
          return kNothing;
        }
        return written ? 0 : kNothing;
      }
      if (!written && !to_metrics) return kNothing;
    }
    before = std::move(now);
    // Turns that were missed, while stopped or by slow readings, are left out.
    timespec reached;
    clock_gettime(CLOCK_MONOTONIC, &reached);
    do {
      turn.tv_sec += whole;
      turn.tv_nsec += rest;
      if (turn.tv_nsec >= 1'000'000'000) turn = {turn.tv_sec + 1, turn.tv_nsec - 1'000'000'000};
    } while (std::tie(turn.tv_sec, turn.tv_nsec) < std::tie(reached.tv_sec, reached.tv_nsec));
    if (wait_for_signal(ending, turn)) {
      // Nobody would tell its readers that what it says is of the past.
      if (to_metrics) unlink(wanted.textfile.c_str());
      return 0;
    }
  }
}

int run(int argc, char** argv) {
  const options::options_description described = described_options();
  const options::positional_options_description none;
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(described).positional(none).run(),
                 given);
  options::notify(given);
  if (given.count("help") != 0) {
    std::cout << "usage: mfu-live [options]\n"
                 "The GPU efficiency of the steps that run on this node. See mfu-live(1).\n\n"
              << described;
    return 0;
  }
  if (given.count("version") != 0) {
    std::cout << "mfu-live " MFU_VERSION "\n";
    return 0;
  }
  const auto wanted = wanted_of(given);
  return wanted ? watch(*wanted) : usage_error(wanted.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const options::error& error) {
    return usage_error(error.what());
  } catch (const std::exception& error) {
    std::cerr << "mfu-live: " << error.what() << '\n';
    return kNothing;
  }
}
