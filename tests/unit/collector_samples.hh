// A job step of many nodes on one machine: what its nodes say, and a process that says it for all
// nodes but the first, with strangers between them.
#ifndef MFU_TESTS_UNIT_COLLECTOR_SAMPLES_HH_
#define MFU_TESTS_UNIT_COLLECTOR_SAMPLES_HH_

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "plugin/collector_link.hh"
#include "plugin/comment.hh"
#include "plugin/peer.hh"
#include "plugin/spool.hh"
#include "plugin/step_plan.hh"
#include "profiler/record.hh"
#include "tests/unit/private_munged.hh"

namespace mfu::collector_samples {

using std::chrono::milliseconds;

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kWall = 1000 * kSecond;  // before the collector starts
inline constexpr uint32_t kGpus = 8;               // of a node
inline constexpr uint32_t kMostNodes = 8192;
inline constexpr char kH100[] = "NVIDIA H100 80GB HBM3";

// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    if (mkdtemp(path_) == nullptr) throw std::runtime_error("no folder in /tmp");
    chmod(path_, 0711);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string path() const { return path_; }

 private:
  char path_[64] = "/tmp/mfu-collector.XXXXXX";
};

// The link between slurmstepd and the collector.
class StepLink {
 public:
  StepLink() {
    hold_step_errors();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) != 0) {
      throw std::runtime_error("no socket pair");
    }
  }
  ~StepLink() {
    close(ends_[0]);
    close(ends_[1]);
  }
  StepLink(const StepLink&) = delete;
  StepLink& operator=(const StepLink&) = delete;
  int slurmstepd() const { return ends_[0]; }
  int collector() const { return ends_[1]; }
  void say_end() const { ::send(ends_[0], "end 0", 5, MSG_NOSIGNAL); }
  bool is_released() const {
    char answer[8];
    return recv(ends_[0], answer, sizeof(answer), MSG_DONTWAIT) > 0;
  }

 private:
  // A collector closes the descriptor of the step's standard error: it must not be another's.
  static void hold_step_errors() {
    int null;
    while ((null = open("/dev/null", O_RDWR)) >= 0 && null < kStepErrorFd) below_.push_back(null);
    if (null > kStepErrorFd) close(null);
  }
  static inline std::vector<int> below_;
  int ends_[2];
};

inline StepPlan plan_of(uint32_t nodes, const std::string& munge, const std::string& folder,
                        uint32_t step = 0) {
  StepPlan plan;
  plan.job = 7;
  plan.step = step;
  plan.nodes = nodes;
  plan.gpus = kGpus;
  plan.started_ns = wall_clock_ns() - kWall;
  plan.node = "n0";
  plan.node_list = "n0";
  plan.site.placement = Placement::kOff;
  plan.site.update_seconds = 0;
  plan.site.munge = munge;
  plan.site.first_port = free_ports();
  plan.site.last_port = static_cast<uint16_t>(plan.site.first_port + 15);
  plan.site.log = folder + "/log";
  plan.site.spool = folder + "/spool";
  plan.folder = step_folder(plan);
  return plan;
}

// The first node's spool with a record of each GPU. False: it could not be made.
inline bool leave_records(const StepPlan& plan) {
  if (!create_spool(plan, 0)) return false;
  store_plan(plan);
  for (uint32_t i = 0; i < kGpus; ++i) {
    Record record;
    record.pid = 100 + i;
    record.task = i;
    record.device = i;
    record.uuid[0] = static_cast<uint8_t>(i + 1);
    record.flags = kFinished | kPrimary | kDeviceKnown;
    std::snprintf(record.device_name, sizeof(record.device_name), "%s", kH100);
    record.started_ns = plan.started_ns;
    record.published_ns = plan.started_ns + kWall;
    record.time.span_start_ns = plan.started_ns + kSecond;
    record.time.span_end_ns = plan.started_ns + 901 * kSecond;
    record.time.partition_ns[kCompute] = 600 * kSecond;
    record.time.partition_ns[kCommunication] = 100 * kSecond;
    record.time.partition_ns[kMemory] = 10 * kSecond;
    record.gemm_ns[static_cast<size_t>(Precision::kBf16)] = 500 * kSecond;
    RecordFile file;
    if (!file.create(records_folder(plan.folder).c_str(), record.pid) || !file.publish(&record)) {
      return false;
    }
  }
  return true;
}

