#include "profiler/record.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mfu {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 56;

void seal(Record* record) {
  record->checksum = record_checksum(*record);
}

Record sound_record(uint64_t sequence = 1) {
  Record record;
  record.size = sizeof(Record);
  record.sequence = sequence;
  record.pid = 4711;
  record.started_ns = 1'000;
  record.published_ns = 9'000;
  record.time.span_start_ns = 2'000;
  record.time.span_end_ns = 8'000;
  record.time.partition_ns[kCompute] = 3'000;
  std::snprintf(record.device_name, sizeof(record.device_name), "NVIDIA H100 80GB HBM3");
  seal(&record);
  return record;
}

using Bytes = unsigned char[kRecordFileSize];

void put(Bytes& file, size_t slot, const Record& record, size_t bytes = sizeof(Record)) {
  std::memcpy(file + slot * kSlotSize, &record, bytes);
}

class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  const char* path() const { return path_; }
  std::string file(const std::string& name) const { return std::string(path_) + "/" + name; }
  bool read(const std::string& name, Bytes& out) const {
    std::ifstream in(file(name), std::ios::binary);
    in.read(reinterpret_cast<char*>(out), sizeof(out));
    return in.gcount() == sizeof(out);
  }

 private:
  char path_[64] = "/tmp/mfu-record.XXXXXX";
};

TEST(Record, ASoundOneHasNoFault) {
  EXPECT_EQ(record_fault(sound_record()), nullptr);
}

TEST(Record, EveryFlippedBitIsSeen) {
  for (size_t byte = 0; byte < sizeof(Record); ++byte) {
    for (int bit = 0; bit < 8; bit += 3) {
      Record record = sound_record();
      reinterpret_cast<unsigned char*>(&record)[byte] ^= static_cast<unsigned char>(1 << bit);
      EXPECT_NE(record_fault(record), nullptr) << "byte " << byte;
    }
  }
}

