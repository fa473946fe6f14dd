// mfu-analyze's page: the data as JSON between a fixed head and a fixed script.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiler/analysis.hh"
#include "profiler/analysis_page.hh"

namespace mfu {
namespace {

using Json = nlohmann::ordered_json;

// What a page can show and a browser can draw; the rest is counted on it.
constexpr size_t kMostRows = 128;
constexpr size_t kMostSteps = 100;
constexpr size_t kMostNotes = 50;

Json sums_of(const Attribution& sums) {
  const TimeSums& time = sums.time;
  return {{"span", time.span_ns()},
          {"compute", time.compute_ns() - time.overlapped_communication_ns()},
          {"both", time.overlapped_communication_ns()},
          {"comm", time.exposed_communication_ns()},
          {"memory", time.exposed_memory_ns()},
          {"idle", time.idle_ns()}};
}

// Per mille of each slice, in the order of the script's classes.
Json series_of(const std::vector<TimeSums>& slices) {
  Json series = Json::array();
  for (const TimeSums& slice : slices) {
    const uint64_t span = std::max<uint64_t>(slice.span_ns(), 1);
    auto share = [span](uint64_t ns) { return ns * 1000 / span; };
    series.push_back({share(slice.compute_ns() - slice.overlapped_communication_ns()),
                      share(slice.overlapped_communication_ns()),
                      share(slice.exposed_communication_ns()), share(slice.exposed_memory_ns())});
  }
  return series;
}

// Where the rows lie on a common axis. Clocks that are years apart are no common axis.
struct Axis {
  bool aligned = false;
  int64_t start_ns = 0;
  uint64_t range_ns = 1;
};

int64_t start_of(const Analysis::Row& row) {
  return static_cast<int64_t>(static_cast<uint64_t>(row.device->start_ns) +
                              static_cast<uint64_t>(row.file->head.base_time_ns.value_or(0)));
}

Axis axis_of(const std::vector<Analysis::Row>& rows) {
  Axis axis;
  if (rows.empty()) return axis;
  axis.start_ns = start_of(rows[0]);
  uint64_t longest = 1;
  for (const Analysis::Row& row : rows) {
    axis.start_ns = std::min(axis.start_ns, start_of(row));
    longest = std::max(longest, row.device->sums.time.span_ns());
  }
  for (const Analysis::Row& row : rows) {
    const uint64_t offset =
        static_cast<uint64_t>(start_of(row)) - static_cast<uint64_t>(axis.start_ns);
    axis.range_ns = std::max(axis.range_ns, offset + row.device->sums.time.span_ns());
  }
  axis.aligned = rows.size() > 1 && axis.range_ns / 3 <= longest;
  if (!axis.aligned) axis.range_ns = longest;
  return axis;
}

Json row_of(const Analysis::Row& row, const Axis& axis) {
  auto named = row.file->head.gpus.find(row.device->device);
  const Attribution& sums = row.device->sums;
  const uint64_t offset =
      axis.aligned ? static_cast<uint64_t>(start_of(row)) - static_cast<uint64_t>(axis.start_ns)
                   : 0;
  auto place = [&axis](uint64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(axis.range_ns);
  };
  return {{"label", row.label},
          {"file", row.file->path},
          {"gpu", row.device->device},
          {"name", named == row.file->head.gpus.end() ? "" : named->second},
          {"kernels", sums.compute.count + sums.communication.count},
          {"copies", sums.memory.count},
          {"sums", sums_of(sums)},
          {"from", place(offset)},
          {"to", place(offset + sums.time.span_ns())},
          {"series", series_of(row.device->series)}};
}

Json skew_of(const Analysis& analysis) {
  const SkewFigures& skew = analysis.skew_figures();
  if (skew.aligned == 0) return {};
  Json json = {{"aligned", skew.aligned}, {"transfer", skew.transfer_ns}, {"slowest", Json()}};
  json["ranks"] = Json::array();
  for (size_t i = 0; i < std::min(analysis.rows().size(), kMostRows); ++i) {
    auto found = skew.participants.find(analysis.participant_of(i));
    if (found == skew.participants.end()) continue;
    json["ranks"].push_back({{"label", analysis.rows()[i].label},
                             {"wait", found->second.wait_ns},
                             {"last", found->second.last},
                             {"caused", found->second.caused_ns}});
  }
  if (skew.has_slowest) {
    const SkewFigures::Participant& slowest = skew.participants.at(skew.slowest);
    json["slowest"] = {{"label", analysis.row_of(skew.slowest).label},
                       {"last", slowest.last},
                       {"caused", slowest.caused_ns}};
  }
  return json;
}

Json data_of(const Analysis& analysis) {
  Json json = {{"version", MFU_VERSION}, {"gpus", analysis.rows().size()}};
  const size_t files = analysis.files().size();
  std::string title = std::to_string(files) + (files == 1 ? " trace, " : " traces, ") +
                      std::to_string(analysis.rows().size()) +
                      (analysis.rows().size() == 1 ? " GPU" : " GPUs");
  if (!analysis.files().empty()) title += ": " + analysis.files()[0].path;
  if (files > 1) title += ", ...";
  json["title"] = title;
  std::vector<std::string> notes = analysis.notes();
  if (notes.size() > kMostNotes) notes.resize(kMostNotes);
  json["notes"] = notes;
  json["total"] = sums_of(analysis.total());
  const Axis axis = axis_of(analysis.rows());
  json["aligned"] = axis.aligned;
  json["range"] = axis.range_ns;
  json["rows"] = Json::array();
  for (size_t i = 0; i < std::min(analysis.rows().size(), kMostRows); ++i) {
    json["rows"].push_back(row_of(analysis.rows()[i], axis));
  }
  json["skew"] = skew_of(analysis);
  const std::vector<MergedStep> steps = merged_steps(analysis.files());
  json["all_steps"] = steps.size();
  json["steps"] = Json::array();
  for (size_t i = 0; i < std::min(steps.size(), kMostSteps); ++i) {
    json["steps"].push_back({{"name", steps[i].name},
                             {"files", steps[i].files},
                             {"shortest", steps[i].shortest_ns},
                             {"longest", steps[i].longest_ns},
                             {"sums", sums_of(steps[i].sums)}});
  }
  json["collectives"] = Json::array();
  for (int i = 0; i < kCollectives; ++i) {
    const CountedTime& time = analysis.total().collectives[i];
    if (time.count == 0) continue;
    json["collectives"].push_back({{"name", collective_name(static_cast<Collective>(i))},
                                   {"ns", time.ns},
                                   {"count", time.count}});
  }
  json["kernel_ns"] = analysis.total().compute.ns + analysis.total().communication.ns;
  json["kernel_names"] = analysis.kernel_names();
  json["kernels"] = Json::array();
  for (const KernelFigures& kernel : analysis.kernels()) {
    json["kernels"].push_back({{"short", short_kernel_name(kernel.name, 80)},
                               {"name", kernel.name},
                               {"kind", kind_name(kernel.kind)},
                               {"communication", kernel.kind.communication},
                               {"ns", kernel.time.ns},
                               {"count", kernel.time.count},
                               {"longest", kernel.longest_ns}});
  }
  return json;
}

}  // namespace

void write_html(std::ostream& out, const Analysis& analysis) {
  const std::string data = data_of(analysis).dump(-1, ' ', true, Json::error_handler_t::replace);
  // No text of a trace may end the script element.
  std::string safe;
  for (char c : data) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  out << kPageHead << safe << kPageScript;
}

}  // namespace mfu
