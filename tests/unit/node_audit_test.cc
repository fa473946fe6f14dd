// Every rule of the node's audit: on real nodes with known faults, on clean ones, and on a small
// captured machine into which faults are put.
#include "topology/node_audit.hh"

#include <gtest/gtest.h>

#include "tests/unit/node_capture.hh"
#include "tests/unit/topology_data.hh"
#include "topology/nccl_hca.hh"
#include "topology/nccl_topology.hh"
#include "topology/pcie_link.hh"
#include "topology/port_state.hh"
#include "topology/step_gpus.hh"
#include "topology/visible_gpus.hh"

namespace mfu {
namespace {

NodeMap hwloc_map(const std::string& name) {
  auto map = read_node_map(topology_data() + "hwloc/" + name);
  EXPECT_TRUE(map) << map.error();
  return map.value_or(NodeMap());
}

// "high gpu-nic-remote n cuda2 0000:cb:00.0", in order.
std::vector<std::string> summary(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.evidence.empty());
    EXPECT_FALSE(finding.remedy.empty());
    lines.push_back(std::string(severity_name(finding.severity)) + " " + finding.rule + " " +
                    finding.place);
  }
  return lines;
}
using Lines = std::vector<std::string>;

// Of two nodes, where one would do.
constexpr char kFragments[] = "information fragmented-gpus n";

StepPlacement node_only() {
  StepPlacement step;
  step.node = "n";
  return step;
}

// One task a GPU, in the order of the list, each on its CPUs.
struct OneTask {
  const char* gpu;
  const char* cpus;
};
StepPlacement step_of(const std::vector<OneTask>& tasks, uint32_t nodes = 2) {
  StepPlacement step = node_only();
  step.nodes = nodes;
  for (const OneTask& task : tasks) {
    TaskPlacement placement;
    placement.local_rank = static_cast<uint32_t>(step.tasks.size());
    placement.rank = 8 + placement.local_rank;
    placement.gpus = {task.gpu};
    placement.cpus = CpuSet::from_list(task.cpus).value();
    step.tasks.push_back(std::move(placement));
  }
  return step;
}

TEST(NodeAudit, FindsTheFaultsOfARealNode) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("fluxcore-ipa20.xml");
  const std::vector<Finding> findings = audit_node(map, node_only());
  EXPECT_EQ(
      summary(findings),
      (Lines{"high gpu-nic-remote n cuda2 0000:cb:00.0", "high gpu-nic-remote n cuda3 0000:db:00.0",
             "high nic-down n mlx5_2 0000:5e:00.0", "high nic-down n mlx5_3 0000:da:00.0"}));
  EXPECT_EQ(
      findings[0].evidence,
      "nearest active NIC mlx5_0 is SYS away (NUMA 3, socket 0), the GPU is on NUMA 7, socket "
      "1; mlx5_3 of its socket is not active");
  EXPECT_EQ(
      findings[3].evidence,
      "port 1 is DOWN, LID 0xffff: no subnet manager has seen it; nearest NIC (PIX) of cuda3; "
      "active: mlx5_0");
  // The other port of mlx5_0's card is down too, as it may be: it has no cable.
  EXPECT_EQ(map.nics[static_cast<size_t>(map.find_nic("mlx5_1"))].active(), false);
}

TEST(NodeAudit, FindsTheFaultsOfTheOtherRealNodes) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  EXPECT_EQ(
      summary(audit_node(hwloc_map("prrte-turin-4gpu-nvml.xml"), node_only())),
      (Lines{"high gpu-nic-remote n cuda0 0000:06:00.0", "high gpu-nic-remote n cuda1 0000:16:00.0",
             "high nic-down n mlx5_0 0000:03:00.0", "high nic-down n mlx5_3 0000:13:00.0"}));
  const std::vector<Finding> efa = audit_node(hwloc_map("mpibind-g4dnmetal.xml"), node_only());
  ASSERT_EQ(efa.size(), 4u);  // one EFA for eight GPUs: it was built so
  EXPECT_EQ(summary(efa)[0].substr(0, 23), "warning gpu-nic-remote ");
  EXPECT_NE(efa[0].evidence.find("no NIC is on its socket"), std::string::npos);
  for (const char* built_so : {"fluxcore-corona.xml", "mpibind-epyc-corona.xml"}) {
    const std::vector<Finding> one_nic = audit_node(hwloc_map(built_so), node_only());
    EXPECT_FALSE(one_nic.empty());
    for (const Finding& finding : one_nic) {
      EXPECT_EQ(finding.severity, Severity::kWarning) << built_so << ": " << finding.rule;
    }
  }
  EXPECT_EQ(
      audit_node(hwloc_map("hwloc-32em64t-2n8c2t-pci-wholeio.xml"), node_only()).back().evidence,
      "2 10de:1094, 1 AMD Radeon R9 200 / HD 7900 Series, 1 Tesla K40m: the slowest sets the "
      "pace of all");
}

TEST(NodeAudit, IsSilentOnGoodNodes) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  for (const char* name :
       {"synth-dgxh100.xml", "synth-gb200.xml", "fluxcore-sierra.xml", "fluxcore-tuo.SPX.xml",
        "hwloc-nvidiaDGX2.xml", "mpibind-coral-lassen.xml", "mpibind-cts1-pascal.xml",
        "mpibind-eas-tioga.xml", "hwloc-16intel64-manyVFs.xml"}) {
    EXPECT_EQ(summary(audit_node(hwloc_map(name), node_only())), Lines{}) << name;
  }
  for (const TopologyFile& file : topology_files("nccl")) {
    const auto map = read_nccl_topology(topology_data() + file.name);
    ASSERT_TRUE(map);
    EXPECT_EQ(summary(audit_node(*map, node_only())), Lines{}) << file.name;
  }
}

// Eight ranks of one step, each on the CPUs and the GPU of the other of the node's sockets or
// right.
TEST(NodeAudit, JudgesTasksOnADgx) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("synth-dgxh100.xml");
  std::vector<OneTask> right, wrong;
  for (size_t i = 0; i < 8; ++i) {
    const char* bus_id = map.gpus[i].pci.bus_id.c_str();
    right.push_back({bus_id, i < 4 ? "0-55" : "56-111"});
    wrong.push_back({bus_id, i < 4 ? "60" : "56-111"});
  }
  EXPECT_EQ(summary(audit_node(map, step_of(right))), Lines{});
  const std::vector<Finding> findings = audit_node(map, step_of(wrong));
  ASSERT_EQ(findings.size(), 4u);  // no permutation helps: no rank has CPUs of socket 0
  EXPECT_EQ(summary(findings)[0], "warning cpu-gpu-remote n rank 8");
  EXPECT_EQ(findings[0].evidence,
            "runs on CPUs 60 of NUMA 1, none of them near to 0000:19:00.0 (NUMA 0, socket 0, CPUs "
            "0-55,112-167)");
  EXPECT_EQ(findings[0].remedy, "srun --cpu-bind=map_ldom:0,0,0,0,1,1,1,1, or --gpu-bind=closest");
}

