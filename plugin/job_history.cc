#include "plugin/job_history.hh"

#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <unordered_map>

// libslurm exports these for Slurm's own programs, sacct among them, and has no header for them.
// With them times, states and the cluster's name mean here what they mean there.
extern "C" {
extern slurm_conf_t slurm_conf;
time_t slurm_parse_time(char* text, int past);
char* slurm_job_state_string(uint32_t state);
uint32_t slurm_job_state_num(const char* name);
}

namespace mfu {
namespace {

// slurm_init() may run once in a process.
class Configuration {
 public:
  Configuration() { slurm_init(nullptr); }
  ~Configuration() { slurm_fini(); }
};

class Connection {
 public:
  Connection() : connection_(slurmdb_connection_get(&flags_)) {}
  ~Connection() { slurmdb_connection_close(&connection_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  void* get() const { return connection_; }

 private:
  uint16_t flags_ = 0;
  void* connection_;
};

// Slurm's lists hold pointers; ours point to what the caller keeps alive.
using ListPointer = decltype(slurm_list_create(nullptr));  // its name depends on the release
struct ListEnd {
  void operator()(ListPointer list) const { slurm_list_destroy(list); }
};
using ListOwner = std::unique_ptr<std::remove_pointer_t<ListPointer>, ListEnd>;

ListOwner list_of(const std::vector<std::string>& texts) {
  ListOwner list(slurm_list_create(nullptr));
  for (const std::string& text : texts) {
    slurm_list_append(list.get(), const_cast<char*>(text.c_str()));
  }
  return list;
}

template <typename Record, typename Visit>
void for_each(ListPointer list, Visit visit) {
  auto* const iterator = slurm_list_iterator_create(list);
  while (auto* record = static_cast<Record*>(slurm_list_next(iterator))) visit(*record);
  slurm_list_iterator_destroy(iterator);
}

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

tl::expected<std::vector<std::string>, std::string> uids_of(const std::vector<std::string>& users) {
  std::vector<std::string> uids;
  for (const std::string& user : users) {
    const bool number = user.find_first_not_of("0123456789") == user.npos;
    if (const passwd* entry = getpwnam(user.c_str())) {
      uids.push_back(std::to_string(entry->pw_uid));
    } else if (number && !user.empty()) {
      uids.push_back(user);
    } else {
      return tl::make_unexpected("there is no user '" + user + "'");
    }
  }
  return uids;
}

tl::expected<std::vector<std::string>, std::string> state_numbers(
    const std::vector<std::string>& states) {
  std::vector<std::string> numbers;
  for (const std::string& state : states) {
    const uint32_t number = slurm_job_state_num(state.c_str());
    if (number == NO_VAL) {
      return tl::make_unexpected("there is no job state '" + state +
                                 "': COMPLETED, RUNNING, FAILED, ... as in sacct(1)");
    }
    numbers.push_back(std::to_string(number));
  }
  return numbers;
}

tl::expected<time_t, std::string> time_of(std::string text) {
  const time_t time = slurm_parse_time(text.data(), 1);
  if (time != 0) return time;
  return tl::make_unexpected("'" + text +
                             "' is no time: write 2024-05-31, 2024-05-31T12:00, 12:00 or "
                             "now-2hours, as for sacct(1)");
}

// The accounting database knows resources by numbers of its own.
class GpuCounter {
 public:
  explicit GpuCounter(void* connection) {
    slurmdb_tres_cond_t all{};
    all.count = NO_VAL;
    ListOwner resources(slurmdb_tres_get(connection, &all));
    if (resources == nullptr) return;
    for_each<slurmdb_tres_rec_t>(resources.get(), [this](const slurmdb_tres_rec_t& resource) {
      const std::string type = text_of(resource.type);
      const std::string name = text_of(resource.name);
      if (type != "gres") return;
      if (name == "gpu") untyped_ = resource.id;
      if (name.starts_with("gpu:")) typed_.push_back(resource.id);
    });
  }

  // From "1=4,2=100,1001=8". Sites record gres/gpu, or gres/gpu:h100 and so on, or both, of which
  // the first is then the sum.
  uint64_t count(const char* resources) const {
    uint64_t typed = 0;
    const char* const end = resources == nullptr ? nullptr : resources + std::strlen(resources);
    for (const char* at = resources; at != end;) {
      uint32_t id = 0;
      uint64_t amount = 0;
      at = std::from_chars(at, end, id).ptr;
      if (at != end && *at == '=') at = std::from_chars(at + 1, end, amount).ptr;
      if (untyped_ && id == *untyped_) return amount;
      if (std::find(typed_.begin(), typed_.end(), id) != typed_.end()) typed += amount;
      at = std::find(at, end, ',');
      if (at != end) ++at;
    }
    return typed;
  }

 private:
  std::optional<uint32_t> untyped_;
  std::vector<uint32_t> typed_;
};

std::string id_of(const slurmdb_job_rec_t& record) {
  if (record.array_job_id != 0) {
    const std::string array = std::to_string(record.array_job_id) + "_";
    if (record.array_task_id != NO_VAL) return array + std::to_string(record.array_task_id);
    if (record.array_task_str != nullptr) return array + "[" + record.array_task_str + "]";
  }
  if (record.het_job_id != 0 && record.het_job_id != NO_VAL) {
    return std::to_string(record.het_job_id) + "+" + std::to_string(record.het_job_offset);
  }
  return std::to_string(record.jobid);
}

// A record of slurmdbd's, which ends with its owner.
struct RecordEnd {
  void operator()(slurmdb_job_rec_t* record) const { slurmdb_destroy_job_rec(record); }
};
using RecordOwner = std::unique_ptr<slurmdb_job_rec_t, RecordEnd>;

// By cluster, in slurmdbd's order, then job, array task and run. The job id of an array's tasks
// says little of their order.
struct OrderedRecord {
  std::tuple<uint32_t, uint32_t, uint32_t, bool, time_t> key;
  RecordOwner record;
};

// Takes the records out of the list.
std::vector<OrderedRecord> ordered_records(ListPointer list) {
  std::vector<OrderedRecord> ordered;
  ordered.reserve(static_cast<size_t>(slurm_list_count(list)));
  std::vector<std::string> clusters;
  while (auto* record = static_cast<slurmdb_job_rec_t*>(slurm_list_pop(list))) {
    const std::string_view cluster = record->cluster == nullptr ? "" : record->cluster;
    auto place = clusters.size();
    while (place > 0 && clusters[place - 1] != cluster) --place;
    if (place == 0) {
      clusters.emplace_back(cluster);
      place = clusters.size();
    }
    const uint32_t job = record->array_job_id != 0 ? record->array_job_id : record->jobid;
    const bool waits = record->start == 0;  // for its next run
    ordered.push_back(
        {{place, job, record->array_task_id, waits, record->start}, RecordOwner(record)});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& left, const auto& right) { return left.key < right.key; });
  return ordered;
}

std::string user_of(const slurmdb_job_rec_t& record) {
  if (record.user != nullptr) return record.user;
  const passwd* const entry = getpwuid(record.uid);
  return entry == nullptr ? std::to_string(record.uid) : entry->pw_name;
}

// Takes the place of what `job` was: its texts keep their memory.
void fill_job(const slurmdb_job_rec_t& record, const GpuCounter& gpus, Field field, Job* job) {
  const auto fill = [](std::string* text, const char* from) { text->assign(from ? from : ""); };
  job->id = id_of(record);
  fill(&job->name, record.jobname);
  job->user = user_of(record);
  fill(&job->account, record.account);
  fill(&job->partition, record.partition);
  fill(&job->state, slurm_job_state_string(record.state));
  fill(&job->cluster, record.cluster);
  job->start = record.start;
  job->end = record.end;
  job->elapsed_seconds = record.elapsed;
  job->nodes = record.alloc_nodes;
  job->gpus = gpus.count(record.tres_alloc_str);
  // derived_es is what sacct calls Comment.
  fill(&job->comment, field == Field::kComment ? record.derived_es : record.admin_comment);
}

bool still_runs(const slurmdb_job_rec_t& record) {
  return record.start != 0 && record.end == 0;
}

// The controller's fields of jobs by their ids. Empty where it does not answer.
std::unordered_map<uint32_t, std::string> live_fields(Field field) {
  std::unordered_map<uint32_t, std::string> fields;
  job_info_msg_t* message = nullptr;
  if (slurm_load_jobs(0, &message, SHOW_ALL) != SLURM_SUCCESS) return fields;
  for (uint32_t i = 0; i < message->record_count; ++i) {
    const slurm_job_info_t& job = message->job_array[i];
    fields[job.job_id] = text_of(field == Field::kComment ? job.comment : job.admin_comment);
  }
  slurm_free_job_info_msg(message);
  return fields;
}

std::vector<std::string> state_names(const std::vector<std::string>& numbers) {
  std::vector<std::string> names;
  for (const std::string& number : numbers) {
    names.push_back(text_of(slurm_job_state_string(static_cast<uint32_t>(std::stoul(number)))));
  }
  return names;
}

// Gives jobs out of records one after the other.
class JobStream {
 public:
  // `states`: of a job's last run; empty: any.
  JobStream(const VisitJob& visit, std::vector<std::string> states, size_t rows)
      : visit_(visit), states_(std::move(states)), rows_(rows) {}

