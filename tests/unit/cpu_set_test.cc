#include "topology/cpu_set.hh"

#include <gtest/gtest.h>

namespace mfu {
namespace {

CpuSet list(const char* text) {
  return CpuSet::from_list(text).value();
}
std::string masked(const char* text) {
  const auto set = CpuSet::from_mask(text);
  return set ? set->text() : "refused";
}

TEST(CpuSet, ReadsAndWritesLists) {
  EXPECT_EQ(list("0-3,8,10-11\n").text(), "0-3,8,10-11");
  EXPECT_EQ(list("5,3,4").text(), "3-5");
  EXPECT_EQ(list("63-64").count(), 2u);
  EXPECT_EQ(list("").text(), "none");
  EXPECT_EQ(list("65535").text(), "65535");
  for (const char* wrong :
       {"a", "1-", "-1", "3-1", "0-65536", "65536", "1,,2", "1 2", "0x3", "4294967296", "1-2-3"}) {
    EXPECT_FALSE(CpuSet::from_list(wrong)) << wrong;
  }
}

TEST(CpuSet, ReadsMasks) {
  EXPECT_EQ(masked("000000ff,ffff0000,00ffffff"), "0-23,48-71");
  EXPECT_EQ(masked("0x3,00000001"), "0,32-33");
  EXPECT_EQ(masked("0xf0"), "4-7");
  EXPECT_EQ(masked("0x0000ffff,,0x1"), "0,64-79");
  EXPECT_EQ(masked("0x10000000000000000"), "64");  // Slurm's, of one word
  EXPECT_EQ(masked(""), "none");
  EXPECT_EQ(masked("0"), "none");
  for (const char* wrong : {"g", "0x", "1ffffffff,0", "-1", "f f"}) {
    EXPECT_EQ(masked(wrong), "refused") << wrong;
  }
  EXPECT_EQ(masked(("1" + std::string(16384, '0')).c_str()), "refused");
  std::string words = "1";
  for (int i = 0; i < 2048; ++i) words += ",0";
  EXPECT_EQ(masked(words.c_str()), "refused");
}

TEST(CpuSet, Compares) {
  EXPECT_TRUE(list("1,70").within(list("0-100")));
  EXPECT_FALSE(list("1,170").within(list("0-100")));
  EXPECT_TRUE(list("").within(list("")));
  EXPECT_TRUE(list("0,100").intersects(list("100-101")));
  EXPECT_FALSE(list("0,100").intersects(list("1,99")));
  EXPECT_FALSE(list("").intersects(list("1")));
  CpuSet both = list("0-1");
  both |= list("70");
  EXPECT_EQ(both, list("0-1,70"));
  both &= list("1,200");
  EXPECT_EQ(both, list("1"));
  EXPECT_TRUE(both.has(1));
  EXPECT_FALSE(both.has(1000));
  EXPECT_FALSE(both.add(CpuSet::kMost));
}

}  // namespace
}  // namespace mfu