TEST(NodeAudit, IsStricterWhereTheCpuIsBehindNvlink) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("synth-gb200.xml");
  const StepPlacement good = step_of({{"0008:01:00.0", "0-71"}, {"0018:01:00.0", "72-143"}});
  EXPECT_EQ(summary(audit_node(map, good)), Lines{kFragments});
  const StepPlacement bad = step_of({{"0008:01:00.0", "0-71"}, {"0018:01:00.0", "0-71"}});
  EXPECT_EQ(summary(audit_node(map, bad)), (Lines{"high cpu-gpu-remote n rank 9", kFragments}));
}

TEST(NodeAudit, FindsRanksThatShouldChangeGpus) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  // GPU i is not on NUMA node i: 3, 1, 7, 5.
  const NodeMap map = hwloc_map("fluxcore-ipa20.xml");
  const StepPlacement step = step_of({{"0000:4e:00.0", "14-27"},
                                      {"0000:5f:00.0", "42-55"},
                                      {"0000:cb:00.0", "98-111"},
                                      {"0000:db:00.0", "70-83"}},
                                     1);
  const std::vector<Finding> findings = audit_node(map, step);
  EXPECT_EQ(summary(findings),
            (Lines{"warning cpu-gpu-remote n rank 8", "warning cpu-gpu-remote n rank 9",
                   "warning rank-gpu-map n"}));
  EXPECT_EQ(findings[0].remedy, "srun --cpu-bind=map_ldom:3,1,7,5, or --gpu-bind=closest");
  EXPECT_EQ(findings[2].evidence,
            "2 of 4 ranks are far from their GPUs; none would be with ranks and GPUs as 8 cuda1, 9 "
            "cuda0, 10 cuda2, 11 cuda3");
  EXPECT_EQ(findings[2].remedy, "srun --gpu-bind=map_gpu:1,0,2,3, or --gpu-bind=closest");
}

TEST(NodeAudit, FindsASharedGpuBesideAnIdleOne) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("fluxcore-ipa20.xml");
  // All see all, and that of the local rank is used: no finding.
  StepPlacement step = step_of({{"", "42-55"}, {"", "14-27"}, {"", "98-111"}, {"", "70-83"}}, 1);
  for (TaskPlacement& task : step.tasks) {
    task.gpus = {"0000:4e:00.0", "0000:5f:00.0", "0000:cb:00.0", "0000:db:00.0"};
  }
  EXPECT_EQ(summary(audit_node(map, step)), Lines{});
  step.tasks[2].local_rank = 0;
  step.tasks[2].cpus = CpuSet::from_list("42-55").value();
  const std::vector<Finding> findings = audit_node(map, step);
  EXPECT_EQ(summary(findings), Lines{"warning rank-gpu-map n cuda0 0000:4e:00.0"});
  EXPECT_EQ(findings[0].evidence, "ranks 8, 10 share it while cuda2 is idle");
}

TEST(NodeAudit, JudgesOneTaskWithAllGpus) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("synth-gb200.xml");
  StepPlacement step = step_of({{"", "0-143"}});
  step.tasks[0].gpus = {"0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"};
  EXPECT_EQ(summary(audit_node(map, step)), Lines{});
  step.tasks[0].cpus = CpuSet::from_list("0-7").value();
  const std::vector<Finding> findings = audit_node(map, step);
  ASSERT_EQ(summary(findings), Lines{"high cpu-gpu-remote n rank 8"});
  EXPECT_NE(findings[0].evidence.find("0018:01:00.0"), std::string::npos);
  EXPECT_EQ(findings[0].evidence.find("0008:01:00.0"), std::string::npos);
  EXPECT_NE(findings[0].remedy.find("--cpu-bind=none"), std::string::npos);
}

TEST(NodeAudit, LeavesTheNetworkOfAStepOfOneNode) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  StepPlacement step = step_of({{"0000:cb:00.0", "98-111"}}, 1);
  step.tasks[0].environment["NCCL_IB_HCA"] = "mlx5_9";
  const NodeMap map = hwloc_map("fluxcore-ipa20.xml");
  EXPECT_EQ(summary(audit_node(map, step)), Lines{});
  step.nodes = 2;
  EXPECT_EQ(summary(audit_node(map, step)), (Lines{"high gpu-nic-remote n cuda2 0000:cb:00.0",
                                                   "high nccl-hca n rank 8", kFragments}));
}

TEST(NodeAudit, FindsPairsWithoutNvlink) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("hwloc-power8gpudistances.xml");
  std::vector<OneTask> tasks;
  for (const Gpu& gpu : map.gpus) tasks.push_back({gpu.pci.bus_id.c_str(), ""});
  StepPlacement step = step_of(tasks, 1);
  EXPECT_EQ(summary(audit_node(map, step)), Lines{});  // it has all: there are no better ones
  const StepPlacement half = step_of({tasks[0], tasks[2]}, 1);
  const std::vector<Finding> findings = audit_node(map, half);
  EXPECT_EQ(summary(findings), Lines{"warning no-nvlink n"});
  EXPECT_EQ(findings[0].evidence,
            "1 of 1 pairs of GPUs are on two sockets and have no NVLink: cuda0-cuda2; there are as "
            "many without such a pair: cuda0, cuda1");
  EXPECT_EQ(summary(audit_node(map, step_of({tasks[0], tasks[1]}, 1))), Lines{});
  step.tensor_parallel = 2;
  EXPECT_EQ(summary(audit_node(map, step)), Lines{});
  step.tensor_parallel = 4;
  EXPECT_EQ(summary(audit_node(map, step)), Lines{"high no-nvlink n"});
  step.tensor_parallel = 2;
  std::swap(step.tasks[1].gpus, step.tasks[2].gpus);
  EXPECT_EQ(
      audit_node(map, step).at(0).evidence,
      "2 of 2 pairs of GPUs inside tensor-parallel groups of 2 are on two sockets and have no "
      "NVLink: cuda0-cuda2, cuda1-cuda3");
  // Switches join all.
  const NodeMap dgx = hwloc_map("hwloc-nvidiaDGX2.xml");
  EXPECT_EQ(summary(audit_node(dgx, step_of({{dgx.gpus[0].pci.bus_id.c_str(), ""},
                                             {dgx.gpus[15].pci.bus_id.c_str(), ""}},
                                            1))),
            Lines{});
}

