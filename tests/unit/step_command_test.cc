// A step's placement on one node: the request's text, the audit of it, and what is printed.
#include "topology/step_command.hh"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/unit/fabric_samples.hh"
#include "tests/unit/topology_data.hh"
#include "topology/fabric_text.hh"
#include "topology/node_discovery.hh"

namespace mfu {
namespace {

TEST(StepRequest, AllKeys) {
  const auto request = parse_step_request(
      "node=n1\nnodes=2\nallocated=0-1,3\nconfined=1\nmap=/m.xml\ncache=/c.xml\nfabric=/f\n"
      "hosts=n[1-2]\nnames=/n\n"
      "task=3,1\ncpus=0-13\ndevices=0,2-3\nenv=CUDA_VISIBLE_DEVICES=\nenv=NCCL_IB_HCA==mlx5_0\n"
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
  EXPECT_EQ(first.openable.text(), "0,2-3");
  EXPECT_TRUE(first.has_devices);  // set, and empty: sees none
  EXPECT_EQ(first.devices, "");
  EXPECT_EQ(first.placement.environment.at("NCCL_IB_HCA"), "=mlx5_0");
  EXPECT_FALSE(request->tasks[1].has_devices);
  EXPECT_TRUE(request->tasks[1].placement.cpus.empty());
  EXPECT_TRUE(request->tasks[1].openable.empty());
  EXPECT_EQ(request->tasks[1].placement.environment.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_TRUE(parse_step_request(""));
}

TEST(StepRequest, ErrorsNameTheLine) {
  for (const char* line : {"", "node", "nodes=", "nodes=-1", "nodes=4294967296", "nodes=2x",
                           "confined=yes", "confined=", "task=3", "task=3,", "task=,1", "task=x,1",
                           "task=1,2,3", "color=red", "=n1", "cpus=0-1", "env=A=B", "devices=0"}) {
    const auto request = parse_step_request("node=n1\n" + std::string(line) + "\nnodes=1\n");
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error(), "line 2: no line of a request") << line;
  }
}

// It goes from the user's files into the request: it must not cost the others their audit.
TEST(StepRequest, NonsenseOfATaskIsLeftOut) {
  for (const char* line :
       {"cpus=", "cpus=1-", "cpus=9-1", "cpus=0-4294967295", "cpus=all", "env=", "env=NCCL_IB_HCA",
        "devices=", "devices=nvidia0", "devices=-1", "devices=0-4294967295"}) {
    const auto request = parse_step_request("task=0,0\n" + std::string(line) + "\ntask=1,1\n");
    ASSERT_TRUE(request) << line << ": " << request.error();
    ASSERT_EQ(request->tasks.size(), 2u);
    EXPECT_TRUE(request->tasks[0].placement.cpus.empty()) << line;
    EXPECT_TRUE(request->tasks[0].openable.empty()) << line;
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
    for (const char* name : {"mlx5_0", "mlx5_1"}) put_port(name, "4: ACTIVE");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  std::string path(const std::string& name) const { return std::string(top_) + "/" + name; }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  // What the kernel says of the only port of an adapter.
  void put_port(const std::string& nic, const std::string& state) {
    const std::string folder = "sys/class/infiniband/" + nic + "/ports/1/";
    put(folder + "state", state + "\n");
    put(folder + "link_layer", "InfiniBand\n");
  }

  // Of one node without more, and of its tasks.
  std::string request(const std::string& more) const {
    return "node=n1\nallocated=0-1\nconfined=1\nmap=" + path("node.xml") + "\n" + more;
  }
  static constexpr char kGood[] = "task=0,0\ncpus=0\ntask=1,1\ncpus=1\n";

  tl::expected<StepAudit, std::string> audit(const std::string& text) {
    return parse_step_request(text).and_then([this](const StepRequest& step) {
      return audit_step(step, "/nonexistent/mfu-topo", top_);
    });
  }
  tl::expected<std::vector<Finding>, std::string> audited(const std::string& text) {
    return audit(text).map([](const StepAudit& whole) { return whole.findings; });
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

// A file tells how nodes of a kind are built, not what is up today.
TEST_F(AuditStep, PortsAndLinksAreThoseOfNow) {
  put_port("mlx5_1", "1: DOWN");
  const Lines down = {"high gpu-nic-remote n1 cuda1 0000:1f:01.0",
                      "high nic-down n1 mlx5_1 0000:1f:02.0"};
  EXPECT_EQ(told(request("nodes=2\n") + kGood), down);
  EXPECT_EQ(told(request("nodes=1\n") + kGood), Lines());
  // Of one that is called otherwise here, nothing is known.
  std::filesystem::remove_all(path("sys/class/infiniband/mlx5_1"));
  EXPECT_EQ(told(request("nodes=2\n") + kGood), Lines());
  const std::string device = "sys/bus/pci/devices/0000:0f:02.0/";
  for (const char* end : {"current", "max"}) put(device + end + "_link_speed", "32.0 GT/s PCIe\n");
  put(device + "max_link_width", "16\n");
  put(device + "current_link_width", "16\n");
  EXPECT_EQ(told(request("nodes=2\n") + kGood), Lines());
  put(device + "current_link_width", "8\n");
  EXPECT_EQ(told(request("nodes=2\n") + kGood), Lines{"high pcie-link n1 mlx5_0 0000:0f:02.0"});
}

// It was written while two of four ports were down.
TEST_F(AuditStep, AFileOfAnotherDayIsNotHeldAgainstTheNode) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const std::string step = "node=n1\nnodes=2\nmap=" + topology_data() +
                           "hwloc/fluxcore-ipa20.xml\ntask=0,0\ncpus=0-223\n";
  EXPECT_EQ(told(step), Lines());
  for (const char* name : {"mlx5_2", "mlx5_3"}) put_port(name, "4: ACTIVE");
  EXPECT_EQ(told(step), Lines());
  put_port("mlx5_3", "1: DOWN");
  EXPECT_EQ(told(step), (Lines{"high gpu-nic-remote n1 cuda2 0000:cb:00.0",
                               "high gpu-nic-remote n1 cuda3 0000:db:00.0",
                               "high nic-down n1 mlx5_3 0000:da:00.0"}));
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

// Of a machine with eight GPUs, whose kernel driver is not here: NVML's word on it is in the cache
// of a discovery.
class EightGpus : public AuditStep {
 protected:
  static std::string id(int gpu) { return "0000:" + std::to_string(gpu + 1) + "0:00.0"; }
  enum class Minors { kNone, kByBus, kLastGpuIsFirst };
  // hwloc's XML, with NVML's word on minor numbers and cliques.
  void put_node(Minors minors = Minors::kByBus, const std::string& last_clique = "ab.1") {
    std::string xml =
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" "
        "cpuset=\"0x000000ff\" complete_cpuset=\"0x000000ff\" allowed_cpuset=\"0x000000ff\" "
        "nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">"
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x000000ff\" "
        "complete_cpuset=\"0x000000ff\" nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"2\" "
        "local_memory=\"1048576\"/>";
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string mask = "\"0x" + std::to_string(1 << cpu % 4) + (cpu < 4 ? "" : "0") + "\"";
      xml += "<object type=\"PU\" os_index=\"" + std::to_string(cpu) + "\" cpuset=" + mask +
             " complete_cpuset=" + mask + " nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"" +
             std::to_string(cpu + 10) + "\"/>";
    }
    xml +=
        "<object type=\"Bridge\" gp_index=\"20\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[00-ff]\">";
    std::string section;
    for (int gpu = 0; gpu < 8; ++gpu) {
      xml += "<object type=\"PCIDev\" gp_index=\"" + std::to_string(gpu + 30) + "\" pci_busid=\"" +
             id(gpu) + "\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" pci_link_speed=\"0\"/>";
      section += id(gpu) + " uuid=GPU-of-" + std::to_string(gpu) +
                 " clique=" + (gpu == 7 ? last_clique : "ab.1");
      const int minor = minors == Minors::kByBus ? gpu : (gpu + 1) % 8;
      if (minors != Minors::kNone) section += " minor=" + std::to_string(minor);
      section += '\n';
    }
    put("node.xml", xml + "</object></object></topology>\n<!-- mfu-nvml\n" + section +
                        "-->\n\n<!-- mfu-node " + node_key(top_) + " -->\n");
    std::filesystem::permissions(path("node.xml"), std::filesystem::perms(0644));
  }
  // Each task sees one device, as CUDA numbers what its device cgroup leaves.
  static std::string tasks(const std::vector<std::string>& devices, const std::string& more) {
    std::string text;
    for (size_t i = 0; i < devices.size(); ++i) {
      text += "task=" + std::to_string(i) + "," + std::to_string(i) + "\n" + more;
      if (!devices[i].empty()) text += "devices=" + devices[i] + "\n";
    }
    return text;
  }
  std::string step(const std::string& more) const {
    return "node=n1\nnodes=1\nallocated=0-7\ncache=" + path("node.xml") + "\n" + more;
  }
  static constexpr char kFirst[] = "env=CUDA_VISIBLE_DEVICES=0\n";
};

TEST_F(EightGpus, EachTaskHasADeviceOfItsOwn) {
  const std::vector<std::string> devices = {"0", "1", "2", "3", "4", "5", "6", "7"};
  for (const Minors minors : {Minors::kByBus, Minors::kLastGpuIsFirst}) {
    put_node(minors);
    for (const char* confined : {"confined=1\n", "confined=0\n", "confined=?\n"}) {
      EXPECT_EQ(told(step(confined + tasks(devices, kFirst))), Lines()) << confined;
      // Without the variable it is the same.
      EXPECT_EQ(told(step(confined + tasks(devices, ""))), Lines()) << confined;
    }
  }
}

TEST_F(EightGpus, TwoTasksShareADevice) {
  put_node();
  for (const char* confined : {"confined=1\n", "confined=0\n", "confined=?\n"}) {
    const auto findings =
        audited(step(confined + tasks({"0", "1", "2", "3", "4", "5", "6", "6"}, kFirst)));
    ASSERT_TRUE(findings) << findings.error();
    ASSERT_EQ(findings->size(), 1u) << confined;
    EXPECT_EQ(findings->front().rule, "rank-gpu-map");
    EXPECT_EQ(findings->front().place, "n1 GPU " + id(6));
    EXPECT_EQ(findings->front().evidence, "ranks 6, 7 share it while " + id(7) + " is idle");
  }
}

// Its numbers are those of the bus, whatever `confined` and the minor numbers are. The last GPU is
// known by its clique.
TEST_F(EightGpus, ATaskWithAllDevicesIsNotConfined) {
  put_node(Minors::kLastGpuIsFirst, "ab.2");
  for (const char* confined : {"confined=1\n", "confined=0\n", "confined=?\n"}) {
    const auto last = audit(step(confined + tasks({"0-7"}, "env=CUDA_VISIBLE_DEVICES=7\n")));
    ASSERT_TRUE(last) << last.error();
    EXPECT_EQ(last->clique, "ab.2") << confined;
    const auto own = audit(step(confined + tasks({"0"}, kFirst)));
    ASSERT_TRUE(own) << own.error();
    EXPECT_EQ(own->clique, "ab.2") << confined;
  }
}

TEST_F(EightGpus, UnknownDevicesAreUnknown) {
  const Lines unknown = {"information gpus-unknown n1"};
  put_node();
  EXPECT_EQ(told(step("confined=0\n" + tasks({"0", "8"}, kFirst))), unknown);
  put_node(Minors::kNone);
  EXPECT_EQ(told(step("confined=0\n" + tasks({"0", "1"}, kFirst))), unknown);
  // Without a word on devices it is as before.
  EXPECT_EQ(told(step("confined=0\n" + tasks({"", ""}, kFirst))),
            Lines{"warning rank-gpu-map n1 GPU 0000:10:00.0"});
}

TEST_F(EightGpus, OneCliqueIsAFact) {
  put_node();
  const auto clique = [&](const std::string& text) {
    const auto whole = audit(step(text));
    EXPECT_TRUE(whole) << whole.error();
    return whole ? whole->clique : "";
  };
  EXPECT_EQ(clique(tasks({"0-7"}, "")), "ab.1");
  EXPECT_EQ(clique(tasks({"1", "2"}, kFirst)), "ab.1");
  EXPECT_EQ(clique(tasks({"1", "8"}, kFirst)), "");  // of one task it is unknown
  EXPECT_EQ(clique(""), "");
  put_node(Minors::kByBus, "ab.2");
  EXPECT_EQ(clique(tasks({"1", "2"}, kFirst)), "ab.1");
  EXPECT_EQ(clique(tasks({"1", "7"}, kFirst)), "");
  EXPECT_EQ(told(step(tasks({"1", "7"}, kFirst))), Lines{"high nvlink-clique n1"});
}

// Nodes that are told to be built as another one are not in its cliques, nor have its names.
TEST_F(EightGpus, AFileTellsHowNodesOfAKindAreBuilt) {
  put_node(Minors::kByBus, "ab.2");
  const std::string of_file = "node=n1\nnodes=1\nmap=" + path("node.xml") + "\n";
  const auto all = audit(of_file + tasks({""}, ""));
  ASSERT_TRUE(all) << all.error();
  EXPECT_EQ(all->clique, "");
  EXPECT_TRUE(all->findings.empty());
  const auto one = audit(of_file + tasks({""}, kFirst));
  ASSERT_TRUE(one) << one.error();
  EXPECT_EQ(one->clique, "");
  EXPECT_TRUE(one->findings.empty());
  const Lines unknown = {"information gpus-unknown n1"};
  EXPECT_EQ(told(of_file + tasks({"7"}, kFirst)), unknown);
  EXPECT_EQ(told(of_file + tasks({""}, "env=CUDA_VISIBLE_DEVICES=GPU-of-7\n")), unknown);
  EXPECT_EQ(told(step(tasks({""}, "env=CUDA_VISIBLE_DEVICES=GPU-of-7\n"))), Lines());
}

// Of slices nobody knows which GPUs they are of: the node's two partitions are not the step's.
TEST_F(EightGpus, ASliceIsInNoOthersClique) {
  put_node(Minors::kByBus, "ab.2");
  EXPECT_EQ(told(step("confined=1\n" + tasks({""}, "env=CUDA_VISIBLE_DEVICES=MIG-abc\n"))),
            Lines{"information gpus-unknown n1"});
}

TEST(StepFindings, ALineEach) {
  EXPECT_EQ(write_step_findings({}), "");
  EXPECT_EQ(write_step_findings({{{"a-rule", Severity::kHigh, "n1", "evidence", "remedy"},
                                  {"other", Severity::kInformation, "", "", ""}},
                                 ""}),
            "high\ta-rule\tn1\tevidence\tremedy\ninformation\tother\t\t\t\n");
  EXPECT_EQ(write_step_findings({{{"other", Severity::kWarning, "", "", ""}}, "ab-cd.7"}),
            "warning\tother\t\t\t\nfact\tclique\tab-cd.7\n");
  EXPECT_EQ(write_step_findings({{}, "a\tb\n"}), "fact\tclique\ta?b?\n");
}

TEST(StepFindings, HostileBytesKeepToTheirField) {
  EXPECT_EQ(write_step_findings({{{"a", Severity::kWarning, "n\t1", "x\nhigh\tb\t\t\t\r",
                                   std::string("\x1b[31m\x80\0\x7f", 8)}},
                                 ""}),
            "warning\ta\tn?1\tx?high?b????\t?[31m???\n");
}

}  // namespace
}  // namespace mfu