// Every node's figures are its own, so that none can stand for another. Interim words have less.
inline peer::Message words_of(const StepPlan& plan, uint32_t node_id, bool last) {
  peer::Message words;
  NodeSums& sums = words.sums;
  sums.job = plan.job;
  sums.step = plan.step;
  sums.restart = plan.restart;
  sums.node_id = node_id;
  sums.sequence = last ? 2 : 1;
  sums.last = last ? 1 : 0;
  sums.gpus = sums.devices = sums.processes = kGpus;
  sums.until_ns = plan.started_ns + kWall;
  std::snprintf(sums.device_name, sizeof(sums.device_name), "%s", kH100);
  const uint64_t unit = (last ? kGpus : kGpus / 2) * kSecond;
  sums.span_ns = 900 * unit + node_id;
  sums.compute_ns = 600 * unit + 3 * node_id;
  sums.exposed_communication_ns = 100 * unit + 5 * node_id;
  sums.overlapped_communication_ns = 50 * unit + 7 * node_id;
  sums.exposed_memory_ns = 10 * unit + 11 * node_id;
  sums.gemm_ns[static_cast<size_t>(Precision::kBf16)] = 500 * unit;
  // A message that no shorter one could stand for.
  CollectiveSpreads& spreads = words.spreads;
  spreads.count = CollectiveSpreads::kMost;
  spreads.ranks = kGpus;
  spreads.collectives = CollectiveSpreads::kMost;
  spreads.kernel_ns = 100 * unit;
  for (uint32_t i = 0; i < spreads.count; ++i) {
    spreads.spreads[i] = {i + 1, 1000 + node_id, kGpus * 2000, kGpus, node_id * kGpus};
  }
  return words;
}

// What the line's sums must be when the nodes [1, plan.nodes) but for `missing` have said their
// last words, and the first one those of leave_records().
inline Sums sums_of_nodes(const StepPlan& plan, const std::vector<uint32_t>& missing = {}) {
  Sums sums;
  sums.span_ns = uint128{900} * kGpus * kSecond;
  sums.compute_ns = uint128{600} * kGpus * kSecond;
  sums.exposed_communication_ns = uint128{100} * kGpus * kSecond;
  sums.exposed_memory_ns = uint128{10} * kGpus * kSecond;
  for (uint32_t id = 1; id < plan.nodes; ++id) {
    const bool last = std::ranges::find(missing, id) == missing.end();
    const NodeSums node = words_of(plan, id, last).sums;
    sums.span_ns += node.span_ns;
    sums.compute_ns += node.compute_ns;
    sums.exposed_communication_ns += node.exposed_communication_ns;
    sums.overlapped_communication_ns += node.overlapped_communication_ns;
    sums.exposed_memory_ns += node.exposed_memory_ns;
  }
  return sums;
}

// How the nodes behave.
struct Manners {
  uint32_t at_once = 64;               // nodes that speak at the same time
  std::vector<uint32_t> missing = {};  // say no last word
  std::vector<uint32_t> late = {};     // say theirs so long after all others have been answered
  milliseconds late_by{0};
  bool strangers = true;
};

// What the nodes' process has seen, in memory that it shares with the collector's.
struct NodesSeen {
  std::atomic<uint32_t> answered;  // nodes whose last word was
  std::atomic<uint32_t> tries;     // of last words
  std::atomic<uint32_t> stale;     // interim words behind the last that were believed
  std::atomic<uint64_t> begin_ns;  // of the last words
  std::atomic<uint32_t> over;      // the collector has ended
  bool is_answered[kMostNodes];
};

