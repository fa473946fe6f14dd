// Boxes, lines and words as a self-contained SVG.
#ifndef MFU_TOPOLOGY_SVG_DRAWING_HH_
#define MFU_TOPOLOGY_SVG_DRAWING_HH_

#include <string>
#include <string_view>

namespace mfu {

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
};

// Coordinates are pixels. Styles are names of classes in the drawing's style sheet: see the source.
// All texts may be hostile.
class SvgDrawing {
 public:
  // `title` is shown by a browser when the mouse is over the box; empty: none.
  void box(const SvgBox& at, const char* style, std::string_view title = {});
  void line(double x1, double y1, double x2, double y2, const char* style);
  // A curve below both points.
  void arc(double x1, double x2, double y, const char* style);
  // Cut to fit `width`, as the style's font needs about; 0: not cut.
  void words(double x, double y, std::string_view text, const char* style, double width = 0);
  // The file.
  std::string file(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace mfu

#endif
