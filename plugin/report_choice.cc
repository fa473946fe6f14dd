// Which columns mfu-report shows.
#include <algorithm>
#include <charconv>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// Calls visit with the columns of the subject.
template <typename Visit>
auto with_columns(Subject subject, Visit visit) {
  if (subject == Subject::kGroups) return visit(group_columns());
  return subject == Subject::kGoodput ? visit(goodput_columns()) : visit(row_columns());
}

bool same_title(std::string_view left, std::string_view right) {
  const auto upper = [](char byte) {
    return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 'a' + 'A') : byte;
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](char a, char b) { return upper(a) == upper(b); });
}

}  // namespace

tl::expected<std::vector<ChosenColumn>, std::string> parse_columns(std::string_view text,
                                                                   Subject subject) {
  return with_columns(subject, [&](auto columns) {
    using Result = tl::expected<std::vector<ChosenColumn>, std::string>;
    std::vector<ChosenColumn> chosen;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string_view item = text.substr(at, end - at);
      at = end + 1;
      const size_t percent = std::min(item.find('%'), item.size());
      const std::string_view title = item.substr(0, percent);
      size_t place = 0;
      while (place < columns.size() && !same_title(columns[place].title, title)) ++place;
      if (place == columns.size()) {
        std::string what = "there is no column '" + std::string(title) + "'; those that there are:";
        for (const auto& column : columns) what.append(" ").append(column.title);
        return Result(tl::make_unexpected(what));
      }
      ChosenColumn column{place, columns[place].widest};
      if (percent < item.size()) {
        const char* const last = item.data() + item.size();
        const auto [rest, error] = std::from_chars(item.data() + percent + 1, last, column.widest);
        if (error != std::errc() || rest != last || column.widest == 0) {
          return Result(tl::make_unexpected("'" + std::string(item) +
                                            "': the width must be a number above 0: name%30"));
        }
      }
      chosen.push_back(column);
    }
    return Result(std::move(chosen));
  });
}

void write_columns(std::ostream& out, Subject subject) {
  with_columns(subject, [&](auto columns) {
    for (const auto& column : columns) {
      std::string line(column.title);
      line.resize(std::max<size_t>(line.size(), 12), ' ');
      line.append(column.meaning);
      line.erase(line.find_last_not_of(' ') + 1);
      out << line << '\n';
    }
  });
}

std::vector<ChosenColumn> usual_columns(Subject subject, std::span<const GroupBy> by, bool all) {
  std::vector<ChosenColumn> chosen;
  with_columns(subject, [&](auto columns) {
    for (const GroupBy key : by) {
      const auto place = static_cast<size_t>(key);
      chosen.push_back({place, columns[place].widest});
    }
    for (size_t place = by.empty() ? 0 : kGroupBys; place < columns.size(); ++place) {
      const bool usual = all || columns[place].shown != Shown::kAsked;
      if (usual) chosen.push_back({place, columns[place].widest});
    }
  });
  return chosen;
}

}  // namespace mfu
