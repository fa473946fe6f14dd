#include "plugin/report_groups.hh"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

constexpr const char* kNames[] = {"user", "account", "partition", "cluster",
                                  "gpu",  "month",   "week",      "day"};
static_assert(std::size(kNames) == kGroupBys);

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint128 kNsPerMs = 1'000'000;

double ratio(uint128 part, uint128 whole) {
  return whole == 0 ? -1 : static_cast<double>(part) / static_cast<double>(whole);
}

// Most of what strftime() takes for a day is its own.
std::string period_text(time_t end, GroupBy by) {
  tm parts{};
  if (end == 0) return "running";
  if (localtime_r(&end, &parts) == nullptr) return "";
  if (by == GroupBy::kWeek) {
    char text[32];
    return {text, std::strftime(text, sizeof(text), "%G-W%V", &parts)};
  }
  std::string text = std::to_string(1900L + parts.tm_year);
  const auto add = [&](int number) {
    text.append({'-', static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10)});
  };
  add(parts.tm_mon + 1);
  if (by == GroupBy::kDay) add(parts.tm_mday);
  return text;
}

std::string key_text(GroupBy by, const RunShare& share) {
  switch (by) {
    case GroupBy::kUser:
      return share.run.user;
    case GroupBy::kAccount:
      return share.run.account;
    case GroupBy::kPartition:
      return share.run.partition;
    case GroupBy::kCluster:
      return share.run.cluster;
    case GroupBy::kGpu:
      return share.gpu;
    case GroupBy::kMonth:
    case GroupBy::kWeek:
    case GroupBy::kDay:
      return period_text(share.run.end, by);
  }
  return "";
}

// A run whose job steps tell of more time than it had: they shared GPUs.
class Weight {
 public:
  // Slurm counts whole seconds.
  Weight(const Job& run, uint128 allocated_ns, uint128 elapsed_ns)
      : shared_(elapsed_ns > allocated_ns + uint128{run.gpus} * kSecond),
        factor_(shared_ ? ratio(allocated_ns, elapsed_ns) : 1) {}

  bool shared() const { return shared_; }
  uint128 of(uint128 sum) const {
    return shared_ ? static_cast<uint128>(static_cast<double>(sum) * factor_) : sum;
  }

 private:
  bool shared_;
  double factor_;
};

void add_time(const Comment& line, const Sums& total, const Weight& weight, GroupSums* sums) {
  const uint128 lost = std::min(total.lost_ns, total.idle_ns());
  const uint128 idle = total.idle_ns() - lost;
  const uint128 observed = total.attributed_ns - std::min(total.attributed_ns, total.lost_ns);
  sums->observed_ns = weight.of(observed);
  sums->compute_ns = weight.of(total.compute_ns);
  sums->exposed_communication_ns = weight.of(total.exposed_communication_ns);
  sums->idle_ns = weight.of(idle);
  if (weight.shared()) {
    sums->unknown_ns = sums->allocated_ns;
    return;
  }
  // Allocated time that no job step of the line covers: wasted, unless one may have run in it.
  const uint128 rest = sums->allocated_ns - std::min(sums->allocated_ns, total.elapsed_ns);
  const uint128 unseen = total.elapsed_ns - std::min(total.elapsed_ns, total.attributed_ns) + lost;
  const bool whole = !line.running() && line.partial.empty();
  sums->wasted_ns = std::min(sums->allocated_ns, idle + (whole ? rest : 0));
  sums->unknown_ns = std::min(sums->allocated_ns - sums->wasted_ns, unseen + (whole ? 0 : rest));
}

void add_line(const Job& run, const Comment& line, GroupSums* sums) {
  const Sums total = line.total();
  if (total.overflowed()) {
    sums->unknown_ns = sums->allocated_ns;
    return;
  }
  const Weight weight(run, sums->allocated_ns, total.elapsed_ns);
  const Figures shown = figures(line);
  if (shown.mfu >= 0) {
    sums->model_flops = weight.of(total.model_flops);
    sums->capacity_flop = weight.of(total.capacity_flop);
    sums->mfu_ns = weight.of(std::min(total.flops_ns, total.elapsed_ns));
    sums->peak_ns = shown.mfu * static_cast<double>(sums->mfu_ns);
    sums->bases = 1U << static_cast<int>(line.basis);
    sums->estimated = line.peak_basis == PeakBasis::kEstimated;
  }
  if (shown.hfu >= 0) {
    sums->executed_flops = weight.of(total.executed_flops);
    sums->executed_capacity_flop = weight.of(total.executed_capacity_flop);
    sums->hfu_ns = weight.of(std::min(total.executed_ns, total.elapsed_ns));
  }
  add_time(line, total, weight, sums);
  const GoodputSums parts = goodput_of_run(run, &line);
  if (goodput(parts).fraction >= 0) {
    sums->productive_ns = weight.of(parts.productive_ns);
    sums->goodput_ns = weight.of(parts.total_ns());
  }
  sums->energy_j = weight.of(total.energy_j);
  sums->energy_ms = weight.of(std::min(total.energy_ms, total.elapsed_ns / kNsPerMs));
}

}  // namespace

const char* group_name(GroupBy by) {
  return kNames[static_cast<size_t>(by)];
}

