// A step's placement on one node: the request's text, the audit of it, and what is printed.
#include "topology/step_command.hh"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_text.hh"

namespace mfu {
namespace {

TEST(StepRequest, AllKeys) {
  const auto request = parse_step_request(
      "node=n1\nnodes=2\nallocated=0-1,3\nconfined=1\nmap=/m.xml\ncache=/c.xml\nfabric=/f\n"
      "hosts=n[1-2]\nnames=/n\n"
      "task=3,1\ncpus=0-13\nenv=CUDA_VISIBLE_DEVICES=\nenv=NCCL_IB_HCA==mlx5_0\n"
      "task=2,0\nenv=CUDA_DEVICE_ORDER=PCI_BUS_ID");
  ASSERT_TRUE(request) << request.error();
  EXPECT_EQ(request->node, "n1");
  EXPECT_EQ(request->nodes, 2u);
  EXPECT_EQ(request->allocated, "0-1,3");
  EXPECT_EQ(request->confined, true);
  EXPECT_EQ(request->map, "/m.xml");
  EXPECT_EQ(request->cache, "/c.xml");
  EXPECT_EQ(request->fabric, "/f");
  EXPECT_EQ(request->hosts, "n[1-2]");
  EXPECT_EQ(request->names, "/n");
  ASSERT_EQ(request->tasks.size(), 2u);
  const StepRequest::Task& first = request->tasks[0];
  EXPECT_EQ(first.placement.rank, 3u);
  EXPECT_EQ(first.placement.local_rank, 1u);
  EXPECT_EQ(first.placement.cpus.text(), "0-13");
  EXPECT_TRUE(first.has_devices);  // set, and empty: sees none
  EXPECT_EQ(first.devices, "");
  EXPECT_EQ(first.placement.environment.at("NCCL_IB_HCA"), "=mlx5_0");
  EXPECT_FALSE(request->tasks[1].has_devices);
  EXPECT_TRUE(request->tasks[1].placement.cpus.empty());
  EXPECT_EQ(request->tasks[1].placement.environment.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_TRUE(parse_step_request(""));
}

TEST(StepRequest, ErrorsNameTheLine) {
  for (const char* line : {"", "node", "nodes=", "nodes=-1", "nodes=4294967296", "nodes=2x",
                           "confined=yes", "confined=", "task=3", "task=3,", "task=,1", "task=x,1",
                           "task=1,2,3", "color=red", "=n1", "cpus=0-1", "env=A=B"}) {
    const auto request = parse_step_request("node=n1\n" + std::string(line) + "\nnodes=1\n");
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error(), "line 2: no line of a request") << line;
  }
}

// It goes from the user's files into the request: it must not cost the others their audit.
TEST(StepRequest, NonsenseOfATaskIsLeftOut) {
  for (const char* line : {"cpus=", "cpus=1-", "cpus=9-1", "cpus=0-4294967295", "cpus=all",
                           "env=", "env=NCCL_IB_HCA"}) {
    const auto request = parse_step_request("task=0,0\n" + std::string(line) + "\ntask=1,1\n");
    ASSERT_TRUE(request) << line << ": " << request.error();
    ASSERT_EQ(request->tasks.size(), 2u);
    EXPECT_TRUE(request->tasks[0].placement.cpus.empty()) << line;
    EXPECT_TRUE(request->tasks[0].placement.environment.empty()) << line;
  }
}

// Two NUMA nodes of a CPU, a GPU and an adapter each.
std::string node_xml() {
  std::string xml = "<system version=\"1\">";
  for (const std::string numa : {"0", "1"}) {
    const std::string mask = numa == "0" ? "1" : "2";
    const std::string link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">";
    xml += "<cpu numaid=\"" + numa + "\" affinity=\"" + mask +
           "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
           "<pci busid=\"0000:" +
           numa + "f:00.0\" class=\"0x060400\" " + link + "<pci busid=\"0000:" + numa +
           "f:01.0\" class=\"0x030200\" " + link + "<gpu dev=\"" + numa + "\" sm=\"90\" rank=\"" +
           numa +
           "\" gdr=\"1\"/></pci>"
           "<pci busid=\"0000:" +
           numa + "f:02.0\" class=\"0x020700\" " + link + "<nic><net name=\"mlx5_" + numa +
           "\" dev=\"" + numa + "\" speed=\"400000\" port=\"1\" guid=\"0x1" + numa +
           "\" maxconn=\"131072\" gdr=\"1\"/></nic></pci></pci></cpu>";
  }
  return xml + "</system>";
}

class AuditStep : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(top_), nullptr);
    put("node.xml", node_xml());
    put("fabric", write_fabric(make_fabric({}), 1));
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  std::string path(const std::string& name) const { return std::string(top_) + "/" + name; }
  void put(const std::string& name, const std::string& text) { std::ofstream(path(name)) << text; }

