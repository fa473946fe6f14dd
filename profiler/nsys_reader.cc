#include "profiler/nsys_reader.hh"

#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "profiler/steps.hh"

namespace mfu {
namespace {

using std::string_view;

struct Closer {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, Closer>;
using Statement = std::unique_ptr<sqlite3_stmt, Closer>;

// The upper bits of nsys's global ids name the process; what is left is a thread.
constexpr int kThreadBits = 24;

// Pushed and popped, or started and ended; the other types are marks, domains and names.
constexpr char kOnlyRanges[] = " WHERE t.eventType IN (59, 60)";

// More steps than that are not remembered.
constexpr size_t kMostRanges = 1'000'000;

class Report {
 public:
  Report(sqlite3* database, TraceSink* sink, TraceHead* head,
         const std::function<void(uint64_t, uint64_t)>& progress)
      : database_(database), sink_(sink), head_(head), progress_(progress) {}

  std::string read() {
    for (const char* table : kTables) {
      if (has(table)) rows_ += count(table);
    }
    if (!error_.empty()) return error_;
    if (!has("StringIds") && !has("TARGET_INFO_SESSION_START_TIME") && rows_ == 0) {
      return "a SQLite database, but no nsys export (no table StringIds)";
    }
    read_gpus();
    read_operations(kKernels, OperationKind::kKernel);
    read_operations(kCopies, OperationKind::kCopy);
    read_operations(kFills, OperationKind::kFill);
    read_launches();
    read_steps();
    if (has("CUPTI_ACTIVITY_KIND_GRAPH_TRACE") && count("CUPTI_ACTIVITY_KIND_GRAPH_TRACE") > 0) {
      head_->note =
          "CUDA graphs were traced as a whole: their kernels are not in the report (profile with "
          "--cuda-graph-trace=node)";
    }
    return error_;
  }

 private:
  static constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
  static constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
  static constexpr const char* kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
  static constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
  static constexpr const char* kRanges = "NVTX_EVENTS";
  static constexpr const char* kTables[] = {kKernels, kCopies, kFills, kCalls, kRanges};

  Statement prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    if (error_.empty() &&
        sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
      error_ = std::string("SQLite: ") + sqlite3_errmsg(database_);
    }
    return Statement(statement);
  }
  // The next row; false at the end and at an error.
  bool step(const Statement& statement) {
    if (!statement || !error_.empty()) return false;
    const int result = sqlite3_step(statement.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) {
      error_ = std::string("SQLite: ") + sqlite3_errmsg(database_);
    }
    return result == SQLITE_ROW;
  }
  static int64_t integer(const Statement& row, int column) {
    return sqlite3_column_int64(row.get(), column);
  }
  static bool null(const Statement& row, int column) {
    return sqlite3_column_type(row.get(), column) == SQLITE_NULL;
  }
  static string_view text(const Statement& row, int column) {
    const unsigned char* bytes = sqlite3_column_text(row.get(), column);
    if (bytes == nullptr) return {};
    return {reinterpret_cast<const char*>(bytes),
            static_cast<size_t>(sqlite3_column_bytes(row.get(), column))};
  }

