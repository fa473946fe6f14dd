#include "topology/svg_drawing.hh"

#include <cmath>
#include <cstdio>

#include "topology/markup_text.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

// Of the fonts below; small ones are 10 pixels high.
constexpr double kSmallLetter = 6.1;
constexpr double kLetter = 7.3;

constexpr char kStyle[] =
    "text{font-family:monospace;font-size:10px;fill:#222}"
    ".head{font-size:15px;font-weight:bold}.name{font-size:12px;font-weight:bold}"
    ".note{fill:#555}.middle{text-anchor:middle}"
    "rect{stroke:#555;stroke-width:1;rx:3px;fill:#fff}"
    ".page{stroke:none;rx:0}.outer{fill:#f3f4f6}.inner{fill:#fff;stroke:#999}"
    ".gpu{fill:#d9f2c4}.nic{fill:#cfe3fb}.nic-down{fill:#f9b4ab}.nic-unknown{fill:#e3e3e3}"
    ".switch{fill:#fdeccb}.good{fill:#d5efd5}.information{fill:#d9e6f7}.warning{fill:#ffe08a}"
    ".high{fill:#f59c90}"
    "line,path{stroke:#666;stroke-width:1.2;fill:none}.nvlink{stroke:#4b9e2f;stroke-width:2}"
    "rect.nvlink{fill:#d9f2c4}";

std::string escaped(std::string_view text) {
  return markup_text(printable(text));
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", std::round(value * 10) / 10);
  return text;
}

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + number(value) + "\"";
}

}  // namespace

void SvgDrawing::box(const SvgBox& at, const char* style, std::string_view title) {
  body_ += std::string("<rect class=\"") + style + "\"" + attribute("x", at.x) +
           attribute("y", at.y) + attribute("width", at.width) + attribute("height", at.height);
  body_ += title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></rect>\n";
}

void SvgDrawing::line(double x1, double y1, double x2, double y2, const char* style) {
  body_ += std::string("<line class=\"") + style + "\"" + attribute("x1", x1) +
           attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) + "/>\n";
}

void SvgDrawing::arc(double x1, double x2, double y, const char* style) {
  const double deep = y + 16 + std::abs(x2 - x1) / 9;
  body_ += std::string("<path class=\"") + style + "\" d=\"M" + number(x1) + " " + number(y) + "C" +
           number(x1) + " " + number(deep) + " " + number(x2) + " " + number(deep) + " " +
           number(x2) + " " + number(y) + "\"/>\n";
}

void SvgDrawing::words(double x, double y, std::string_view text, const char* style, double width) {
  const bool large = std::string_view(style).find("name") != std::string_view::npos;
  const double letters = width / (large ? kLetter : kSmallLetter);
  const std::string cut =
      width > 0 ? shortened(std::string(text), static_cast<size_t>(letters)) : std::string(text);
  body_ += std::string("<text class=\"") + style + "\"" + attribute("x", x) + attribute("y", y) +
           ">" + escaped(cut) + "</text>\n";
}

std::string SvgDrawing::file(double width, double height, std::string_view title) const {
  const std::string size = attribute("width", width) + attribute("height", height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + size + " viewBox=\"0 0 " + number(width) +
         " " + number(height) + "\">\n<title>" + escaped(title) + "</title>\n<style>" + kStyle +
         "</style>\n<rect class=\"page\"" + size + "/>\n" + body_ + "</svg>\n";
}

}  // namespace mfu
