// Reading the line: whatever is written comes back, whatever else is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

TEST(Property, FormatParseFormatIsTheIdentity) {
  std::mt19937_64 random(1);
  size_t longest = 0;
  for (int round = 0; round < 20000; ++round) {
    const Comment comment = wild_comment(&random);
    const std::string line = format_comment(comment);
    longest = std::max(longest, line.size());
    ASSERT_LE(line.size(), kMaxLine) << line;
    for (const char byte : line) ASSERT_TRUE(byte == ' ' || is_value_byte(byte)) << line;
    const auto read = parse_comment(line);
    ASSERT_TRUE(read) << read.error() << "\n" << line;
    ASSERT_EQ(format_comment(*read), line);
    ASSERT_EQ(find_comment("note " + line + " end"), line);
    if (!comment.sums.overflowed()) {
      ASSERT_EQ(read->sums, comment.sums);
    }
  }
  EXPECT_GT(longest, kMaxLine - 40);  // the bound was really met
}

TEST(Property, ShorteningIsInTheDocumentedOrder) {
  Comment job;
  Comment step = step_of(16384, 86400, 400);
  step.partial = "node-lost";
  step.run = 1;
  for (uint32_t id = 0; id < 100; id += 2) ASSERT_TRUE(merge_step(&job, step, id));
  ASSERT_TRUE(show_running(&job, step, 51));
  const std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "hfu"), "");
  EXPECT_EQ(value_of(line, "s"), "0-50,52-90,92,94,96,98") << line;
  EXPECT_EQ(value_of(line, "mfu"), "40.0%");
  EXPECT_NE(value_of(line, "compute"), "");
  EXPECT_EQ(value_of(line, "cur").substr(0, 3), "51:");
  EXPECT_EQ(format_comment(parsed(line)), line);
}

TEST(Property, LastOfAllTheRunningStepGoes) {
  Comment job;
  job.run = job.gpus = UINT32_MAX;
  job.merged.insert(1);
  job.partial = job.no_mfu = job.no_time = std::string(kMaxReason, 'x');
  for (const SumField& field : kSumFields) job.sums.*field.member = field.most - 1;
  job.running_step = 2;
  for (const SumField& field : kSumFields) job.current.*field.member = field.most - 1;
  const std::string line = format_comment(job);
  EXPECT_LE(line.size(), kMaxLine);
  EXPECT_EQ(value_of(line, "cur"), "");
  EXPECT_EQ(value_of(line, "state"), "partial(" + std::string(kMaxReason, 'x') + ")");
  EXPECT_EQ(parsed(line).sums, job.sums);
}

// --- Reading.

TEST(Parse, IgnoresKeysItDoesNotKnow) {
  const std::string line = format_comment(job_of(step_of(8, 22, 500)));
  const std::string longer = replaced(line, " gpus=", " goodput=96.0% x-1=%%% gpus=");
  EXPECT_EQ(format_comment(parsed(longer)), line);
}

