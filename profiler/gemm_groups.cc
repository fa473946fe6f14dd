#include "profiler/gemm_groups.hh"

#include <algorithm>
#include <iterator>

namespace mfu {
namespace {

constexpr double kOwner = 0.6;  // share of the gradients that makes threads the backward ones

double flops_of(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k) * static_cast<double>(shape.batch) * (shape.complex ? 4 : 1);
}

}  // namespace

void GemmGroup::add_flops(const GemmGroup& other) {
  for (const Side side : {kForward, kBackward}) {
    for (int i = 0; i < kOperations; ++i) {
      calls[side][0][i] += other.call_flops * other.by(side, static_cast<GemmOperation>(i));
    }
  }
}

void GemmGroups::collect(const GemmCount (&counts)[GemmTable::kShapes]) {
  double narrow = 0;
  double transposed = 0;
  for (const GemmCount& count : counts) {
    if (count.shape.empty() || !is_narrow(count.shape.precision)) continue;
    const auto calls = static_cast<double>(count.total());
    narrow += calls;
    if (operation_of(count.shape) != kTN) transposed += calls;
  }
  const bool copies = transposed <= 0.1 * narrow;
  size_ = 0;
  for (const GemmCount& count : counts) {
    if (count.shape.empty() || count.total() == 0) continue;
    const GemmShape& shape = count.shape;
    Member& member = members_[size_++];
    member = {&count, {shape.m, shape.n, shape.k}, copies && is_narrow(shape.precision)};
    std::sort(std::begin(member.dimensions), std::end(member.dimensions));
  }
  std::sort(members_, members_ + size_,
            [](const Member& a, const Member& b) { return a.key() < b.key(); });
  backward_ = find_backward();
  backward_.known = backward_.known && in_order();
}

double GemmGroups::flops() const {
  double sum = 0;
  for (size_t i = 0; i < size_; ++i) {
    sum += flops_of(members_[i].count->shape) * static_cast<double>(members_[i].count->total());
  }
  return sum;
}

GemmGroups::Backward GemmGroups::find_backward() const {
  double all[kGemmThreads] = {};
  double wgrad[kGemmThreads] = {};
  double all_sum = 0;
  double wgrad_sum = 0;
  for (size_t i = 0; i < size_; ++i) {
    const GemmShape& shape = members_[i].count->shape;
    for (size_t thread = 0; thread < kGemmThreads; ++thread) {
      const double flops = flops_of(shape) * static_cast<double>(members_[i].count->calls[thread]);
      all[thread] += flops;
      all_sum += flops;
      if (operation_of(shape) != kNT) continue;
      wgrad[thread] += flops;
      wgrad_sum += flops;
    }
  }
  // By the share of (N,T): fused losses have some in the forward pass. Without any, a backward pass
  // has two gradients and more for a product.
  const bool told = wgrad_sum > 1e-5 * all_sum;
  double shares[kGemmThreads] = {};
  for (size_t i = 0; i < kGemmThreads; ++i) {
    if (all[i] > 0) shares[i] = told ? wgrad[i] / all[i] : all[i];
  }
  const double most = *std::max_element(shares, shares + kGemmThreads);
  Backward result{};
  double owned = 0;
  double backward = 0;
  for (size_t i = 0; i < kGemmThreads; ++i) {
    result.is[i] = told ? shares[i] >= kOwner * most : shares[i] == most;
    if (!result.is[i]) continue;
    owned += told ? wgrad[i] : all[i];
    backward += all[i];
  }
  result.known =
      owned >= kOwner * (told ? wgrad_sum : all_sum) && all_sum - backward > 0.1 * all_sum;
  return result;
}

bool GemmGroups::next(size_t* position, GemmGroup* group) const {
  if (*position == size_) return false;
  const Member& head = members_[*position];
  *group = {.dimensions = {head.dimensions[0], head.dimensions[1], head.dimensions[2]},
            .batch = head.count->shape.batch,
            .call_flops = flops_of(head.count->shape),
            .copied = head.copied};
  const uint64_t(&sorted)[kDimensions] = head.dimensions;
  group->different = 1 + (sorted[1] != sorted[0]) + (sorted[2] != sorted[1]);
  if (group->different == 2) group->twin = sorted[0] == sorted[1] ? 0 : 1;
  for (; *position < size_ && members_[*position].key() == head.key(); ++*position) {
    const GemmCount& count = *members_[*position].count;
    const GemmShape& shape = count.shape;
    const int kind = head.copied ? int{shape.m > shape.n} : int{operation_of(shape)};
    bool forward = false;
    for (size_t thread = 0; thread < kGemmThreads; ++thread) {
      const Side side = side_of(thread);
      group->calls[side][group->contracted(shape.k)][kind] +=
          static_cast<double>(count.calls[thread]);
      forward |= side == kForward && count.calls[thread] > 0;
    }
    uint64_t& earliest = group->first[forward ? kForward : kBackward];
    if (earliest == 0 || count.first < earliest) earliest = count.first;
  }
  return true;
}

GemmGroup GemmGroups::of_unlisted(const UnlistedGemms& unlisted) const {
  GemmGroup group{.call_flops = 1, .different = kDimensions};
  for (size_t thread = 0; thread < kGemmThreads; ++thread) {
    for (size_t operation = 0; operation < kOperations; ++operation) {
      group.calls[side_of(thread)][0][operation] += unlisted.flops[thread][operation].approximate();
    }
  }
  return group;
}

// Whether gradients came after their forward passes.
bool GemmGroups::in_order() const {
  double right = 0;
  double wrong = 0;
  GemmGroup group;
  for (size_t position = 0; next(&position, &group);) {
    if (group.first[kForward] == 0 || group.first[kBackward] == 0) continue;
    const bool after = group.first[kForward] < group.first[kBackward];
    (after ? right : wrong) += group.call_flops * group.total();
  }
  return wrong <= kGroupNoise * right;
}

}  // namespace mfu
