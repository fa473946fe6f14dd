#include "plugin/report_trend.hh"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

constexpr double kLeft = 64, kRight = 1176, kTop = 12, kBottom = 170;
constexpr int kLabels = 8;  // along the time

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Point {
  long number;
  std::string_view text;
  const GroupSums* sums;
};

std::vector<Point> points_of(const Groups& groups) {
  std::vector<Point> points;
  for (const Group* group : groups.ordered()) {
    if (const auto found = period_number(groups.by()[0], group->key[0])) {
      points.push_back({*found, group->key[0], &group->sums});
    }
  }
  return points;
}

// 1, 2 or 5 times a power of ten that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (value <= factor * power) return factor * power;
  }
  return 10 * power;
}

// The frame of a picture: time along x, one place a period.
class Picture {
 public:
  Picture(std::ostream& out, const std::vector<Point>& points, double top, const char* name)
      : out_(out),
        first_(points.front().number),
        step_((kRight - kLeft) / static_cast<double>(points.back().number - first_ + 1)),
        top_(top) {
    out << "<svg viewBox=\"0 0 1200 200\" role=\"img\" aria-label=\"" << name << "\">\n";
  }
  ~Picture() { out_ << "</svg>\n"; }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  double x(const Point& point) const {
    return kLeft + (static_cast<double>(point.number - first_) + 0.5) * step_;
  }
  double y(double value) const {
    return kBottom - (kBottom - kTop) * std::clamp(value / top_, 0.0, 1.0);
  }
  double bar_width() const { return std::max(1.0, std::min(60.0, step_ * 0.7)); }

  void axes(const std::vector<Point>& points, const std::string& top_text) {
    for (const double share : {0.0, 0.5, 1.0}) {
      const std::string at = fixed_text(y(top_ * share));
      out_ << "<line class=\"grid\" x1=\"64\" x2=\"1176\" y1=\"" << at << "\" y2=\"" << at
           << "\"/>\n";
    }
    out_ << "<text x=\"56\" y=\"" << kTop + 5 << "\" text-anchor=\"end\">" << top_text
         << "</text><text x=\"56\" y=\"" << kBottom + 4 << "\" text-anchor=\"end\">0</text>\n";
    double free = 0;
    const double apart = (kRight - kLeft) / kLabels;
    for (const Point& point : points) {
      if (x(point) < free) continue;
      free = x(point) + apart;
      out_ << "<text x=\"" << fixed_text(x(point)) << "\" y=\"190\" text-anchor=\"middle\">"
           << point.text << "</text>\n";
    }
  }

 private:
  std::ostream& out_;
  long first_;
  double step_;
  double top_;
};

struct Line {
  const char* name;
  const char* style;
  double (*value)(const GroupSums&);
  uint128 GroupSums::*base;
};
constexpr Line kLines[] = {
    {"MFU", "mfu", [](const GroupSums& s) { return s.mfu(); }, &GroupSums::mfu_ns},
    {"COMM", "comm", [](const GroupSums& s) { return s.exposed_communication(); },
     &GroupSums::observed_ns},
    {"IDLE", "idle", [](const GroupSums& s) { return s.idle(); }, &GroupSums::observed_ns},
};

// Broken where a period is missing or its value is not known.
void write_line(std::ostream& out, const Picture& picture, const std::vector<Point>& points,
                const Line& line) {
  std::string marks;
  std::string stretch;
  long expected = 0;
  const auto end_stretch = [&] {
    if (!stretch.empty()) {
      out << "<polyline class=\"" << line.style << "\" points=\"" << stretch << "\"/>\n";
    }
    stretch.clear();
  };
  for (const Point& point : points) {
    const double value = line.value(*point.sums);
    if (point.number != expected || value < 0) end_stretch();
    expected = point.number + 1;
    if (value < 0) continue;
    const std::string x = fixed_text(picture.x(point));
    const std::string y = fixed_text(picture.y(value));
    stretch += x + "," + y + " ";
    const double share = point.sums->of_allocated(point.sums->*line.base);
    marks += "<circle class=\"" + std::string(line.style) + (share >= 0.5 ? " full" : "") +
             "\" cx=\"" + x + "\" cy=\"" + y + "\" r=\"3.5\"><title>" + std::string(point.text) +
             ": " + line.name + " " + percent_text(value) + " of " + coverage_text(share) +
             " of the GPU-hours</title></circle>\n";
  }
  end_stretch();
  out << marks;
}

double hours(uint128 ns) {
  return static_cast<double>(ns) / 3600e9;
}