TEST(Parse, RefusesWithTheByteAtFault) {
  const std::string line = format_comment(job_of(step_of(8, 22, 519)));
  const auto error_of = [&](const std::string& from, const std::string& to) {
    const auto result = parse_comment(replaced(line, from, to));
    return result ? std::string("sound") : result.error();
  };
  EXPECT_EQ(error_of("mfu/1", "mfu/2"), "byte 0: a line begins with \"mfu/1 \"");
  EXPECT_EQ(error_of("8xH100", "8yH100"), "byte 53: gpus= must be COUNTxNAME");
  EXPECT_EQ(error_of(" s=0", " s=0,0").substr(0, 9), "byte 173:");
  EXPECT_EQ(error_of("sum=o", "sum=!"),
            "byte 176: sum= must be 15 numbers in base 36 and a full stop");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"sum=opv", "sum=0opv"},           // leading zero
           {"sum=opv", "sum=Opv"},            // upper case
           {"sum=opv", "sum=zzzzzzzzzzopv"},  // above the bound
           {"sum=opv", "sum=,opv"},           // an empty number
           {",k,", ",k,k,"},                  // 16 numbers
           {",k,", ","},                      // 14 numbers
           {",0,0.", ",0,0"},                 // cut off
           {",0,0.", ",0,0.."},
           {",0,0.", ",0,0. "},
           {",0,0.", ",0,0. x=1"},
           {" s=0", " s=0 s=0"},  // twice
           {" s=0", " s=00"},
           {" s=0", " s=1-0"},
           {" s=0", " s=0-0"},
           {" s=0", " s=0,1"},  // adjacent
           {" s=0", " s=b,0"},
           {" s=0", " s=i,b"},
           {" s=0", " s="},
           {" s=0", " s=4294967295"},
           {" s=0", "  s=0"},
           {" s=0", " =0"},
           {" s=0", " s"},
           {" s=0", " cur=x:0,0,0,0,0,0,0,0,0,0,0,0,0 s=0"},
           {" s=0", " cur=1:0 s=0"},
           {" s=0", " cur=1 s=0"},
           {" s=0", " run=4294967296 s=0"},
           {" s=0", " run=-1 s=0"},
           {" s=0", " state=done s=0"},
           {" s=0", " state=partial() s=0"},
           {" s=0", " state=partial(A) s=0"},
           {" s=0", " state=running, s=0"},
           {" s=0", " x=\" s=0"},
           {" s=0", " x=a|b s=0"},
           {" s=0", " x=\t s=0"},
           {" s=0", std::string(" x=\0 s=0", 8)},
           {" s=0", " x=\x80 s=0"},
           {"mfu=51.9%", "mfu=n/a("},
           {"mfu=51.9%", "mfu=n/a()"},
           {"mfu=51.9%", "mfu=n/a(no-flops)!"},
           {"mfu=51.9%", "mfu=n/a(" + std::string(33, 'a') + ")"},
           {"gpus=8xH100-SXM", "gpus=8x"},
           {"gpus=8xH100-SXM", "gpus=4294967296xH100"},
           {"gpus=8xH100-SXM", "gpus=8xH100-SXM-80GB-HBM3"},
           {"gpus=8xH100-SXM ", ""},
           {"peak=989.4(bf16)", "peak=989.4"},
           {"peak=989.4(bf16)", "peak=989.4(bf17)"},
           {"peak=989.4(bf16)", "peak=989.4000(bf16)"},
           {"peak=989.4(bf16)", "peak=989.(bf16)"},
           {"peak=989.4(bf16)", "peak=18446744073709551.615(bf16)"},
           {"peak=989.4(bf16)", "peak=99999999999999999999999(bf16)"},
           {"cover=100.0%/99.8%", "cover=100.0%"},
           {"cover=100.0%/99.8%", "cover=100.0%(/99.8%"}}) {
    EXPECT_NE(error_of(from, to), "sound") << to;
  }
  EXPECT_FALSE(parse_comment(""));
  EXPECT_FALSE(parse_comment("mfu/1"));
  EXPECT_FALSE(parse_comment("mfu/1 "));
  EXPECT_FALSE(parse_comment(std::string(1 << 20, 'x')));
  const auto too_long = parse_comment(replaced(line, " s=0", " x=" + std::string(500, 'x')));
  EXPECT_EQ(too_long.error(), "byte 512: the line is longer than 512 bytes");
}

TEST(Parse, MutatedLinesNeverCrashAndStayStable) {
  std::mt19937_64 random(3);
  std::vector<std::string> lines;
  for (int i = 0; i < 50; ++i) lines.push_back(format_comment(wild_comment(&random)));
  size_t sound = 0;
  for (int round = 0; round < 40000; ++round) {
    std::string line = lines[random() % lines.size()];
    for (size_t count = random() % 3 + 1; count > 0 && !line.empty(); --count) {
      const size_t at = random() % line.size();
      switch (random() % 5) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line[at] = "0123456789abcxz,.=()%/+- "[random() % 25];
          break;
        case 2:
          line.erase(at, random() % 12);
          break;
        case 3:
          line.insert(at, line.substr(random() % line.size(), random() % 12));
          break;
        default:
          line.resize(at);
      }
    }
    find_comment(line);
    const auto comment = parse_comment(line);
    if (!comment) {
      ASSERT_EQ(comment.error().rfind("byte ", 0), 0U);
      continue;
    }
    ++sound;
    const std::string again = format_comment(*comment);
    ASSERT_LE(again.size(), kMaxLine);
    ASSERT_EQ(format_comment(parsed(again)), again);
  }
  EXPECT_GT(sound, 1000U);
}

}  // namespace
}  // namespace mfu
