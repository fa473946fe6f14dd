// Reading the accounting line in place, for those who read a million of them.
#ifndef MFU_PLUGIN_COMMENT_PARSE_HH_
#define MFU_PLUGIN_COMMENT_PARSE_HH_

#include <string>
#include <string_view>

#include "plugin/comment.hh"

namespace mfu {

// parse_comment() into *comment, which must be as it is made. Returns the error; then *comment has
// any content. Nothing: the line is sound.
std::string read_comment(std::string_view line, Comment* comment);

}  // namespace mfu

#endif