// A process of its own, so that the memory of the collector's can be told.
class Nodes {
 public:
  // `link`: on which the step's end on the first node is said. `munge`: the socket of the nodes'
  // munged, which is not the first one's.
  Nodes(const StepPlan& plan, Manners manners, const StepLink& link, const std::string& munge)
      : plan_(plan), manners_(std::move(manners)), link_(link) {
    plan_.site.munge = munge;
    void* shared =
        mmap(nullptr, sizeof(NodesSeen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
    seen = new (shared) NodesSeen();
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      speak();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the nodes' process: %s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  ~Nodes() {
    join();
    munmap(seen, sizeof(*seen));
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  // When the collector has ended.
  void join() {
    seen->over = 1;
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  NodesSeen* seen;

 private:
  static constexpr int kSendMs = 1500;  // as collectors

  bool say(const peer::Message& words) const {
    uint16_t port = 0;
    return peer::send(plan_, "localhost", words, kSendMs, &port).has_value();
  }

  // As a collector that is not the first node's.
  void say_last(uint32_t id) {
    milliseconds pause(1000);
    const peer::Message words = words_of(plan_, id, true);
    for (;;) {
      ++seen->tries;
      if (say(words)) break;
      for (milliseconds slept(0); slept < pause; slept += milliseconds(50)) {
        if (seen->over != 0) return;
        std::this_thread::sleep_for(milliseconds(50));
      }
      pause = std::min(pause * 2, milliseconds(30'000));
    }
    seen->is_answered[id] = true;
    ++seen->answered;
    if (id % 8 == 3) say(words);  // the answer was lost, it believes
    if (id % 16 == 5 && say(words_of(plan_, id, false))) ++seen->stale;
  }

  template <typename Word>
  static void each(const std::vector<uint32_t>& ids, size_t at_once, Word word) {
    const size_t count = std::min(at_once, ids.size());
    std::atomic<size_t> next{0};
    std::latch start(static_cast<ptrdiff_t>(count));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (size_t at; (at = next++) < ids.size();) word(ids[at]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void speak() {
    for (const peer::Message first = words_of(plan_, 1, false); !say(first);) {
      if (seen->over != 0) return;
      std::this_thread::sleep_for(milliseconds(20));
    }
    std::vector<std::thread> strangers;
    std::atomic<bool> stop{false};
    for (uint32_t i = 0; manners_.strangers && i < 4; ++i) {
      strangers.emplace_back([this, i, &stop] {
        std::mt19937 random(i);
        std::vector<int> silent;
        while (!stop) {
          intrude(&random, &silent);
          std::this_thread::sleep_for(milliseconds(2));
        }
        for (const int fd : silent) close(fd);
      });
    }
    std::mt19937 random(1);
    std::vector<uint32_t> interim, last;
    for (uint32_t id = 1; id < plan_.nodes; ++id) {
      const bool missing = std::ranges::find(manners_.missing, id) != manners_.missing.end();
      if (id % 2 == 0 || missing) interim.push_back(id);
      if (!missing && std::ranges::find(manners_.late, id) == manners_.late.end()) {
        last.push_back(id);
      }
    }
    std::ranges::shuffle(interim, random);
    std::ranges::shuffle(last, random);
    each(interim, 64, [this](uint32_t id) {
      while (!say(words_of(plan_, id, false)) && seen->over == 0) {
        std::this_thread::sleep_for(milliseconds(20));
      }
    });
    seen->begin_ns = wall_clock_ns();
    link_.say_end();
    each(last, manners_.at_once, [this](uint32_t id) { say_last(id); });
    std::this_thread::sleep_for(manners_.late_by);
    each(manners_.late, manners_.at_once, [this](uint32_t id) { say_last(id); });
    stop = true;
    for (std::thread& stranger : strangers) stranger.join();
  }

  // Noise, another step's collector, or a connection that is held and says nothing.
  void intrude(std::mt19937* random, std::vector<int>* silent) const {
    const uint32_t what = (*random)() % 8;
    if (what == 0) {
      StepPlan other = plan_;
      other.job += 1;
      other.site.first_port = other.site.last_port = peer::ports(plan_)[0];
      uint16_t port = 0;
      const auto sent = peer::send(other, "localhost", words_of(other, 1, true), 300, &port);
      if (sent) ++seen->stale;
      return;
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(peer::ports(plan_)[0]);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      char noise[2000];
      for (char& byte : noise) byte = static_cast<char>((*random)());
      if (what == 1) ::send(fd, "\0\0\x20\0MUNGE:", 10, MSG_NOSIGNAL);
      if (what == 2) ::send(fd, noise, sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    silent->push_back(fd);
    if (silent->size() < 100) return;
    close(silent->front());
    silent->erase(silent->begin());
  }

  StepPlan plan_;
  Manners manners_;
  const StepLink& link_;
  pid_t pid_ = -1;
};

// A figure of this process in MiB: VmRSS, VmHWM (of the most so far).
inline double memory_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  return 0;
}

// From here on VmHWM counts anew.
inline void forget_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace mfu::collector_samples

#endif