tl::expected<std::vector<GroupBy>, std::string> parse_groups(std::string_view text) {
  std::vector<GroupBy> groups;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view name = text.substr(at, end - at);
    at = end + 1;
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    const auto by = static_cast<GroupBy>(found - std::begin(kNames));
    const bool twice = std::find(groups.begin(), groups.end(), by) != groups.end();
    if (found == std::end(kNames) || twice) {
      std::string what = "'" + std::string(name) + "' ";
      what += twice ? "is there twice" : "is none of";
      for (size_t i = 0; i < kGroupBys && !twice; ++i) what.append(" ").append(kNames[i]);
      return tl::make_unexpected(what);
    }
    groups.push_back(by);
  }
  return groups;
}

GroupSums& GroupSums::operator+=(const GroupSums& other) {
  jobs += other.jobs;
  runs += other.runs;
  bases |= other.bases;
  estimated = estimated || other.estimated;
  peak_ns += other.peak_ns;
  for (uint128 GroupSums::*sum :
       {&GroupSums::allocated_ns, &GroupSums::model_flops, &GroupSums::capacity_flop,
        &GroupSums::mfu_ns, &GroupSums::executed_flops, &GroupSums::executed_capacity_flop,
        &GroupSums::hfu_ns, &GroupSums::observed_ns, &GroupSums::compute_ns,
        &GroupSums::exposed_communication_ns, &GroupSums::idle_ns, &GroupSums::productive_ns,
        &GroupSums::goodput_ns, &GroupSums::energy_j, &GroupSums::energy_ms, &GroupSums::wasted_ns,
        &GroupSums::unknown_ns}) {
    this->*sum += other.*sum;
  }
  return *this;
}

double GroupSums::mfu() const {
  return ratio(model_flops, capacity_flop);
}
double GroupSums::hfu() const {
  return ratio(executed_flops, executed_capacity_flop);
}
double GroupSums::compute() const {
  return ratio(compute_ns, observed_ns);
}
double GroupSums::exposed_communication() const {
  return ratio(exposed_communication_ns, observed_ns);
}
double GroupSums::idle() const {
  return ratio(idle_ns, observed_ns);
}
double GroupSums::goodput() const {
  return ratio(productive_ns, goodput_ns);
}

double GroupSums::of_allocated(uint128 ns) const {
  return ratio(std::min(ns, allocated_ns), allocated_ns);
}

std::string GroupSums::bases_text() const {
  std::string text;
  for (int basis = 1; basis < kBases; ++basis) {
    if ((bases & 1U << basis) == 0) continue;
    text.append(text.empty() ? "" : "+").append(basis_name(static_cast<Basis>(basis)));
  }
  return estimated ? text + "(estimated-peak)" : text;
}

void read_shares(std::span<const Job> runs, uint64_t job,
                 const std::function<void(const RunShare&)>& visit) {
  RunReader reader;
  uint64_t first = 1;
  for (const Job& run : runs) {
    if (run.gpus == 0 || run.elapsed_seconds == 0) continue;
    const FieldReading reading = reader.read(run);
    RunShare share{run, job, reading.line ? reading.line->gpu : "", {}};
    share.sums.jobs = std::exchange(first, 0);
    share.sums.runs = 1;
    share.sums.allocated_ns = uint128{run.gpus} * run.elapsed_seconds * kSecond;
    if (reading.line) {
      add_line(run, *reading.line, &share.sums);
    } else {
      share.sums.unknown_ns = share.sums.allocated_ns;
    }
    visit(share);
  }
}

void Groups::add(const RunShare& share) {
  key_.clear();
  for (const GroupBy by : by_) {
    key_ += key_text(by, share);
    key_ += '\0';
  }
  const auto [place, is_new] = places_.try_emplace(key_, groups_.size());
  if (is_new) {
    Group& group = groups_.emplace_back();
    for (size_t at = 0; at < key_.size(); at += group.key.back().size() + 1) {
      group.key.emplace_back(key_.c_str() + at);
    }
  }
  Group& group = groups_[place->second];
  group.sums += share.sums;
  // A job counts once in each group that any of its runs is in.
  group.sums.jobs += (group.last_job == share.job ? 0 : 1) - share.sums.jobs;
  group.last_job = share.job;
}

std::vector<const Group*> Groups::ordered() const {
  std::vector<const Group*> groups;
  for (const Group& group : groups_) groups.push_back(&group);
  const auto period = std::find_if(by_.begin(), by_.end(), is_period) - by_.begin();
  const bool timed = period < std::ssize(by_);
  std::sort(groups.begin(), groups.end(), [&](const Group* left, const Group* right) {
    const auto at = static_cast<size_t>(period);
    if (timed && left->key[at] != right->key[at]) return left->key[at] < right->key[at];
    if (left->sums.allocated_ns != right->sums.allocated_ns) {
      return left->sums.allocated_ns > right->sums.allocated_ns;
    }
    return left->key < right->key;
  });
  return groups;
}

Groupings::Groupings(const std::vector<std::vector<GroupBy>>& ways) {
  for (const std::vector<GroupBy>& by : ways) ways_.emplace_back(by);
}

void Groupings::add(std::span<const Job> runs, const std::function<void(const RunShare&)>& visit) {
  read_shares(runs, ++jobs_, [&](const RunShare& share) {
    for (Groups& groups : ways_) groups.add(share);
    total_ += share.sums;
    if (visit) visit(share);
  });
}

}  // namespace mfu