  // Of one node without more, and of its tasks.
  std::string request(const std::string& more) const {
    return "node=n1\nallocated=0-1\nconfined=1\nmap=" + path("node.xml") + "\n" + more;
  }
  static constexpr char kGood[] = "task=0,0\ncpus=0\ntask=1,1\ncpus=1\n";

  tl::expected<std::vector<Finding>, std::string> audited(const std::string& text) {
    return parse_step_request(text).and_then(
        [](const StepRequest& step) { return audit_step(step, "/nonexistent/mfu-topo"); });
  }
  // "severity rule place", sorted.
  std::multiset<std::string> told(const std::string& text) {
    const auto findings = audited(text);
    if (!findings) return {"error: " + findings.error()};
    std::multiset<std::string> lines;
    for (const Finding& finding : *findings) {
      lines.insert(std::string(severity_name(finding.severity)) + " " + finding.rule + " " +
                   finding.place);
    }
    return lines;
  }
  using Lines = std::multiset<std::string>;

  char top_[64] = "/tmp/mfu-step.XXXXXX";
};

TEST_F(AuditStep, AWellPlacedStepIsSilent) {
  EXPECT_EQ(told(request("nodes=1\n") + kGood), Lines());
  EXPECT_EQ(told(request("nodes=2\n") + kGood), Lines());
  EXPECT_EQ(told(request("nodes=1\n")), Lines());
}

TEST_F(AuditStep, MisboundTasks) {
  const Lines wrong = {"warning cpu-gpu-remote n1 rank 0", "warning cpu-gpu-remote n1 rank 1",
                       "warning rank-gpu-map n1"};
  EXPECT_EQ(told(request("nodes=1\ntask=0,0\ncpus=1\ntask=1,1\ncpus=0\n")), wrong);
  // The devices' order is the tasks' own word.
  Lines turned = wrong;
  turned.insert("warning gpu-order n1 rank 0");
  EXPECT_EQ(told(request("nodes=1\ntask=0,0\ncpus=0\nenv=CUDA_VISIBLE_DEVICES=1,0\n"
                         "task=1,1\ncpus=1\nenv=CUDA_VISIBLE_DEVICES=1,0\n")),
            turned);
  EXPECT_EQ(told(request("nodes=1\ntask=0,0\ncpus=1\nenv=CUDA_VISIBLE_DEVICES=1\n"
                         "task=1,1\ncpus=0\nenv=CUDA_VISIBLE_DEVICES=0\n")),
            Lines());
}

TEST_F(AuditStep, AdaptersThatNcclIsToldToTake) {
  EXPECT_EQ(told(request("nodes=2\ntask=0,0\ncpus=0\nenv=NCCL_IB_HCA=mlx5_9\ntask=1,1\ncpus=1\n")),
            Lines{"high nccl-hca n1 rank 0"});
  EXPECT_EQ(told(request("nodes=2\ntask=0,0\ncpus=0\nenv=NCCL_IB_HCA=mlx5_0\ntask=1,1\ncpus=1\n")),
            Lines{"high nccl-hca n1 cuda1 0000:1f:01.0"});
  EXPECT_EQ(told(request("nodes=2\ntask=0,0\ncpus=0\nenv=NCCL_IB_HCA==mlx5_0,mlx5_1\n"
                         "task=1,1\ncpus=1\n")),
            Lines());
  // A step on one node needs no network.
  EXPECT_EQ(told(request("nodes=1\ntask=0,0\ncpus=0\nenv=NCCL_IB_HCA=mlx5_9\ntask=1,1\ncpus=1\n")),
            Lines());
}

