#include "plugin/accounting.hh"

#include <netdb.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>

#include "topology/host_list.hh"

namespace mfu::accounting {
namespace {

std::string text_of(const char* text) {
  return text != nullptr ? text : "";
}

std::string slurm_reason(int code) {
  return text_of(slurm_strerror(code));
}

// Jobs and steps are numbers up to Slurm 24.11 and a structure in 26.05: by what the header says.
slurm_step_id_t step_id(uint32_t job, uint32_t step) {
  slurm_step_id_t id{};
  id.job_id = job;
  id.step_id = step;
  id.step_het_comp = NO_VAL;
  return id;
}

template <typename Load>
int load_job_by(Load* load, job_info_msg_t** message, uint32_t job, uint16_t what) {
  if constexpr (std::is_invocable_v<Load*, job_info_msg_t**, uint32_t, uint16_t>) {
    return load(message, job, what);
  } else {
    return load(message, step_id(job, NO_VAL), what);
  }
}

// By the release's name for it.
template <typename Configuration>
void free_configuration(Configuration* loaded) {
  if constexpr (requires { slurm_free_conf(loaded); }) {
    slurm_free_conf(loaded);
  } else {
    slurm_free_ctl_conf(loaded);
  }
}

template <typename Load>
int load_step_by(Load* load, const StepPlan& plan, job_step_info_response_msg_t** message) {
  if constexpr (std::is_invocable_v<Load*, time_t, uint32_t, uint32_t,
                                    job_step_info_response_msg_t**, uint16_t>) {
    return load(0, plan.job, plan.step, message, SHOW_ALL);
  } else {
    slurm_step_id_t id = step_id(plan.job, plan.step);
    return load(&id, message, SHOW_ALL);
  }
}

// What a running job's record says.
struct JobState {
  bool lives = false;
  time_t end = 0;    // 0: unknown
  std::string name;  // as slurmctld takes it: an array's task only by its array form, for a bare id
                     // can mean the whole array
  std::string text;
};

// A task of an array. The plan's numbers come from the step's environment, which its user writes:
// what is written to has those of Slurm's own record.
struct ArrayTask {
  uint32_t job = 0;  // 0: none
  uint32_t task = NO_VAL;

