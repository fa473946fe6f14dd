// What the fuzzers run, without their engine: each target of tests/fuzz takes its seeds, and some
// thousand changed ones, the same each time. In a child: a crash, or an abort() of what a target
// requires, fails the test with the input.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// clang-format off
#define FUZZ_TARGETS(X)                                                                    \
  X(comment) X(fabric_text) X(heard_nodes) X(nccl_topology) X(peer_message) X(place_note)  \
  X(placement_output) X(record) X(step_plan) X(topology_conf) X(trace_reader)
// clang-format on

// LLVMFuzzerTestOneInput of tests/fuzz/NAME_fuzz.cc, as the Makefile renames it.
#define DECLARE(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
FUZZ_TARGETS(DECLARE)
#undef DECLARE

namespace mfu {
namespace {

constexpr size_t kChanged = 3000;  // inputs of each target, besides its seeds
constexpr size_t kOfBatch = 500;
constexpr size_t kMostInput = 8192;
constexpr unsigned kBatchSeconds = 120;  // a thousand times more than needed: it hangs

struct Target {
  const char* name;
  int (*run)(const uint8_t* data, size_t size);
};
#define ENTRY(name) {#name, fuzz_##name},
constexpr Target kTargets[] = {FUZZ_TARGETS(ENTRY)};
#undef ENTRY

std::vector<std::string> names_in(const std::string& folder, std::string_view ending = "") {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  while (const dirent* entry = open == nullptr ? nullptr : readdir(open)) {
    std::string name = entry->d_name;
    if (name[0] == '.' || !name.ends_with(ending)) continue;
    names.push_back(name.substr(0, name.size() - ending.size()));
  }
  if (open != nullptr) closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> seeds_of(const Target& target) {
  const std::string folder = std::string("tests/fuzz/seeds/") + target.name + "/";
  std::vector<std::string> seeds;
  for (const std::string& name : names_in(folder)) {
    std::ifstream file(folder + name, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Seeds with a few changes each.
class Changes {
 public:
  // The inputs of a name are the same on every machine: nothing here depends on the library.
  Changes(const std::vector<std::string>& seeds, std::string_view name) : seeds_(seeds) {
    for (const char byte : name) state_ = state_ * 31 + static_cast<unsigned char>(byte);
    random_.seed(state_);
  }
  std::string next() {
    std::string input = seed();
    for (size_t left = 1 + below(6); left > 0; --left) change(&input);
    input.resize(std::min(input.size(), kMostInput));
    return input;
  }

 private:
  size_t below(size_t end) { return end == 0 ? 0 : random_() % end; }
  const std::string& seed() { return seeds_[below(seeds_.size())]; }
  char byte() { return static_cast<char>(random_()); }

  void change(std::string* input) {
    const size_t at = below(input->size() + 1);
    const size_t size = 1 + below(below(4) == 0 ? 200 : 8);
    switch (below(7)) {
      case 0:
        if (at < input->size()) (*input)[at] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        if (at < input->size()) (*input)[at] = byte();
        break;
      case 2:
        input->insert(at, size, byte());
        break;
      case 3:
        input->erase(at, size);
        break;
      case 4:
        input->insert(below(input->size() + 1), input->substr(at, size));
        break;
      case 5: {
        const std::string& other = seed();
        *input = input->substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      default:
        change_number(input, at);
    }
  }

  // The first number behind `at` becomes one at an edge; where there is none, bytes do.
  void change_number(std::string* input, size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    const size_t first = input->find_first_of(kDigits, at);
    if (first != input->npos && below(4) != 0) {
      constexpr const char* kEdges[] = {"0",
                                        "1",
                                        "-1",
                                        "255",
                                        "65536",
                                        "4294967295",
                                        "4294967296",
                                        "18446744073709551615",
                                        "340282366920938463463374607431768211456",
                                        "1e999"};
      const size_t end = std::min(input->find_first_not_of(kDigits, first), input->size());
      input->replace(first, end - first, kEdges[below(std::size(kEdges))]);
    } else {
      const size_t width = std::min(size_t{1} << below(4), input->size() - at);
      std::fill_n(input->begin() + static_cast<std::ptrdiff_t>(at), width,
                  below(2) == 0 ? '\0' : '\xff');
    }
  }

  const std::vector<std::string>& seeds_;
  uint64_t state_ = 0;
  std::mt19937_64 random_;
};

// Children run targets; the input that one of them has in hand is seen here.
class Children {
 public:
  Children() {
    void* shared =
        mmap(nullptr, sizeof(InHand), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared != MAP_FAILED) in_hand_ = static_cast<InHand*>(shared);
  }
  ~Children() {
    if (in_hand_ != nullptr) munmap(in_hand_, sizeof(InHand));
  }

  // The target's run of each input that `next` gives, `count` of them. Empty, or what happened.
  std::string run(const Target& target, size_t count, const std::function<std::string()>& next) {
    if (in_hand_ == nullptr) return "no shared memory";
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return "no child";
    if (child == 0) {
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      alarm(kBatchSeconds);
      for (; count > 0; --count) {
        const std::string input = next();
        in_hand_->size = std::min(input.size(), sizeof(in_hand_->bytes));
        std::memcpy(in_hand_->bytes, input.data(), in_hand_->size);
        target.run(reinterpret_cast<const uint8_t*>(input.data()), input.size());
      }
      std::exit(0);  // the targets' folders go with it
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return "a child that is not found";
    if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status) == 0) return "";
    return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  }
  std::string input() const { return {in_hand_->bytes, in_hand_->size}; }

 private:
  struct InHand {
    size_t size;
    char bytes[64 << 10];
  };
  InHand* in_hand_ = nullptr;
};

std::string report(const Target& target, const std::string& what, const std::string& input) {
  const std::string path = testing::TempDir() + "mfu-fuzz-" + target.name;
  std::ofstream(path, std::ios::binary) << input;
  return std::string(target.name) + ": " + what + " with the input in " + path + " (" +
         std::to_string(input.size()) + " bytes); after make fuzz, " + BUILD_FOLDER + "/fuzz/" +
         target.name + " " + path + " shows it";
}

class FuzzSeeds : public testing::TestWithParam<Target> {
 protected:
  Children children_;
};

TEST_P(FuzzSeeds, HoldAsTheyAreAndChanged) {
  const std::vector<std::string> seeds = seeds_of(GetParam());
  ASSERT_FALSE(seeds.empty()) << "no file in tests/fuzz/seeds/" << GetParam().name;
  for (const std::string& seed : seeds) EXPECT_LE(seed.size(), kMostInput);
  size_t taken = 0;
  std::string what = children_.run(GetParam(), seeds.size(), [&] { return seeds[taken++]; });
  ASSERT_EQ(what, "") << report(GetParam(), what, children_.input());
  for (size_t batch = 0; batch < kChanged / kOfBatch; ++batch) {
    Changes changes(seeds, GetParam().name + std::to_string(batch));
    what = children_.run(GetParam(), kOfBatch, [&] { return changes.next(); });
    ASSERT_EQ(what, "") << report(GetParam(), what, children_.input());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, FuzzSeeds, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzTargets, AreAllHere) {
  std::vector<std::string> names;
  for (const Target& target : kTargets) names.emplace_back(target.name);
  EXPECT_EQ(names, names_in("tests/fuzz", "_fuzz.cc"));
  EXPECT_EQ(names, names_in("tests/fuzz/seeds"));
}

// That the tests above can fail.
TEST(FuzzChildren, TellWhatBrokeThem) {
  Children children;
  const std::vector<std::string> inputs = {"good", "bad", "never"};
  const auto run = [&](int (*target)(const uint8_t*, size_t)) {
    size_t taken = 0;
    return children.run({"broken", target}, inputs.size(), [&] { return inputs[taken++]; });
  };
  EXPECT_EQ(run([](const uint8_t*, size_t) { return 0; }), "");
  EXPECT_EQ(run([](const uint8_t* data, size_t) {
              if (data[0] == 'b') std::abort();
              return 0;
            }),
            "ended by signal 6");
  EXPECT_EQ(children.input(), "bad");
  EXPECT_EQ(run([](const uint8_t* data, size_t) {
              if (data[0] == 'b') _exit(3);
              return 0;
            }),
            "ended with exit code 3");
}

// Else a failure could not be seen twice.
TEST(FuzzChanges, AreTheSameEachTime) {
  const std::vector<std::string> seeds = {"number=12 text", std::string("\0\1\2", 3), ""};
  Changes first(seeds, "a"), again(seeds, "a"), other(seeds, "b");
  size_t different = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string input = first.next();
    ASSERT_EQ(input, again.next());
    different += input != other.next();
  }
  EXPECT_GT(different, 500u);
}

}  // namespace
}  // namespace mfu
