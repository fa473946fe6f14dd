#include "profiler/trace_figures.hh"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "profiler/collective_skew.hh"
#include "profiler/kernel_names.hh"
#include "profiler/sorted_spill.hh"

namespace mfu {
namespace {

// Bounds of what a file may make us remember. What is beyond is counted and said.
constexpr size_t kMostSteps = 10'000;
constexpr size_t kMostDevices = 4096;
constexpr size_t kMostStreams = 65'536;
constexpr size_t kMostGroups = 65'535;
constexpr size_t kLongestStepName = 200;

// No GPU operation takes a day. CUPTI's broken durations are years.
constexpr int64_t kLongest_ns = 86'400'000'000'000;
// No clock of a trace counts centuries. This keeps every difference of times within 63 bits.
constexpr int64_t kLatest_ns = int64_t{1} << 62;

struct Operation {
  int64_t start_ns;
  int64_t end_ns;
  int64_t key;       // correlation id, after the join the launch's time
  uint64_t ordinal;  // in the file: keeps the order of equal starts
  uint32_t name;
  uint16_t device;
  uint16_t group;
  uint8_t mask;
  Collective collective;
  Precision precision;
  bool keyed : 1;  // `key` is known
  bool gemm : 1;

  KernelKind kind() const { return {mask == kCommunication, collective, gemm, precision}; }
};
struct ByKey {
  bool operator()(const Operation& a, const Operation& b) const { return a.key < b.key; }
};
struct ByStart {
  bool operator()(const Operation& a, const Operation& b) const {
    return std::tie(a.start_ns, a.ordinal) < std::tie(b.start_ns, b.ordinal);
  }
};

struct Launch {
  int64_t correlation;
  int64_t start_ns;
  uint64_t kernel;
};
struct ByCorrelation {
  bool operator()(const Launch& a, const Launch& b) const {
    return std::tie(a.correlation, a.start_ns) < std::tie(b.correlation, b.start_ns);
  }
};

// Equal slices of a device's span, each with a timeline of its own.
class Slices {
 public:
  Slices(size_t count, uint64_t span_ns)
      : width_ns_(count == 0 ? 0 : span_ns / count + 1), storage_(count * 2 * kCapacity) {
    for (size_t i = 0; i < count; ++i) lines_.emplace_back(&storage_[i * 2 * kCapacity], kCapacity);
  }
  void add(uint64_t start_ns, uint64_t end_ns, ActivityMask mask) {
    while (width_ns_ > 0 && start_ns < end_ns) {
      const size_t slice = static_cast<size_t>(start_ns / width_ns_);
      const uint64_t until = std::min(end_ns, (slice + 1) * width_ns_);
      lines_[slice].add(start_ns, until, mask);
      start_ns = until;
    }
  }
  std::vector<TimeSums> sums(uint64_t span_ns) {
    std::vector<TimeSums> result;
    for (size_t i = 0; i < lines_.size() && i * width_ns_ < span_ns; ++i) {
      result.push_back(lines_[i].sums());
      result.back().span_start_ns = i * width_ns_;
      result.back().span_end_ns = std::min(span_ns, (i + 1) * width_ns_);
    }
    return result;
  }

 private:
  static constexpr size_t kCapacity = 8;
  uint64_t width_ns_;
  std::vector<Interval> storage_;
  std::vector<Timeline> lines_;
};

struct Step {
  int64_t start_ns;
  int64_t end_ns;
  std::string name;
  bool operator<(const Step& other) const {
    return std::tie(start_ns, end_ns, name) < std::tie(other.start_ns, other.end_ns, other.name);
  }
};

struct Device {
  int64_t process;
  int64_t device;
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
};

uint64_t since(int64_t time_ns, int64_t origin_ns) {
  return static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(origin_ns);
}

// A base that makes no sense must not be undefined behaviour.
int64_t later(int64_t time_ns, int64_t by_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(time_ns) + static_cast<uint64_t>(by_ns));
}

// Steps by start, to find those that a launch falls into. They can overlap.
class StepFinder {
 public:
  explicit StepFinder(const std::set<Step>& steps) : steps_(steps.begin(), steps.end()) {
    int64_t reach = std::numeric_limits<int64_t>::min();
    for (const Step& step : steps_) reach_.push_back(reach = std::max(reach, step.end_ns));
  }
  template <class Use>
  void find(int64_t launch_ns, Use use) const {
    size_t at = static_cast<size_t>(
        std::upper_bound(steps_.begin(), steps_.end(), launch_ns,
                         [](int64_t time, const Step& step) { return time < step.start_ns; }) -
        steps_.begin());
    for (; at > 0 && reach_[at - 1] > launch_ns; --at) {
      if (steps_[at - 1].end_ns > launch_ns) use(at - 1);
    }
  }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
  std::vector<int64_t> reach_;  // the latest end up to here
};

}  // namespace

struct FigureBuilder::State {
  explicit State(const Options& chosen)
      : options(chosen), operations(chosen.memory), launches(chosen.memory) {}

