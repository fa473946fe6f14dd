// Text inside HTML and SVG.
#ifndef MFU_TOPOLOGY_MARKUP_TEXT_HH_
#define MFU_TOPOLOGY_MARKUP_TEXT_HH_

#include <string>
#include <string_view>

namespace mfu {

// `text` as it stands between tags and in quoted attributes: & < > " ' are written as references.
std::string markup_text(std::string_view text);

}  // namespace mfu

#endif
