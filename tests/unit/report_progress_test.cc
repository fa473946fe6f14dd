// mfu-report's progress: on a terminal only, and gone in the end.
#include "plugin/report_progress.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace mfu {
namespace {

std::string waiting_in(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  char text[4096];
  const ssize_t size = read(fd, text, sizeof(text));
  return {text, size < 0 ? 0 : static_cast<size_t>(size)};
}

TEST(Progress, IsWrittenToATerminalAndErased) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(fd, 0);
  {
    Progress progress(fd);
    progress.ask();
    EXPECT_EQ(waiting_in(terminal), "\r\033[Kmfu-report: asking slurmdbd");
    progress.show(1024, 5000);
    EXPECT_EQ(waiting_in(terminal), "\r\033[Kmfu-report: 1024 of 5000 jobs");
    progress.show(2048, 5000);  // at once: twice a second is enough
    EXPECT_EQ(waiting_in(terminal), "");
  }
  EXPECT_EQ(waiting_in(terminal), "\r\033[K");
  close(fd);
  close(terminal);
}

TEST(Progress, IsSilentWhereNobodyLooks) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    Progress progress(ends[1]);
    progress.ask();
    progress.show(1024, 5000);
  }
  EXPECT_EQ(waiting_in(ends[0]), "");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace mfu
