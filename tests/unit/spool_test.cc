#include "plugin/spool.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/node_sums.hh"

namespace mfu {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

Record sound_record(uint32_t pid = 1) {
  Record record;
  record.size = sizeof(Record);
  record.sequence = 1;
  record.pid = pid;
  record.checksum = record_checksum(record);
  return record;
}

std::string file_of(const Record& record, size_t size = kRecordFileSize) {
  std::string bytes(size, '\0');
  std::memcpy(bytes.data() + kSlotSize, &record, sizeof(record));
  return bytes;
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// In a child that is the ordinary user nobody. True when `act` returned true.
template <typename Act>
bool as_nobody(Act&& act) {
  pid_t child = fork();
  if (child == 0) {
    bool done = setgid(kNobody) == 0 && setuid(kNobody) == 0 && act();
    _exit(done ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Spool : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the spool is root's: run as root";
    ASSERT_NE(mkdtemp(top_), nullptr);
    ASSERT_EQ(chmod(top_, 0755), 0);
    plan_ = plan_of(7, 0);
  }
  void TearDown() override { fs::remove_all(top_); }

  StepPlan plan_of(uint32_t job, uint32_t step) {
    StepPlan plan;
    plan.job = job;
    plan.step = step;
    plan.restart = 2;
    plan.uid = kNobody;
    plan.started_ns = 1;
    plan.node = "n1";
    plan.site.spool = std::string(top_) + "/spool";
    plan.folder = step_folder(plan);
    return plan;
  }
  std::string records() const { return records_folder(plan_.folder); }
  std::string record(const std::string& name) const { return records() + "/" + name; }
  void create() {
    auto created = create_spool(plan_, kNobody);
    ASSERT_TRUE(created) << created.error();
  }
  // What the user leaves beside one sound record of his must leave that one alone.
  void expect_one_record(uint32_t broken) {
    SpoolRecords found = read_records(plan_);
    EXPECT_EQ(found.records.size(), 1u);
    EXPECT_EQ(found.broken, broken);
  }
  void put_sound() {
    ASSERT_TRUE(as_nobody([&] {
      put(record("1.0.mfu"), file_of(sound_record()));
      return true;
    }));
  }

  char top_[64] = "/tmp/mfu-spool.XXXXXX";
  StepPlan plan_;
};

uint32_t mode_of(const std::string& path, uid_t* owner = nullptr) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return 0;
  if (owner != nullptr) *owner = status.st_uid;
  return status.st_mode & 07777;
}

TEST_F(Spool, TheUserWritesToRecordsAndNowhereElse) {
  create();
  store_plan(plan_);
  EXPECT_EQ(plan_.folder, std::string(top_) + "/spool/n1/7.2.0");
  EXPECT_EQ(mode_of(plan_.folder), 0711u);
  EXPECT_EQ(mode_of(plan_.folder + "/plan"), 0600u);
  uid_t owner = 0;
  EXPECT_EQ(mode_of(records(), &owner), 0700u);
  EXPECT_EQ(owner, kNobody);
  EXPECT_EQ(mode_of(record("board"), &owner), 0600u);
  EXPECT_EQ(owner, kNobody);
  EXPECT_TRUE(
      as_nobody([&] { return open(record("1.0.mfu").c_str(), O_CREAT | O_RDWR, 0600) >= 0; }));
  EXPECT_FALSE(
      as_nobody([&] { return open((plan_.folder + "/x").c_str(), O_CREAT | O_RDWR, 0600) >= 0; }));
  EXPECT_FALSE(as_nobody([&] { return open((plan_.folder + "/plan").c_str(), O_RDONLY) >= 0; }));
  EXPECT_FALSE(as_nobody([&] { return open(plan_.folder.c_str(), O_RDONLY) >= 0; }));
  EXPECT_FALSE(
      as_nobody([&] { return rename(records().c_str(), (plan_.folder + "/y").c_str()) == 0; }));
  EXPECT_FALSE(
      as_nobody([&] { return mkdir((std::string(top_) + "/spool/n1/8.0.0").c_str(), 0700) == 0; }));
}

// Whoever reads it has the old one or the new one.
TEST_F(Spool, APlanIsReplacedAsAWhole) {
  create();
  store_plan(plan_);
  std::ifstream reader(plan_.folder + "/plan");
  plan_.run = 9;
  store_plan(plan_);
  const std::string seen{std::istreambuf_iterator<char>(reader), {}};
  EXPECT_EQ(parse_plan(seen)->run, 0u);
  EXPECT_EQ(read_plan(plan_.folder)->run, 9u);
  EXPECT_EQ(std::distance(fs::directory_iterator(plan_.folder), {}), 3);  // and records/
}

TEST_F(Spool, ASpoolThatOthersCanWriteToIsNotTaken) {
  fs::create_directories(plan_.site.spool);
  chmod(plan_.site.spool.c_str(), 0777);
  EXPECT_EQ(create_spool(plan_, kNobody).error(), "spool:eperm");
  chmod(plan_.site.spool.c_str(), 0755);
  ASSERT_EQ(chown(plan_.site.spool.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(create_spool(plan_, kNobody).error(), "spool:eperm");
  fs::remove_all(plan_.site.spool);
  fs::create_symlink("/tmp", plan_.site.spool);
  EXPECT_EQ(create_spool(plan_, kNobody).error(), "spool:enotdir");
  fs::remove(plan_.site.spool);
  plan_.site.spool = "/proc/nothing/here";
  EXPECT_EQ(create_spool(plan_, kNobody).error(), "spool:enoent");
}

TEST_F(Spool, ReadsSoundRecordsAndCountsBroken) {
  create();
  put_sound();
  ASSERT_TRUE(as_nobody([&] {
    put(record("2.0.mfu"), file_of(sound_record(2)));
    put(record("2.1.mfu"), std::string(kRecordFileSize, 'x'));
    put(record("2.2.mfu"), file_of(sound_record(), kRecordFileSize - 1));
    put(record("2.3.mfu"), file_of(sound_record(), kRecordFileSize + 1));
    put(record("2.4.mfu"), "");
    put(record("other"), "not counted");
    return true;
  }));
  SpoolRecords found = read_records(plan_);
  EXPECT_EQ(found.records.size(), 2u);
  EXPECT_EQ(found.broken, 4u);
  EXPECT_EQ(found.record_errno, 0u);
}

TEST_F(Spool, LinksAreNotFollowed) {
  create();
  put_sound();
  // A whole record outside that only root can read, and the user's own one.
  std::string secret = std::string(top_) + "/secret";
  put(secret, file_of(sound_record(99)));
  chmod(secret.c_str(), 0600);
  ASSERT_TRUE(as_nobody([&] {
    return symlink(secret.c_str(), record("2.0.mfu").c_str()) == 0 &&
           symlink("/etc/shadow", record("2.1.mfu").c_str()) == 0 &&
           symlink("1.0.mfu", record("2.2.mfu").c_str()) == 0 &&
           symlink("/nonexistent", record("2.3.mfu").c_str()) == 0;
  }));
  expect_one_record(4);
}

TEST_F(Spool, HardLinksAndFilesOfOthersAreNotRead) {
  create();
  put_sound();
  put(record("2.0.mfu"), file_of(sound_record(2)));  // root's
  // Even a hard link to another user's sound record does not pass, nor any file with two names.
  std::string other = std::string(top_) + "/other";
  put(other, file_of(sound_record(3)));
  ASSERT_EQ(link(other.c_str(), record("2.1.mfu").c_str()), 0);
  ASSERT_TRUE(as_nobody([&] {
    put(record("2.2.mfu"), file_of(sound_record(4)));
    return link(record("2.2.mfu").c_str(), record("2.3.mfu").c_str()) == 0;
  }));
  expect_one_record(4);
}

TEST_F(Spool, NothingButRegularFilesIsOpenedForLong) {
  create();
  put_sound();
  ASSERT_TRUE(as_nobody([&] {
    return mkfifo(record("2.0.mfu").c_str(), 0600) == 0 &&
           mkdir(record("2.1.mfu").c_str(), 0700) == 0;
  }));
  // Only root makes these; they must not hang us either.
  uint32_t devices = 0;
  devices += mknod(record("2.2.mfu").c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0 ? 1 : 0;
  devices += mknod(record("2.3.mfu").c_str(), S_IFSOCK | 0600, 0) == 0 ? 1 : 0;
  expect_one_record(2 + devices);
}

TEST_F(Spool, HugeAndManyFilesAreBounded) {
  create();
  ASSERT_TRUE(as_nobody([&] {
    int fd = open(record("huge.mfu").c_str(), O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, off_t{1} << 40) != 0) return false;
    std::string bytes = file_of(sound_record());
    for (int i = 0; i < 100'000; ++i) {
      int file = open(record(std::to_string(i) + ".0.mfu").c_str(), O_CREAT | O_WRONLY, 0600);
      if (i % 20 == 0 && write(file, bytes.data(), bytes.size()) < 0) return false;
      close(file);
    }
    return true;
  }));
  SpoolRecords found = read_records(plan_);
  EXPECT_LE(found.records.size(), kMostRecords);
  EXPECT_LE(found.records.size() + found.broken, 4 * kMostRecords);
  EXPECT_GT(found.broken, 0u);
  remove_spool(plan_);
  EXPECT_FALSE(fs::exists(plan_.folder));
}

TEST_F(Spool, FilesSwappedDuringReadingAreNeverFollowed) {
  create();
  std::string secret = std::string(top_) + "/secret";
  put(secret, file_of(sound_record(99)));
  pid_t swapper = fork();
  if (swapper == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    std::string good = file_of(sound_record(1));
    for (;;) {
      put(record("x"), good);
      rename(record("x").c_str(), record("1.0.mfu").c_str());
      [[maybe_unused]] int linked = symlink(secret.c_str(), record("x").c_str());
      rename(record("x").c_str(), record("1.0.mfu").c_str());
      unlink(record("1.0.mfu").c_str());
      mkfifo(record("1.0.mfu").c_str(), 0600);
      put(record("x"), std::string(100, 'x'));
      rename(record("x").c_str(), record("1.0.mfu").c_str());
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    for (const Record& found : read_records(plan_).records) ASSERT_EQ(found.pid, 1u);
  }
  kill(swapper, SIGKILL);
  waitpid(swapper, nullptr, 0);
}

TEST_F(Spool, TheBoardTellsTheFirstErrno) {
  create();
  EXPECT_EQ(read_records(plan_).record_errno, 0u);
  ASSERT_TRUE(as_nobody([&] {
    int fd = open(record("board").c_str(), O_WRONLY);
    return pwrite(fd, "\1", 1, ENOSPC) == 1 && pwrite(fd, "\1", 1, EDQUOT) == 1;
  }));
  EXPECT_EQ(read_records(plan_).record_errno, static_cast<uint32_t>(ENOSPC));
}

TEST_F(Spool, AnAbusedBoardSaysNothing) {
  create();
  std::string outside = std::string(top_) + "/outside";
  put(outside, std::string(kBoardSize, '\1'));
  auto replaced = [&](auto&& by) {
    EXPECT_TRUE(as_nobody([&] { return unlink(record("board").c_str()) == 0 && by(); }));
    return read_records(plan_).record_errno;
  };
  EXPECT_EQ(replaced([&] { return symlink(outside.c_str(), record("board").c_str()) == 0; }), 0u);
  EXPECT_EQ(replaced([&] { return mkfifo(record("board").c_str(), 0600) == 0; }), 0u);
  EXPECT_EQ(replaced([&] {
              put(record("board"), std::string(kBoardSize + 1, '\1'));
              return true;
            }),
            0u);
  EXPECT_EQ(replaced([&] {
              put(record("board"), std::string(kBoardSize, '\2'));
              return true;
            }),
            0u);
  EXPECT_EQ(replaced([&] { return true; }), 0u);
}

TEST_F(Spool, RecordsReplacedByALinkAreNotRead) {
  create();
  std::string outside = std::string(top_) + "/outside";
  fs::create_directory(outside);
  ASSERT_EQ(chown(outside.c_str(), kNobody, kNobody), 0);
  ASSERT_TRUE(as_nobody([&] {
    put(outside + "/1.0.mfu", file_of(sound_record()));
    return true;
  }));
  // The user cannot do this to his folder; should it happen all the same:
  fs::remove_all(records());
  fs::create_symlink(outside, records());
  SpoolRecords found = read_records(plan_);
  EXPECT_TRUE(found.records.empty());
  remove_spool(plan_);
  EXPECT_FALSE(fs::exists(plan_.folder));
  EXPECT_TRUE(fs::exists(outside + "/1.0.mfu"));
}

TEST_F(Spool, WithoutAFolderNothingIsStored) {
  plan_.folder.clear();
  ASSERT_FALSE(fs::exists("/plan"));
  store_plan(plan_);
  EXPECT_FALSE(fs::exists("/plan"));
}

TEST_F(Spool, ADeletedOrEmptyFolderHasNoRecords) {
  create();
  ASSERT_TRUE(as_nobody([&] { return unlink(record("board").c_str()) == 0; }));
  EXPECT_TRUE(read_records(plan_).records.empty());
  fs::remove_all(records());
  EXPECT_TRUE(read_records(plan_).records.empty());
  plan_.folder.clear();
  EXPECT_TRUE(read_records(plan_).records.empty());
  remove_spool(plan_);
}

TEST_F(Spool, RemovalFollowsNoLinkAndGoesDeep) {
  create();
  std::string outside = std::string(top_) + "/outside";
  fs::create_directory(outside);
  put(outside + "/keep", "x");
  ASSERT_TRUE(as_nobody([&] {
    if (symlink(outside.c_str(), record("link").c_str()) != 0) return false;
    if (mkdir(record("locked").c_str(), 0700) != 0) return false;
    put(record("locked/file"), "x");
    chmod(record("locked").c_str(), 0);
    // Deeper than a process may have descriptors, and than PATH_MAX.
    if (chdir(records().c_str()) != 0) return false;
    for (int depth = 0; depth < 3000; ++depth) {
      if (mkdir("d", 0700) != 0 || chdir("d") != 0) return false;
    }
    return true;
  }));
  remove_spool(plan_);
  EXPECT_FALSE(fs::exists(plan_.folder));
  EXPECT_TRUE(fs::exists(outside + "/keep"));
}

TEST_F(Spool, RemovalEndsAlthoughTheUserGoesOnWriting) {
  for (const mode_t mode : {0700, 0777}) {  // his own folder: he may let others in
    create();
    pid_t writer = fork();
    if (writer == 0) {
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
      if (chdir(records().c_str()) != 0 || chmod(".", mode) != 0) _exit(1);
      for (uint64_t i = 0;; ++i) {
        close(open(std::to_string(i).c_str(), O_CREAT | O_WRONLY, 0600));
      }
    }
    for (int i = 0; i < 6000 && !fs::exists(record("100")); ++i) usleep(10'000);
    EXPECT_TRUE(fs::exists(record("100")));
    remove_spool(plan_);
    EXPECT_FALSE(fs::exists(plan_.folder)) << std::oct << mode;
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    fs::remove_all(plan_.folder);
  }
}

TEST_F(Spool, WhatAnEarlierRunLeftIsPutAsideAtOnce) {
  create();
  store_plan(plan_);
  ASSERT_TRUE(as_nobody([&] {
    for (int i = 0; i < 5000; ++i) put(record(std::to_string(i) + ".0.mfu"), "x");
    return true;
  }));
  StepPlan earlier = plan_;
  plan_.started_ns = 2;
  create();  // slurmstepd waits for this: nothing is removed yet
  const fs::directory_iterator aside(plan_.folder + "/earlier.2");
  EXPECT_EQ(std::distance(begin(aside), end(aside)), 5001);  // and the board
  store_plan(plan_);
  put_sound();
  expect_one_record(0);
  // The earlier run's collector comes late: the folder is not its own any more.
  remove_spool(earlier);
  expect_one_record(0);
  remove_spool(plan_);
  EXPECT_FALSE(fs::exists(plan_.folder));
}

TEST_F(Spool, AFullDiskIsAReason) {
  std::string disk = std::string(top_) + "/disk";
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=16k,nr_inodes=64,mode=755") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here";
  }
  plan_.site.spool = disk;
  plan_.folder = step_folder(plan_);
  put(disk + "/filler", std::string(16384, 'x'));
  auto created = create_spool(plan_, kNobody);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error(), "spool:enospc");
  remove_spool(plan_);
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_EQ(create_spool(plan_, kNobody).error(), "spool:erofs");
  umount(disk.c_str());
}

TEST_F(Spool, APlanOfThisRunStaysOnAFullDisk) {
  std::string disk = std::string(top_) + "/disk";
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=64k,mode=755") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here";
  }
  const std::unique_ptr<const char, void (*)(const char*)> mounted(
      disk.c_str(), [](const char* path) { umount2(path, MNT_DETACH); });
  plan_.site.spool = disk;
  plan_.folder = step_folder(plan_);
  create();
  store_plan(plan_);
  put(disk + "/filler", std::string(65536, 'x'));
  StepPlan learned = plan_;
  learned.step_gpus = 16;
  store_plan(learned);
  const auto stored = read_plan(plan_.folder);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->step_gpus, plan_.step_gpus);  // the disk is full indeed
  EXPECT_TRUE(fs::exists(plan_.folder + "/plan.user"));
  // An earlier run's does not: its line would be written once more.
  StepPlan next = plan_;
  next.started_ns = 2;
  store_plan(next);
  EXPECT_FALSE(read_plan(plan_.folder));
}

TEST_F(Spool, LeftPlansAreThisNodesSoundOnes) {
  for (auto [job, step] : {std::pair{7u, 0u}, {7u, 1u}, {70u, 0u}, {17u, 0u}}) {
    StepPlan plan = plan_of(job, step);
    ASSERT_TRUE(create_spool(plan, kNobody));
    store_plan(plan);
  }
  StepPlan torn = plan_of(7, 2);
  ASSERT_TRUE(create_spool(torn, kNobody));
  put(torn.folder + "/plan", format_plan(torn).substr(0, 100));
  auto plans = left_plans(plan_.site.spool, "n1");
  ASSERT_EQ(plans.size(), 4u);
  for (const StepPlan& plan : plans) EXPECT_EQ(plan.folder, step_folder(plan));
  EXPECT_EQ(count_steps(plan_), plans.size() + 1);  // and the torn one
  EXPECT_TRUE(left_plans(plan_.site.spool, "n2").empty());
}

TEST_F(Spool, OneCollectorClaimsAFolder) {
  create();
  FolderClaim ours(plan_);
  ASSERT_TRUE(ours.held());
  EXPECT_FALSE(FolderClaim(plan_).held());
  pid_t child = fork();
  if (child == 0) _exit(FolderClaim(plan_).held() ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(as_nobody([&] { return FolderClaim(plan_).held(); }));
}

TEST_F(Spool, AClaimEndsWithItsProcess) {
  create();
  pid_t child = fork();
  if (child == 0) {
    FolderClaim claim(plan_);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderClaim(plan_).held());
}

TEST_F(Spool, JobLocksSerialiseProcessesOfOneJobOnly) {
  create();
  StepPlan other = plan_of(8, 0);
  using Clock = std::chrono::steady_clock;
  auto waited = [](const StepPlan& plan, int milliseconds) {
    auto before = Clock::now();
    JobLock lock(plan, milliseconds);
    return Clock::now() - before;
  };
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    JobLock lock(plan_, 0);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(waited(plan_, 100), std::chrono::milliseconds(100));  // and goes on without
  // Had they to wait, it would be a minute.
  EXPECT_LT(waited(other, 60'000), std::chrono::seconds(30));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_LT(waited(plan_, 60'000), std::chrono::seconds(30));
  EXPECT_EQ(mode_of(plan_.site.spool + "/n1/lock"), 0600u);
}

TEST(ErrnoName, IsFitForTheLine) {
  EXPECT_EQ(errno_name(ENOSPC), "enospc");
  EXPECT_EQ(errno_name(0), "0");
  EXPECT_EQ(errno_name(255), "errno-255");
}

}  // namespace
}  // namespace mfu
