// How far mfu-report has come, on a terminal's standard error: reading a month of a cluster takes
// long.
#ifndef MFU_PLUGIN_REPORT_PROGRESS_HH_
#define MFU_PLUGIN_REPORT_PROGRESS_HH_

#include <cstddef>
#include <ctime>

namespace mfu {

// One line, written over and over, and gone in the end. Silent where `fd` is no terminal.
class Progress {
 public:
  explicit Progress(int fd);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The accounting database is asked, which is most of the time.
  void ask();
  // `done` of `all`; shown twice a second at most.
  void show(size_t done, size_t all);
  // Takes the line away, before something else is written to the terminal.
  void clear();

 private:
  int fd_;
  bool terminal_;
  bool shown_ = false;
  size_t calls_ = 0;
  timespec last_{};
};

}  // namespace mfu

#endif
