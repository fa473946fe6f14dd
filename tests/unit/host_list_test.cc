// What Slurm 22.05's `scontrol show hostnames` and `show hostlistsorted` print for these lists was
// recorded by hand; tests/cluster/topology_test.sh asks the installed one.
#include "topology/host_list.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace mfu {
namespace {

using Names = std::vector<std::string>;

Names expanded(const std::string& list) {
  const auto names = expand_hosts(list);
  EXPECT_TRUE(names) << list << ": " << names.error();
  return names ? *names : Names();
}

std::string error_of(const std::string& list) {
  const auto names = expand_hosts(list);
  return names ? "none: " + std::to_string(names->size()) + " names" : names.error();
}

TEST(HostList, expands_as_slurm_does) {
  EXPECT_EQ(expanded("n1"), (Names{"n1"}));
  EXPECT_EQ(expanded("n[08-12]"), (Names{"n08", "n09", "n10", "n11", "n12"}));
  EXPECT_EQ(expanded("n[8-012]"), (Names{"n8", "n9", "n10", "n11", "n12"}));
  EXPECT_EQ(expanded("n[01-3]"), (Names{"n01", "n02", "n03"}));
  EXPECT_EQ(expanded("n[99-101]"), (Names{"n99", "n100", "n101"}));
  EXPECT_EQ(expanded("a,b[1,2],c"), (Names{"a", "b1", "b2", "c"}));
  EXPECT_EQ(expanded("rack[1-2]n[01-02]"), (Names{"rack1n01", "rack1n02", "rack2n01", "rack2n02"}));
  EXPECT_EQ(expanded("n[1-2][3-4]"), (Names{"n13", "n14", "n23", "n24"}));
  EXPECT_EQ(expanded("[7-8]"), (Names{"7", "8"}));
  EXPECT_EQ(expanded("n[09-10]-ib,x"), (Names{"n09-ib", "n10-ib", "x"}));
  EXPECT_EQ(expanded("r[1-2]n[3-4]-ib"), (Names{"r1n3-ib", "r1n4-ib", "r2n3-ib", "r2n4-ib"}));
}

TEST(HostList, empty_parts_are_skipped_and_doubles_stay) {
  EXPECT_EQ(expanded(""), Names());
  EXPECT_EQ(expanded(",a,,b, \n"), (Names{"a", "b"}));
  EXPECT_EQ(expanded("a b\tc"), (Names{"a", "b", "c"}));
  EXPECT_EQ(expanded("n[9-10],n[9-10]"), (Names{"n9", "n10", "n9", "n10"}));
}

TEST(HostList, what_slurm_refuses_is_an_error_that_names_the_part) {
  EXPECT_EQ(error_of("a,n[3-1]"), "hostlist 'n[3-1]': 3-1 counts down");
  EXPECT_EQ(error_of("n[]"), "hostlist 'n[]': '' is no range of numbers");
  EXPECT_EQ(error_of("n[1,]"), "hostlist 'n[1,]': '' is no range of numbers");
  EXPECT_EQ(error_of("n[a]"), "hostlist 'n[a]': 'a' is no range of numbers");
  EXPECT_EQ(error_of("n[1-2-3]"), "hostlist 'n[1-2-3]': '1-2-3' is no range of numbers");
  EXPECT_EQ(error_of("n[1-2]" + std::string(255, 'x')).substr(0, 16), "hostlist 'n[1-2]");
}

// Slurm makes "n]" of the first, and "n1" of "n[1-]": slips of its parser that nobody relies on.
TEST(HostList, half_a_bracket_is_an_error) {
  EXPECT_EQ(error_of("n[1-2"), "hostlist 'n[1-2': a '[' without ']'");
  EXPECT_EQ(error_of("n[1 2]"), "hostlist 'n[1': a '[' without ']'");
  EXPECT_EQ(error_of("n]"), "hostlist 'n]': a ']' without '['");
  EXPECT_EQ(error_of("n[1-]"), "hostlist 'n[1-]': '1-' is no range of numbers");
  EXPECT_EQ(error_of("n[[1]]"), "hostlist 'n[[1]]': '[1' is no range of numbers");
}

TEST(HostList, its_size_is_bounded) {
  EXPECT_EQ(expanded("n[1-262144]").size(), kMostHosts);
  EXPECT_EQ(error_of("n[0-262144]"), "hostlist 'n[0-262144]': too many names");
  EXPECT_EQ(error_of("x,n[1-262144]"), "hostlist 'n[1-262144]': too many names");
  EXPECT_EQ(error_of("n[0-999999999999999999]"),
            "hostlist 'n[0-999999999999999999]': too many names");
  EXPECT_EQ(error_of("n[0-9999999999999999999]"),
            "hostlist 'n[0-9999999999999999999]': '0-9999999999999999999' is no range of numbers");
  EXPECT_EQ(error_of("n[1-1000][1-1000]"), "hostlist 'n[1-1000][1-1000]': too many names");
  EXPECT_EQ(error_of(std::string(300, 'n')).substr(93), "a name is too long");
}

TEST(HostList, compresses_the_number_at_the_end) {
  EXPECT_EQ(compress_hosts({}), "");
  EXPECT_EQ(compress_hosts({"n1"}), "n1");
  EXPECT_EQ(compress_hosts({"n2", "n1"}), "n[1-2]");
  EXPECT_EQ(compress_hosts({"dgx002", "dgx001", "dgx003", "dgx040"}), "dgx[001-003,040]");
  EXPECT_EQ(compress_hosts({"a08-c01", "a08-c02", "a09-c01"}), "a08-c[01-02],a09-c01");
  EXPECT_EQ(compress_hosts({"b", "a", "n2", "n1"}), "a,b,n[1-2]");
  EXPECT_EQ(compress_hosts({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(compress_hosts({"n1", "n1", "n1"}), "n1");
  EXPECT_EQ(compress_hosts({"7", "8"}), "[7-8]");
}

TEST(HostList, a_range_keeps_its_width) {
  EXPECT_EQ(compress_hosts({"n098", "n099", "n100"}), "n[098-100]");
  EXPECT_EQ(compress_hosts({"n99", "n100"}), "n[99-100]");
  EXPECT_EQ(compress_hosts({"n09", "n10", "n9"}), "n[9,09-10]");
  EXPECT_EQ(compress_hosts({"n08", "n09", "n010"}), "n[08-09,010]");
  EXPECT_EQ(compress_hosts({"n08", "n09", "n10", "n11", "n99", "n100", "n101"}), "n[08-11,99-101]");
}

TEST(HostList, natural_order) {
  Names names = {"n10", "n9", "n09", "m", "n", "n9a", "N9", "rack2-n1", "rack10-n1", "rack2-n10"};
  sort_hosts(&names);
  EXPECT_EQ(names, (Names{"N9", "m", "n", "n9", "n09", "n9a", "n10", "rack2-n1", "rack2-n10",
                          "rack10-n1"}));
}

TEST(HostList, of_equal_numbers_the_first_width_decides) {
  EXPECT_TRUE(host_before("n1-01", "n01-1"));
  EXPECT_FALSE(host_before("n01-1", "n1-01"));
}

TEST(HostList, any_set_of_names_comes_back) {
  std::mt19937 random(7);
  auto below = [&random](uint32_t n) { return random() % n; };
  for (int round = 0; round < 3000; ++round) {
    std::set<std::string> names;
    const uint32_t count = 1 + below(30);
    const uint32_t highest = 1 + below(3) * 60;
    while (names.size() < count) {
      std::string name(1, static_cast<char>('a' + below(2)));
      if (below(4) == 0) name += std::to_string(below(12)) + "-";
      std::string number = std::to_string(below(highest + 60));
      if (below(3) == 0) number.insert(0, below(3), '0');
      if (below(10) > 0) name += number;
      if (below(20) == 0) name += ".x";
      names.insert(name);
    }
    Names shuffled(names.begin(), names.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const std::string list = compress_hosts(shuffled);
    const auto back = expand_hosts(list);
    ASSERT_TRUE(back) << list << ": " << back.error();
    EXPECT_EQ(back->size(), names.size()) << list;  // no doubles
    EXPECT_EQ(std::set<std::string>(back->begin(), back->end()), names) << list;
    EXPECT_EQ(compress_hosts(*back), list);
    sort_hosts(&shuffled);
    for (size_t i = 1; i < shuffled.size(); ++i) {
      EXPECT_TRUE(host_before(shuffled[i - 1], shuffled[i]));
      EXPECT_FALSE(host_before(shuffled[i], shuffled[i - 1]));
    }
  }
}

TEST(HostList, a_count_for_people) {
  EXPECT_EQ(count_hosts({"n2", "n1"}, "nodes are lost"), "2 nodes are lost: n[1-2]");
}

}  // namespace
}  // namespace mfu
