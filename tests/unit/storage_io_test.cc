// The kernel's I/O counters: their text, our own, a child's, and stalls told apart by them.
#include "profiler/storage_io.hh"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace mfu {
namespace {

static_assert(std::is_trivially_default_constructible_v<StorageFold>);

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kMb = 1'000'000;

constexpr char kText[] =
    "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nsyscw: 632675\nread_bytes: 17\n"
    "write_bytes: 323932160\ncancelled_write_bytes: 5\n";

TEST(StorageIo, ReadsTheKernelsText) {
  IoCounters counters;
  ASSERT_TRUE(parse_io(kText, &counters));
  EXPECT_EQ(counters.called_read, 323934931u);
  EXPECT_EQ(counters.called_written, 323929600u);
  EXPECT_EQ(counters.device_read, 17u);
  EXPECT_EQ(counters.device_written, 323932160u);
}

TEST(StorageIo, TextThatIsCutOffOrOddIsNone) {
  const std::string text = kText;
  IoCounters counters;
  for (size_t size = 0; size < text.find("323932160"); ++size) {
    EXPECT_FALSE(parse_io(text.substr(0, size), &counters)) << size;
  }
  EXPECT_FALSE(parse_io("rchar: x\nwchar: 1\nread_bytes: 1\nwrite_bytes: 1\n", &counters));
  EXPECT_FALSE(parse_io("xrchar: 1\nwchar: 1\nread_bytes: 1\nwrite_bytes: 1\n", &counters));
  EXPECT_FALSE(parse_io("rchar: 99999999999999999999\nwchar: 1\nread_bytes: 1\nwrite_bytes: 1\n",
                        &counters));
}

TEST(StorageIo, FilesThatCannotBeReadSayWhy) {
  IoCounters counters;
  EXPECT_EQ(read_io("/proc/self/nothing-of-this-name", &counters), ENOENT);
  EXPECT_EQ(read_io("/proc/self", &counters), EISDIR);
  EXPECT_EQ(read_io("/proc/self/status", &counters), EPROTO);
}

// A kernel may be built without the counters.
#define NEED_COUNTERS()                                                      \
  IoCounters before;                                                         \
  if (read_io("/proc/self/io", &before) != 0) GTEST_SKIP() << "no counters"; \
  ASSERT_EQ(read_process_io(&before), 0)

void write_zeros(int fd, size_t size) {
  std::vector<char> zeros(size);
  ASSERT_EQ(write(fd, zeros.data(), size), static_cast<ssize_t>(size));
}

TEST(StorageIo, CountsWhatThisProcessReadAndWrote) {
  NEED_COUNTERS();
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  write_zeros(fileno(file), 3'000'000);
  std::vector<char> buffer(2'000'000);
  ASSERT_EQ(pread(fileno(file), buffer.data(), buffer.size(), 0), 2'000'000);
  std::fclose(file);
  IoCounters after;
  ASSERT_EQ(read_process_io(&after), 0);
  EXPECT_GE(after.called_written - before.called_written, 3'000'000u);
  EXPECT_LT(after.called_written - before.called_written, 3'100'000u);
  EXPECT_GE(after.called_read - before.called_read, 2'000'000u);
  EXPECT_LT(after.called_read - before.called_read, 2'100'000u);
}

// While it lives, when it is a zombie and when it was waited for: once.
TEST(StorageIo, CountsAChildOnce) {
  NEED_COUNTERS();
  if (access(("/proc/self/task/" + std::to_string(getpid()) + "/children").c_str(), R_OK) != 0) {
    GTEST_SKIP() << "the kernel lists no children";
  }
  int wrote[2];
  int go[2];
  ASSERT_EQ(pipe(wrote), 0);
  ASSERT_EQ(pipe(go), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::FILE* file = std::tmpfile();
    write_zeros(fileno(file), 5'000'000);
    char byte = 0;
    if (write(wrote[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(wrote[0], &byte, 1), 1);
  auto written = [&] {
    IoCounters now;
    EXPECT_EQ(read_process_io(&now), 0);
    return now.called_written - before.called_written;
  };
  uint64_t alive = written();
  EXPECT_GE(alive, 5'000'000u);
  EXPECT_LT(alive, 5'100'000u);
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  uint64_t reaped = written();
  EXPECT_GE(reaped, 5'000'000u);
  EXPECT_LT(reaped, 5'100'000u);
  for (int fd : {wrote[0], wrote[1], go[0], go[1]}) close(fd);
}

TEST(StorageFold, TakesTheLargerOfTheTwoViews) {
  StorageFold fold{};
  fold.add({100, 200, 300, 400}, 0, 5 * kSecond, {});
  EXPECT_EQ(fold.sums.read_bytes(), 0u);
  // Read ahead by the block layer first, by the program later.
  fold.add({100, 200, 10'300, 400}, 0, 6 * kSecond, {});
  fold.add({9'100, 1'200, 10'300, 400}, 0, 7 * kSecond, {});
  EXPECT_EQ(fold.sums.read_bytes(), 10'000u);
  EXPECT_EQ(fold.sums.written_bytes(), 1'000u);
  EXPECT_EQ(fold.sums.ns, 2 * kSecond);
  EXPECT_EQ(storage_fault(fold.sums), nullptr);
}

TEST(StorageFold, CountersThatGoBackwardsBeginAnew) {
  StorageFold fold{};
  fold.add({1'000, 0, 0, 0}, 0, 1 * kSecond, {});
  fold.add({5'000, 0, 0, 0}, 0, 2 * kSecond, {});
  fold.add({2'000, 0, 0, 0}, 0, 3 * kSecond, {});
  fold.add({2'500, 0, 0, 0}, 0, 4 * kSecond, {});
  EXPECT_EQ(fold.sums.read_bytes(), 4'500u);
  fold.add({}, EACCES, 5 * kSecond, {});
  EXPECT_EQ(fold.sums.result, EACCES);
  EXPECT_EQ(fold.sums.read_bytes(), 4'500u);
  EXPECT_EQ(fold.sums.ns, 3 * kSecond);
}

TEST(StorageFault, FindsHostileBytes) {
  const std::function<void(StorageSums*)> tricks[] = {
      [](StorageSums* s) { s->called_read_bytes = UINT64_MAX; },
      [](StorageSums* s) { s->device_written_bytes = uint64_t{1} << 61; },
      [](StorageSums* s) { s->ns = uint64_t{1} << 57; },
      [](StorageSums* s) { s->reading_ns = UINT64_MAX; },
      [](StorageSums* s) { s->result = -1; },
      [](StorageSums* s) { s->unused = 1; },
  };
  EXPECT_EQ(storage_fault({}), nullptr);
  for (size_t i = 0; i < std::size(tricks); ++i) {
    StorageSums sums{};
    tricks[i](&sums);
    EXPECT_NE(storage_fault(sums), nullptr) << i;
  }
}

// A second-by-second run: steps of one second, and stalls in which something happens.
class Workload {
 public:
  Workload() { look(); }
  void step() {
    now_ += kSecond;
    read_ += 20 * kMb;  // the loader
    pace_.add(now_);
    look();
  }
  void stall(int seconds, uint64_t read_per_s, uint64_t written_per_s) {
    for (int s = 0; s < seconds; ++s) {
      now_ += kSecond;
      read_ += read_per_s;
      written_ += written_per_s;
      look();
    }
  }
  const StorageSums& sums() const { return fold_.sums; }
  StepEstimate steps() const { return pace_.estimate(StepSource::kNvtx); }
  void change_source() {
    pace_ = {};
    look();
  }

 private:
  void look() { fold_.add({read_, written_, 0, 0}, 0, now_, steps()); }

  StorageFold fold_{};
  StepPace pace_{};
  uint64_t now_ = 1000 * kSecond;
  uint64_t read_ = 0;
  uint64_t written_ = 0;
};

TEST(StallWatch, TellsCheckpointsDataAndTheRestApart) {
  Workload run;
  for (int i = 0; i < 30; ++i) run.step();
  run.stall(10, 0, 400 * kMb);
  for (int i = 0; i < 10; ++i) run.step();
  const uint64_t writing = run.sums().writing_ns;
  EXPECT_GT(writing, 8 * kSecond);
  EXPECT_EQ(run.sums().reading_ns, 0u);
  EXPECT_EQ(writing, run.steps().stalled_ns);
  run.stall(5, 60 * kMb, 0);
  for (int i = 0; i < 10; ++i) run.step();
  const uint64_t reading = run.sums().reading_ns;
  EXPECT_GT(reading, 3 * kSecond);
  EXPECT_EQ(run.sums().writing_ns, writing);
  run.stall(7, 0, 1000);  // a log file
  for (int i = 0; i < 10; ++i) run.step();
  EXPECT_EQ(run.sums().writing_ns, writing);
  EXPECT_EQ(run.sums().reading_ns, reading);
  EXPECT_GT(run.steps().stalled_ns, writing + reading + 5 * kSecond);
}

// A loader that fills its queue in the first second of a stall did not cause it.
TEST(StallWatch, AFullQueueIsNoWaitForData) {
  Workload run;
  for (int i = 0; i < 30; ++i) run.step();
  run.stall(1, 20 * kMb, 0);
  run.stall(20, 0, 0);
  for (int i = 0; i < 5; ++i) run.step();
  EXPECT_GT(run.steps().stalled_ns, 15 * kSecond);
  EXPECT_EQ(run.sums().reading_ns, 0u);
}

TEST(StallWatch, OtherStepsBeginAnew) {
  Workload run;
  for (int i = 0; i < 30; ++i) run.step();
  run.stall(10, 0, 400 * kMb);
  for (int i = 0; i < 3; ++i) run.step();
  EXPECT_GT(run.sums().writing_ns, 0u);
  run.change_source();
  for (int i = 0; i < 3; ++i) run.step();
  EXPECT_EQ(run.sums().writing_ns, 0u);
}

TEST(StallWatch, NeverTellsMoreThanWasStalled) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    Workload run;
    for (int i = 0; i < 60; ++i) {
      if (random() % 5 == 0) {
        run.stall(static_cast<int>(random() % 12), random() % (90 * kMb), random() % (90 * kMb));
      } else if (random() % 40 == 0) {
        run.change_source();
      } else {
        run.step();
      }
      ASSERT_LE(run.sums().writing_ns + run.sums().reading_ns, run.steps().stalled_ns);
      ASSERT_EQ(storage_fault(run.sums()), nullptr);
    }
  }
}

}  // namespace
}  // namespace mfu
