// Reading the line: whatever is written comes back, whatever else is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

// 37 sums of 0.
const std::string kNothing(36, ',');

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
  EXPECT_EQ(longest, kMaxLine);  // the bound was really met
}

// Two steps of a large job, all known of both: the running one's sums give way first, to four
// digits and then those that mfu and compute do not need.
TEST(Property, ARunningStepIsRoundedBeforeAnythingElseGoes) {
  Comment job = job_of(observed_step_of(128, 3600, 400));
  ASSERT_TRUE(show_running(&job, observed_step_of(128, 86400, 400), 1));
  const std::string line = format_comment(job);
  EXPECT_LE(line.size(), kMaxLine);
  EXPECT_EQ(value_of(line, "mfu"), "40.0%");
  EXPECT_EQ(value_of(line, "hfu"), "41.2%");
  EXPECT_EQ(value_of(line, "idle"), "9.5%");
  EXPECT_EQ(value_of(line, "steps"), "40(period)");
  EXPECT_EQ(value_of(line, "clock").substr(0, 4), "1755");
  EXPECT_EQ(value_of(line, "cur").substr(0, 2), "1:");
  const Comment read = parsed(line);
  EXPECT_EQ(read.sums, job.sums);
  EXPECT_TRUE(read.current.elapsed_ns < job.current.elapsed_ns);
  EXPECT_TRUE(read.current.elapsed_ns > job.current.elapsed_ns / 46656 * 46655);
  EXPECT_TRUE(read.current.read_mb == 0);
  EXPECT_EQ(format_comment(read), line);
  // Nothing of it stays when the step ends.
  Comment through = read;
  ASSERT_TRUE(merge_step(&through, observed_step_of(128, 86400, 400), 1));
  ASSERT_TRUE(merge_step(&job, observed_step_of(128, 86400, 400), 1));
  EXPECT_EQ(format_comment(through), format_comment(job));
}

TEST(Property, ShorteningIsInTheDocumentedOrder) {
  Comment job;
  Comment step = observed_step_of(16384, 86400, 400);
  step.partial = "node-lost";
  step.run = 1;
  for (uint32_t id = 0; id < 100; id += 2) ASSERT_TRUE(merge_step(&job, step, id));
  ASSERT_TRUE(show_running(&job, step, 51));
  const std::string line = format_comment(job);
  EXPECT_EQ(value_of(line, "io"), "");
  EXPECT_EQ(value_of(line, "s"), "0-50,52-90,92,94,96,98") << line;
  EXPECT_EQ(value_of(line, "mfu"), "40.0%");
  EXPECT_NE(value_of(line, "compute"), "");
  EXPECT_EQ(value_of(line, "cur").substr(0, 3), "51:");
  EXPECT_EQ(format_comment(parsed(line)), line);

  ASSERT_TRUE(merge_step(&job, step, 51));
  const std::string last = format_comment(job);
  EXPECT_EQ(value_of(last, "clock"), "1755/1980(power)");
  EXPECT_EQ(value_of(last, "steps"), "1020(period)");
}

// Sums that no job reaches: nothing but what no figure can do without is left, and it fits.
TEST(Property, TheLongestLineFits) {
  for (const bool known : {true, false}) {
    for (const bool whole : {true, false}) {
      Comment job;
      job.run = job.gpus = UINT32_MAX;
      job.gpu = std::string(kMaxGpuName, 'X');
      job.peak_gigaflops = kMixedPeak - 1;
      job.precision = Precision::kBf16;
      job.peak_basis = PeakBasis::kEstimated;
      job.basis = Basis::kSeveral;
      job.steps_by = StepsBy::kSeveral;
      job.slowest = kSeveralTasks - 1;
      job.clock_limit_mhz = UINT32_MAX;
      for (std::string Comment::*reason : {&Comment::no_mfu, &Comment::no_hfu, &Comment::no_time,
                                           &Comment::clock_reason, &Comment::partial}) {
        job.*reason = std::string(kMaxReason, 'x');
      }
      for (uint32_t id = 4000000000; id < 4000000100; id += 2) job.merged.insert(id);
      job.merged.insert(kBatchStep);
      job.merged.insert(kInteractiveStep);
      for (const SumField& field : kSumFields) job.sums.*field.member = field.most - 1;
      if (!whole) job.sums.flops_ns = job.sums.executed_ns = job.sums.attributed_ns -= 1;
      if (!known) job.sums.model_flops = job.sums.executed_flops = job.sums.attributed_ns = 0;
      job.running_step = 4000000051;
      job.current = job.sums;
      job.sums.wait_ns = job.sums.collective_ns = 1;
      Comment overflowed = job;  // a running step's bound is reached by adding
      Comment ended = job;
      ended.running_step.reset();
      ended.sums = job.current;
      for (const Comment& comment : {overflowed, ended}) {
        const std::string line = format_comment(comment);
        EXPECT_LE(line.size(), kMaxLine) << line;
        EXPECT_EQ(value_of(line, "cur"), "");
        EXPECT_EQ(value_of(line, "state").substr(0, 16), "partial(xxxxxxxx");
        EXPECT_EQ(parsed(line).sums, comment.sums);
        EXPECT_EQ(format_comment(parsed(line)), line);
      }
    }
  }
}