  bool exists() const { return job != 0 && task != NO_VAL; }
};

tl::expected<JobState, int> load_job(const StepPlan& plan) {
  job_info_msg_t* message = nullptr;
  if (load_job_by(slurm_load_job, &message, plan.job, SHOW_DETAIL) != SLURM_SUCCESS) {
    return tl::make_unexpected(errno);
  }
  JobState state;
  for (uint32_t i = 0; i < message->record_count; ++i) {
    const slurm_job_info_t& job = message->job_array[i];
    if (job.job_id != plan.job || job.restart_cnt != plan.run) continue;
    const ArrayTask array = {job.array_job_id, job.array_task_id};
    state.name = array.exists() ? std::to_string(array.job) + "_" + std::to_string(array.task)
                                : std::to_string(plan.job);
    state.end = job.end_time;
    state.lives = (job.job_state & JOB_STATE_BASE) <= JOB_SUSPENDED;
    state.text = text_of(plan.site.field == Field::kComment ? job.comment : job.admin_comment);
  }
  slurm_free_job_info_msg(message);
  return state;
}

int update_job(const StepPlan& plan, std::string id, std::string text) {
  job_desc_msg_t update;
  slurm_init_job_desc_msg(&update);
  update.job_id_str = id.data();
  if (plan.site.field == Field::kComment) {
    update.comment = text.data();
  } else {
    update.admin_comment = text.data();
  }
  job_array_resp_msg_t* response = nullptr;
  if (slurm_update_job2(&update, &response) != SLURM_SUCCESS) return errno;
  int code = SLURM_SUCCESS;
  if (response != nullptr) {
    for (uint32_t i = 0; i < response->job_array_count; ++i) {
      if (response->error_code[i] != SLURM_SUCCESS)
        code = static_cast<int>(response->error_code[i]);
    }
    slurm_free_job_array_resp(response);
  }
  return code;
}

bool over(int code) {
  return code == ESLURM_JOB_FINISHED || code == ESLURM_ALREADY_DONE ||
         code == ESLURM_INVALID_JOB_ID || code == ESLURM_TRANSITION_STATE_NO_UPDATE;
}

// A DNS server that keeps silent takes 10 s, and the first node does not wait for so long.
constexpr auto kLookupTime = std::chrono::milliseconds(500);

bool resolves_soon(const std::string& host) {
  auto lookup = std::make_shared<std::promise<bool>>();
  auto resolves = lookup->get_future();
  std::thread([lookup, host] {
    addrinfo* found = nullptr;
    const bool good = getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0;
    if (good) freeaddrinfo(found);
    lookup->set_value(good);
  }).detach();
  return resolves.wait_for(kLookupTime) == std::future_status::ready && resolves.get();
}

// --- slurmdbd

struct ListDeleter {
  void operator()(xlist* list) const { slurm_list_destroy(list); }
};
using ListPointer = std::unique_ptr<xlist, ListDeleter>;

class Database {
 public:
  Database() {
    uint16_t flags = 0;
    connection_ = slurmdb_connection_get(&flags);
  }
  ~Database() {
    if (connection_ != nullptr) slurmdb_connection_close(&connection_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  void* get() const { return connection_; }

 private:
  void* connection_ = nullptr;
};

// Selects the job, by its array's numbers if it has any: by a bare id the first task of an array
// stands for all of them. `submit` != 0: the row that was submitted then (a requeued job has
// several).
class Selection {
 public:
  Selection(uint32_t job, const ArrayTask& array, time_t submit) {
    step_.array_task_id = NO_VAL;
    step_.het_job_offset = NO_VAL;
    step_.step_id.job_id = job;
    step_.step_id.step_id = NO_VAL;
    step_.step_id.step_het_comp = NO_VAL;
    if (array.exists()) {
      step_.step_id.job_id = array.job;
      step_.array_task_id = array.task;
    }
    steps_.reset(slurm_list_create(nullptr));
    slurm_list_append(steps_.get(), &step_);
    condition_.step_list = steps_.get();
    condition_.flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_DEFAULT_USAGE;
    condition_.db_flags = SLURMDB_JOB_FLAG_NOTSET;
    condition_.usage_start = submit;
  }
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;
  slurmdb_job_cond_t* get() { return &condition_; }

 private:
  slurm_selected_step_t step_{};
  ListPointer steps_;
  slurmdb_job_cond_t condition_{};
};

struct Row {
  time_t submit = 0;
  time_t end = 0;  // 0: it has not
  ArrayTask array;
  std::string text;
};

// Clocks of nodes and of the controller differ, by less than this where MUNGE is to work well.
constexpr time_t kClockSkew = 60;

// The row of the run in which the step started: the one whose time is nearest.
tl::expected<std::optional<Row>, std::string> load_row(void* connection, const StepPlan& plan,
                                                       const ArrayTask& array) {
  Selection selection(plan.job, array, 0);
  ListPointer jobs(slurmdb_jobs_get(connection, selection.get()));
  if (jobs == nullptr) return tl::make_unexpected("slurmdbd: " + slurm_reason(errno));
  auto started = static_cast<time_t>(plan.started_ns / 1'000'000'000);
  std::optional<Row> row;
  time_t nearest = kClockSkew;
  auto it = slurm_list_iterator_create(jobs.get());
  while (auto* job = static_cast<slurmdb_job_rec_t*>(slurm_list_next(it))) {
    if (job->jobid != plan.job || job->start == 0) continue;
    const time_t before = job->start - started;
    const time_t after = job->end != 0 ? started - job->end : 0;
    const time_t outside = std::max({before, after, time_t{0}});
    if (outside > nearest) continue;
    nearest = outside;
    row = Row{job->submit,
              job->end,
              {job->array_job_id, job->array_task_id},
              text_of(plan.site.field == Field::kComment ? job->derived_es : job->admin_comment)};
  }
  slurm_list_iterator_destroy(it);
  return row;
}

// By the plan's array, whose other tasks may be many, or where that has no such job, without.
tl::expected<std::optional<Row>, std::string> load_row(void* connection, const StepPlan& plan) {
  const ArrayTask array = {plan.array_job, plan.array_task};
  auto row = load_row(connection, plan, array);
  if (array.exists() && row && !*row) row = load_row(connection, plan, {});
  return row;
}

}  // namespace

Outcome edit_in_controller(const StepPlan& plan, const Edit& edit, std::string* why) {
  auto state = load_job(plan);
  if (!state) {
    if (over(state.error())) return Outcome::kFinished;
    *why = "slurmctld: " + slurm_reason(state.error());
    return Outcome::kFailed;
  }
  if (!state->lives) return Outcome::kFinished;
  auto text = edit(state->text);
  if (!text) {
    *why = text.error();
    return Outcome::kForbidden;
  }
  if (!*text) return Outcome::kUnchanged;
  int code = update_job(plan, state->name, **text);
  if (code == SLURM_SUCCESS) return Outcome::kWritten;
  if (over(code)) return Outcome::kFinished;
  *why = "slurmctld: " + slurm_reason(code);
  return Outcome::kFailed;
}

Outcome edit_in_database(const StepPlan& plan, const Edit& edit, std::string* why) {
  Database database;
  if (database.get() == nullptr) {
    *why = "slurmdbd: " + slurm_reason(errno);
    return Outcome::kFailed;
  }
  auto row = load_row(database.get(), plan);
  if (!row) {
    *why = row.error();
    return Outcome::kFailed;
  }
  if (!*row || (*row)->end == 0) return Outcome::kNotYet;
  auto text = edit((*row)->text);
  if (!text) {
    *why = text.error();
    return Outcome::kForbidden;
  }
  if (!*text) return Outcome::kUnchanged;
  Selection selection(plan.job, (*row)->array, (*row)->submit);
  slurmdb_job_rec_t change{};
  std::string value = **text;
  (plan.site.field == Field::kComment ? change.derived_es : change.admin_comment) = value.data();
  change.derived_ec = NO_VAL;
  ListPointer changed(slurmdb_job_modify(database.get(), selection.get(), &change));
  // Success with an empty list has been seen: nothing was stored.
  if (changed == nullptr || slurm_list_count(changed.get()) == 0) {
    *why = "slurmdbd: " + slurm_reason(errno);
    return Outcome::kFailed;
  }
  // Without the commit slurmdbd rolls the change back when the connection closes, and says nothing.
  // A second connection reads back, for the first one would see its own change in any case.
  if (slurmdb_connection_commit(database.get(), true) != SLURM_SUCCESS) {
    *why = "slurmdbd: " + slurm_reason(errno);
    return Outcome::kFailed;
  }
  Database reader;
  if (reader.get() == nullptr) return Outcome::kFailed;
  auto stored = load_row(reader.get(), plan);
  if (stored && *stored && (*stored)->text == value) return Outcome::kWritten;
  *why = "slurmdbd did not keep the comment";
  return Outcome::kFailed;
}

bool has_database() {
  slurm_conf_t* conf = nullptr;
  if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) return true;
  const bool has = text_of(conf->accounting_storage_type) == "accounting_storage/slurmdbd";
  free_configuration(conf);
  return has;
}

std::optional<uint32_t> restart_count(uint32_t job_id) {
  job_info_msg_t* message = nullptr;
  if (load_job_by(slurm_load_job, &message, job_id, SHOW_ALL) != SLURM_SUCCESS) {
    return std::nullopt;
  }
  std::optional<uint32_t> count;
  for (uint32_t i = 0; i < message->record_count; ++i) {
    const slurm_job_info_t& job = message->job_array[i];
    if (job.job_id == job_id) count = job.restart_cnt;
  }
  slurm_free_job_info_msg(message);
  return count;
}

std::optional<uint64_t> job_end_ns(const StepPlan& plan) {
  const auto nanoseconds = [](time_t time) { return static_cast<uint64_t>(time) * 1'000'000'000; };
  if (const auto state = load_job(plan)) {
    if (state->lives) return std::nullopt;
    if (state->end != 0) return nanoseconds(state->end);
  }
  Database database;
  if (database.get() == nullptr) return std::nullopt;
  const auto row = load_row(database.get(), plan);
  if (!row || !*row || (*row)->end == 0) return std::nullopt;
  return nanoseconds((*row)->end);
}

bool step_runs(const StepPlan& plan) {
  if (plan.batch) {
    auto state = load_job(plan);
    return state ? state->lives : !over(state.error());
  }
  job_step_info_response_msg_t* steps = nullptr;
  if (load_step_by(slurm_get_job_steps, plan, &steps) != SLURM_SUCCESS) {
    return !over(errno);
  }
  bool found = steps->job_step_count != 0;
  slurm_free_job_step_info_response_msg(steps);
  return found;
}

// Not by libslurm: the list comes from the step's environment, which its user writes, and libslurm
// makes gigabytes of a[0-9999][0-9999][0-9999].
std::string first_node(const std::string& node_list) {
  const auto nodes = expand_hosts(node_list);
  return nodes && !nodes->empty() ? nodes->front() : "";
}

std::string node_address(const std::string& node) {
  if (resolves_soon(node)) return node;
  node_info_msg_t* message = nullptr;
  std::string name = node;
  if (slurm_load_node_single(&message, name.data(), SHOW_ALL) != SLURM_SUCCESS) return "";
  std::string address;
  if (message->record_count != 0) address = text_of(message->node_array[0].node_addr);
  slurm_free_node_info_msg(message);
  return address;
}

}  // namespace mfu::accounting
