// The nodes of a job: by what squeue and sacct say, played by scripts, and where they are in a
// fabric.
#include "topology/job_nodes.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/fabric_samples.hh"
#include "topology/whole_file.hh"

namespace mfu {
namespace {

// A folder that is PATH, with commands of ours.
class JobNodes : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/mfu-slurm-XXXXXX";
    folder_ = mkdtemp(path);
    const char* before = std::getenv("PATH");
    path_ = before == nullptr ? "" : before;
    setenv("PATH", ("relative:" + folder_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  // Its arguments are kept in NAME.arguments, a line each.
  void command(const std::string& name, const std::string& body) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\nprintf '%s\\n' \"$@\" >" << path << ".arguments\n"
                        << body << "\n";
    chmod(path.c_str(), 0755);
  }
  std::string arguments(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name + ".arguments");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static auto nodes(const std::string& job) { return job_nodes(job, std::chrono::seconds(60)); }

  std::string folder_, path_;
};

using Names = std::vector<std::string>;

TEST_F(JobNodes, OfARunningJobBySqueue) {
  command("squeue", "echo 'n[2-3,10]'");
  const auto found = nodes("12");
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(*found, (Names{"n2", "n3", "n10"}));
  EXPECT_EQ(arguments("squeue"), "--noheader\n--jobs=12\n--states=all\n--format=%N\n");
}

TEST_F(JobNodes, OfAFinishedJobBySacct) {
  command("squeue", "exit 1");
  command("sacct", "echo 'n[1-2]'; echo 'n2'; echo 'None assigned'");
  const auto found = nodes("12_3");
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(*found, (Names{"n1", "n2"}));
  EXPECT_EQ(arguments("sacct"),
            "--noheader\n--parsable2\n--allocations\n--jobs=12_3\n--format=NodeList\n");
}

TEST_F(JobNodes, OfNobody) {
  command("squeue", "echo");
  command("sacct", "echo 'None assigned'");
  EXPECT_EQ(nodes("12").error(), "job 12 has no nodes: it has not started, or nobody knows it");
  command("squeue", "exit 3");
  std::filesystem::remove(folder_ + "/sacct");
  EXPECT_EQ(nodes("12").error(), "job 12: neither squeue nor sacct tells its nodes (" + folder_ +
                                     "/squeue: ended with exit code 3; sacct: not found in PATH); "
                                     "--hosts takes them");
}

TEST_F(JobNodes, OnlyJobIdsAreAskedFor) {
  command("squeue", "echo n1");
  for (const char* id : {"", "1;id", "-1", "all", "12_", "12_3_4", "12+x", "12345678901", "12 "}) {
    EXPECT_FALSE(is_job_id(id)) << id;
    EXPECT_FALSE(nodes(id)) << id;
  }
  EXPECT_EQ(arguments("squeue"), "");
  for (const char* id : {"1", "4294967295", "12_3", "12+1"}) EXPECT_TRUE(is_job_id(id)) << id;
}

TEST(FindHostsOf, NamesAreFoundAsAWholeOrUpToTheDot) {
  FabricPlan plan;
  plan.units = 1;
  Fabric fabric = make_fabric(plan);
  for (uint32_t rail = 0; rail < 4; ++rail) {
    const std::string device = " mlx5_" + std::to_string(rail);
    fabric.nodes[node_called(fabric, "node2" + device)].description = "NODE2.site.org" + device;
  }
  const FabricRoles roles = find_roles(fabric);
  NameMap names;
  names.by_text["node3"] = "gpu3";
  const PlacedHosts placed =
      find_hosts_of(roles, names, {"node1", "node2", "gpu3", "node3", "node4.site.org", "x"});
  Names found;
  for (const uint32_t host : placed.hosts) found.push_back(roles.hosts[host].name);
  EXPECT_EQ(found, (Names{"node1", "NODE2.site.org", "node3", "node4"}));
  EXPECT_EQ(placed.absent, (Names{"node3", "x"}));
}

TEST(FindHostsOf, AShortNameOfTwoHostsIsNobodys) {
  FabricPlan plan;
  plan.units = 1;
  Fabric fabric = make_fabric(plan);
  for (uint32_t rail = 0; rail < 4; ++rail) {
    const std::string device = " mlx5_" + std::to_string(rail);
    fabric.nodes[node_called(fabric, "node2" + device)].description = "gpu.a" + device;
    fabric.nodes[node_called(fabric, "node3" + device)].description = "gpu.b" + device;
  }
  const PlacedHosts placed = find_hosts_of(find_roles(fabric), {}, {"gpu", "gpu.b"});
  EXPECT_EQ(placed.hosts.size(), 1);
  EXPECT_EQ(placed.absent, (Names{"gpu"}));
}

TEST(WholeFile, IsThereAsAWholeOrNotAtAll) {
  char path[] = "/tmp/mfu-file-XXXXXX";
  const std::string folder = mkdtemp(path);
  const std::string file = folder + "/snapshot";
  EXPECT_EQ(write_whole_file(file, "one"), "");
  EXPECT_EQ(write_whole_file(file, "two"), "");
  std::ifstream read(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), "two");
  struct stat status;
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644);
  EXPECT_EQ(write_whole_file(folder, "x"), folder + ": is there and no regular file");
  EXPECT_EQ(write_whole_file(folder + "/no/file", "x"),
            folder + "/no/file: cannot write beside it: No such file or directory");
  // Nothing is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mfu