  bool join(SortedSpill<Operation, ByStart>* joined, std::string* error);
  bool sweep(SortedSpill<Operation, ByStart>* joined, CollectiveSkew* skew, size_t participant,
             std::string* error);
  uint16_t device_number(const TraceOperation& operation, bool* known);
  uint16_t group_number(std::string_view group);

  Options options;
  TraceFigures figures;
  KernelNames names;
  SortedSpill<Operation, ByKey> operations;
  SortedSpill<Launch, ByCorrelation> launches;
  std::set<Step> steps;
  std::set<Step> gpu_marks;
  std::vector<Device> devices;
  std::vector<std::string> groups = {""};
  std::map<std::string, uint16_t, std::less<>> group_numbers = {{"", 0}};
  std::unordered_set<uint64_t> streams;
  int64_t base_ns = 0;
};

uint16_t FigureBuilder::State::device_number(const TraceOperation& operation, bool* known) {
  *known = true;
  // A file has few devices, and mostly the one that was seen last.
  for (size_t i = devices.size(); i > 0; --i) {
    const Device& device = devices[i - 1];
    if (device.device == operation.device && device.process == operation.process) {
      return static_cast<uint16_t>(i - 1);
    }
  }
  *known = devices.size() < kMostDevices;
  if (*known) devices.push_back({operation.process, operation.device});
  return static_cast<uint16_t>(devices.size() - 1);
}

uint16_t FigureBuilder::State::group_number(std::string_view group) {
  auto found = group_numbers.find(group);
  if (found != group_numbers.end()) return found->second;
  if (groups.size() == kMostGroups) return 0;
  const uint16_t number = static_cast<uint16_t>(groups.size());
  groups.emplace_back(group);
  group_numbers.emplace(group, number);
  return number;
}

FigureBuilder::FigureBuilder(const Options& options) : state_(std::make_unique<State>(options)) {}
FigureBuilder::~FigureBuilder() = default;

void FigureBuilder::operation(const TraceOperation& event) {
  State& state = *state_;
  TraceFigures& figures = state.figures;
  const bool kernel = event.kind == OperationKind::kKernel;
  ++figures.operations;
  figures.kernel_count += kernel;
  figures.reversed += event.duration_ns < 0;
  figures.zero += event.duration_ns == 0 && !event.out_of_range;
  // CUPTI's "not measured" is start and end 0.
  bool valid = !event.out_of_range && event.duration_ns < kLongest_ns &&
               event.start_ns > -kLatest_ns && event.start_ns < kLatest_ns - kLongest_ns &&
               (event.start_ns != 0 || event.duration_ns != 0);
  const int64_t duration = std::max<int64_t>(event.duration_ns, 0);
  Operation operation = {};
  if (valid) operation.device = state.device_number(event, &valid);
  if (!valid) {
    ++figures.invalid;
    return;
  }
  operation.start_ns = event.start_ns;
  operation.end_ns = event.start_ns + duration;
  operation.keyed = event.correlation.has_value();
  operation.key = event.correlation.value_or(0);
  operation.ordinal = figures.operations;
  operation.mask = kMemory;
  operation.name = KernelNames::kUnlisted;
  if (kernel) {
    KernelKind kind;
    operation.name = state.names.add(event.name, static_cast<uint64_t>(duration), &kind);
    operation.mask = kind.communication ? kCommunication : kCompute;
    operation.collective = kind.collective;
    operation.precision = kind.precision;
    operation.gemm = kind.gemm;
    if (kind.communication) operation.group = state.group_number(event.group);
  }
  Device& device = state.devices[operation.device];
  device.first_ns = std::min(device.first_ns, operation.start_ns);
  device.last_ns = std::max(device.last_ns, operation.end_ns);
  if (state.streams.size() < kMostStreams) {
    state.streams.insert(std::hash<std::string_view>()(event.stream) * kMostDevices +
                         operation.device);
  }
  state.operations.add(operation);
}

void FigureBuilder::launch(const TraceLaunch& launch) {
  ++state_->figures.launches;
  state_->launches.add({launch.correlation, launch.start_ns, launch.kernel});
}

void FigureBuilder::step(const TraceStep& step) {
  std::set<Step>& steps = step.on_gpu ? state_->gpu_marks : state_->steps;
  Step made{step.start_ns, step.end_ns, std::string(step.name.substr(0, kLongestStepName))};
  if (steps.size() < kMostSteps) {
    steps.insert(std::move(made));
  } else if (!step.on_gpu && !steps.contains(made)) {
    ++state_->figures.unlisted_steps;
  }
}

void FigureBuilder::untimed() {
  ++state_->figures.untimed;
}

