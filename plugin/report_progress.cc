#include "plugin/report_progress.hh"

#include <unistd.h>

#include <cstdio>

namespace mfu {
namespace {

// Back to the line's start, what is in it erased.
constexpr char kErase[] = "\r\033[K";
constexpr size_t kCallsBetweenLooks = 1024;  // at the clock

void write_text(int fd, const char* text, size_t size) {
  // Where nobody reads it, so be it.
  [[maybe_unused]] const ssize_t written = write(fd, text, size);
}

}  // namespace

Progress::Progress(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (shown_) write_text(fd_, kErase, sizeof(kErase) - 1);
  shown_ = false;
}

void Progress::ask() {
  if (!terminal_) return;
  char text[64];
  const int size = std::snprintf(text, sizeof(text), "%smfu-report: asking slurmdbd", kErase);
  write_text(fd_, text, static_cast<size_t>(size));
  shown_ = true;
}

void Progress::show(size_t done, size_t all) {
  if (!terminal_ || calls_++ % kCallsBetweenLooks != 0) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double since = static_cast<double>(now.tv_sec - last_.tv_sec) +
                       static_cast<double>(now.tv_nsec - last_.tv_nsec) * 1e-9;
  if (since < 0.5) return;
  last_ = now;
  char text[96];
  const int size =
      std::snprintf(text, sizeof(text), "%smfu-report: %zu of %zu jobs", kErase, done, all);
  write_text(fd_, text, static_cast<size_t>(size));
  shown_ = true;
}

}  // namespace mfu
