// mfu-report's metrics for node_exporter's textfile collector: gauges over the jobs that were asked
// for, a sample a group. Sums of disjoint groups, so that
//   sum by (account) (mfu_report_model_flops) / sum by (account) (mfu_report_capacity_flops)
// is an account's MFU, weighted as everywhere.
#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

constexpr uint128 kNsPerMs = 1'000'000;
constexpr std::string_view kOther = "_other";

double seconds(uint128 ns) {
  return static_cast<double>(ns) / 1e9;
}
// 0 of a base: nothing of it is known.
double over(uint128 base, double value) {
  return base == 0 ? -1 : value;
}

struct Metric {
  const char* name;
  const char* help;
  double (*value)(const GroupSums&);  // negative: not known
  bool based = false;                 // has the FLOPs' basis as a label
};
constexpr Metric kMetrics[] = {
    {"jobs", "Jobs that had GPUs for a time.",
     [](const GroupSums& s) { return static_cast<double>(s.jobs); }},
    {"gpu_seconds", "Allocated GPU time: GPUs x elapsed time.",
     [](const GroupSums& s) { return seconds(s.allocated_ns); }},
    {"mfu_ratio", "Model FLOPs utilisation, weighted by GPU time and peak.",
     [](const GroupSums& s) { return s.mfu(); }, true},
    {"mfu_gpu_seconds", "GPU time that mfu_report_mfu_ratio is of.",
     [](const GroupSums& s) { return seconds(s.mfu_ns); }},
    {"model_flops", "Model FLOPs of the runs with an MFU.",
     [](const GroupSums& s) { return over(s.mfu_ns, static_cast<double>(s.model_flops)); }},
    {"capacity_flops", "Dense peak x GPU time of the runs with an MFU.",
     [](const GroupSums& s) { return over(s.mfu_ns, static_cast<double>(s.capacity_flop)); }},
    {"peak_gpu_seconds", "GPU time that the model FLOPs take at the full peak.",
     [](const GroupSums& s) { return over(s.mfu_ns, s.peak_ns / 1e9); }},
    {"hfu_ratio", "The same as MFU with the FLOPs that were executed.",
     [](const GroupSums& s) { return s.hfu(); }},
    {"hfu_gpu_seconds", "GPU time that mfu_report_hfu_ratio is of.",
     [](const GroupSums& s) { return seconds(s.hfu_ns); }},
    {"observed_gpu_seconds",
     "GPU time that was observed: the base of the idle and the communication ratio.",
     [](const GroupSums& s) { return seconds(s.observed_ns); }},
    {"communication_exposed_ratio", "Share of the observed GPU time: exposed communication.",
     [](const GroupSums& s) { return s.exposed_communication(); }},
    {"idle_ratio", "Share of the observed GPU time: nothing ran.",
     [](const GroupSums& s) { return s.idle(); }},
    {"goodput_ratio", "Share of the time of runs that is known to be training.",
     [](const GroupSums& s) { return s.goodput(); }},
    {"goodput_gpu_seconds", "GPU time that mfu_report_goodput_ratio is of.",
     [](const GroupSums& s) { return seconds(s.goodput_ns); }},
    {"energy_joules", "Energy of the GPUs, as far as it is known.",
     [](const GroupSums& s) { return over(s.energy_ms, static_cast<double>(s.energy_j)); }},
    {"energy_gpu_seconds", "GPU time that mfu_report_energy_joules is of.",
     [](const GroupSums& s) { return seconds(s.energy_ms * kNsPerMs); }},
    {"wasted_gpu_seconds", "GPU time known to be idle or outside of job steps.",
     [](const GroupSums& s) { return over(s.allocated_ns - s.unknown_ns, seconds(s.wasted_ns)); }},
    {"unknown_gpu_seconds", "GPU time of which it is not known whether it was wasted.",
     [](const GroupSums& s) { return seconds(s.unknown_ns); }},
};

// Bytes of the UTF-8 character that the text begins with (RFC 3629); 0: it begins with none.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, a surrogate, beyond the last character.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : size;
}