// Gives every operation its launch's time: both come in order of the correlation id.
bool FigureBuilder::State::join(SortedSpill<Operation, ByStart>* joined, std::string* error) {
  figures.launches_known = launches.count() > 0;
  const Launch* launch = launches.next();
  const Operation* operation = operations.next();
  while (launch != nullptr || operation != nullptr) {
    if (launch == nullptr || (operation != nullptr && operation->key < launch->correlation)) {
      Operation alone = *operation;
      alone.keyed = false;
      figures.uncorrelated += figures.launches_known;
      joined->add(alone);
      operation = operations.next();
      continue;
    }
    // The first call of an id is the launch; its later ones are read over.
    const int64_t correlation = launch->correlation;
    const int64_t launched_ns = launch->start_ns;
    bool launches_kernels = false;
    for (; launch != nullptr && launch->correlation == correlation; launch = launches.next()) {
      launches_kernels |= launch->kernel != 0;
    }
    bool kernel_found = false;
    for (; operation != nullptr && operation->key == correlation; operation = operations.next()) {
      Operation launched = *operation;
      launched.key = launched_ns;
      if (launched.keyed) {
        kernel_found |= launched.mask != kMemory;
        figures.kernels_before_launch += launched.start_ns < launched_ns;
      } else {
        ++figures.uncorrelated;
      }
      joined->add(launched);
    }
    figures.launches_without_kernel += launches_kernels && !kernel_found;
  }
  *error = operations.error().empty() ? launches.error() : operations.error();
  return error->empty();
}

bool FigureBuilder::State::sweep(SortedSpill<Operation, ByStart>* joined, CollectiveSkew* skew,
                                 size_t participant, std::string* error) {
  const StepFinder finder(steps);
  std::vector<Attributor> of_device(devices.size());
  std::vector<Attributor> of_step(finder.steps().size());
  std::vector<uint64_t> step_operations(of_step.size());
  std::vector<Slices> slices;
  std::vector<std::unique_ptr<StepDetector>> detectors;
  int64_t origin_ns = std::numeric_limits<int64_t>::max();
  for (const Device& device : devices) {
    slices.emplace_back(static_cast<size_t>(options.slices),
                        since(device.last_ns, device.first_ns));
    origin_ns = std::min(origin_ns, device.first_ns);
    detectors.push_back(std::make_unique<StepDetector>());
  }
  // Participants are numbered as the figures' devices: by process and device.
  std::vector<size_t> order(devices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return std::tie(devices[a].process, devices[a].device) <
           std::tie(devices[b].process, devices[b].device);
  });
  std::vector<size_t> participants(order.size());
  for (size_t i = 0; i < order.size(); ++i) participants[order[i]] = participant + i;

  while (const Operation* operation = joined->next()) {
    const ActivityMask mask = static_cast<ActivityMask>(operation->mask);
    const KernelKind kind = operation->kind();
    const int64_t first_ns = devices[operation->device].first_ns;
    const uint64_t start = since(operation->start_ns, first_ns);
    const uint64_t end = since(operation->end_ns, first_ns);
    of_device[operation->device].add(start, end, mask, kind);
    slices[operation->device].add(start, end, mask);
    if (mask != kMemory) {
      const bool listed = operation->name != KernelNames::kUnlisted;
      // Traces do not tell grids in one way: the name has to do.
      detectors[operation->device]->add(step_token(uint64_t{operation->name} + 1, {0, 0, 0}), start,
                                        end, listed ? names.mark(operation->name) : KernelMark{});
    }
    if (operation->keyed) {
      finder.find(operation->key, [&](size_t step) {
        of_step[step].add(since(operation->start_ns, origin_ns),
                          since(operation->end_ns, origin_ns), mask, kind);
        ++step_operations[step];
      });
    }
    if (mask == kCommunication && skew != nullptr) {
      const std::string_view name = operation->name == KernelNames::kUnlisted
                                        ? collective_name(operation->collective)
                                        : names.name(operation->name);
      skew->add(participants[operation->device], groups[operation->group], name,
                later(operation->start_ns, base_ns), later(operation->end_ns, base_ns));
    }
  }
  *error = joined->error();
  if (!error->empty()) return false;

  for (size_t i : order) {
    DeviceFigures device;
    device.device = devices[i].device;
    device.process = devices[i].process;
    device.start_ns = devices[i].first_ns;
    device.sums = of_device[i].sums();
    device.steps = detectors[i]->estimate();
    device.series = slices[i].sums(device.sums.time.span_ns());
    figures.devices.push_back(std::move(device));
  }
  for (size_t i = 0; i < of_step.size(); ++i) {
    const Step& step = finder.steps()[i];
    figures.steps.push_back({step.name, step.start_ns,
                             static_cast<int64_t>(since(step.end_ns, step.start_ns)),
                             step_operations[i], of_step[i].sums()});
  }
  return true;
}

bool FigureBuilder::finish(const TraceHead& head, CollectiveSkew* skew, size_t first_participant,
                           TraceFigures* figures, std::string* error) {
  State& state = *state_;
  state.base_ns = head.base_time_ns.value_or(0);
  SortedSpill<Operation, ByStart> joined(state.options.memory);
  if (!state.join(&joined, error) || !state.sweep(&joined, skew, first_participant, error)) {
    return false;
  }
  state.figures.head = head;
  state.figures.streams = state.streams.size();
  state.figures.gpu_step_marks = state.gpu_marks.size();
  state.names.take(&state.figures.kernels, &state.figures.unlisted_kernels);
  *figures = std::move(state.figures);
  return true;
}

}  // namespace mfu
