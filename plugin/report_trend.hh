// The trend of mfu-report's page: figures over days, weeks or months as SVG.
#ifndef MFU_PLUGIN_REPORT_TREND_HH_
#define MFU_PLUGIN_REPORT_TREND_HH_

#include <iosfwd>
#include <optional>
#include <string_view>

#include "plugin/report_groups.hh"

namespace mfu {

// The number of a period on a scale without gaps: days and weeks since 1970, months since year 0.
// Nothing for a text that Groups does not give, and for "running".
std::optional<long> period_number(GroupBy by, std::string_view text);

// How many periods there are from the first to the last of the groups, both included; 0: none.
// `groups`: by one period.
long periods_spanned(const Groups& groups);

// Ticks from 0 on: `step` is 1, 2, 2.5 or 5 times a power of ten.
struct Axis {
  double step;
  int steps;  // 1 to 5
  double top() const { return step * steps; }
};
// The finest one that reaches `most`; for less than 0.1 as for that.
Axis axis_to(double most);

// Two pictures: MFU, exposed communication and idle time in percent; GPU-hours used, wasted and
// unknown. Nothing for fewer than two periods.
void write_trend(std::ostream& out, const Groups& groups);

}  // namespace mfu

#endif