void write_bars(std::ostream& out, const Picture& picture, const Point& point) {
  const GroupSums& sums = *point.sums;
  const uint128 used = sums.allocated_ns - sums.wasted_ns - sums.unknown_ns;
  struct Part {
    const char* name;
    uint128 ns;
  };
  uint128 below = 0;
  out << "<g><title>" << point.text << ": ";
  for (const Part& part : {Part{"used", used}, {"wasted", sums.wasted_ns}}) {
    out << part.name << ' ' << fixed_text(hours(part.ns)) << ", ";
  }
  out << "unknown " << fixed_text(hours(sums.unknown_ns)) << " GPU-hours</title>";
  for (const Part& part :
       {Part{"used", used}, {"wasted", sums.wasted_ns}, {"unknown", sums.unknown_ns}}) {
    const double bottom = picture.y(hours(below));
    below += part.ns;
    const double top = picture.y(hours(below));
    out << "<rect class=\"" << part.name << "\" x=\""
        << fixed_text(picture.x(point) - picture.bar_width() / 2) << "\" width=\""
        << fixed_text(picture.bar_width()) << "\" y=\"" << fixed_text(top) << "\" height=\""
        << fixed_text(bottom - top) << "\"/>";
  }
  out << "</g>\n";
}

}  // namespace

std::optional<long> period_number(GroupBy by, std::string_view text) {
  using namespace std::chrono;
  const auto year = number(text.substr(0, 4));
  if (text.size() < 7 || text[4] != '-' || !year) return std::nullopt;
  if (by == GroupBy::kWeek) {
    const auto week = number(text.substr(6));
    if (text[5] != 'W' || !week) return std::nullopt;
    // January 4th is always in the first week, which begins on a Monday.
    const sys_days fourth = std::chrono::year(*year) / January / 4;
    const sys_days monday = fourth - (weekday(fourth) - Monday);
    return (monday.time_since_epoch().count() + 3) / 7 + *week - 1;  // 1970 began on a Thursday
  }
  const auto month = number(text.substr(5, 2));
  if (!month) return std::nullopt;
  if (by == GroupBy::kMonth)
    return text.size() == 7 ? std::optional(*year * 12L + *month - 1) : std::nullopt;
  const auto day = text.size() == 10 ? number(text.substr(8)) : std::nullopt;
  if (by != GroupBy::kDay || text[7] != '-' || !day) return std::nullopt;
  const year_month_day date(std::chrono::year(*year),
                            std::chrono::month(static_cast<unsigned>(*month)),
                            std::chrono::day(static_cast<unsigned>(*day)));
  return sys_days(date).time_since_epoch().count();
}

long periods_spanned(const Groups& groups) {
  const std::vector<Point> points = points_of(groups);
  return points.empty() ? 0 : points.back().number - points.front().number + 1;
}

void write_trend(std::ostream& out, const Groups& groups) {
  const std::vector<Point> points = points_of(groups);
  if (points.size() < 2) return;
  double share = 0;
  double most = 0;
  for (const Point& point : points) {
    for (const Line& line : kLines) share = std::max(share, line.value(*point.sums));
    most = std::max(most, hours(point.sums->allocated_ns));
  }
  const char* const name = group_name(groups.by()[0]);
  out << "<section><h2>By " << name << "</h2><p class=\"soft\">Runs that ended in each " << name
      << ", local time. A hollow mark is of less than half of the GPU-hours; the table of all "
         "figures is mfu-report --by "
      << name
      << ".</p>\n<div class=\"legend\"><span><i class=\"mfu\"></i>MFU</span><span><i "
         "class=\"comm\"></i>exposed communication</span><span><i class=\"idle\"></i>idle"
         "</span></div>\n";
  {
    const double top = share <= 0.25 ? 0.25 : share <= 0.5 ? 0.5 : 1;
    Picture picture(out, points, top, "MFU, exposed communication and idle time");
    picture.axes(points, std::to_string(static_cast<int>(top * 100)) + "%");
    for (const Line& line : kLines) write_line(out, picture, points, line);
  }
  out << "<div class=\"legend\"><span><i class=\"used\"></i>GPU-hours used</span><span><i "
         "class=\"wasted\"></i>wasted</span><span><i class=\"unknown\"></i>not "
         "known</span></div>\n";
  {
    const double top = round_up(std::max(most, 0.1));
    Picture picture(out, points, top, "GPU-hours");
    picture.axes(points, fixed_text(top));
    for (const Point& point : points) write_bars(out, picture, point);
  }
  out << "</section>\n";
}

}  // namespace mfu