TEST(Record, EveryFieldHasARange) {
  struct Case {
    const char* fault;
    std::function<void(Record*)> spoil;
  };
  const std::vector<Case> cases = {
      {"not a record", [](Record* r) { r->magic = 1; }},
      {"another version", [](Record* r) { r->version = 2; }},
      {"another size", [](Record* r) { r->size = sizeof(Record) - 8; }},
      {"never written", [](Record* r) { r->sequence = 0; }},
      {"state", [](Record* r) { r->state = static_cast<State>(kStates); }},
      {"state", [](Record* r) { r->state = static_cast<State>(UINT32_MAX); }},
      {"cupti_call", [](Record* r) { r->cupti_call = static_cast<CuptiCall>(kCuptiCalls); }},
      {"device_name", [](Record* r) { r->device_name[3] = '\n'; }},
      {"device_name", [](Record* r) { r->device_name[3] = '\x1b'; }},
      {"device_name", [](Record* r) { r->device_name[3] = '\xff'; }},
      {"device_name", [](Record* r) { std::memset(r->device_name, 'x', sizeof(r->device_name)); }},
      {"pci_bus_id", [](Record* r) { std::memset(r->pci_bus_id, 'x', sizeof(r->pci_bus_id)); }},
      {"pci_bus_id", [](Record* r) { r->pci_bus_id[0] = 1; }},
      {"published before started", [](Record* r) { r->published_ns = r->started_ns - 1; }},
      {"span", [](Record* r) { r->time.span_end_ns = r->time.span_start_ns - 1; }},
      {"partition", [](Record* r) { r->time.partition_ns[0] = 1; }},
      {"partition", [](Record* r) { r->time.partition_ns[7] = UINT64_MAX; }},
      {"busy beyond the span", [](Record* r) { r->time.partition_ns[4] = 3'001; }},
      {"count", [](Record* r) { r->compute_kernels = kMost + 1; }},
      {"count", [](Record* r) { r->communication_kernels = kMost + 1; }},
      {"count", [](Record* r) { r->copies = kMost + 1; }},
      {"count", [](Record* r) { r->zero_times = kMost + 1; }},
      {"count", [](Record* r) { r->reversed = kMost + 1; }},
      {"count", [](Record* r) { r->implausible = kMost + 1; }},
      {"count", [](Record* r) { r->late = kMost + 1; }},
      {"count", [](Record* r) { r->late_ns = kMost + 1; }},
      {"count", [](Record* r) { r->dropped = kMost + 1; }},
      {"count", [](Record* r) { r->unfinished = kMost + 1; }},
      {"count", [](Record* r) { r->lost_ns = UINT64_MAX; }},
      {"count", [](Record* r) { r->callback_ns = kMost + 1; }},
      {"count", [](Record* r) { r->worker_ns = kMost + 1; }},
      {"count", [](Record* r) { r->memory_bytes = kMost + 1; }},
      {"count", [](Record* r) { r->time.span_end_ns = r->time.span_start_ns + kMost + 1; }},
      {"count", [](Record* r) { r->published_ns = UINT64_MAX; }},
      {"count", [](Record* r) { r->compute_kernel_ns = kMost + 1; }},
      {"count", [](Record* r) { r->copy_ns = kMost + 1; }},
      {"count", [](Record* r) { r->kernel_names = kMost + 1; }},
      {"count", [](Record* r) { r->unlisted_kernels = kMost + 1; }},
      {"count", [](Record* r) { r->duplicates = kMost + 1; }},
      {"kernel name", [](Record* r) { r->kernels[15].name[0] = '\x1b'; }},
      {"kernel name", [](Record* r) { std::memset(r->kernels[0].name, 'x', kKernelNameSize); }},
      {"kernel kind", [](Record* r) { r->kernels[1].communication = 2; }},
      {"kernel kind", [](Record* r) { r->kernels[1].collective = kCollectives; }},
      {"kernel kind", [](Record* r) { r->kernels[1].gemm = 2; }},
      {"kernel kind", [](Record* r) { r->kernels[1].precision = kPrecisions; }},
      {"kernel sums", [](Record* r) { r->kernels[2].count = kMost + 1; }},
      {"kernel sums", [](Record* r) { r->kernels[2].ns = kMost + 1; }},
      {"kernel sums", [](Record* r) { r->kernels[2].longest_ns = kMost + 1; }},
      {"collective samples", [](Record* r) { r->samples.count = CollectiveSamples::kMost + 1; }},
      {"gemm_ns", [](Record* r) { r->gemm_ns[kPrecisions - 1] = kMost + 1; }},
      {"too much of counted kernels", [](Record* r) { r->counted.gemm_ns = UINT64_MAX; }},
      {"too much of counted kernels", [](Record* r) { r->counted.uncounted_kernels = UINT64_MAX; }},
      {"too much of counted kernels", [](Record* r) { r->counted.attention_flops.mega = ~0ull; }},
      {"impossible FLOPs of attention",
       [](Record* r) {
         r->counted.attention_kernels = 1;
         r->counted.attention_flops.rest = 1 << 20;
       }},
      {"FLOPs without attention", [](Record* r) { r->counted.attention_flops.mega = 1; }},
      {"counted kernels that contradict each other",
       [](Record* r) { r->counted.graph_gemm_kernels = 1; }},
      {"counted kernels that contradict each other",
       [](Record* r) {
         r->counted.attention_kernels = 1;
         r->counted.attention_model_flops.rest = 1;
       }},
      {"more counted kernels than all", [](Record* r) { r->counted.gemm_kernels = 1; }},
      {"more counted kernels than all",
       [](Record* r) {
         r->compute_kernels = r->compute_kernel_ns = 10;
         r->counted.gemm_ns = r->counted.uncounted_ns = 4;
         r->counted.attention_ns = 3;
       }},
      {"inference", [](Record* r) { r->inferred.verdict = static_cast<Inference>(kInferences); }},
      {"FLOPs of a model without a verdict", [](Record* r) { r->inferred.flops.mega = 1; }},
      {"impossible FLOPs of a model",
       [](Record* r) {
         r->inferred.verdict = Inference::kKnown;
         r->inferred.flops.mega = UINT64_MAX;
       }},
      {"recomputed share", [](Record* r) { r->inferred.recomputed_permille = 1001; }},
      {"link", [](Record* r) { r->sensors.link_readings = 1; }},
      {"collective_ns", [](Record* r) { r->collective_ns[0] = kMost + 1; }},
      {"collective_count", [](Record* r) { r->collective_count[kCollectives - 1] = kMost + 1; }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Record record = sound_record();
    cases[i].spoil(&record);
    seal(&record);
    EXPECT_STREQ(record_fault(record), cases[i].fault) << "case " << i;
  }
}

TEST(Record, BusyCannotWrapPastTheSpan) {
  Record record = sound_record();
  for (int mask = 1; mask < kMasks; ++mask) record.time.partition_ns[mask] = kMost;
  seal(&record);
  EXPECT_STREQ(record_fault(record), "busy beyond the span");
}

TEST(RecordFile, ATornWriteAtEveryByteLeavesTheOtherSlot) {
  Record third = sound_record(3);
  third.compute_kernels = 333;
  third.time.partition_ns[kCompute] = 4'000;
  seal(&third);
  for (size_t written = 0; written <= sizeof(Record); ++written) {
    Bytes file = {};
    put(file, 1, sound_record(1));
    put(file, 0, sound_record(2));
    put(file, 1, third, written);
    Record found;
    ASSERT_TRUE(newest_record(file, &found)) << written;
    bool whole = std::memcmp(file + kSlotSize, &third, sizeof(third)) == 0;
    ASSERT_EQ(found.sequence, whole ? 3u : 2u) << written;
  }
}

TEST(RecordFile, NothingIsFoundInNothing) {
  Bytes file = {};
  Record found;
  EXPECT_FALSE(newest_record(file, &found));
  std::memset(file, 0xff, sizeof(file));
  EXPECT_FALSE(newest_record(file, &found));
  put(file, 0, sound_record(1));
  EXPECT_TRUE(newest_record(file, &found));
}

// All counters of a publication carry the same number: a mixture would show.
void publish_forever(RecordFile* file, const std::atomic<bool>& stop) {
  Record record = sound_record();
  for (uint64_t n = 1; !stop; ++n) {
    record.compute_kernels = record.copies = record.gemm_ns[0] = record.worker_ns = n;
    file->publish(&record);
  }
}

void expect_one_publication(const Record& record) {
  EXPECT_EQ(record.compute_kernels, record.sequence);
  EXPECT_EQ(record.copies, record.sequence);
  EXPECT_EQ(record.gemm_ns[0], record.sequence);
  EXPECT_EQ(record.worker_ns, record.sequence);
}

TEST(RecordFile, AKillAtAnyMomentLeavesAWholeRecord) {
  Folder folder;
  for (int round = 0; round < 60; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
      RecordFile file;
      std::atomic<bool> never{false};
      if (!file.create(folder.path(), static_cast<uint32_t>(round))) _exit(1);
      Record record = sound_record();
      record.compute_kernels = record.copies = record.gemm_ns[0] = record.worker_ns = 1;
      file.publish(&record);
      RecordFile writer = file;
      if (write(ready[1], "x", 1) != 1) _exit(1);
      Record next = record;
      for (uint64_t n = 2; !never; ++n) {
        next.compute_kernels = next.copies = next.gemm_ns[0] = next.worker_ns = n;
        writer.publish(&next);
      }
      _exit(0);
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    usleep(static_cast<useconds_t>(rand() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Bytes bytes;
    Record found;
    ASSERT_TRUE(folder.read(std::to_string(round) + ".0.mfu", bytes));
    ASSERT_TRUE(newest_record(bytes, &found));
    expect_one_publication(found);
  }
}

TEST(RecordFile, ACopyMadeWhileItIsWrittenIsNeverAMixture) {
  Folder folder;
  RecordFile file;
  ASSERT_TRUE(file.create(folder.path(), 1));
  std::atomic<bool> stop{false};
  std::thread writer([&] { publish_forever(&file, stop); });
  int copies = 0, whole = 0;  // since the first publication
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (copies < 3000 && std::chrono::steady_clock::now() < end) {
    Bytes bytes;
    Record found;
    EXPECT_TRUE(folder.read("1.0.mfu", bytes));
    const bool is_whole = newest_record(bytes, &found);
    copies += is_whole || copies > 0;
    if (!is_whole) continue;
    ++whole;
    expect_one_publication(found);
  }
  stop = true;
  writer.join();
  EXPECT_GT(whole, 0);
}

TEST(RecordFile, IsNewAndPrivate) {
  Folder folder;
  RecordFile first;
  RecordFile second;
  ASSERT_TRUE(first.create(folder.path(), 7));
  ASSERT_TRUE(second.create(folder.path(), 7));
  struct stat status;
  ASSERT_EQ(stat(folder.file("7.1.mfu").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kRecordFileSize));
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

// The job's user may do that at any time: the process must live, and the reason is told. A page
// that is half of what is written is as bad as none.
TEST(RecordFile, TruncatedIsAFailureAndNoSignal) {
  for (const off_t size : {0, 4096, 8192, 12'288, 16'384, 20'480}) {
    SCOPED_TRACE(size);
    Folder folder;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      RecordFile file;
      Record record = sound_record();
      int failures = 0;
      if (!file.create(folder.path(), 7)) _exit(9);
      if (truncate(folder.file("7.0.mfu").c_str(), size) != 0) _exit(9);
      for (int i = 0; i < 2; ++i) {
        errno = 0;
        if (!file.publish(&record)) ++failures;
      }
      _exit(failures);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    // The second slot is written first, the first one next.
    const bool first_whole = size >= static_cast<off_t>(sizeof(Record));
    const bool second_whole = size >= static_cast<off_t>(kSlotSize + sizeof(Record));
    EXPECT_EQ(WEXITSTATUS(status), !first_whole + !second_whole);
  }
}

TEST(RecordFile, FollowsNoLink) {
  Folder folder;
  ASSERT_EQ(symlink("/nonexistent/target", folder.file("7.0.mfu").c_str()), 0);
  RecordFile file;
  ASSERT_TRUE(file.create(folder.path(), 7));
  EXPECT_TRUE(std::filesystem::exists(folder.file("7.1.mfu")));
}

TEST(RecordFile, FailsWithTheErrno) {
  RecordFile file;
  EXPECT_FALSE(file.create("/nonexistent", 1));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(file.create(std::string(5000, 'x').c_str(), 1));
  EXPECT_EQ(errno, ENAMETOOLONG);
  EXPECT_FALSE(file.is_open());
  Record record = sound_record();
  file.publish(&record);  // nothing happens

  Folder folder;
  for (int n = 0; n < 4096; ++n) {
    std::ofstream(folder.file("7." + std::to_string(n) + ".mfu"));
  }
  EXPECT_FALSE(file.create(folder.path(), 7));
  EXPECT_EQ(errno, EEXIST);
}

TEST(Record, EveryStateAndCallHasItsOwnName) {
  for (uint32_t i = 0; i < kStates; ++i) {
    EXPECT_STRNE(state_name(static_cast<State>(i)), "unknown");
  }
  for (uint32_t i = 0; i < kCuptiCalls; ++i) {
    EXPECT_STRNE(cupti_call_name(static_cast<CuptiCall>(i)), "unknown");
  }
  EXPECT_STREQ(state_name(static_cast<State>(kStates)), "unknown");
  EXPECT_STREQ(cupti_call_name(static_cast<CuptiCall>(kCuptiCalls)), "unknown");
}

}  // namespace
}  // namespace mfu
