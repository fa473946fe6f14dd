// What a child of root's is given: nothing of our environment, none of our descriptors.
#include "topology/child_output.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace mfu {
namespace {

using std::chrono::seconds;

TEST(ChildOutput, HasAnEnvironmentOfItsOwn) {
  setenv("LD_STRANGE", "1", 1);
  setenv("PATH", "/tmp", 1);
  const auto output = child_output({"/usr/bin/env"}, seconds(60), 4096);
  ASSERT_TRUE(output) << output.error();
  EXPECT_EQ(*output, "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLC_ALL=C\n");
}

TEST(ChildOutput, HasNoneOfOurDescriptors) {
  const int file = open("/dev/zero", O_RDONLY);  // an exec would keep it
  ASSERT_GE(file, 0);
  const auto output =
      child_output({"/bin/sh", "-c", "readlink /proc/$$/fd/*; exit 0"}, seconds(60), 4096);
  close(file);
  ASSERT_TRUE(output) << output.error();
  EXPECT_TRUE(output->starts_with("/dev/null\npipe:")) << *output;
  EXPECT_EQ(output->find("/dev/zero"), output->npos) << *output;
}

}  // namespace
}  // namespace mfu