TEST(NodeAudit, TwoGpusOfEachOfTwoTasksAreTheirOwn) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = hwloc_map("fluxcore-ipa20.xml");
  // As many tasks as each sees GPUs, but not the same ones.
  StepPlacement step = step_of({{"", "14-27,42-55"}, {"", "70-83,98-111"}}, 1);
  step.tasks[0].gpus = {"0000:4e:00.0", "0000:5f:00.0"};
  step.tasks[1].gpus = {"0000:cb:00.0", "0000:db:00.0"};
  EXPECT_EQ(used_gpus(map, step, step.tasks[0]).size(), 2u);
  EXPECT_EQ(used_gpus(map, step, step.tasks[1]).size(), 2u);
  step.tasks[1].gpus = {"0000:5f:00.0", "0000:4e:00.0"};
  EXPECT_EQ(used_gpus(map, step, step.tasks[1]),
            std::vector<size_t>{static_cast<size_t>(map.find_gpu("0000:4e:00.0"))});
}

// A node of four GPUs, of which nothing else is known.
class FourGpus : public ::testing::Test {
 protected:
  FourGpus() {
    for (const char* id : kIds) {
      Gpu gpu;
      gpu.pci.bus_id = id;
      gpu.pci.device = 0x2330;
      map.gpus.push_back(std::move(gpu));
    }
  }
  Lines audit(const StepPlacement& step) {
    findings = audit_node(map, step);
    return summary(findings);
  }
  static constexpr const char* kIds[] = {"0000:4e:00.0", "0000:5f:00.0", "0000:cb:00.0",
                                         "0000:db:00.0"};
  NodeMap map;
  std::vector<Finding> findings;
};

TEST_F(FourGpus, ThatSlurmGaveAreIdleWhereNoTaskSeesThem) {
  StepPlacement step = step_of({{kIds[0], ""}, {kIds[0], ""}}, 1);
  EXPECT_EQ(audit(step), Lines{});  // nobody knows of another one
  step.allocated = {kIds[0]};
  EXPECT_EQ(audit(step), Lines{});
  step.allocated = {kIds[0], kIds[2]};
  EXPECT_EQ(audit(step), Lines{"warning rank-gpu-map n GPU 0000:4e:00.0"});
  EXPECT_EQ(findings[0].evidence, "ranks 8, 9 share it while 0000:cb:00.0 is idle");
  step.tasks[1].gpus = {kIds[2]};
  EXPECT_EQ(audit(step), Lines{});
}

TEST_F(FourGpus, ANodeWithoutNvlinksHasNoneToLose) {
  for (size_t i = 0; i < 4; ++i) map.gpus[i].pci.package = i < 2 ? 0 : 1;
  StepPlacement step = step_of({{kIds[0], ""}, {kIds[3], ""}}, 1);
  map.nvlinks.assign(16, 0);
  EXPECT_EQ(audit(step), Lines{});
  step.tensor_parallel = 2;
  step.tasks[0].rank = 0;
  step.tasks[1].rank = 1;
  EXPECT_EQ(audit(step), Lines{"high no-nvlink n"});
  step.tensor_parallel = 0;
  map.nvlinks[1] = map.nvlinks[4] = 1;  // of the first two
  EXPECT_EQ(audit(step), Lines{"warning no-nvlink n"});
}

// Bridges in pairs across the sockets, and the cube mesh of DGX-1: as many pairs without NVLink as
// there must be.
TEST_F(FourGpus, AStepThatCouldHaveNoBetterOnesIsNotTold) {
  for (size_t i = 0; i < 4; ++i) map.gpus[i].pci.package = i % 2 == 0 ? 0 : 1;
  map.nvlinks.assign(16, 0);
  map.nvlinks[0 * 4 + 1] = map.nvlinks[1 * 4 + 0] = 1;
  const StepPlacement all =
      step_of({{kIds[0], ""}, {kIds[1], ""}, {kIds[2], ""}, {kIds[3], ""}}, 1);
  EXPECT_EQ(audit(all), Lines{});
  // Of any three, two are on another socket than the third, and one has no NVLink to it.
  EXPECT_EQ(audit(step_of({{kIds[0], ""}, {kIds[1], ""}, {kIds[3], ""}}, 1)), Lines{});
  StepPlacement two = step_of({{kIds[2], ""}, {kIds[3], ""}}, 1);
  EXPECT_EQ(audit(two), Lines{"warning no-nvlink n"});
  EXPECT_NE(findings[0].evidence.find("pair: 0000:4e:00.0, 0000:5f:00.0"), std::string::npos)
      << findings[0].evidence;
  EXPECT_NE(findings[0].remedy.find("--gpus-per-socket=2"), std::string::npos);
  // A third one that nobody knows may leave no choice.
  two.tasks.push_back(two.tasks[0]);
  two.tasks.back().gpus = {"GPU-unknown"};
  EXPECT_EQ(summary(audit_nvlinks(map, two, {})), Lines{});
  // GPUs of another kind are none that it could have had.
  two.tasks.pop_back();
  map.gpus[0].pci.device = 0x1cb1;
  map.nvlinks.assign(16, 0);
  map.nvlinks[0 * 4 + 3] = map.nvlinks[3 * 4 + 0] = 1;
  map.gpus[1].pci.package = 0;
  map.gpus[2].pci.package = 2;
  EXPECT_EQ(audit(two), Lines{});
}

TEST_F(FourGpus, ANodeWithTooManyGpusToTryIsNotTold) {
  for (int i = 0; i < 13; ++i) map.gpus.push_back(map.gpus[0]);
  for (size_t i = 0; i < map.gpus.size(); ++i) map.gpus[i].pci.package = i == 3 ? 1 : 0;
  auto without_one = [this] {
    map.nvlinks.assign(map.gpus.size() * map.gpus.size(), 0);
    map.nvlinks[1] = 1;
    return audit(step_of({{kIds[0], ""}, {kIds[3], ""}}, 1));
  };
  EXPECT_EQ(without_one(), Lines{});
  map.gpus.pop_back();
  EXPECT_EQ(without_one(), Lines{"warning no-nvlink n"});
}

