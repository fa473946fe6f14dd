#include "profiler/collective_skew.hh"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "profiler/sorted_spill.hh"

namespace mfu {
namespace {

struct Instance {
  uint64_t number;  // in its participant's sequence of the group
  int64_t start_ns;
  int64_t end_ns;
  uint32_t group;
  uint32_t participant;

  uint64_t duration() const {
    return static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(start_ns);
  }
};
struct ByNumber {
  bool operator()(const Instance& a, const Instance& b) const {
    return std::tie(a.group, a.number, a.participant) < std::tie(b.group, b.number, b.participant);
  }
};
using Instances = SortedSpill<Instance, ByNumber>;
using Spreads = SortedSpill<uint64_t, std::less<>>;

// What a participant ran in a group. Sequences of the same length and hash are taken for the same.
struct Sequence {
  uint64_t count = 0;
  uint64_t names_hash = 0xcbf29ce484222325;

  void add(std::string_view name) {
    ++count;
    for (char c : name) names_hash = (names_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    names_hash *= 0x100000001b3;  // a boundary
  }
  bool operator==(const Sequence&) const = default;
};

bool aligned(const std::map<size_t, Sequence>& group) {
  const Sequence& first = group.begin()->second;
  return std::all_of(group.begin(), group.end(),
                     [&first](const auto& member) { return member.second == first; });
}

bool read_spread(Spreads* spreads, Spread* spread, std::string* error) {
  const uint64_t middle = spreads->count() / 2;
  uint64_t index = 0;
  while (const uint64_t* value = spreads->next()) {
    if (index++ == middle) spread->median_ns = *value;
    spread->largest_ns = *value;
  }
  *error = spreads->error();
  return error->empty();
}

}  // namespace

struct CollectiveSkew::State {
  explicit State(size_t memory) : instances(memory), starts(memory / 4), ends(memory / 4) {}

  void take(const std::vector<Instance>& row, SkewFigures* figures);

  Instances instances;
  Spreads starts, ends;
  std::map<std::string, uint32_t, std::less<>> group_numbers;
  std::vector<std::map<size_t, Sequence>> groups;  // by group and participant
};

// One collective on all its ranks.
void CollectiveSkew::State::take(const std::vector<Instance>& row, SkewFigures* figures) {
  int64_t first_start = std::numeric_limits<int64_t>::max();
  int64_t last_start = std::numeric_limits<int64_t>::min();
  int64_t first_end = first_start;
  int64_t last_end = last_start;
  const Instance* shortest = &row.front();
  for (const Instance& instance : row) {
    first_start = std::min(first_start, instance.start_ns);
    last_start = std::max(last_start, instance.start_ns);
    first_end = std::min(first_end, instance.end_ns);
    last_end = std::max(last_end, instance.end_ns);
    if (instance.duration() < shortest->duration()) shortest = &instance;
  }
  uint64_t caused = 0;
  for (const Instance& instance : row) {
    const uint64_t wait = instance.duration() - shortest->duration();
    figures->participants[instance.participant].wait_ns += wait;
    caused += wait;
  }
  SkewFigures::Participant& last = figures->participants[shortest->participant];
  ++last.last;
  last.caused_ns += caused;
  figures->transfer_ns += shortest->duration();
  ++figures->aligned;
  starts.add(static_cast<uint64_t>(last_start) - static_cast<uint64_t>(first_start));
  ends.add(static_cast<uint64_t>(last_end) - static_cast<uint64_t>(first_end));
}

CollectiveSkew::CollectiveSkew(size_t memory) : state_(std::make_unique<State>(memory)) {}
CollectiveSkew::~CollectiveSkew() = default;

void CollectiveSkew::add(size_t participant, std::string_view group, std::string_view name,
                         int64_t start_ns, int64_t end_ns) {
  auto found = state_->group_numbers.find(group);
  if (found == state_->group_numbers.end()) {
    const uint32_t number = static_cast<uint32_t>(state_->groups.size());
    found = state_->group_numbers.emplace(group, number).first;
    state_->groups.emplace_back();
  }
  Sequence& sequence = state_->groups[found->second][participant];
  state_->instances.add(
      {sequence.count, start_ns, end_ns, found->second, static_cast<uint32_t>(participant)});
  sequence.add(name.substr(0, name.find('(')));
}

bool CollectiveSkew::finish(SkewFigures* figures, std::string* error) {
  std::vector<bool> usable;
  for (const auto& group : state_->groups) {
    for (const auto& [participant, sequence] : group) {
      figures->participants[participant].collectives += sequence.count;
    }
    usable.push_back(group.size() > 1 && aligned(group));
    figures->groups += group.size() > 1;
    figures->aligned_groups += usable.back();
  }
  std::vector<Instance> row;
  while (const Instance* instance = state_->instances.next()) {
    if (!usable[instance->group]) continue;
    row.push_back(*instance);
    if (row.size() < state_->groups[instance->group].size()) continue;
    state_->take(row, figures);
    row.clear();
  }
  *error = state_->instances.error();
  if (!error->empty() || !read_spread(&state_->starts, &figures->start_spread, error) ||
      !read_spread(&state_->ends, &figures->end_spread, error)) {
    return false;
  }
  for (const auto& [number, participant] : figures->participants) {
    if (participant.caused_ns == 0) continue;
    if (figures->has_slowest &&
        participant.caused_ns <= figures->participants[figures->slowest].caused_ns) {
      continue;
    }
    figures->has_slowest = true;
    figures->slowest = number;
  }
  return true;
}

}  // namespace mfu
