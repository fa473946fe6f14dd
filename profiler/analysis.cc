#include "profiler/analysis.hh"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace mfu {
namespace {

constexpr size_t kMostMergedNames = 65'536;

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string plural(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

void Analysis::add_traffic(const Record& record) {
  if (record.communicators.abi == 0) return;
  traffic_.told = true;
  for (int i = 0; i < kCollectives; ++i) {
    traffic_.collectives[i].add(record.communicators.collectives[i]);
    traffic_.kernel_ns[i] += record.collective_ns[i];
  }
}

// The records of a process are told by its rank, number and start.
void Analysis::add_flops() {
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<size_t>> processes;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Record* record = rows_[i].file->record.get();
    if (record == nullptr) continue;
    processes[{record->task, record->pid, record->started_ns}].push_back(i);
  }
  for (const auto& [key, rows] : processes) {
    std::vector<const Record*> records;
    for (const size_t row : rows) records.push_back(rows_[row].file->record.get());
    const std::optional<ProcessFlops> flops = process_flops(records);
    if (!flops) continue;
    flops_.push_back({rows_[rows.front()].file, rows_[rows.front()].label, *flops});
    total_flops_.add(*flops);
  }
}

void Analysis::add(TraceFigures figures) {
  if (figures.record != nullptr) add_traffic(*figures.record);
  first_participants_.push_back(participants_);
  participants_ += figures.devices.size();
  for (const KernelFigures& kernel : figures.kernels) {
    auto found = merged_.find(kernel.name);
    if (found == merged_.end()) {
      if (merged_.size() == kMostMergedNames) {
        other_kernels_.time.add(kernel.time);
        continue;
      }
      merged_.emplace(kernel.name, kernel);
      continue;
    }
    found->second.time.add(kernel.time);
    found->second.longest_ns = std::max(found->second.longest_ns, kernel.longest_ns);
  }
  other_kernels_.time.add(figures.other_kernels);
  kernel_names_ = std::max<size_t>(kernel_names_, figures.kernel_names);
  if (figures.kernels.size() > top_) figures.kernels.resize(top_);
  files_.push_back(std::move(figures));
}

bool Analysis::finish(std::string* error) {
  std::vector<size_t> order(files_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto rank = [this](size_t i) {
    return files_[i].head.rank.value_or(std::numeric_limits<int64_t>::max());
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_tuple(rank(a), files_[a].path) < std::make_tuple(rank(b), files_[b].path);
  });
  std::map<int64_t, size_t> of_rank;
  for (const TraceFigures& file : files_) {
    if (file.head.rank) ++of_rank[*file.head.rank];
  }
  std::vector<TraceFigures> sorted;
  sorted.reserve(files_.size());
  for (size_t i : order) sorted.push_back(std::move(files_[i]));
  files_ = std::move(sorted);

  row_of_participant_.resize(participants_);
  for (size_t i = 0; i < files_.size(); ++i) {
    const TraceFigures& file = files_[i];
    // A rank that two files claim tells nothing.
    const bool ranked = file.head.rank && of_rank[*file.head.rank] == 1;
    for (size_t j = 0; j < file.devices.size(); ++j) {
      const DeviceFigures& device = file.devices[j];
      std::string label = ranked ? std::to_string(*file.head.rank) : base_name(file.path);
      if (device.process != 0 && file.devices.size() > 1) {
        label = "process " + std::to_string(device.process & 0xffffff);
      }
      row_of_participant_[first_participants_[order[i]] + j] = rows_.size();
      participant_of_row_.push_back(first_participants_[order[i]] + j);
      rows_.push_back({&file, &device, label});
      total_.add(device.sums);
    }
  }

  add_flops();

  kernel_names_ = std::max(kernel_names_, merged_.size());
  for (auto& [name, kernel] : merged_) kernels_.push_back(std::move(kernel));
  merged_.clear();
  std::sort(kernels_.begin(), kernels_.end(), [](const KernelFigures& a, const KernelFigures& b) {
    return a.time.ns != b.time.ns ? a.time.ns > b.time.ns : a.name < b.name;
  });
  for (size_t i = top_; i < kernels_.size(); ++i) other_kernels_.time.add(kernels_[i].time);
  if (kernels_.size() > top_) kernels_.resize(top_);
  return skew_.finish(&skew_figures_, error);
}

double bus_bandwidth_of(const Analysis::Traffic& traffic, int collective) {
  const CollectiveTraffic& calls = traffic.collectives[collective];
  const uint64_t ns = traffic.kernel_ns[collective];
  if (calls.count == 0 || calls.unrated > 0 || calls.captured > 0 || ns == 0) return -1;
  return bus_bandwidth(calls.kernel_bus_bytes(), ns);
}

bool Analysis::partial() const {
  return !errors_.empty() || std::any_of(files_.begin(), files_.end(),
                                         [](const TraceFigures& file) { return file.partial; });
}

std::vector<std::string> Analysis::notes() const {
  std::vector<std::string> notes;
  for (const std::string& error : errors_) notes.push_back("left out: " + error);
  for (const TraceFigures& file : files_) {
    const std::string name = base_name(file.path) + ": ";
    if (file.partial) {
      notes.push_back("PARTIAL: " + file.error + "; what stands before it is counted");
    }
    if (file.operations == 0 && file.record == nullptr) {
      notes.push_back(
          name + "no GPU activity (out-of-range or dropped buffers?)" +
          (file.launches_without_kernel == 0
               ? ""
               : ": kernels are missing, " +
                     plural(file.launches_without_kernel, "launch has", "launches have") +
                     " none"));
    } else if (file.launches_without_kernel > 0) {
      notes.push_back(
          name + plural(file.launches_without_kernel, "kernel launch has", "kernel launches have") +
          " no kernel in the trace");
    }
    if (file.invalid > 0 && file.record == nullptr) {
      notes.push_back(name + plural(file.invalid, "operation", "operations") +
                      " without plausible times kept out (start and end 0, or longer than a day)");
    }
    if (file.reversed > 0) {
      notes.push_back(name + plural(file.reversed, "negative duration", "negative durations") +
                      " counted as 0");
    }
    if (file.kernels_before_launch > 0) {
      notes.push_back(name +
                      plural(file.kernels_before_launch, "operation starts", "operations start") +
                      " before the launch: the CPU's and the GPU's clocks differ");
    }
    if (file.unlisted_kernels > 0) {
      notes.push_back(name + plural(file.unlisted_kernels, "kernel", "kernels") +
                      " of too many names: in the sums, not in the table of kernels");
    }
    if (file.unlisted_steps > 0) {
      notes.push_back(name + plural(file.unlisted_steps, "step", "steps") +
                      " beyond the first 10,000 not listed");
    }
    if (!file.head.note.empty()) notes.push_back(name + file.head.note);
  }
  if (skew_figures_.aligned_groups < skew_figures_.groups) {
    notes.push_back(
        "ranks: " + std::to_string(skew_figures_.groups - skew_figures_.aligned_groups) + " of " +
        plural(skew_figures_.groups, "process group", "process groups") +
        " not aligned: ranks recorded different collectives");
  }
  return notes;
}

std::vector<MergedStep> merged_steps(const std::vector<TraceFigures>& files) {
  std::vector<MergedStep> merged;
  std::unordered_map<std::string, size_t> places;
  for (const TraceFigures& file : files) {
    for (const StepFigures& step : file.steps) {
      if (step.operations == 0) continue;
      auto [found, is_new] = places.emplace(step.name, merged.size());
      if (is_new) {
        merged.emplace_back();
        merged.back().name = step.name;
      }
      MergedStep& sum = merged[found->second];
      ++sum.files;
      sum.shortest_ns = std::min(sum.shortest_ns, step.sums.time.span_ns());
      sum.longest_ns = std::max(sum.longest_ns, step.sums.time.span_ns());
      sum.sums.add(step.sums);
    }
  }
  return merged;
}

std::string kind_name(const KernelKind& kind) {
  if (kind.communication) return collective_name(kind.collective);
  if (!kind.gemm) return "";
  return kind.precision == Precision::kUnknown
             ? "gemm"
             : std::string("gemm ") + precision_name(kind.precision);
}

std::string short_kernel_name(const std::string& name, size_t width) {
  std::string text = name;
  for (size_t at = text.find("(anonymous namespace)::"); at != text.npos;
       at = text.find("(anonymous namespace)::")) {
    text.erase(at, 23);
  }
  // "return type name<arguments>(parameters)": what counts lies between the last blank and the
  // first parenthesis that are not within <>. Within parentheses '<' and '>' are comparisons.
  int angles = 0;
  int parentheses = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' && angles == 0 && i > 0) {
      text = text.substr(begin, i - begin);
      break;
    }
    if (c == '(') ++parentheses;
    if (c == ')') --parentheses;
    if (parentheses > 0) continue;
    if (c == '<') ++angles;
    if (c == '>') --angles;
    if (c == ' ' && angles == 0) begin = i + 1;
  }
  for (char& c : text) {
    // Whatever a trace holds, it must not talk to the terminal.
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  if (text.size() <= width) return text;
  size_t kept = width - 3;
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xc0) == 0x80) --kept;
  return text.substr(0, kept) + "...";
}

}  // namespace mfu