TEST_F(FourGpus, InSeveralCliques) {
  EXPECT_EQ(audit(node_only()), Lines{});
  for (Gpu& gpu : map.gpus) gpu.clique = "ab.1";
  EXPECT_EQ(audit(node_only()), Lines{});
  map.gpus[2].clique = "ab.2";
  EXPECT_EQ(audit(node_only()), Lines{"high nvlink-clique n"});
  EXPECT_EQ(findings[0].evidence,
            "the GPUs are not in one NVLink clique: 0000:4e:00.0, 0000:5f:00.0, 0000:db:00.0 in "
            "ab.1; 0000:cb:00.0 in ab.2");
  const StepPlacement inside = step_of({{kIds[0], ""}, {kIds[3], ""}}, 2);
  EXPECT_EQ(audit(step_of({{kIds[0], ""}, {kIds[2], ""}}, 1)), Lines{"high nvlink-clique n"});
  EXPECT_EQ(summary(audit_cliques(map, inside, {})), Lines{});
  // One without a clique is unknown, or its fabric has a fault.
  map.gpus[2].clique = "";
  EXPECT_EQ(audit(node_only()), Lines{});
  map.gpus[2].fabric_fault = "in-progress";
  EXPECT_EQ(audit(node_only()), Lines{"high nvlink-clique n"});
  EXPECT_NE(findings[0].evidence.find("in ab.1; 0000:cb:00.0 (in-progress) in none"),
            std::string::npos)
      << findings[0].evidence;
  EXPECT_EQ(summary(audit_cliques(map, inside, {})), Lines{});
  // A fabric that is starting everywhere is no clique that is crossed.
  for (Gpu& gpu : map.gpus) {
    gpu.clique = "";
    gpu.fabric_fault = "in-progress";
  }
  EXPECT_EQ(audit(node_only()), Lines{});
}

// A slice of a GPU is not in the map: the node's others are not the step's.
TEST_F(FourGpus, WhoseGpusAreUnknownHasNoneOfOthers) {
  map.gpus[0].clique = map.gpus[1].clique = "ab.1";
  map.gpus[2].clique = map.gpus[3].clique = "ab.2";
  map.gpus[1].pci.device = 0x20b2;
  for (Gpu& gpu : map.gpus) gpu.pci.link = {32000, 16, 32000, 16};
  map.gpus[2].pci.link.width = 4;
  const Lines of_all = {"high pcie-link n GPU 0000:cb:00.0", "high nvlink-clique n",
                        "information mixed-gpus n"};
  EXPECT_EQ(audit(node_only()), of_all);
  EXPECT_EQ(audit(step_of({{"MIG-abc", ""}}, 1)), Lines{});
  EXPECT_EQ(audit(step_of({{"GPU-unknown", ""}}, 1)), Lines{});
  // What is known of single ones is told.
  EXPECT_EQ(audit(step_of({{kIds[1], ""}, {kIds[2], ""}}, 1)), of_all);
  EXPECT_EQ(audit(step_of({{kIds[1], ""}, {kIds[2], ""}, {"MIG-abc", ""}}, 1)),
            Lines{"high pcie-link n GPU 0000:cb:00.0"});
  EXPECT_EQ(audit(step_of({{kIds[0], ""}, {kIds[0], ""}, {"MIG-abc", ""}}, 1)), Lines{});
}

TEST_F(FourGpus, WidthIsHeldAgainstOthersOfTheModel) {
  auto widths = [this](std::initializer_list<uint32_t> lanes) {
    size_t gpu = 0;
    for (const uint32_t width : lanes) map.gpus[gpu++].pci.link = {16000, width, 16000, 16};
    findings = audit_pcie(map, node_only(), {});
    return summary(findings);
  };
  EXPECT_EQ(widths({8, 8, 8, 8}), Lines{});  // Tesla M10
  EXPECT_EQ(widths({8, 16, 8, 16}),
            (Lines{"high pcie-link n GPU 0000:4e:00.0", "high pcie-link n GPU 0000:cb:00.0"}));
  EXPECT_EQ(findings[0].evidence, "its PCIe link runs at 16 GT/s x8 of 16 GT/s x16");
  EXPECT_EQ(widths({8, 0, 0, 0}), Lines{});  // of the others it is unknown
  // A slot with fewer lanes has nothing wrong.
  map.gpus[0].pci.link.max_width = 8;
  map.gpus[1].pci.link.width = 16;
  EXPECT_EQ(audit(node_only()), Lines{});
  // Alone of its model.
  map.gpus[0].pci.device = 0x1f08;
  EXPECT_EQ(widths({8, 16, 16, 16}), Lines{});
  EXPECT_EQ(widths({4, 16, 16, 16}), Lines{});
  for (const uint32_t width : {1u, 2u}) {
    EXPECT_EQ(widths({width, 16, 16, 16}), Lines{"high pcie-link n GPU 0000:4e:00.0"});
  }
}

TEST_F(FourGpus, CliqueOfAStep) {
  const StepPlacement step = step_of({{kIds[0], ""}, {kIds[3], ""}}, 2);
  EXPECT_EQ(clique_of(map, step), "");
  for (Gpu& gpu : map.gpus) gpu.clique = "ab.1";
  EXPECT_EQ(clique_of(map, step), "ab.1");
  EXPECT_EQ(clique_of(map, node_only()), "");
  map.gpus[1].clique = "ab.2";
  EXPECT_EQ(clique_of(map, step), "ab.1");
  map.gpus[3].clique = "";
  EXPECT_EQ(clique_of(map, step), "");
  map.gpus[3].clique = "ab.2";
  EXPECT_EQ(clique_of(map, step), "");
  map.gpus[3].clique = "ab.1";
  EXPECT_EQ(clique_of(map, step_of({{kIds[0], ""}, {"MIG-1", ""}}, 2)), "");
}

TEST_F(FourGpus, AStepInFragments) {
  auto fragments = [this](size_t used, uint32_t nodes) {
    std::vector<OneTask> tasks;
    for (size_t i = 0; i < used; ++i) tasks.push_back({kIds[i], ""});
    return audit(step_of(tasks, nodes));
  };
  const Lines found = {kFragments};
  EXPECT_EQ(fragments(1, 4), found);
  EXPECT_EQ(findings[0].evidence,
            "the step uses 1 of 4 GPUs here; with as many on each of its 4 nodes, they would fit "
            "into 1");
  EXPECT_EQ(findings[0].remedy,
            "--nodes=1 --gpus-per-node=4: more of the traffic stays inside of nodes");
  EXPECT_EQ(fragments(1, 2), found);
  EXPECT_EQ(fragments(2, 2), found);
  EXPECT_EQ(fragments(3, 2), Lines{});  // six GPUs need two nodes
  EXPECT_EQ(fragments(3, 3), Lines{});  // nine need three
  EXPECT_EQ(fragments(3, 4), found);    // twelve need three
  EXPECT_NE(findings[0].evidence.find("fit into 3"), std::string::npos);
  EXPECT_EQ(fragments(4, 100), Lines{});
  EXPECT_EQ(fragments(1, 1), Lines{});
  EXPECT_EQ(fragments(1, 0), Lines{});
  EXPECT_EQ(fragments(0, 4), Lines{});
}

