#include "plugin/job_list.hh"

#include <algorithm>
#include <charconv>

namespace mfu {
namespace {

constexpr uint32_t kMostArrayTask = 4'000'001;  // the most that Slurm's MaxArraySize allows
constexpr size_t kMostIds = 100'000;

// Takes a number from the front of `text`.
bool take_number(std::string_view* text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool take(std::string_view* text, char expected) {
  if (!text->starts_with(expected)) return false;
  text->remove_prefix(1);
  return true;
}

// "1-3,7]" behind the bracket.
bool take_tasks(std::string_view* text, uint32_t job, std::vector<JobId>* ids) {
  do {
    uint32_t first = 0;
    if (!take_number(text, &first)) return false;
    uint32_t last = first;
    if (take(text, '-') && !take_number(text, &last)) return false;
    if (last < first || last > kMostArrayTask || last - first >= kMostIds) return false;
    for (uint32_t task = first; task <= last; ++task) ids->push_back({job, task});
    if (ids->size() > kMostIds) return false;
  } while (take(text, ','));
  return take(text, ']');
}

bool take_job(std::string_view* text, std::vector<JobId>* ids) {
  uint32_t job = 0;
  if (!take_number(text, &job) || job == 0) return false;
  if (!take(text, '_')) {
    ids->push_back({job, std::nullopt});
    return true;
  }
  if (take(text, '[')) return take_tasks(text, job, ids);
  uint32_t task = 0;
  if (!take_number(text, &task) || task > kMostArrayTask) return false;
  ids->push_back({job, task});
  return true;
}

}  // namespace

// Slurm numbers jobs anew after the highest id; then another user's job may have the same one.
size_t runs_at_front(std::span<const Job> rows) {
  size_t count = 1;
  while (count < rows.size() && rows[count].id == rows[0].id && rows[count].user == rows[0].user &&
         rows[count].cluster == rows[0].cluster) {
    ++count;
  }
  return count;
}

tl::expected<std::vector<JobId>, std::string> parse_job_ids(std::string_view text) {
  std::vector<JobId> ids;
  std::string_view rest = text;
  while (take_job(&rest, &ids)) {
    if (rest.empty() && ids.size() <= kMostIds) return ids;
    if (ids.size() > kMostIds || !take(&rest, ',')) break;
  }
  return tl::make_unexpected("'" + std::string(text) +
                             "' names no jobs: write 12, 12_3 or 12_[1-3,7], with commas between");
}

}  // namespace mfu
