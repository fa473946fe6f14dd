#include "tests/fake/cupti_faults.hh"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu::fake {
namespace {

struct Failure {
  std::string function;
  int64_t argument;
  uint64_t from_call;  // 1: the first
  CUptiResult code;
  uint64_t calls = 0;
};

struct Delay {
  std::string function;
  uint64_t from_call = 1;
  std::atomic<uint64_t> calls = 0;

  bool hits(std::string_view called) { return function == called && ++calls >= from_call; }
};

struct Plan {
  std::vector<Failure> failures;
  RecordFaults records;
  Delay hang;
  Delay slow;
  std::string log_path;
};

[[noreturn]] void refuse(const char* variable, std::string_view item) {
  std::fprintf(stderr, "fake libcupti: %s: cannot read \"%.*s\"\n", variable,
               static_cast<int>(item.size()), item.data());
  std::abort();
}

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    size_t at = std::min(list.find(separator), list.size());
    parts.push_back(list.substr(0, at));
    list.remove_prefix(std::min(at + 1, list.size()));
  }
  return parts;
}

std::optional<uint64_t> number(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

Failure failure(std::string_view item) {
  size_t equals = item.find('=');
  if (equals == item.npos) refuse("FAKE_CUPTI_FAIL", item);
  std::string_view head = item.substr(0, equals);
  std::optional<uint64_t> code = number(item.substr(equals + 1));
  std::optional<uint64_t> from_call = 1;
  int64_t argument = kNoArgument;
  if (size_t at = head.find('@'); at != head.npos) {
    from_call = number(head.substr(at + 1));
    head = head.substr(0, at);
  }
  if (size_t colon = head.find(':'); colon != head.npos) {
    std::optional<uint64_t> value = number(head.substr(colon + 1));
    if (!value) refuse("FAKE_CUPTI_FAIL", item);
    argument = static_cast<int64_t>(*value);
    head = head.substr(0, colon);
  }
  if (!code || !from_call || !head.starts_with("cupti")) refuse("FAKE_CUPTI_FAIL", item);
  return {std::string(head), argument, *from_call, static_cast<CUptiResult>(*code)};
}

void add_fault(std::string_view item, Plan* plan) {
  size_t equals = std::min(item.find('='), item.size());
  std::string_view name = item.substr(0, equals);
  std::string_view value = item.substr(std::min(equals + 1, item.size()));
  RecordFaults& records = plan->records;
  if ((name == "hang" || name == "slow") && value.starts_with("cupti")) {
    Delay& delay = name == "hang" ? plan->hang : plan->slow;
    if (size_t at = value.find('@'); at != value.npos) {
      std::optional<uint64_t> from_call = number(value.substr(at + 1));
      if (!from_call) refuse("FAKE_CUPTI_FAULT", item);
      delay.from_call = *from_call;
      value = value.substr(0, at);
    }
    delay.function = value;
    return;
  }
  if (item == "no-buffers") {
    records.no_buffers = true;
    return;
  }
  if (item == "silence") {
    records.silence = true;
    return;
  }
  const std::map<std::string_view, uint64_t*> periods = {{"drop", &records.drop},
                                                         {"zero-times", &records.zero_times},
                                                         {"reversed", &records.reversed},
                                                         {"duplicate", &records.duplicate},
                                                         {"late", &records.late}};
  auto period = periods.find(name);
  std::optional<uint64_t> every = number(value);
  if (period == periods.end() || !every || *every == 0) refuse("FAKE_CUPTI_FAULT", item);
  *period->second = *every;
}

Plan& plan() {
  static Plan& instance = *[] {
    auto* fresh = new Plan;
    if (const char* list = std::getenv("FAKE_CUPTI_FAIL")) {
      for (std::string_view item : split(list, ',')) fresh->failures.push_back(failure(item));
    }
    if (const char* list = std::getenv("FAKE_CUPTI_FAULT")) {
      for (std::string_view item : split(list, ',')) add_fault(item, fresh);
    }
    if (const char* path = std::getenv("FAKE_CUPTI_LOG")) fresh->log_path = path;
    return fresh;
  }();
  return instance;
}

// One write of one line to a file opened for appending: lines of several processes stay whole.
void write_log(const std::string& path, const char* function, int64_t argument) {
  char line[128];
  int size = argument == kNoArgument
                 ? std::snprintf(line, sizeof(line), "%d %s\n", getpid(), function)
                 : std::snprintf(line, sizeof(line), "%d %s:%ld\n", getpid(), function, argument);
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 || write(file, line, static_cast<size_t>(size)) != size) {
    refuse("FAKE_CUPTI_LOG", path);
  }
  close(file);
}

std::mutex& failure_mutex() {
  static std::mutex& instance = *new std::mutex;
  return instance;
}

}  // namespace

const RecordFaults& record_faults() {
  return plan().records;
}

CUptiResult enter(const char* function, int64_t argument) {
  Plan& self = plan();
  if (!self.log_path.empty()) write_log(self.log_path, function, argument);
  if (self.slow.hits(function)) usleep(200'000);
  if (self.hang.hits(function)) {
    while (true) pause();
  }
  if (self.failures.empty()) return CUPTI_SUCCESS;
  std::lock_guard lock(failure_mutex());
  for (Failure& failure : self.failures) {
    if (failure.function != function) continue;
    if (failure.argument != kNoArgument && failure.argument != argument) continue;
    if (++failure.calls >= failure.from_call) return failure.code;
  }
  return CUPTI_SUCCESS;
}

}  // namespace mfu::fake