TEST_F(FourGpus, AStepThatIsInNoFragments) {
  // What Slurm gave it counts, not what the tasks see.
  StepPlacement step = step_of({{kIds[0], ""}}, 4);
  step.allocated = {kIds[0], kIds[1], kIds[2], kIds[3]};
  EXPECT_EQ(audit(step), Lines{});
  // Of one task it is unknown.
  step = step_of({{kIds[0], ""}, {"MIG-1", ""}}, 4);
  EXPECT_EQ(summary(audit_fragments(map, step, {})), Lines{});
  // A GPU of another kind is none that it could have had.
  map.gpus[1].pci.device = map.gpus[2].pci.device = map.gpus[3].pci.device = 0x1cb1;
  EXPECT_EQ(audit(step_of({{kIds[0], ""}}, 4)), Lines{});
}

// ---- faults put into a captured machine ----

class Captured : public ::testing::Test {
 protected:
  Captured() {
    const auto xml = discover_node_xml(capture.root());
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_COMPONENTS");
    map = node_map_from_xml(xml.value_or(""), "capture").value_or(NodeMap());
    read();
  }
  void read() {
    read_port_states(capture.root(), &map);
    read_pcie_links(capture.root(), &map);
  }
  Lines audit(const StepPlacement& step, const NodeAuditOptions& options = {}) {
    findings = audit_node(map, step, options);
    return summary(findings);
  }
  Lines with_hca(const std::string& value, const NodeAuditOptions& options = {}) {
    StepPlacement step = step_of({{NodeCapture::kGpu[0], "0"}, {NodeCapture::kGpu[1], "4"}});
    for (TaskPlacement& task : step.tasks) task.environment["NCCL_IB_HCA"] = value;
    return audit(step, options);
  }

  NodeCapture capture;
  NodeMap map;
  std::vector<Finding> findings;
};

TEST_F(Captured, HasNoFaultAtFirst) {
  ASSERT_EQ(map.gpus.size(), 2u);
  EXPECT_EQ(audit(node_only(), {{}, {NodeCapture::kGpu[0], NodeCapture::kGpu[1]}}), Lines{});
}

TEST_F(Captured, GivesExactlyItsDegradedLinks) {
  capture.pci(NodeCapture::kGpu[0], "current_link_speed", "8.0 GT/s PCIe\n");
  capture.pci(NodeCapture::kNic[1], "current_link_width", "8\n");
  read();
  // An idle GPU's link sleeps.
  EXPECT_EQ(audit(node_only()), Lines{"high pcie-link n mlx5_1 0000:93:00.0"});
  EXPECT_EQ(findings[0].evidence, "its PCIe link runs at 32 GT/s x8 of 32 GT/s x16");
  EXPECT_EQ(audit(node_only(), {{}, {"00000000:14:00.0"}}),
            (Lines{"high pcie-link n GPU 0000:14:00.0", "high pcie-link n mlx5_1 0000:93:00.0"}));
  EXPECT_EQ(findings[0].evidence, "its PCIe link runs at 8 GT/s x16 of 32 GT/s x16");
  EXPECT_NE(findings[0].remedy.find("lspci -vv -s 0000:14:00.0"), std::string::npos);
  // Lanes do not sleep.
  capture.pci(NodeCapture::kGpu[0], "current_link_width", "4\n");
  read();
  EXPECT_EQ(audit(step_of({{NodeCapture::kGpu[0], "0"}}, 1)),
            Lines{"high pcie-link n GPU 0000:14:00.0"});
  // A virtual machine knows nothing.
  for (const char* name : {"current_link_width", "current_link_speed"}) {
    capture.pci(NodeCapture::kGpu[0], name, "\n");
    capture.pci(NodeCapture::kNic[1], name, "0\n");
  }
  read();
  EXPECT_EQ(audit(node_only(), {{}, {NodeCapture::kGpu[0]}}), Lines{});
}

// A slot of a switch with fewer lanes than its card and its switch have.
TEST_F(Captured, FewerLanesThanACardHasMayBeItsSlots) {
  capture.pci(NodeCapture::kNic[1], "current_link_width", "8\n");
  capture.pci("0000:92:00.0", "max_link_width", "8\n");
  read();
  EXPECT_EQ(audit(node_only()), Lines{});
  // NCCL's files name a switch by its upstream port alone.
  for (Nic& nic : map.nics) nic.pci.bridges = {nic.pci.bridges.at(1)};
  map.whole_switches = true;
  read();
  EXPECT_EQ(audit(node_only()), Lines{});
  capture.pci("0000:92:00.0", "max_link_width", "16\n");
  read();
  EXPECT_EQ(audit(node_only()), Lines{"high pcie-link n mlx5_1 0000:93:00.0"});
}

TEST_F(Captured, SaysWhatAPortLacks) {
  struct Case {
    const char* state;
    const char* physical;
    const char* layer;
    const char* remedy;
  };
  for (const Case& at :
       {Case{"1: DOWN", "3: Disabled", "InfiniBand", "ibportstate -C mlx5_0 -D 0 1 enable"},
        Case{"1: DOWN", "2: Polling", "InfiniBand", "check the cable"},
        Case{"2: INIT", "5: LinkUp", "InfiniBand", "subnet manager"},
        Case{"1: DOWN", "3: Disabled", "Ethernet", "ip link"}}) {
    capture.port("mlx5_0", "state", at.state);
    capture.port("mlx5_0", "phys_state", at.physical);
    capture.port("mlx5_0", "link_layer", at.layer);
    read();
    EXPECT_EQ(audit(node_only()), (Lines{"high gpu-nic-remote n GPU 0000:14:00.0",
                                         "high nic-down n mlx5_0 0000:13:00.0"}));
    EXPECT_NE(findings[1].remedy.find(at.remedy), std::string::npos) << findings[1].remedy;
  }
  // A step without that GPU has nothing to do with it.
  EXPECT_EQ(audit(step_of({{NodeCapture::kGpu[1], "4"}})), Lines{kFragments});
  capture.port("mlx5_1", "state", "1: DOWN");
  read();
  EXPECT_EQ(audit(node_only()),
            (Lines{"high no-active-nic n", "high nic-down n mlx5_0 0000:13:00.0",
                   "high nic-down n mlx5_1 0000:93:00.0"}));
}

