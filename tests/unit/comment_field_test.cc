// The line among the text of others.
#include <gtest/gtest.h>

#include "plugin/comment.hh"
#include "tests/unit/comment_samples.hh"

namespace mfu {
namespace {

const size_t kNoLimit = 65535;

TEST(Field, ForeignTextIsKeptByteForByte) {
  const std::string first = format_comment(job_of(step_of(8, 22, 500)));
  const std::string second = format_comment(job_of(step_of(128, 7000, 333)));
  for (const std::string before :
       {"", "note ", "key=value ", "\xc3\xa9\n", "mfu/1 was here ", "mfu/1 a=b ", "xmfu/1 \t",
        "sum=1,2,3. ", "mfu/1 sum=1 ", "{\"a\": \"b|c\"} "}) {
    for (const std::string after : {"", " ", "  two", " key=value", ";x", "|x", "\nnext", " sum=0.",
                                    ". tail", " mfu/1 x=1"}) {
      const std::string field = before + first + after;
      EXPECT_EQ(find_comment(field), first) << field;
      const auto once = replace_comment(field, second, kNoLimit);
      ASSERT_TRUE(once);
      EXPECT_EQ(*once, before + second + after);
      EXPECT_EQ(*replace_comment(*once, second, kNoLimit), *once);
      EXPECT_EQ(*replace_comment(*once, first, kNoLimit), field);
    }
  }
}

TEST(Field, AppendsAfterABlank) {
  const std::string line = format_comment({});
  EXPECT_EQ(*replace_comment("", line, kNoLimit), line);
  EXPECT_EQ(*replace_comment("note", line, kNoLimit), "note " + line);
  EXPECT_EQ(*replace_comment("note\n", line, kNoLimit), "note\n" + line);
  const std::string once = *replace_comment("note", line, kNoLimit);
  EXPECT_EQ(*replace_comment(once, line, kNoLimit), once);
}

TEST(Field, ALineThatWasCutOffIsNotOurs) {
  const std::string line = format_comment(job_of(step_of(8, 22, 500)));
  for (size_t size = 0; size < line.size(); ++size) {
    const std::string cut = line.substr(0, size);
    EXPECT_TRUE(find_comment(cut).empty()) << cut;
    EXPECT_TRUE(find_comment(cut + " foreign text.").empty()) << cut;
    EXPECT_EQ(find_comment(cut + "\n" + line), line);
  }
  EXPECT_EQ(find_comment("abc").data() - std::string_view("abc").data() >= 0, true);
  const std::string_view field = "abc";
  EXPECT_EQ(find_comment(field).data(), field.data() + 3);
}

TEST(Field, JobstatsIsLeftAlone) {
  const std::string line = format_comment({});
  EXPECT_FALSE(replace_comment("JS1:H4sIAAAA", line, kNoLimit));
  EXPECT_FALSE(replace_comment("JS1:Short", line, kNoLimit));
  EXPECT_TRUE(replace_comment("not JS1:Short", line, kNoLimit));
}

TEST(Field, LimitIsKept) {
  const std::string line = format_comment({});
  EXPECT_TRUE(replace_comment("note", line, line.size() + 5));
  const auto full = replace_comment("note", line, line.size() + 4);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().find("bytes, more than the"), std::string::npos);
}

}  // namespace
}  // namespace mfu