  // Where the next run goes; its texts are those of an earlier one.
  Job* next() {
    if (count_ == runs_.size()) runs_.emplace_back();
    return &runs_[count_++];
  }
  // The next run has been filled in: what is complete without it is visited.
  void settle() {
    const std::span<Job> found(runs_.data(), count_);
    const size_t complete = runs_at_front(found);
    if (complete == count_) return;
    visit(complete);
    std::swap(runs_.front(), runs_[count_ - 1]);
    count_ = 1;
  }
  void finish() {
    if (count_ > 0) visit(count_);
  }

 private:
  void visit(size_t count) {
    const std::span<const Job> runs(runs_.data(), count);
    const bool fits = states_.empty() ||
                      std::find(states_.begin(), states_.end(), runs.back().state) != states_.end();
    if (fits) visit_(runs, rows_);
  }

  const VisitJob& visit_;
  std::vector<std::string> states_;
  size_t rows_;
  std::vector<Job> runs_;
  size_t count_ = 0;
};

}  // namespace

tl::expected<void, HistoryError> read_jobs(const JobFilter& filter, const VisitJob& visit) {
  static const Configuration configuration;
  const auto users = uids_of(filter.users);
  if (!users) return tl::make_unexpected(HistoryError{true, users.error()});
  const auto states = state_numbers(filter.states);
  if (!states) return tl::make_unexpected(HistoryError{true, states.error()});
  const bool ever = filter.from.empty() && !filter.jobs.empty();
  const auto from = time_of(filter.from.empty() ? (ever ? "1970-01-02" : "00:00") : filter.from);
  if (!from) return tl::make_unexpected(HistoryError{true, from.error()});
  const auto until = time_of(filter.until.empty() ? "now" : filter.until);
  if (!until) return tl::make_unexpected(HistoryError{true, until.error()});
  if (*until < *from)
    return tl::make_unexpected(HistoryError{true, "the end lies before the start"});

  const std::string here = text_of(slurm_conf.cluster_name);
  const std::vector<std::string> clusters =
      filter.clusters.empty() ? std::vector{here} : filter.clusters;
  std::vector<slurm_selected_step_t> selected(filter.jobs.size());
  ListOwner selected_list(slurm_list_create(nullptr));
  for (size_t i = 0; i < selected.size(); ++i) {
    selected[i].array_task_id = filter.jobs[i].array_task.value_or(NO_VAL);
    selected[i].het_job_offset = NO_VAL;
    selected[i].step_id.job_id = filter.jobs[i].job;
    selected[i].step_id.step_id = NO_VAL;
    selected[i].step_id.step_het_comp = NO_VAL;
    slurm_list_append(selected_list.get(), &selected[i]);
  }
  const ListOwner cluster_list = list_of(clusters);
  const ListOwner user_list = list_of(*users);
  const ListOwner account_list = list_of(filter.accounts);
  const ListOwner partition_list = list_of(filter.partitions);
  const ListOwner state_list = list_of(*states);

  slurmdb_job_cond_t condition{};
  condition.db_flags = SLURMDB_JOB_FLAG_NOTSET;
  // Each run has had GPU time of its own, and tells whether the next one's line was handed on.
  condition.flags = JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC | JOBCOND_FLAG_DUP;
  condition.usage_start = *from;
  condition.usage_end = *until;
  const auto restrict_to = [](const ListOwner& list) {
    return slurm_list_is_empty(list.get()) ? nullptr : list.get();
  };
  condition.cluster_list = restrict_to(cluster_list);
  condition.userid_list = restrict_to(user_list);
  condition.acct_list = restrict_to(account_list);
  condition.partition_list = restrict_to(partition_list);
  condition.state_list = filter.whole_jobs ? nullptr : restrict_to(state_list);
  condition.step_list = restrict_to(selected_list);

  const Connection connection;
  errno = 0;
  const ListOwner records(slurmdb_jobs_get(connection.get(), &condition));
  if (records == nullptr) {
    return tl::make_unexpected(HistoryError{
        false, std::string("slurmdbd gives no jobs: ") + slurm_strerror(errno) +
                   "; is AccountingStorageType=accounting_storage/slurmdbd set, and does sacct "
                   "work on this node?"});
  }
  const GpuCounter gpus(connection.get());
  std::vector<OrderedRecord> ordered = ordered_records(records.get());
  const auto runs_here = [&](const OrderedRecord& one) {
    return still_runs(*one.record) && text_of(one.record->cluster) == here;
  };
  std::unordered_map<uint32_t, std::string> fields;
  if (std::any_of(ordered.begin(), ordered.end(), runs_here)) fields = live_fields(filter.field);
  JobStream jobs(visit, filter.whole_jobs ? state_names(*states) : std::vector<std::string>(),
                 ordered.size());
  for (OrderedRecord& one : ordered) {
    Job* const job = jobs.next();
    fill_job(*one.record, gpus, filter.field, job);
    const auto live = fields.find(one.record->jobid);
    if (live != fields.end() && runs_here(one)) job->comment = live->second;
    one.record.reset();
    jobs.settle();
  }
  jobs.finish();
  return {};
}

}  // namespace mfu