TEST_F(Captured, JudgesNcclIbHca) {
  for (const char* good :
       {"", "mlx5", "mlx5_0,mlx5_1", "=mlx5_0:1,mlx5_1:1", "^mlx5_2", "^=mlx5"}) {
    EXPECT_EQ(with_hca(good), Lines{}) << good;
  }
  EXPECT_EQ(with_hca("mlx5_0"), Lines{"high nccl-hca n GPU 0000:94:00.0"});
  EXPECT_EQ(findings[0].evidence,
            "NCCL_IB_HCA=mlx5_0 leaves out mlx5_1, the nearest active NIC (PIX); it takes mlx5_0, "
            "SYS away");
  EXPECT_EQ(findings[0].remedy, "export NCCL_IB_HCA==mlx5_0,mlx5_1, or unset NCCL_IB_HCA");
  EXPECT_EQ(with_hca("^mlx5_0"), Lines{"high nccl-hca n GPU 0000:14:00.0"});
  EXPECT_EQ(with_hca("=mlx5_0,mlx5_1:2"), Lines{"high nccl-hca n GPU 0000:94:00.0"});
  EXPECT_EQ(with_hca("x\n\x1b\xff"), Lines{"high nccl-hca n rank 8"});
  EXPECT_TRUE(findings[0].evidence.starts_with("NCCL_IB_HCA=x??? takes none"));
  EXPECT_EQ(with_hca("=mlx5"), Lines{"high nccl-hca n rank 8"});
  EXPECT_EQ(findings[0].evidence,
            "NCCL_IB_HCA==mlx5 takes none of the active mlx5_0, mlx5_1: NCCL falls back to TCP");
  StepPlacement step = step_of({{NodeCapture::kGpu[0], "0"}});
  step.tasks[0].environment["NCCL_IB_DISABLE"] = "1";
  EXPECT_EQ(audit(step), (Lines{"high nccl-hca n rank 8", kFragments}));
  step.tasks[0].environment["NCCL_IB_DISABLE"] = "0";
  EXPECT_EQ(audit(step), Lines{kFragments});
}

TEST_F(Captured, JudgesNcclIbHcaByActivePorts) {
  // An adapter that is down is not left out.
  Nic& nic = map.nics[static_cast<size_t>(map.find_nic("mlx5_0"))];
  nic.ports[0].state = PortState::kDown;
  EXPECT_EQ(with_hca("mlx5_1"), (Lines{"high gpu-nic-remote n GPU 0000:14:00.0",
                                       "high nic-down n mlx5_0 0000:13:00.0"}));
  NicPort second = nic.ports[0];
  second.number = 2;
  second.state = PortState::kActive;
  nic.ports.push_back(second);
  EXPECT_EQ(with_hca("=mlx5_0:2,mlx5_1"), Lines{});
  EXPECT_EQ(with_hca("=mlx5_0:1,mlx5_1"), Lines{"high nccl-hca n GPU 0000:14:00.0"});
}

// NCCL's files have the functions of a card as one.
TEST_F(Captured, AnyFunctionOfACardIsTheCard) {
  map.whole_switches = true;
  Nic& nic = map.nics[static_cast<size_t>(map.find_nic("mlx5_0"))];
  nic.os_names = {"mlx5_0", "mlx5_5"};
  capture.port("mlx5_0", "state", "1: DOWN");
  capture.write("/sys/class/infiniband/mlx5_5/ports/1/state", "4: ACTIVE");
  read();
  ASSERT_EQ(nic.ports.size(), 2u);
  EXPECT_EQ(with_hca("=mlx5_1,mlx5_5"), Lines{});
  EXPECT_EQ(with_hca("=mlx5_1,mlx5_6"), Lines{"high nccl-hca n GPU 0000:14:00.0"});
}

// A GPU without a near adapter does not turn the storage's into one for computing.
TEST_F(Captured, KnowsStorageAdaptersWhereAGpuHasNone) {
  Nic& other = map.nics[static_cast<size_t>(map.find_nic("mlx5_1"))];
  other.name = "mlx5_10";
  other.pci = map.nics[static_cast<size_t>(map.find_nic("mlx5_0"))].pci;
  other.pci.bus_id = "0000:18:00.0";
  other.pci.bridges = {"0000:10:02.0"};
  EXPECT_EQ(with_hca("=mlx5_0"), Lines{"warning gpu-nic-remote n GPU 0000:94:00.0"});
  EXPECT_EQ(with_hca("mlx5"),
            (Lines{"high nccl-hca n rank 8", "warning gpu-nic-remote n GPU 0000:94:00.0"}));
}

TEST_F(Captured, KnowsStorageAdapters) {
  // On the second socket's host bridge, but not below the switch.
  Nic storage = map.nics[static_cast<size_t>(map.find_nic("mlx5_1"))];
  storage.name = "mlx5_10";
  storage.system_guid = 1;
  storage.pci.bus_id = "0000:98:00.0";
  storage.pci.bridges = {"0000:90:02.0"};
  map.nics.push_back(storage);
  EXPECT_EQ(with_hca("mlx5_0,mlx5_1"), Lines{"high nccl-hca n rank 8"});
  EXPECT_EQ(findings[0].evidence,
            "NCCL_IB_HCA=mlx5_0,mlx5_1 takes mlx5_10, near to no GPU: a storage NIC; names without "
            "= are beginnings of names");
  EXPECT_EQ(with_hca("=mlx5_0,mlx5_1"), Lines{});
  EXPECT_EQ(with_hca("^mlx5_7"), Lines{});  // names none
  // Down, it is nobody's concern.
  map.nics.back().ports[0].state = PortState::kDown;
  EXPECT_EQ(with_hca("mlx5"), Lines{});
  // A site's word counts more than the place.
  map.nics.pop_back();
  EXPECT_EQ(with_hca("=mlx5_0,mlx5_1", {{"mlx5_1"}, {}}),
            (Lines{"high nccl-hca n rank 8", "warning gpu-nic-remote n GPU 0000:94:00.0"}));
}

// A virtual machine shows each device on a PCI domain of its own, and no NUMA node.
TEST_F(Captured, WhereNobodyKnowsTheSocketNothingIsRemote) {
  auto forget = [](PciDevice* pci) {
    pci->numa = pci->package = pci->host_bridge = -1;
    pci->cpus = {};
    pci->bridges.clear();
  };
  for (Gpu& gpu : map.gpus) forget(&gpu.pci);
  for (Nic& nic : map.nics) forget(&nic.pci);
  map.nvlinks = {0, 0, 0, 0};
  StepPlacement step = step_of({{NodeCapture::kGpu[0], ""}, {NodeCapture::kGpu[1], ""}}, 2);
  step.tensor_parallel = 2;
  EXPECT_EQ(audit(step), Lines{});
  // Known of one end only.
  map.nics[0].pci.package = map.nics[1].pci.package = 1;
  EXPECT_EQ(audit(step), Lines{});
  // NUMA nodes without sockets, as NCCL's files have them: two may be of one socket.
  for (Nic& nic : map.nics) nic.pci.package = -1;
  map.gpus[0].pci.numa = map.gpus[1].pci.numa = 0;
  map.nics[0].pci.numa = map.nics[1].pci.numa = 1;
  EXPECT_EQ(audit(step), Lines{});
  // The GPUs' own is down.
  map.nics[0].pci.numa = 0;
  map.nics[0].ports[0].state = PortState::kDown;
  EXPECT_EQ(audit(node_only()),
            (Lines{"high no-active-nic n", "high nic-down n mlx5_0 0000:13:00.0"}));
}

