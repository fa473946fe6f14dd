#include "plugin/step_log.hh"

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace mfu {

void StepLog::report(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  std::set<std::string>& told = told_[format];
  if (told.size() == kMostTexts || !told.insert(text).second) return;
  if (plan_.site.log.empty()) {
    syslog(LOG_WARNING, "job %u step %u: %s", plan_.job, plan_.step, text);
    return;
  }
  int fd =
      open(plan_.site.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (fd < 0) return;
  dprintf(fd, "mfu-collector[%d]: node %s job %u step %u: %s\n", getpid(), plan_.node.c_str(),
          plan_.job, plan_.step, text);
  close(fd);
}

}  // namespace mfu
