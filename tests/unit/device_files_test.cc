// Which GPUs a process may open.
#include "plugin/device_files.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mfu {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

class DeviceFiles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    ASSERT_EQ(chmod(folder_, 0755), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, mode_t mode) {
    const std::string path = std::string(folder_) + "/" + name;
    std::ofstream(path).flush();
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  // As an ordinary user sees it: to root all files are open.
  std::string seen_by_nobody() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(1);
      const std::string text = openable_gpus(folder_);
      _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    char text[1024];
    const ssize_t size = read(ends[0], text, sizeof(text));
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return {text, static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }

  char folder_[64] = "/tmp/mfu-devices.XXXXXX";
};

TEST_F(DeviceFiles, ThoseThatMayBeReadAndWritten) {
  EXPECT_EQ(seen_by_nobody(), "");
  for (const char* name : {"nvidia10", "nvidia0", "nvidia2"}) put(name, 0666);
  put("nvidia1", 0);
  put("nvidia3", 0444);
  put("nvidia4", 0222);
  EXPECT_EQ(seen_by_nobody(), "0,2,10");
}

TEST_F(DeviceFiles, OtherNamesAreNoGpus) {
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia", "nvidia01", "nvidia1x", "nvidia-1",
                           "nvidia4096", "nvidia99999999999", "xnvidia1", "nvidia 1"}) {
    put(name, 0666);
  }
  EXPECT_EQ(seen_by_nobody(), "");
  put("nvidia4095", 0666);
  EXPECT_EQ(seen_by_nobody(), "4095");
}

TEST_F(DeviceFiles, NoMoreThanANoteHolds) {
  for (int i = 1000; i < 1300; ++i) put("nvidia" + std::to_string(i), 0666);
  const std::string text = seen_by_nobody();
  EXPECT_EQ(text.size(), 128 * 5 - 1);
  EXPECT_TRUE(is_gpu_list(text));
}

TEST_F(DeviceFiles, NoFolderHasNone) {
  EXPECT_EQ(openable_gpus(std::string(folder_) + "/nothing"), "");
}

TEST(GpuList, OnlyWhatIsWritten) {
  for (const char* text : {"0", "7", "0,1", "0,2,10", "4095"})
    EXPECT_TRUE(is_gpu_list(text)) << text;
  for (const char* text : {"", ",", "0,", ",0", "1,0", "1,1", "01", "-1", "0-3", "0 1", "x", "4096",
                           "0,,1", "0\n", "99999999999999999999"}) {
    EXPECT_FALSE(is_gpu_list(text)) << text;
  }
  std::string many = "0";
  for (int i = 1; i < 129; ++i) many += "," + std::to_string(i);
  EXPECT_FALSE(is_gpu_list(many));
}

}  // namespace
}  // namespace mfu
