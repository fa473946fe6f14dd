// The sweep. Intervals go by in order of start. For every set of classes two numbers are kept: how
// far its intervals reach, and the length of their union. An interval adds to the union what of it
// lies beyond the reach. There is nothing to branch on, and no heap of ends is needed. How long
// exactly the classes of a mask ran follows from the unions by inclusion and exclusion, in integers
// and so without a loss.
//
// The series. When everything that begins before an instant went by, the union up to there is the
// union so far less what reaches beyond: that part has no gap, because all of its intervals begin
// before. So the sweep need not cut intervals at the slices' edges: it looks at the unions whenever
// it comes to an edge, and the difference to the slices before is the slice's.
#include "profiler/timeline.hh"

#include <algorithm>
#include <utility>

namespace mfu {
namespace {

constexpr uint32_t kAll = kCompute | kCommunication | kMemory;

// How far back a newcomer is put into its place at once. Kernels that come in order of their ends
// are off by the few that ran at the same time.
constexpr size_t kNear = 16;

// The sets that contain a class, by its mask; the set of all comes last.
constexpr uint8_t kSetsWith[5][4] = {{}, {1, 3, 5, 7}, {2, 3, 6, 7}, {}, {4, 5, 6, 7}};

uint64_t beyond(uint64_t reach_ns, uint64_t instant_ns) {
  return reach_ns > instant_ns ? reach_ns - instant_ns : 0;
}

// Settles the last slice, when all that begins before the series' end went by.
void settle(const Timeline::Unions& unions, TimeSeries* series) {
  const uint64_t end_ns = series->end_ns();
  auto until_end = [&](uint32_t set) {
    return unions.length_ns[set] - beyond(unions.reach_ns[set], end_ns);
  };
  const uint64_t compute = until_end(kCompute);
  const uint64_t communication = until_end(kCommunication);
  const uint64_t both = until_end(kCompute | kCommunication);
  const TimeSeries::Slice before = series->total();
  series->slices[series->count - 1].add(
      {compute - before.compute_ns, both - compute - before.exposed_communication_ns,
       compute + communication - both - before.overlapped_communication_ns,
       until_end(kAll) - both - before.exposed_memory_ns});
}

// Settles slices until the last one holds `instant_ns`; all that begins before it went by. The
// series' end.
uint64_t advance(uint64_t instant_ns, const Timeline::Unions& unions, TimeSeries* series) {
  while (series->end_ns() <= instant_ns) {
    if (series->count > 0) settle(unions, series);
    series->grow(instant_ns);
  }
  return series->end_ns();
}

// Sweeps intervals in order of start, none of them before what went by already.
void sweep(const Interval* begin, const Interval* end, Timeline::Unions* unions,
           TimeSeries* series) {
  uint64_t edge_ns = series == nullptr ? UINT64_MAX : series->end_ns();
  for (const Interval* it = begin; it != end; ++it) {
    const uint64_t start_ns = it->start_ns;
    const uint64_t end_ns = it->end_ns;
    if (start_ns >= edge_ns) edge_ns = advance(start_ns, *unions, series);
    auto take = [&](uint64_t* reach_ns, uint64_t* length_ns) {
      const uint64_t from_ns = std::max(*reach_ns, start_ns);
      *reach_ns = std::max(*reach_ns, end_ns);
      *length_ns += *reach_ns - from_ns;
    };
    const uint8_t* sets = kSetsWith[it->mask];
    take(&unions->reach_ns[sets[0]], &unions->length_ns[sets[0]]);
    take(&unions->reach_ns[sets[1]], &unions->length_ns[sets[1]]);
    take(&unions->reach_ns[sets[2]], &unions->length_ns[sets[2]]);
    take(&unions->reach_ns[sets[3]], &unions->length_ns[sets[3]]);
  }
}

void partition(const Timeline::Unions& unions, uint64_t (&sums)[kMasks]) {
  // Busy time in which nothing but the mask's classes ran ...
  for (uint32_t mask = 0; mask < kMasks; ++mask) {
    sums[mask] = unions.length_ns[kAll] - unions.length_ns[kAll & ~mask];
  }
  // ... less that of every smaller mask.
  for (uint32_t one : {kCompute, kCommunication, kMemory}) {
    for (uint32_t mask = 0; mask < kMasks; ++mask) {
      if ((mask & one) != 0) sums[mask] -= sums[mask ^ one];
    }
  }
}

// Merges two runs. `to` may be where the first would begin if it stood right before the second.
Interval* merge(const Interval* first, const Interval* first_end, const Interval* second,
                const Interval* second_end, Interval* to) {
  while (first != first_end && second != second_end) {
    const bool other = second->start_ns < first->start_ns;
    *to++ = *(other ? second : first);
    second += other;
    first += !other;
  }
  to = std::copy(first, first_end, to);
  return to == second ? to + (second_end - second) : std::copy(second, second_end, to);
}

const Interval* run_end(const Interval* begin, const Interval* end) {
  if (begin == end) return end;
  while (++begin != end && begin[-1].start_ns <= begin->start_ns) {
  }
  return begin;
}

// Merges neighbouring runs, two and two. False when there was only one, and nothing was done.
bool merge_runs(const Interval* begin, const Interval* end, Interval* to) {
  const Interval* middle = run_end(begin, end);
  if (middle == end) return false;
  while (begin != end) {
    const Interval* last = run_end(middle, end);
    to = merge(begin, middle, middle, last, to);
    begin = last;
    middle = run_end(begin, end);
  }
  return true;
}

}  // namespace

void Timeline::add(uint64_t start_ns, uint64_t end_ns, ActivityMask mask) {
  span_start_ns_ = std::min(span_start_ns_, start_ns);
  span_end_ns_ = std::max(span_end_ns_, end_ns);
  // Takes no time, yet the span reaches to it.
  if (start_ns == end_ns) return;
  if (end_ns <= horizon_ns_) {  // wholly late: nothing to keep, so no reason to fold
    ++late_;
    late_ns_ += end_ns - start_ns;
    return;
  }
  if (count_ == capacity_) fold_half();
  // Only now, with the horizon where it stays for this one: a fold may move it past the interval,
  // and an interval is late once.
  if (start_ns < horizon_ns_) {
    ++late_;
    late_ns_ += std::min(end_ns, horizon_ns_) - start_ns;
    if (end_ns <= horizon_ns_) return;
    start_ns = horizon_ns_;
  }
  insert(start_ns, end_ns, mask);
}

// To its place in the last run if that is near, else it begins a new run.
void Timeline::insert(uint64_t start_ns, uint64_t end_ns, uint32_t mask) {
  Interval* at = pending_ + count_;
  if (count_ > run_ && at[-1].start_ns > start_ns) {
    const Interval* floor = pending_ + run_;
    if (count_ - run_ > kNear && at[-1 - static_cast<ptrdiff_t>(kNear)].start_ns > start_ns) {
      if (run_ == 0) sorted_ = count_;
      run_ = count_;
    } else {
      do {
        at[0].start_ns = at[-1].start_ns;
        at[0].end_ns = at[-1].end_ns;
        at[0].mask = at[-1].mask;
        --at;
      } while (at != floor && at[-1].start_ns > start_ns);
    }
  }
  at->start_ns = start_ns;
  at->end_ns = end_ns;
  at->mask = mask;
  ++count_;
}

// The later runs are merged, and then with the end of the first: what waits longest is long in
// order. std::inplace_merge would allocate; the second half of the storage is our scratch.
void Timeline::sort_pending() {
  if (run_ == 0) return;
  Interval* scratch = pending_ + capacity_;
  Interval* first_end = pending_ + sorted_;
  const size_t later = count_ - sorted_;
  Interval* from = first_end;
  Interval* to = scratch;
  while (merge_runs(from, from + later, to)) std::swap(from, to);
  if (from == scratch) std::copy(scratch, scratch + later, first_end);
  Interval* begin = std::upper_bound(
      pending_, first_end, first_end->start_ns,
      [](uint64_t start_ns, const Interval& interval) { return start_ns < interval.start_ns; });
  Interval* scratch_end = std::copy(begin, first_end, scratch);
  merge(scratch, scratch_end, first_end, pending_ + count_, begin);
  run_ = 0;
}

void Timeline::fold_half() {
  sort_pending();
  const size_t half = count_ / 2;
  horizon_ns_ = pending_[half].start_ns;
  // What reaches beyond the horizon is folded as well: everything to come begins there or later.
  sweep(pending_, pending_ + half, &folded_, folded_series_);
  std::copy(pending_ + half, pending_ + count_, pending_);
  count_ -= half;
}

TimeSums Timeline::sums(TimeSeries* series) {
  sort_pending();
  Unions unions = folded_;
  if (folded_series_ == nullptr) series = nullptr;
  if (series != nullptr) *series = *folded_series_;
  sweep(pending_, pending_ + count_, &unions, series);
  if (series != nullptr && series->count > 0) {
    advance(unions.reach_ns[kAll] - 1, unions, series);
    settle(unions, series);
  }
  TimeSums result;
  if (span_start_ns_ != UINT64_MAX) {
    result.span_start_ns = span_start_ns_;
    result.span_end_ns = span_end_ns_;
  }
  partition(unions, result.partition_ns);
  return result;
}

}  // namespace mfu