TEST_F(AuditStep, AJobThatIsSpreadOverTheFabric) {
  const std::string fabric = "nodes=2\nfabric=" + path("fabric") + "\n";
  EXPECT_EQ(told(request(fabric + "hosts=node[1-2]\n") + kGood), Lines());
  const auto findings = audited(request(fabric + "hosts=node[1,5]\n") + kGood);
  ASSERT_TRUE(findings) << findings.error();
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_EQ(findings->front().rule, "job-leaves");
  EXPECT_EQ(findings->front().severity, Severity::kWarning);
  EXPECT_NE(findings->front().evidence.find("8 leaves"), std::string::npos)
      << findings->front().evidence;
  // Both in one answer.
  EXPECT_EQ(told(request(fabric + "hosts=node[1,5]\ntask=0,0\ncpus=1\ntask=1,1\ncpus=0\n")).size(),
            4u);
}

TEST_F(AuditStep, NamesOfTheFabricsHosts) {
  std::string names;
  for (const std::string host : {"1", "5"}) {
    for (const char* rail : {"0", "1", "2", "3"}) {
      names += "node" + host + " mlx5_" + rail + " gpu" + host + "\n";
    }
  }
  put("names", names);
  const std::string fabric = "nodes=2\nfabric=" + path("fabric") + "\nhosts=gpu[1,5]\n";
  EXPECT_EQ(told(request(fabric + "names=" + path("names") + "\n") + kGood).size(), 1u);
  const auto unknown = audited(request(fabric) + kGood);
  ASSERT_TRUE(unknown) << unknown.error();
  ASSERT_EQ(unknown->size(), 1u);
  EXPECT_EQ(unknown->front().rule, kFabricUnknown);
  EXPECT_EQ(unknown->front().evidence,
            path("fabric") + ": none of the step's nodes is in it: see fabric-names=");
}

// What is wrong with the node is told all the same.
TEST_F(AuditStep, AFabricThatCannotBeReadIsUnknown) {
  const std::string fabric = "nodes=2\nfabric=" + path("fabric") + "\n";
  for (const std::string& text :
       {fabric + "hosts=node[1-\n", fabric + "hosts=node1\nnames=" + path("nothing") + "\n",
        "nodes=2\nfabric=" + path("nothing") + "\nhosts=node1\n"}) {
    SCOPED_TRACE(text);
    const auto findings = audited(request(text) + kGood);
    ASSERT_TRUE(findings) << findings.error();
    ASSERT_EQ(findings->size(), 1u);
    EXPECT_EQ(findings->front().rule, kFabricUnknown);
    EXPECT_EQ(findings->front().severity, Severity::kInformation);
  }
}

TEST_F(AuditStep, WhatCannotBeReadIsAnError) {
  const auto error_of = [&](const std::string& text) {
    const auto findings = audited(text);
    EXPECT_FALSE(findings) << text;
    return findings ? std::string() : findings.error();
  };
  EXPECT_NE(error_of("map=" + path("nothing") + "\n").find(path("nothing")), std::string::npos);
  put("broken", "<system><cpu");
  EXPECT_NE(error_of("map=" + path("broken") + "\n").find(path("broken")), std::string::npos);
  put("other", "no XML");
  error_of("map=" + path("other") + "\n");
  // Neither a description nor a cache: discovered, by a program that is not there.
  error_of("node=n1\n");
}

TEST(StepFindings, ALineEach) {
  EXPECT_EQ(write_step_findings({}), "");
  EXPECT_EQ(write_step_findings({{"a-rule", Severity::kHigh, "n1", "evidence", "remedy"},
                                 {"other", Severity::kInformation, "", "", ""}}),
            "high\ta-rule\tn1\tevidence\tremedy\ninformation\tother\t\t\t\n");
}

TEST(StepFindings, HostileBytesKeepToTheirField) {
  EXPECT_EQ(write_step_findings({{"a", Severity::kWarning, "n\t1", "x\nhigh\tb\t\t\t\r",
                                  std::string("\x1b[31m\x80\0\x7f", 8)}}),
            "warning\ta\tn?1\tx?high?b????\t?[31m???\n");
}

}  // namespace
}  // namespace mfu
