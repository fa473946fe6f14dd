#include "plugin/report_trend.hh"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// Along the time a picture is as wide as its page, in percent; upright it is in pixels. So texts
// have the same size on every display.
constexpr double kTop = 12, kBottom = 170, kHeight = 200;
constexpr int kLabels = 8;     // along the time
constexpr int kMostTicks = 5;  // above 0

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

// Digits that a double's arithmetic has not made up.
std::string tick_text(double value) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), value, std::chars_format::general, 9).ptr};
}

// In percent; a thousandth of them is less than a pixel.
std::string place_text(double percent) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), percent, std::chars_format::fixed, 3).ptr};
}

// The frame of a picture: time along x, one place a period.
class Picture {
 public:
  Picture(std::ostream& out, const std::vector<Point>& points, const Axis& axis, const char* name)
      : out_(out),
        first_(points.front().number),
        step_(100 / static_cast<double>(points.back().number - first_ + 1)),
        axis_(axis) {
    out << "<div class=\"plot\"><svg width=\"100%\" height=\"" << kHeight
        << "\" role=\"img\" aria-label=\"" << name << "\">\n";
  }
  ~Picture() { out_ << "</svg></div>\n"; }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  double x(const Point& point) const {
    return (static_cast<double>(point.number - first_) + 0.5) * step_;
  }
  double y(double value) const {
    return kBottom - (kBottom - kTop) * std::clamp(value / axis_.top(), 0.0, 1.0);
  }
  double bar_width() const { return std::clamp(step_ * 0.7, 0.1, 5.0); }

  void axes(const std::vector<Point>& points, const char* unit) {
    for (int i = 0; i <= axis_.steps; ++i) {
      const double value = i * axis_.step;
      const std::string at = fixed_text(y(value));
      out_ << "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"" << at << "\" y2=\"" << at
           << "\"/><text x=\"-8\" y=\"" << fixed_text(y(value) + 4) << "\" text-anchor=\"end\">"
           << tick_text(value) << unit << "</text>\n";
    }
    double free = 0;
    bool second = false;  // of two; a narrow display has room for the first
    for (const Point& point : points) {
      if (x(point) < free) continue;
      free = x(point) + 100.0 / kLabels;
      out_ << "<text" << (second ? " class=\"second\"" : "") << " x=\"" << place_text(x(point))
           << "%\" y=\"190\" text-anchor=\"middle\">" << point.text << "</text>\n";
      second = !second;
    }
  }

 private:
  std::ostream& out_;
  long first_;
  double step_;
  Axis axis_;
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
      // Points have no percent; this is a picture of 100 x kHeight stretched over the other one.
      out << "<svg viewBox=\"0 0 100 " << kHeight
          << "\" preserveAspectRatio=\"none\"><polyline class=\"" << line.style << "\" points=\""
          << stretch << "\"/></svg>\n";
    }
    stretch.clear();
  };
  for (const Point& point : points) {
    const double value = line.value(*point.sums);
    if (point.number != expected || value < 0) end_stretch();
    expected = point.number + 1;
    if (value < 0) continue;
    const std::string x = place_text(picture.x(point));
    const std::string y = fixed_text(picture.y(value * 100));
    stretch += x + "," + y + " ";
    const double share = point.sums->of_allocated(point.sums->*line.base);
    marks += "<circle class=\"" + std::string(line.style) + (share >= 0.5 ? " full" : "") +
             "\" cx=\"" + x + "%\" cy=\"" + y + "\" r=\"3.5\"><title>" + std::string(point.text) +
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
        << place_text(picture.x(point) - picture.bar_width() / 2) << "%\" width=\""
        << place_text(picture.bar_width()) << "%\" y=\"" << fixed_text(top) << "\" height=\""
        << fixed_text(bottom - top) << "\"/>";
  }
  out << "</g>\n";
}

}  // namespace

Axis axis_to(double most) {
  most = std::max(most, 0.1);
  double power = std::pow(10, std::floor(std::log10(most)) - 1);
  for (;; power *= 10) {
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
      const double step = factor * power;
      const double steps = std::ceil(most / step - 1e-9);
      if (steps <= kMostTicks) return {step, static_cast<int>(steps)};
    }
  }
}

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
    // Above 100% is no share: such a mark stands at the top.
    Picture picture(out, points, axis_to(std::min(share, 1.0) * 100),
                    "MFU, exposed communication and idle time");
    picture.axes(points, "%");
    for (const Line& line : kLines) write_line(out, picture, points, line);
  }
  out << "<div class=\"legend\"><span><i class=\"used\"></i>GPU-hours used</span><span><i "
         "class=\"wasted\"></i>wasted</span><span><i class=\"unknown\"></i>not "
         "known</span></div>\n";
  {
    Picture picture(out, points, axis_to(most), "GPU-hours");
    picture.axes(points, " h");
    for (const Point& point : points) write_bars(out, picture, point);
  }
  out << "</section>\n";
}

}  // namespace mfu