TEST_F(Captured, PortsThatNobodyKnowsAreNotDown) {
  Nic& own = map.nics[static_cast<size_t>(map.find_nic("mlx5_0"))];
  own.ports.clear();
  EXPECT_EQ(audit(node_only()), Lines{});
  capture.port("mlx5_1", "state", "1: DOWN");
  read();
  own.ports.clear();
  EXPECT_EQ(audit(node_only()), Lines{"high nic-down n mlx5_1 0000:93:00.0"});
}

// BlueField or a server's own ports, beside the InfiniBand of the GPUs and no nearer than it.
TEST_F(Captured, EthernetBesideInfiniBandIsNotForComputing) {
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    Nic& nic = map.nics[static_cast<size_t>(map.find_nic(name))];
    nic.pci.bridges = {"0000:10:02.0"};
  }
  Nic ethernet = map.nics[static_cast<size_t>(map.find_nic("mlx5_1"))];
  ethernet.name = "mlx5_2";
  ethernet.system_guid = 0x99;
  ethernet.pci.bus_id = "0000:98:00.0";
  ethernet.ports[0].layer = LinkLayer::kEthernet;
  ethernet.ports[0].state = PortState::kDown;
  map.nics.push_back(ethernet);
  EXPECT_EQ(audit(node_only()), Lines{});
  // Down or not, NCCL is not told to take it, and the node's beginning of names may.
  map.nics.back().ports[0].state = PortState::kActive;
  EXPECT_EQ(with_hca("mlx5"), Lines{});
  EXPECT_EQ(with_hca("=mlx5_2"),
            (Lines{"high nccl-hca n GPU 0000:14:00.0", "high nccl-hca n GPU 0000:94:00.0"}));
  EXPECT_EQ(findings[0].remedy, "export NCCL_IB_HCA==mlx5_0,mlx5_1, or unset NCCL_IB_HCA");
  // A file of hwloc says no layer, but that the port has no LID.
  map.nics.back().ports[0].state = PortState::kDown;
  map.nics.back().ports[0].layer = LinkLayer::kUnknown;
  EXPECT_EQ(audit(node_only()), Lines{});
  // Below the GPU's own switch it is for computing, and the InfiniBand may be the storage's.
  map.nics.back().ports[0].layer = LinkLayer::kEthernet;
  map.nics.back().pci.bridges =
      map.gpus[static_cast<size_t>(map.find_gpu(NodeCapture::kGpu[1]))].pci.bridges;
  EXPECT_EQ(audit(node_only()).back(), "high nic-down n mlx5_2 0000:98:00.0");
}

// All of them, or all but one that is near to no GPU.
TEST_F(Captured, EthernetAloneIsForComputing) {
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    capture.port(name, "link_layer", "Ethernet");
    capture.port(name, "lid", "0x0");
  }
  capture.port("mlx5_1", "state", "1: DOWN");
  read();
  const Lines down = {"high gpu-nic-remote n GPU 0000:94:00.0",
                      "high nic-down n mlx5_1 0000:93:00.0"};
  EXPECT_EQ(audit(node_only()), down);
  Nic far = map.nics[static_cast<size_t>(map.find_nic("mlx5_0"))];
  far.name = "mlx5_3";
  far.pci.bus_id = "0000:f0:00.0";
  far.pci.numa = far.pci.package = 2;
  far.pci.host_bridge = 99;
  far.ports[0].layer = LinkLayer::kInfiniBand;
  map.nics.push_back(far);
  EXPECT_EQ(audit(node_only()), down);
}

TEST_F(Captured, ComparesCudasOrder) {
  StepPlacement step = step_of({{"", ""}}, 1);
  TaskPlacement& task = step.tasks[0];
  task.gpus = {NodeCapture::kGpu[0], NodeCapture::kGpu[1]};
  EXPECT_EQ(audit(step), Lines{});
  task.gpus = {NodeCapture::kGpu[1], NodeCapture::kGpu[0]};
  EXPECT_EQ(audit(step), Lines{"warning gpu-order n rank 8"});
  EXPECT_EQ(findings[0].evidence,
            "CUDA's devices are 0000:94:00.0, 0000:14:00.0, not in PCI order");
  task.gpus = {NodeCapture::kGpu[0], NodeCapture::kGpu[1]};
  map.gpus[static_cast<size_t>(map.find_gpu(NodeCapture::kGpu[0]))].cuda_index = 1;
  map.gpus[static_cast<size_t>(map.find_gpu(NodeCapture::kGpu[1]))].cuda_index = 0;
  EXPECT_EQ(audit(step), Lines{"warning gpu-order n rank 8"});
  task.environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  EXPECT_EQ(audit(step), Lines{});
  task.environment.clear();
  for (Gpu& gpu : map.gpus) gpu.cuda_index = -1;
  map.gpus[0].model = "NVIDIA H100 80GB HBM3";
  map.gpus[1].model = "NVIDIA A100-SXM4-80GB";
  EXPECT_EQ(audit(step), (Lines{"warning gpu-order n rank 8", "information mixed-gpus n"}));
  const std::vector<Finding> mixed = findings;
  task.environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  EXPECT_EQ(audit(step), Lines{"information mixed-gpus n"});
  EXPECT_EQ(mixed[1].evidence,
            "1 NVIDIA A100-SXM4-80GB, 1 NVIDIA H100 80GB HBM3: the slowest sets the pace of all");
}

// Put in the order of the ranks' CPUs, another order is right.
TEST_F(Captured, LeavesAnOrderThatFitsTheCpus) {
  StepPlacement step = step_of({{"", "4-5"}, {"", "0-1"}}, 1);
  for (TaskPlacement& task : step.tasks) task.gpus = {NodeCapture::kGpu[1], NodeCapture::kGpu[0]};
  EXPECT_EQ(audit(step), Lines{});
  for (TaskPlacement& task : step.tasks) task.cpus = {};
  EXPECT_EQ(audit(step), Lines{"warning gpu-order n rank 8"});
}

TEST_F(Captured, TellsOfMigInStepsOfSeveralNodes) {
  StepPlacement step = step_of({{"MIG-1b7a9002-0001", "0"}, {"MIG-1b7a9002-0002", "1"}}, 1);
  EXPECT_EQ(audit(step), Lines{});
  step.nodes = 3;
  EXPECT_EQ(audit(step), Lines{"information mig-multi-node n"});
  EXPECT_EQ(findings[0].evidence.substr(0, 36), "2 MIG slices in a step of 3 nodes: N");
  map.gpus[static_cast<size_t>(map.find_gpu(NodeCapture::kGpu[0]))].mig_instances = 2;
  EXPECT_EQ(audit(step_of({{NodeCapture::kGpu[0], "0"}}, 2)),
            Lines{"information mig-multi-node n"});
  EXPECT_EQ(audit(step_of({{NodeCapture::kGpu[1], "4"}}, 2)), Lines{kFragments});
}