  bool has(const std::string& table) {
    return step(
        prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '" + table + "'"));
  }
  bool has(const std::string& table, const std::string& column) {
    return step(
        prepare("SELECT 1 FROM pragma_table_info('" + table + "') WHERE name = '" + column + "'"));
  }
  // Fast, of a table without deletions.
  uint64_t count(const std::string& table) {
    Statement row = prepare("SELECT max(rowid) FROM " + table);
    return step(row) ? static_cast<uint64_t>(integer(row, 0)) : 0;
  }

  void read_gpus() {
    if (!has("TARGET_INFO_GPU", "id") || !has("TARGET_INFO_GPU", "name")) return;
    Statement row = prepare("SELECT id, name FROM TARGET_INFO_GPU");
    while (step(row)) head_->gpus[integer(row, 0)] = text(row, 1);
  }

  // Correlation ids count within a process.
  static int64_t correlation(int64_t process, int64_t id) {
    return static_cast<int64_t>(static_cast<uint64_t>(process) << 32 |
                                (static_cast<uint64_t>(id) & 0xffffffff));
  }

  void read_operations(const std::string& table, OperationKind kind) {
    if (!has(table)) return;
    const bool kernels = kind == OperationKind::kKernel;
    const std::string process = has(table, "globalPid") ? "globalPid" : "0";
    Statement row =
        prepare("SELECT t.start, t.end, t.deviceId, t.streamId, t.correlationId, " + process +
                ", " + (kernels ? "s.value" : "NULL") + " FROM " + table + " t" +
                (kernels ? " LEFT JOIN StringIds s ON s.id = t.demangledName" : ""));
    while (step(row)) {
      TraceOperation operation;
      operation.kind = kind;
      operation.start_ns = integer(row, 0);
      operation.out_of_range =
          __builtin_sub_overflow(integer(row, 1), integer(row, 0), &operation.duration_ns);
      if (operation.out_of_range) operation.start_ns = operation.duration_ns = 0;
      operation.device = integer(row, 2);
      operation.process =
          static_cast<int64_t>(static_cast<uint64_t>(integer(row, 5)) >> kThreadBits);
      operation.stream = text(row, 3);
      if (!null(row, 4)) operation.correlation = correlation(operation.process, integer(row, 4));
      operation.name = kernels ? text(row, 6) : kind == OperationKind::kCopy ? "Memcpy" : "Memset";
      sink_->operation(operation);
      advance();
    }
  }

  void read_launches() {
    if (!has(kCalls) || !has(kCalls, "nameId")) return;
    Statement row =
        prepare(std::string("SELECT t.start, t.correlationId, t.globalTid, s.value FROM ") +
                kCalls + " t LEFT JOIN StringIds s ON s.id = t.nameId");
    while (step(row)) {
      const int64_t process =
          static_cast<int64_t>(static_cast<uint64_t>(integer(row, 2)) >> kThreadBits);
      const string_view name = text(row, 3);
      const bool kernel = name.find("LaunchKernel") != name.npos ||
                          name.find("LaunchCooperativeKernel") != name.npos ||
                          name.find("GraphLaunch") != name.npos;
      if (!null(row, 1))
        sink_->launch({integer(row, 0), correlation(process, integer(row, 1)), kernel});
      advance();
    }
  }

  struct Range {
    int64_t thread;
    int64_t start_ns;
    int64_t end_ns;
    std::string name;
  };

  // NVTX ranges that are training steps by their names, as the injected library counts them: of
  // nested ones the outermost, and in each process those of the thread that has most.
  void read_steps() {
    if (!has(kRanges) || !has(kRanges, "end") || !has(kRanges, "text")) return;
    const bool registered = has(kRanges, "textId");
    Statement row = prepare(
        std::string("SELECT t.start, t.end, ") + (has(kRanges, "globalTid") ? "t.globalTid" : "0") +
        ", " + (registered ? "coalesce(nullif(t.text, ''), s.value)" : "t.text") + " FROM " +
        kRanges + " t" + (registered ? " LEFT JOIN StringIds s ON s.id = t.textId" : "") +
        (has(kRanges, "eventType") ? kOnlyRanges : ""));
    std::vector<Range> ranges;
    while (step(row)) {
      advance();
      const string_view name = text(row, 3);
      if (null(row, 1) || integer(row, 1) <= integer(row, 0) || !is_step_range(name)) continue;
      if (ranges.size() == kMostRanges) continue;
      ranges.push_back({integer(row, 2), integer(row, 0), integer(row, 1), std::string(name)});
    }
    keep_outermost(&ranges);
    std::map<int64_t, size_t> counts;
    for (const Range& range : ranges) ++counts[range.thread];
    std::map<uint64_t, int64_t> threads;
    for (const auto& [thread, count] : counts) {
      const auto [found, first] =
          threads.emplace(static_cast<uint64_t>(thread) >> kThreadBits, thread);
      if (!first && count > counts[found->second]) found->second = thread;
    }
    for (const Range& range : ranges) {
      if (threads[static_cast<uint64_t>(range.thread) >> kThreadBits] != range.thread) continue;
      sink_->step({range.start_ns, range.end_ns, range.name, false});
    }
  }

  static void keep_outermost(std::vector<Range>* ranges) {
    std::sort(ranges->begin(), ranges->end(), [](const Range& a, const Range& b) {
      return std::tie(a.thread, a.start_ns, b.end_ns) < std::tie(b.thread, b.start_ns, a.end_ns);
    });
    const Range* outer = nullptr;
    std::vector<Range> kept;
    kept.reserve(ranges->size());
    for (const Range& range : *ranges) {
      if (outer != nullptr && range.thread == outer->thread && range.end_ns <= outer->end_ns) {
        continue;
      }
      kept.push_back(range);
      outer = &kept.back();
    }
    *ranges = std::move(kept);
  }

  void advance() {
    if ((++read_ & 0xfff) == 0) progress_(read_, rows_);
  }

  sqlite3* database_;
  TraceSink* sink_;
  TraceHead* head_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  uint64_t rows_ = 0;
  uint64_t read_ = 0;
  std::string error_;
};

}  // namespace

std::string read_nsys(const std::string& path, TraceSink* sink, TraceHead* head,
                      const std::function<void(uint64_t, uint64_t)>& progress) {
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  Database database(opened);
  if (result != SQLITE_OK) return std::string("SQLite: ") + sqlite3_errstr(result);
  // A report may come from anyone.
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return Report(opened, sink, head, progress).read();
}

}  // namespace mfu
