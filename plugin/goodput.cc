#include "plugin/goodput.hh"

#include <algorithm>

namespace mfu {
namespace {

// Takes at most `wanted` out of *from.
uint64_t take(uint64_t wanted, uint64_t* from) {
  const uint64_t taken = std::min(wanted, *from);
  *from -= taken;
  return taken;
}

}  // namespace

GoodputSums& GoodputSums::operator+=(const GoodputSums& other) {
  for (const GoodputPart& part : kGoodputParts) this->*part.member += other.*part.member;
  return *this;
}

uint128 GoodputSums::total_ns() const {
  uint128 total = 0;
  for (const GoodputPart& part : kGoodputParts) total += this->*part.member;
  return total;
}

GoodputSums goodput_of(const DeviceTraining& device) {
  GoodputSums sums;
  if (device.end_ns <= device.begin_ns) return sums;
  const StepEstimate& steps = device.steps;
  if (steps.source == StepSource::kNone || steps.count < 2 || steps.first_ns < device.begin_ns ||
      steps.last_ns < steps.first_ns || steps.last_ns > device.end_ns) {
    sums.unknown_ns = device.end_ns - device.begin_ns;
    return sums;
  }
  uint64_t before = steps.first_ns - device.begin_ns;
  uint64_t stalled = steps.last_ns - steps.first_ns;
  uint64_t after = device.end_ns - steps.last_ns;
  uint64_t productive = take(steps.productive_ns, &stalled);
  const uint64_t in_tail = take(steps.median_ns, &after);
  productive += in_tail + take(steps.median_ns - in_tail, &before);
  sums.writing_ns = take(device.writing_ns, &stalled);
  sums.reading_ns = take(device.reading_ns, &stalled);
  sums.productive_ns = productive;
  sums.stalled_ns = stalled;
  sums.tail_ns = after;
  sums.start_up_ns = before;
  return sums;
}

void Runs::add(uint64_t run_begin_ns, uint64_t run_end_ns) {
  *this += {1, run_begin_ns, run_end_ns, run_end_ns - std::min(run_begin_ns, run_end_ns)};
}

Runs& Runs::operator+=(const Runs& other) {
  if (other.count == 0) return *this;
  begin_ns = count == 0 ? other.begin_ns : std::min(begin_ns, other.begin_ns);
  end_ns = std::max(end_ns, other.end_ns);
  elapsed_ns += other.elapsed_ns;
  count += other.count;
  return *this;
}

uint64_t Runs::gap_ns() const {
  const uint64_t whole = end_ns - std::min(begin_ns, end_ns);
  return whole - std::min(whole, elapsed_ns);
}

void add_outside(uint128 allocated_gpu_ns, GoodputSums* run) {
  const uint128 total = run->total_ns();
  if (allocated_gpu_ns > total) run->outside_ns += allocated_gpu_ns - total;
}

std::vector<const GoodputPart*> losses(const GoodputSums& sums) {
  std::vector<const GoodputPart*> found;
  for (const GoodputPart& part : kGoodputParts) {
    if (part.loss[0] != '\0' && sums.*part.member > 0) found.push_back(&part);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](const GoodputPart* left, const GoodputPart* right) {
                     return sums.*left->member > sums.*right->member;
                   });
  return found;
}

Goodput goodput(const GoodputSums& sums) {
  const uint128 total = sums.total_ns();
  if (total == 0) return {-1, "no-time", ""};
  const double known = static_cast<double>(total - sums.unknown_ns) / static_cast<double>(total);
  if (known < kLeastKnown) return {-1, "no-steps", ""};
  Goodput result;
  result.fraction = static_cast<double>(sums.productive_ns) / static_cast<double>(total);
  uint128 largest = 0;
  for (const GoodputPart& part : kGoodputParts) {
    if (part.loss[0] == '\0' || sums.*part.member <= largest) continue;
    largest = sums.*part.member;
    result.largest_loss = part.loss;
  }
  return result;
}

}  // namespace mfu
