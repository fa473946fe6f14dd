// The rules: silent on clean fabrics, exact on planted faults, and on the real pod just what a
// plain reading of its text by the names of its switches tells.
#include "topology/fabric_audit.hh"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_text.hh"

namespace mfu {
namespace {

FabricPlan two_pods() {
  FabricPlan plan;
  plan.pods = 2;
  plan.cores = 2;
  return plan;
}

std::vector<FabricFinding> audited(const Fabric& fabric) {
  return audit_fabric(fabric, find_roles(fabric));
}

// "severity rule | place | evidence".
std::vector<std::string> told(const std::vector<FabricFinding>& findings) {
  std::vector<std::string> lines;
  for (const auto& [finding, host, leaf] : findings) {
    EXPECT_FALSE(finding.remedy.empty());
    lines.push_back(std::string(severity_name(finding.severity)) + " " + finding.rule + " | " +
                    finding.place + " | " + finding.evidence);
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(FabricAudit, CleanFabricsHaveNoFinding) {
  FabricPlan plan;
  EXPECT_EQ(told(audited(make_fabric(plan))), Lines());
  EXPECT_EQ(told(audited(make_fabric(two_pods()))), Lines());
  plan.hosts = 18;
  plan.rails = 8;
  EXPECT_EQ(told(audited(make_fabric(plan))), Lines());
  plan.rails = 1;
  EXPECT_EQ(told(audited(make_fabric(plan))), Lines());
}

TEST(FabricAudit, SwappedRails) {
  Fabric fabric = make_fabric({});
  swap_cables(&fabric, node_called(fabric, "node2 mlx5_0"), node_called(fabric, "node2 mlx5_3"));
  const auto findings = audited(fabric);
  EXPECT_EQ(
      told(findings),
      Lines{"high rail-swapped | node2 | mlx5_3 is on leaf-p1-u1-r1 port 2, where 3 of 4 hosts "
            "have mlx5_0; mlx5_0 is on leaf-p1-u1-r4 port 2, where 3 of 4 hosts have mlx5_3"});
  EXPECT_EQ(findings[0].host, 1u);
}

TEST(FabricAudit, OneHostsOwnNamesAreNoSwap) {
  // Names that no leaf of the unit usually has.
  Fabric fabric = make_fabric({});
  for (int r = 0; r < 4; ++r) {
    fabric.nodes[node_called(fabric, "node2 mlx5_" + std::to_string(r))].description =
        "node2 mlx5_" + std::to_string(r + 6);
  }
  EXPECT_EQ(told(audited(fabric)), Lines());
}

TEST(FabricAudit, PortInAnotherUnit) {
  FabricPlan plan;
  Fabric fabric = make_fabric(plan);
  swap_cables(&fabric, node_called(fabric, "node1 mlx5_2"), node_called(fabric, "node8 mlx5_2"));
  EXPECT_EQ(
      told(audited(fabric)),
      (Lines{"high rail-elsewhere | node1 | mlx5_2 is on leaf-p1-u2-r3 port 4, while 4 ports are "
             "mostly on the unit of leaf-p1-u1-r1",
             "high rail-elsewhere | node8 | mlx5_2 is on leaf-p1-u1-r3 port 1, while 4 ports are "
             "mostly on the unit of leaf-p1-u2-r1"}));
}

// A server of two units, whose leaves its cables go to for the sake of it.
TEST(FabricAudit, AFewPortsInTwoUnitsAreAnotherMachine) {
  auto fabric_with = [](std::initializer_list<const char*> leaves) {
    FabricMaker maker;
    maker.fabric = make_fabric({});
    uint32_t device = 0;
    for (const char* leaf : leaves) {
      const uint32_t adapter =
          maker.add(FabricKind::kAdapter, "store mlx5_" + std::to_string(device++), 1);
      maker.link(adapter, 1,
                 node_called(maker.fabric, std::string("MF0;leaf-p1-") + leaf + ":MQM9700/U1"), 40,
                 "NDR");
    }
    return maker.made();
  };
  EXPECT_EQ(told(audited(fabric_with({"u1-r1", "u2-r1"}))), Lines());
  const Fabric fabric = fabric_with({"u1-r1", "u2-r1"});
  const NodeNames names{{fabric.nodes[node_called(fabric, "store mlx5_0")].guid, "gpu9"},
                        {fabric.nodes[node_called(fabric, "store mlx5_1")].guid, "gpu9"}};
  EXPECT_EQ(find_rails_elsewhere(fabric, find_roles(fabric, names)).size(), 1u);
  EXPECT_EQ(told(audited(fabric_with({"u1-r1", "u1-r2", "u2-r3"}))).size(), 2u);
}

TEST(FabricAudit, MissingRail) {
  Fabric fabric = make_fabric({});
  cut_link(&fabric, node_called(fabric, "node3 mlx5_1"), 1);
  EXPECT_EQ(
      told(audited(fabric)),
      Lines{"high rail-missing | node3 | 3 of 4 rails: without rail 1 (mlx5_1); 3 of 4 hosts of "
            "its unit have all"});
}

TEST(FabricAudit, MissingLeaf) {
  FabricPlan plan;
  plan.units = 3;
  Fabric fabric = make_fabric(plan);
  for (uint32_t h = 1; h <= 4; ++h) {
    cut_link(&fabric, node_called(fabric, "node" + std::to_string(h) + " mlx5_1"), 1);
  }
  const auto findings = audited(fabric);
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(
      told(findings)[3],
      "high rail-missing | node4 | 3 of 4 rails: without rail 1 (mlx5_1); no host of its unit has "
      "it, and no leaf is there for it");
}

TEST(FabricAudit, AFewRailsAreAnotherMachineUnlessSlurmKnowsIt) {
  Fabric fabric = make_fabric({});
  for (const char* cut : {"node3 mlx5_1", "node3 mlx5_2", "node3 mlx5_3"}) {
    cut_link(&fabric, node_called(fabric, cut), 1);
  }
  EXPECT_EQ(told(audited(fabric)), Lines());
  const NodeNames names{{fabric.nodes[node_called(fabric, "node3 mlx5_0")].guid, "gpu3"}};
  const FabricRoles roles = find_roles(fabric, names);
  EXPECT_EQ(
      told(find_missing_rails(fabric, roles)),
      Lines{"high rail-missing | gpu3 | 1 of 4 rails: without rail 1 (mlx5_1), rail 2 (mlx5_2), "
            "rail 3 (mlx5_3); 3 of 4 hosts of its unit have all"});
}

// Hosts with one adapter beside hosts with two, on this leaf or on that one.
TEST(FabricAudit, ManyHostsWithHalfOfTheRailsWereBuiltSo) {
  FabricPlan plan;
  plan.units = 1;
  plan.hosts = 12;
  plan.rails = 2;
  auto built = [&plan](uint32_t single) {
    Fabric fabric = make_fabric(plan);
    for (uint32_t h = 1; h <= single; ++h) {
      const std::string name = "node" + std::to_string(h);
      cut_link(&fabric, node_called(fabric, name + (h % 2 == 0 ? " mlx5_0" : " mlx5_1")), 1);
      if (h % 2 == 1 || plan.rails > 2) continue;
      // The first adapter is called so wherever it is linked.
      std::swap(fabric.nodes[node_called(fabric, name + " mlx5_0")].description,
                fabric.nodes[node_called(fabric, name + " mlx5_1")].description);
    }
    return told(audited(fabric));
  };
  EXPECT_EQ(built(5), Lines());
  EXPECT_EQ(built(3), Lines());
  EXPECT_EQ(
      built(2),
      (Lines{"high rail-missing | node1 | 1 of 2 rails: without rail 1 (mlx5_1); 10 of 12 hosts "
             "of its unit have all",
             "high rail-missing | node2 | 1 of 2 rails: without rail 0 (mlx5_0); 10 of 12 hosts "
             "of its unit have all"}));
  // One rail of many is a fault, however many hosts have it.
  plan.rails = 4;
  EXPECT_EQ(built(4).size(), 4u);
}

TEST(FabricAudit, HostsWithHalfOfTheRailsHaveNoneToSwap) {
  FabricPlan plan;
  plan.hosts = 12;
  Fabric fabric = make_fabric(plan);
  // mlx5_0 and mlx5_1, at the leaves of the first and the third rail.
  for (const std::string name : {"node2", "node3", "node4"}) {
    const uint32_t second = node_called(fabric, name + " mlx5_1");
    cut_link(&fabric, second, 1);
    cut_link(&fabric, node_called(fabric, name + " mlx5_3"), 1);
    std::swap(fabric.nodes[second].description,
              fabric.nodes[node_called(fabric, name + " mlx5_2")].description);
  }
  EXPECT_EQ(told(audited(fabric)), Lines());
}

// HDR100 and NDR200: a cable that serves two hosts.
TEST(FabricAudit, RatesOfManyAreHowTheyAreCabled) {
  FabricPlan plan;
  plan.hosts = 6;
  plan.units = 2;
  plan.rails = 1;
  auto slower = [&plan](uint32_t hosts, uint8_t width, const char* lane) {
    Fabric fabric = make_fabric(plan);
    for (uint32_t h = 1; h <= hosts; ++h) {
      change_link(&fabric, node_called(fabric, "node" + std::to_string(h) + " mlx5_0"), 1,
                  [&](FabricPort& port) {
                    port.width = width;
                    port.lane_mbps = lane_rate_mbps(lane);
                  });
    }
    return told(audited(fabric)).size();
  };
  EXPECT_EQ(slower(4, 2, "NDR"), 0u);
  EXPECT_EQ(slower(3, 2, "NDR"), 0u);
  EXPECT_EQ(slower(3, 1, "NDR"), 0u);
  EXPECT_EQ(slower(2, 2, "NDR"), 2u);
  EXPECT_EQ(slower(4, 4, "SDR"), 4u);
  plan.hosts = 10;
  EXPECT_EQ(slower(4, 2, "NDR"), 4u);  // of 20
}

TEST(FabricAudit, SlowerAndNarrowerLinks) {
  Fabric fabric = make_fabric({});
  change_link(&fabric, node_called(fabric, "node2 mlx5_1"), 1,
              [](FabricPort& port) { port.width = 2; });
  // One end is enough.
  fabric.nodes[node_called(fabric, "node5 mlx5_0")].ports[0].lane_mbps = lane_rate_mbps("HDR");
  change_link(&fabric, node_called(fabric, "MF0;leaf-p1-u2-r1:MQM9700/U1"), 6,
              [](FabricPort& port) { port.lane_mbps = lane_rate_mbps("SDR"); });
  // Unknown rates say nothing.
  change_link(&fabric, node_called(fabric, "node7 mlx5_1"), 1,
              [](FabricPort& port) { port.width = 0; });
  const auto findings = audited(fabric);
  Lines lines = told(findings);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(
      lines,
      (Lines{"high link-slower | leaf-p1-u2-r1 port 6 to spine-p1-2 port 5 | 4xSDR where 31 of 32 "
             "links of its kind have 4xNDR",
             "high link-slower | node2 mlx5_1 to leaf-p1-u1-r2 port 2 | 2xNDR where 29 of 31 links "
             "of its kind have 4xNDR",
             "high link-slower | node5 mlx5_0 to leaf-p1-u2-r1 port 1 | 4xHDR where 29 of 31 links "
             "of its kind have 4xNDR"}));
  for (const FabricFinding& found : findings) {
    EXPECT_NE(found.host == kNoIndex, found.leaf == kNoIndex) << found.finding.place;
    EXPECT_EQ(found.finding.remedy.find("ibportstate -G 0x2c5eab03"), 0u) << found.finding.remedy;
  }
}

TEST(FabricAudit, ASlowModelIsNoFault) {
  Fabric fabric = make_fabric({});
  for (int r = 0; r < 4; ++r) {
    const uint32_t node = node_called(fabric, "node2 mlx5_" + std::to_string(r));
    fabric.nodes[node].device = 0x101b;
    change_link(&fabric, node, 1, [](FabricPort& port) { port.lane_mbps = lane_rate_mbps("HDR"); });
  }
  EXPECT_EQ(told(audited(fabric)), Lines());
}

TEST(FabricAudit, WeakLeaf) {
  Fabric fabric = make_fabric(two_pods());
  const uint32_t leaf = node_called(fabric, "MF0;leaf-p2-u1-r2:MQM9700/U1");
  cut_link(&fabric, leaf, 6);
  cut_link(&fabric, leaf, 8);
  EXPECT_EQ(
      told(audited(fabric)),
      Lines{
          "warning leaf-uplinks | leaf leaf-p2-u1-r2 | 2 uplinks where 7 of 8 leaves have 4; links "
          "to spine-p2-2 0 of 1, spine-p2-4 0 of 1"});
}

TEST(FabricAudit, UnnamedAdaptersAndAbsentSharp) {
  FabricPlan plan;
  plan.sharp = false;
  Fabric fabric = make_fabric(plan);
  fabric.nodes[node_called(fabric, "node2 mlx5_1")].description =
      "MT4129 ConnectX7   Mellanox Technologies";
  fabric.nodes[node_called(fabric, "node3 mlx5_1")].description = "ubuntu mlx5_1";
  const FabricRoles roles = find_roles(fabric);
  const Lines lines = told(find_unnamed_adapters(fabric, roles));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].find("information adapter-unnamed | fabric | 1 of 32 adapters have no name"),
            0u);
  EXPECT_EQ(
      lines[1].find("information adapter-unnamed | fabric | 1 of 32 adapters have an installer's"),
      0u);
  EXPECT_EQ(
      told(find_absent_sharp(fabric, roles)),
      Lines{"information sharp-absent | fabric | 12 of 12 switches that can aggregate have no "
            "aggregation node, the first: spine-p1-1"});
}

TEST(FabricAudit, JobHearsOfItsOwnPlaceOnly) {
  Fabric fabric = make_fabric(two_pods());
  cut_link(&fabric, node_called(fabric, "node3 mlx5_1"), 1);
  cut_link(&fabric, node_called(fabric, "node13 mlx5_1"), 1);
  cut_link(&fabric, node_called(fabric, "MF0;leaf-p2-u1-r2:MQM9700/U1"), 6);
  const FabricRoles roles = find_roles(fabric);
  const FabricSpans spans(fabric, roles);
  const auto all = audit_fabric(fabric, roles);
  EXPECT_EQ(all.size(), 3u);
  auto rules = [&](std::vector<uint32_t> nodes) {
    for (uint32_t& node : nodes) node = roles.find_host("node" + std::to_string(node));
    std::string text;
    for (const Finding& finding : audit_job(roles, spans.span(nodes), nodes, all)) {
      text += finding.rule + ":" + finding.place + " ";
    }
    return text;
  };
  EXPECT_EQ(rules({1, 2}), "");
  EXPECT_EQ(rules({1, 2, 3, 4}), "rail-missing:node3 ");
  EXPECT_EQ(rules({1, 5}), "job-leaves:job on 2 nodes ");
  EXPECT_EQ(rules({1, 9}),
            "job-leaves:job on 2 nodes job-pods:job on 2 nodes leaf-uplinks:leaf "
            "leaf-p2-u1-r2 ");
}

TEST(FabricAudit, JobEvidence) {
  const Fabric fabric = make_fabric(two_pods());
  const FabricRoles roles = find_roles(fabric);
  const JobSpan span = FabricSpans(fabric, roles).span(std::vector<uint32_t>{0, 8});
  const auto findings = find_spread_job(span);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(
      findings[0].evidence,
      "8 leaves where 4 would do, 2 units where 1 would do; 4.0 hops between its ports on average, "
      "4 at most");
  EXPECT_EQ(findings[1].evidence,
            "2 pods where 1 would do; 4.0 hops between its ports on average, 4 at most");
  EXPECT_TRUE(find_unconnected_job(span).empty());
  FabricPlan plan = two_pods();
  plan.cores = 0;
  const Fabric apart = make_fabric(plan);
  const FabricRoles apart_roles = find_roles(apart);
  const auto unconnected =
      find_unconnected_job(FabricSpans(apart, apart_roles).span(std::vector<uint32_t>{0, 8}));
  ASSERT_EQ(unconnected.size(), 1u);
  EXPECT_EQ(unconnected[0].severity, Severity::kHigh);
}

// What the real pod's text says to who reads it by the names of leaves: IBLEAF-<rail>-<unit>.
struct PlainReading {
  std::map<std::string, uint32_t> uplinks;                            // of leaves
  std::map<std::string, std::map<std::string, std::string>> devices;  // host -> device -> rail
  uint32_t nameless = 0;
};
PlainReading read_plainly(const std::string& path) {
  PlainReading reading;
  std::ifstream file(path);
  const std::regex leaf_line("^Switch.*;(.*IBLEAF-(\\d\\d)-\\d\\d):.*");
  const std::regex host_line("^\\[.*# \"(\\S+-dgx-\\S+) (mlx5_|HCA-)(\\d+)\" lid.*");
  std::string leaf, rail;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Switch") || line.starts_with("Ca")) {
      leaf.clear();
      if (std::regex_match(line, match, leaf_line)) {
        leaf = match[1];
        rail = match[2];
      }
      reading.nameless += line.starts_with("Ca") && line.find("\"MT4129") != std::string::npos;
    } else if (!leaf.empty() && line.starts_with("[")) {
      reading.uplinks[leaf] += line.find("\"S-") != std::string::npos;
      if (std::regex_match(line, match, host_line)) {
        const int device = std::stoi(match[3]) - (match[2] == "HCA-" ? 1 : 0);
        reading.devices[match[1]]["mlx5_" + std::to_string(device)] = rail;
      }
    }
  }
  return reading;
}

