// Tables and wrapped text for terminals.
#ifndef MFU_TOPOLOGY_TEXT_TABLE_HH_
#define MFU_TOPOLOGY_TEXT_TABLE_HH_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// What is not printable ASCII as '?': names come from files and from the wire, and an escape
// sequence in one would be obeyed by a terminal.
std::string printable(std::string_view text);

// At most `most` bytes, the end of a longer text as "...".
std::string shortened(std::string text, size_t most);

// Lines of at most `width` bytes, broken at blanks; a longer word has a line of its own. At least
// one line.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// Columns, each as wide as its widest cell; nothing behind the last cell of a row.
class TextTable {
 public:
  // Cells are made printable. Rows may have fewer cells than others.
  void add(std::vector<std::string> row);
  // Columns that are empty in all rows are left out; those of `right` are right-aligned.
  std::string text(const std::string& indent, const std::vector<size_t>& right = {}) const;
  size_t width() const;
  bool empty() const { return rows_.empty(); }

 private:
  std::vector<size_t> widths() const;
  std::vector<std::vector<std::string>> rows_;
};

// Columns of the terminal that standard output is, within 60 and 200; 100 where it is none.
// COLUMNS in the environment comes first.
size_t terminal_columns();

}  // namespace mfu

#endif