// A terminal that shows the file would obey them.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < ' ' || first == 0x7f ||
         (first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

// A label's value, quoted. Other names give other values, but for bytes that no file in UTF-8 can
// have, and for control characters.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t size = character_size(text);
    const std::string_view character = text.substr(0, size);
    if (character == "\n") {
      result += "\\n";
    } else if (size == 0 || is_control(character)) {
      result += "\xef\xbf\xbd";  // U+FFFD, the replacement character
    } else {
      if (character == "\"" || character == "\\") result += '\\';
      result += character;
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return result + '"';
}

// A group's text as its label. "_other" is that of the groups that are one: who is called so, with
// any number of '_', gets one more.
std::string label_text(std::string_view text) {
  if (text.empty()) return "-";
  const std::string_view bare = text.substr(std::min(text.find_first_not_of('_'), text.size()));
  const bool taken = bare.size() < text.size() && bare == kOther.substr(1);
  return (taken ? "_" : "") + std::string(text);
}

class MetricsReport : public Report {
 public:
  MetricsReport(std::ostream& out, const MetricsStyle& style)
      : out_(out), style_(style), groups_({style.by}) {}

  void add(std::span<const Job> runs) override { groups_.add(runs); }

  void finish() override {
    collect();
    for (const Metric& metric : kMetrics) write(metric);
    write_single("groups_summed_up",
                 "Groups that were too many and are one, with _other in each label.",
                 static_cast<double>(summed_up_));
    write_single("last_run_timestamp_seconds", "When this was written, Unix time.",
                 static_cast<double>(style_.now));
  }

 private:
  struct Series {
    std::string labels;
    GroupSums sums;
  };

  // Prometheus refuses a file with the same series twice.
  void collect() {
    GroupSums others;
    std::unordered_map<std::string, size_t> places;
    for (const Group* group : groups_[0].ordered()) {
      std::string labels = labels_of([&](size_t i) { return label_text(group->key[i]); });
      const auto place = places.find(labels);
      if (place != places.end()) {
        series_[place->second].sums += group->sums;
      } else if (series_.size() == style_.most_groups) {
        others += group->sums;
        ++summed_up_;
      } else {
        places.emplace(labels, series_.size());
        series_.push_back({std::move(labels), group->sums});
      }
    }
    if (summed_up_ > 0) {
      series_.push_back({labels_of([](size_t) { return kOther; }), others});
    }
  }

  template <typename TextOf>
  std::string labels_of(TextOf text_of) const {
    std::string labels;
    for (size_t i = 0; i < style_.by.size(); ++i) {
      labels.append(i == 0 ? "" : ",").append(group_name(style_.by[i])).append("=");
      labels += quoted(text_of(i));
    }
    return labels;
  }

  void write_head(const char* name, const char* help) {
    out_ << "# HELP mfu_report_" << name << ' ' << help << "\n# TYPE mfu_report_" << name
         << " gauge\n";
  }

  void write(const Metric& metric) {
    bool first = true;
    for (const Series& series : series_) {
      const double value = metric.value(series.sums);
      if (!(value >= 0)) continue;
      if (std::exchange(first, false)) write_head(metric.name, metric.help);
      out_ << "mfu_report_" << metric.name << '{' << series.labels;
      if (metric.based) out_ << ",basis=" << quoted(series.sums.bases_text());
      out_ << "} ";
      out_ << number_text(value) << '\n';
    }
  }

  void write_single(const char* name, const char* help, double value) {
    write_head(name, help);
    out_ << "mfu_report_" << name << ' ';
    out_ << number_text(value) << '\n';
  }

  std::ostream& out_;
  const MetricsStyle style_;
  Groupings groups_;
  std::vector<Series> series_;
  size_t summed_up_ = 0;
};

}  // namespace

std::unique_ptr<Report> make_metrics(std::ostream& out, const MetricsStyle& style) {
  return std::make_unique<MetricsReport>(out, style);
}

}  // namespace mfu