TEST(FabricAudit, RealPodHasItsKnownFaultsAndNoOther) {
  const std::string path = shared_fabric("topograph-example.out");
  const auto snapshot = read_fabric(path);
  if (!snapshot) GTEST_SKIP() << kNoSharedFabrics;
  const PlainReading plain = read_plainly(path);

  std::set<std::string> expected;
  for (const auto& [leaf, uplinks] : plain.uplinks) {
    if (uplinks < 18) expected.insert("leaf-uplinks leaf " + leaf);
  }
  EXPECT_EQ(expected.size(), 12u);
  const std::map<std::string, std::string> right{
      {"mlx5_0", "01"}, {"mlx5_1", "02"}, {"mlx5_4", "03"}, {"mlx5_5", "04"}};
  uint32_t missing = 0, swapped = 0;
  for (const auto& [host, devices] : plain.devices) {
    bool wrong = false;
    for (const auto& [device, rail] : devices) wrong = wrong || right.at(device) != rail;
    if (wrong) expected.insert("rail-swapped " + host);
    if (devices.size() < 4) expected.insert("rail-missing " + host);
    missing += devices.size() == 3;
    swapped += wrong;
  }
  EXPECT_EQ(missing, 10u);
  EXPECT_EQ(swapped, 1u);
  EXPECT_EQ(plain.nameless, 69u);

  std::set<std::string> found;
  std::vector<std::string> unnamed;
  for (const auto& [finding, host, leaf] : audited(snapshot->fabric)) {
    if (finding.rule == "adapter-unnamed") {
      unnamed.push_back(finding.evidence);
    } else {
      EXPECT_TRUE(found.insert(finding.rule + " " + finding.place).second) << finding.place;
    }
    if (finding.rule == "leaf-uplinks") {
      EXPECT_EQ(finding.evidence.find(std::to_string(plain.uplinks.at(finding.place.substr(5))) +
                                      " uplinks where 19 of 31 leaves have 18"),
                0u)
          << finding.evidence;
    }
  }
  EXPECT_EQ(found, expected);
  ASSERT_EQ(unnamed.size(), 2u);
  EXPECT_EQ(unnamed[0].find("69 of 542 adapters have no name"), 0u) << unnamed[0];
  EXPECT_EQ(unnamed[1].find("5 of 542 adapters have an installer's name"), 0u) << unnamed[1];
}

}  // namespace
}  // namespace mfu