// --- Reading.

TEST(Parse, IgnoresKeysItDoesNotKnow) {
  const std::string line = format_comment(job_of(step_of(8, 22, 500)));
  for (const char* others : {" later=ok x-1=%%% gpus=", " mfux=1 sums=2 computes=x m=0 gpus="}) {
    EXPECT_EQ(format_comment(parsed(replaced(line, " gpus=", others))), line);
  }
}

TEST(Parse, ARunningStepsZerosAreCounted) {
  const std::string line = format_comment(job_of(step_of(8, 22, 519)));
  const auto sound = parse_comment(replaced(line, " s=0", " s=0 cur=1:k3+6" + kNothing));
  ASSERT_TRUE(sound) << sound.error();
  EXPECT_TRUE(sound->current.model_flops == uint128{20 * 36 + 3} * 2176782336);
  const std::string again = format_comment(*sound);
  EXPECT_EQ(value_of(again, "cur"), "1:k3+6" + kNothing);
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
  EXPECT_EQ(error_of("mfu=51.9%", "mfu=n/a(no"),  // a value ends at its blank
            "byte 16: mfu= must be a percentage or n/a(reason)");
  EXPECT_EQ(error_of("mfu=51.9%", "mfu=").substr(0, 32), "byte 6: not a key=value token");
  EXPECT_EQ(error_of(" s=0", " s=0 s=0"), "byte 172: s= twice");
  EXPECT_EQ(error_of("sum=o", "sum=!"),
            "byte 176: sum= must be 37 numbers in base 36 and a full stop");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"sum=opv", "sum=0opv"},           // leading zero
           {"sum=opv", "sum=Opv"},            // upper case
           {"sum=opv", "sum=zzzzzzzzzzopv"},  // above the bound
           {"sum=opv", "sum=,opv"},           // 38 numbers
           {"sum=opv", "sum=0,opv"},          // 0 is nothing
           {",k,", ",0,"},
           {",k,", ",k,,"},   // 38 numbers
           {",k,", ","},      // 36 numbers
           {",k,", ",k+3,"},  // in `cur` only
           {",,.", ",,"},     // cut off
           {",,.", ",,.."},
           {",,.", ",,. "},
           {",,.", ",,. x=1"},
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
           {" s=0", " cur=x:" + kNothing + " s=0"},
           {" s=0", " cur=1:" + kNothing + ", s=0"},
           {" s=0", " cur=1:" + kNothing + ". s=0"},
           {" s=0", " cur=1:0" + kNothing + " s=0"},
           {" s=0", " cur=1:1000" + kNothing + " s=0"},  // 1+3
           {" s=0", " cur=1:1+2" + kNothing + " s=0"},
           {" s=0", " cur=1:1+03" + kNothing + " s=0"},
           {" s=0", " cur=1:1+" + kNothing + " s=0"},
           {" s=0", " cur=1:10+3" + kNothing + " s=0"},
           {" s=0", " cur=1:+3" + kNothing + " s=0"},
           {" s=0", " cur=1:1+k" + kNothing + " s=0"},  // above the bound
           {" s=0", " cur=1:1+z" + kNothing + " s=0"},
           {" s=0", " cur=1:2nzbc9wkay1+z" + kNothing + " s=0"},  // 2^70, modulo 2^128
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
           {"mfu=51.9%", "mfu=51.9"},
           {"mfu=51.9%", "mfu=51.%"},
           {"mfu=51.9%", "mfu=-51.9%"},
           {"mfu=51.9%", "mfu=51.9%!!"},
           {"mfu=51.9%", "mfu=n/a"},
           {"mfu=51.9%", "mfu=n/a("},
           {"hfu=n/a(no-counts)", "hfu=n/a"},
           {"hfu=n/a(no-counts)", "hfu=none"},
           {"hfu=n/a(no-counts)", "hfu=55.0%(no-counts)"},
           {"hfu=n/a(no-counts)", "hfu=55.0% hfu=55.0%"},
           {"basis=model", "basis=guess"},
           {"basis=model", "basis=models"},
           {"comm=12.1%+9.3%", "comm=12.1%"},
           {"mem=0.2%", "mem=0.2"},
           {"idle=9.5%", "idle=9.5%!"},
           {"step=1.10s", "step=1.10"},
           {" cover=", " goodput=96 cover="},
           {" cover=", " goodput=96.0%() cover="},
           {" cover=", " goodput=96.0%(a)b cover="},
           {" cover=", " power=612 cover="},
           {" cover=", " power=612w cover="},
           {" cover=", " power=612W power=612W cover="},
           {" cover=", " energy=5.53kkJ cover="},
           {" cover=", " energy=5.53 cover="},
           {" cover=", " clock=1755.5 cover="},
           {" cover=", " clock=1755/ cover="},
           {" cover=", " clock=1755/0 cover="},
           {" cover=", " clock=1755/4294967296 cover="},
           {" cover=", " clock=1755(Power) cover="},
           {" cover=", " util=55.2 cover="},
           {" cover=", " io=0.12GB/s cover="},
           {" cover=", " io=0.12+0.03 cover="},
           {" cover=", " counted=81.3 cover="},
           {" cover=", " counted=81.3%( cover="},
           {" s=0", " place= s=0"},
           {" s=0", " place=bad s=0"},
           {" s=0", " place=bad: s=0"},
           {" s=0", " place=warn:x s=0"},
           {" s=0", " place=warn:-1 s=0"},
           {" s=0", " place=warn:4294967296 s=0"},
           {" s=0", " place=ok2 s=0"},
           {" s=0", " place=ok(a) s=0"},
           {" s=0", " place=OK s=0"},
           {" s=0", " place=warn:1() s=0"},
           {" s=0", " place=warn:1(a s=0"},
           {" s=0", " place=warn:1(a)b s=0"},
           {" s=0", " place=warn:1(A) s=0"},
           {" s=0", " place=warn:1(a_b) s=0"},
           {" s=0", " place=warn:1(" + std::string(kMostRules + 1, 'a') + ") s=0"},
           {" s=0", " place=ok place=ok s=0"},
           {"mfu=51.9%", "mfu=n/a()"},
           {"mfu=51.9%", "mfu=n/a(no-flops)!"},
           {"mfu=51.9%", "mfu=n/a(" + std::string(33, 'a') + ")"},
           {"gpus=8xH100-SXM", "gpus=8x"},
           {"gpus=8xH100-SXM", "gpus=4294967296xH100"},
           {"gpus=8xH100-SXM", "gpus=8xH100-SXM-80GB-HBM3"},
           {"gpus=8xH100-SXM ", ""},
           {"peak=989.4(bf16)", "peak=mixed(estimated)"},
           {"peak=989.4(bf16)", "peak=mixed peaks=table"},
           {"peak=989.4(bf16)", "peak=mixed peaks=estimated,file"},
           {"peak=989.4(bf16)", "peak=mixed peaks=estimated peaks=estimated"},
           {"peak=989.4(bf16)", "peak=989.4"},
           {"peak=989.4(bf16)", "peak=989.4(bf17)"},
           {"peak=989.4(bf16)", "peak=989.4(bf16,)"},
           {"peak=989.4(bf16)", "peak=989.4(bf16,table)"},
           {"peak=989.4(bf16)", "peak=989.4(bf16,unknown)"},
           {"peak=989.4(bf16)", "peak=989.4(bf16,mig,file)"},
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
  EXPECT_EQ(parse_comment("mfu/1 s=0").error(),
            "byte 9: the line is cut off: it must end with sum=");
  EXPECT_FALSE(parse_comment(std::string(1 << 20, 'x')));
  const auto too_long = parse_comment(replaced(line, " s=0", " x=" + std::string(700, 'x')));
  EXPECT_EQ(too_long.error(), "byte 768: the line is longer than 768 bytes");
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