TEST_F(Captured, AdaptersAreNotHeldAgainstGpusOfOthers) {
  capture.port("mlx5_0", "state", "1: DOWN\n");
  read();
  StepPlacement step = step_of({{"MIG-abc", "0"}}, 2);
  step.tasks[0].environment["NCCL_IB_HCA"] = "mlx5_1";
  EXPECT_EQ(audit(step), Lines{"information mig-multi-node n"});
  capture.port("mlx5_0", "state", "4: ACTIVE\n");
  read();
  EXPECT_EQ(audit(step), Lines{"information mig-multi-node n"});
  step.tasks[0].environment["NCCL_IB_HCA"] = "mlx5_9";  // none at all
  EXPECT_EQ(audit(step), (Lines{"high nccl-hca n rank 8", "information mig-multi-node n"}));
}

TEST_F(Captured, SaysNothingOfWhatIsUnknown) {
  StepPlacement step = step_of({{"GPU-none", ""}, {"", "0"}});
  step.tasks[0].gpus.clear();
  EXPECT_EQ(audit(step), Lines{});
  for (Nic& nic : map.nics) nic.ports.clear();
  EXPECT_EQ(with_hca("mlx5_0"), Lines{});
  EXPECT_EQ(summary(audit_node(NodeMap(), step)), Lines{});
}

// ---- what goes into the audit ----

TEST(HcaFilter, ReadsTheListAsNcclDoes) {
  auto takes = [](const char* list, const char* name, uint32_t port = 1) {
    return HcaFilter(list).takes(name, port);
  };
  EXPECT_TRUE(takes("mlx5_1", "mlx5_10"));
  EXPECT_FALSE(takes("=mlx5_1", "mlx5_10"));
  EXPECT_FALSE(takes("mlx5_1:1", "mlx5_1", 2));
  EXPECT_TRUE(takes("^mlx5_1:1", "mlx5_1", 2));
  EXPECT_FALSE(takes("^=mlx5_1", "mlx5_1"));
  EXPECT_TRUE(takes("^", "mlx5_1"));
  EXPECT_TRUE(takes(",,:1", "mlx5_1"));
  EXPECT_TRUE(takes("mlx5_0,mlx5_1:", "mlx5_1", 7));
  EXPECT_FALSE(takes("mlx5_0,^mlx5_1", "mlx5_1"));  // '^' counts in front only
  EXPECT_TRUE(takes("mlx5_1:2:0:1", "mlx5_1", 2));  // rail and plane of later versions
  std::string many;
  for (int i = 0; i < 32; ++i) many += "x,";
  EXPECT_FALSE(takes((many + "mlx5_1").c_str(), "mlx5_1"));
}

TEST(VisibleGpus, AreThoseOfCuda) {
  NodeMap map;
  for (const char* id : {"0000:5f:00.0", "0000:4e:00.0", "0000:db:00.0", "0000:cb:00.0"}) {
    Gpu gpu;
    gpu.pci.bus_id = id;
    gpu.pci.device = 0x2330;
    gpu.uuid = "GPU-" + std::string(id + 5, 2) + "000000-0000";
    map.gpus.push_back(std::move(gpu));
  }
  const Lines all = {"0000:4e:00.0", "0000:5f:00.0", "0000:cb:00.0", "0000:db:00.0"};
  auto visible = [&map](std::optional<std::string_view> devices, const char* allocated = "",
                        bool pci_order = false) {
    const auto openable = *allocated == '\0' ? all_gpus(map) : gpus_by_place(map, allocated);
    return visible_gpus(map, openable, devices, pci_order);
  };
  EXPECT_EQ(visible(std::nullopt), all);
  EXPECT_EQ(visible("2,0"), (Lines{all[2], all[0]}));
  EXPECT_EQ(visible("1,-1,0"), Lines{all[1]});
  EXPECT_EQ(visible("1,4,0"), Lines{all[1]});
  EXPECT_EQ(visible(""), Lines{});
  EXPECT_EQ(visible("GPU-db, GPU-4e"), (Lines{all[3], all[0]}));
  EXPECT_EQ(visible("MIG-abc"), Lines{"MIG-abc"});
  EXPECT_EQ(visible(std::nullopt, "2-3"), (Lines{all[2], all[3]}));
  EXPECT_EQ(visible("1", "2,3"), Lines{all[3]});
  EXPECT_EQ(visible("3", "2,3"), Lines{});
  // CUDA does not know what it cannot open.
  EXPECT_EQ(visible("GPU-cb,GPU-4e,GPU-db", "2,3"), Lines{all[2]});
  // Where the driver's numbers do not follow the bus, nobody knows which ones Slurm means.
  for (int i = 0; i < 4; ++i) map.gpus[static_cast<size_t>(i)].minor = i;
  EXPECT_EQ(gpus_by_place(map, "1,2"), std::nullopt);
  EXPECT_EQ(visible("0", "1,2"), Lines{});
  EXPECT_EQ(visible(std::nullopt, "1,2"), Lines{});
  EXPECT_EQ(visible("GPU-cb", "1,2"), Lines{all[2]});
  EXPECT_EQ(visible("1"), Lines{all[1]});
  // CUDA's order of different models is its own.
  map.gpus[0].pci.device = 0x20b2;
  EXPECT_EQ(visible("0,1"), Lines{});
  EXPECT_EQ(visible("GPU-4e"), Lines{all[0]});
  EXPECT_EQ(visible("0,1", "", true), (Lines{all[0], all[1]}));
}

TEST(VisibleGpus, AreFoundByPlaceAndByMinorNumber) {
  NodeMap map;
  for (const char* id : {"0000:5f:00.0", "0000:4e:00.0", "0000:db:00.0"}) {
    map.gpus.emplace_back().pci.bus_id = id;
  }
  auto minors = [&map](const char* list) {
    return gpus_by_minor(map, CpuSet::from_list(list).value());
  };
  EXPECT_EQ(all_gpus(map), (GpuSet{1, 0, 2}));
  EXPECT_EQ(gpus_by_place(map, "0,2"), (GpuSet{1, 2}));
  EXPECT_EQ(gpus_by_place(map, ""), std::nullopt);
  EXPECT_EQ(gpus_by_place(map, "all"), std::nullopt);
  EXPECT_EQ(minors("0"), std::nullopt);
  for (int i = 0; i < 3; ++i) map.gpus[static_cast<size_t>(i)].minor = i;
  EXPECT_EQ(minors("0"), GpuSet{0});
  EXPECT_EQ(minors("0-2"), all_gpus(map));
  EXPECT_EQ(minors("1-2"), (GpuSet{1, 2}));
  EXPECT_EQ(minors("2-3"), std::nullopt);
}

}  // namespace
}  // namespace mfu
