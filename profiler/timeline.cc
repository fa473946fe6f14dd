// The sweep. Pending intervals are sorted by start; one pass keeps, for each of the three classes,
// the end of its latest running interval. Between two neighbouring edges the set of running classes
// is constant, so the elapsed piece goes to that mask's sum. Because an interval only matters
// through the latest end of its class, no heap of ends is needed: three numbers are the state.
#include "profiler/timeline.hh"

#include <algorithm>

namespace mfu {
namespace {

bool by_start(const Interval& a, const Interval& b) {
  return a.start_ns < b.start_ns;
}

// Adds the partition of [from, to) given the latest end of each class.
void partition(uint64_t from, uint64_t to, const uint64_t (&ends)[3], uint64_t (&sums)[kMasks]) {
  while (from < to) {
    uint32_t mask = 0;
    uint64_t next = to;
    for (uint32_t i = 0; i < 3; ++i) {
      if (ends[i] > from) {
        mask |= 1u << i;
        next = std::min(next, ends[i]);
      }
    }
    if (mask == 0) return;  // idle until `to`
    sums[mask] += next - from;
    from = next;
  }
}

int class_index(uint32_t mask) {
  return mask == kCompute ? 0 : mask == kCommunication ? 1 : 2;
}

// Sweeps sorted intervals; everything beyond `limit` stays out.
void sweep(const Interval* begin, const Interval* end, uint64_t limit, uint64_t (&sums)[kMasks]) {
  if (begin == end) return;
  uint64_t ends[3] = {0, 0, 0};
  uint64_t now = begin->start_ns;
  for (const Interval* it = begin; it != end && it->start_ns < limit; ++it) {
    partition(now, it->start_ns, ends, sums);
    now = it->start_ns;
    uint64_t& class_end = ends[class_index(it->mask)];
    class_end = std::max(class_end, it->end_ns);
  }
  uint64_t last = std::max({ends[0], ends[1], ends[2]});
  partition(now, std::min(last, limit), ends, sums);
}

}  // namespace

void Timeline::add(uint64_t start_ns, uint64_t end_ns, ActivityMask mask) {
  if (folded_.span_end_ns == 0) folded_.span_start_ns = start_ns;
  folded_.span_start_ns = std::min(folded_.span_start_ns, start_ns);
  folded_.span_end_ns = std::max(folded_.span_end_ns, end_ns);
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
  pending_[count_] = {start_ns, end_ns, mask};
  if (sorted_ == count_ && (count_ == 0 || pending_[count_ - 1].start_ns <= start_ns)) ++sorted_;
  ++count_;
}

void Timeline::sort_pending() {
  if (sorted_ == count_) return;
  // What waits is sorted already: sort the newcomers, then merge. std::inplace_merge would
  // allocate; the second half of the storage is our scratch.
  std::sort(pending_ + sorted_, pending_ + count_, by_start);
  Interval* scratch = pending_ + capacity_;
  std::merge(pending_, pending_ + sorted_, pending_ + sorted_, pending_ + count_, scratch,
             by_start);
  std::copy(scratch, scratch + count_, pending_);
  sorted_ = count_;
}

void Timeline::fold_half() {
  sort_pending();
  size_t half = count_ / 2;
  horizon_ns_ = pending_[half].start_ns;
  // Intervals of the older half that reach beyond the horizon go on waiting, cut at the horizon.
  // Of each class only the one with the latest end matters.
  sweep(pending_, pending_ + count_, horizon_ns_, folded_.partition_ns);
  uint64_t ends[3] = {0, 0, 0};
  size_t kept_from = half;
  while (kept_from > 0 && pending_[kept_from - 1].start_ns == horizon_ns_) --kept_from;
  for (size_t i = 0; i < kept_from; ++i) {
    uint64_t& class_end = ends[class_index(pending_[i].mask)];
    class_end = std::max(class_end, pending_[i].end_ns);
  }
  Interval carried[3];
  size_t carry = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    if (ends[i] > horizon_ns_) carried[carry++] = {horizon_ns_, ends[i], 1u << i};
  }
  // At most 3 carried; half >= 1 slots were freed. When a burst of equal starts leaves no room, the
  // equal ones of one class are merged first: they are the same interval but for the end.
  size_t out = 0;
  Interval* scratch = pending_ + capacity_;
  for (size_t i = 0; i < carry; ++i) scratch[out++] = carried[i];
  for (size_t i = kept_from; i < count_; ++i) {
    const Interval& interval = pending_[i];
    bool merged = false;
    for (size_t j = 0; j < std::min<size_t>(out, 3) && interval.start_ns == horizon_ns_; ++j) {
      if (scratch[j].mask == interval.mask && scratch[j].start_ns == horizon_ns_) {
        scratch[j].end_ns = std::max(scratch[j].end_ns, interval.end_ns);
        merged = true;
        break;
      }
    }
    if (!merged) scratch[out++] = interval;
  }
  std::copy(scratch, scratch + out, pending_);
  count_ = sorted_ = out;
}

TimeSums Timeline::sums() {
  sort_pending();
  TimeSums result = folded_;
  sweep(pending_, pending_ + count_, UINT64_MAX, result.partition_ns);
  return result;
}

}  // namespace mfu
