// Pictures of a fabric: equal parts are told once, parts with findings are not, names stay text.
#include "topology/fabric_picture.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_text.hh"

namespace mfu {
namespace {

// A fabric with what its pictures need.
struct Drawn {
  explicit Drawn(Fabric made)
      : fabric(std::move(made)),
        roles(find_roles(fabric)),
        figures(fabric_figures(fabric, roles, audit_fabric(fabric, roles))) {}
  FabricPicture picture() const { return {fabric, roles, figures, name, 1764500000}; }

  std::string name = "f";
  Fabric fabric;
  FabricRoles roles;
  FabricFigures figures;
};

size_t count_in(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

FabricPlan two_pods() {
  FabricPlan plan;
  plan.pods = 2;
  plan.cores = 2;
  return plan;
}

TEST(FabricPicture, TellsEqualPartsOnce) {
  const Drawn drawn(make_fabric(two_pods()));
  EXPECT_EQ(
      draw_fabric(drawn.picture(), 120),
      "Fabric f, taken at 2025-11-30T10:53:20Z\n"
      "16 hosts, 96 adapters (32 in switches), 32 switches (16 leaves, 8 spines, 8 core), 4 "
      "rails; 1 island, 2 pods, 4 units\n"
      "\n"
      "Pods 0-1, each: 2 units, 8 hosts, 8 leaves, 4 spines; links: 32 4xNDR to hosts, 32 4xNDR "
      "to spines, 8 4xNDR above\n"
      "UNIT  HOSTS   NODES      RAIL  LEAF                         DEVICE      PORTS   UPLINKS\n"
      "0-1   4 each  node[1-8]  0-3   4 leaves, leaf-p1-u1-r1 ...  mlx5_0 ...  4 each  4 each\n");
}

TEST(FabricPicture, AllTellsEveryLeaf) {
  const Drawn drawn(make_fabric(two_pods()));
  const std::string text = draw_fabric(drawn.picture(), 120, true);
  EXPECT_EQ(count_in(text, "leaf-p"), 16);
  EXPECT_NE(text.find("3     4      node[13-16]  0     leaf-p2-u2-r1  mlx5_0  4      4\n"),
            std::string::npos)
      << text;
}

TEST(FabricPicture, WhatHasFindingsIsToldByItself) {
  Fabric fabric = make_fabric(two_pods());
  // An uplink of the second pod's first leaf, and a host's rail of its second unit.
  cut_link(&fabric, node_called(fabric, "MF0;leaf-p2-u1-r1:MQM9700/U1"), 5);
  cut_link(&fabric, node_called(fabric, "node14 mlx5_2"), 1);
  const Drawn drawn(std::move(fabric));
  const std::string text = draw_fabric(drawn.picture(), 120);
  EXPECT_NE(text.find("Pod 0: "), std::string::npos) << text;
  EXPECT_NE(text.find("Pod 1: 2 units, 8 hosts, 8 leaves, 4 spines; links: 31 4xNDR to hosts, 31 "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2     4      node[9-12]   0     leaf-p2-u1-r1  mlx5_0  4      3        1 "
                      "leaf-uplinks\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("3     4      node[13-16]  0     leaf-p2-u2-r1  mlx5_0  4      4        1 "
                      "rail-missing\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("mfu-topo audit"), std::string::npos);

  const std::string svg = draw_fabric_svg(drawn.picture());
  EXPECT_EQ(count_in(svg, "<rect class=\"warning\"") - 1, 1);  // the leaf; one is the legend
  EXPECT_EQ(count_in(svg, "<rect class=\"high\"") - 1, 1);     // the unit of the host
  EXPECT_EQ(count_in(svg, "<rect class=\"good\"") - 1, 15 + 3);
  EXPECT_NE(svg.find("3 4xNDR up; 1 leaf-uplinks</title>"), std::string::npos);
}

TEST(FabricPicture, AFindingThatChangesNoCountIsToldByItselfToo) {
  Fabric fabric = make_fabric(two_pods());
  swap_cables(&fabric, node_called(fabric, "node14 mlx5_2"), node_called(fabric, "node14 mlx5_3"));
  const Drawn drawn(std::move(fabric));
  const std::string text = draw_fabric(drawn.picture(), 120);
  EXPECT_NE(text.find("Pod 0: "), std::string::npos) << text;
  EXPECT_NE(text.find("2     4      node[9-12]   0-3   4 leaves, leaf-p2-u1-r1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("1 rail-swapped\n"), std::string::npos) << text;
}

TEST(FabricPicture, SlowLinksAreCounted) {
  Fabric fabric = make_fabric({});
  change_link(&fabric, node_called(fabric, "node3 mlx5_1"), 1,
              [](FabricPort& port) { port.width = 2; });
  const Drawn drawn(std::move(fabric));
  const std::string text = draw_fabric(drawn.picture(), 140);
  EXPECT_NE(text.find("links: 31 4xNDR and 1 2xNDR to hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("mlx5_1      3 4xNDR and 1 2xNDR  4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 link-slower"), std::string::npos) << text;
}

TEST(FabricPicture, IslandsAreTold) {
  FabricPlan plan;
  plan.pods = 2;
  plan.cores = 0;
  const Drawn drawn(make_fabric(plan));
  const std::string text = draw_fabric(drawn.picture(), 120);
  EXPECT_NE(text.find("2 islands, 2 pods"), std::string::npos) << text;
  EXPECT_NE(text.find("Pod 1 in island 1: "), std::string::npos) << text;
  const auto json = nlohmann::json::parse(fabric_json(drawn.picture()));
  EXPECT_EQ(json["islands"].size(), 2);
}

TEST(FabricPicture, JsonHasEveryLeaf) {
  Fabric fabric = make_fabric(two_pods());
  cut_link(&fabric, node_called(fabric, "MF0;leaf-p2-u1-r1:MQM9700/U1"), 5);
  const Drawn drawn(std::move(fabric));
  const auto json = nlohmann::json::parse(fabric_json(drawn.picture()));
  EXPECT_EQ(json["taken_at"], "2025-11-30T10:53:20Z");
  EXPECT_EQ(json["hosts"], 16);
  EXPECT_EQ(json["cores"], 8);
  const auto& unit = json["islands"][0]["pods"][1]["units"][0];
  EXPECT_EQ(unit["hosts"], "node[9-12]");
  EXPECT_EQ(unit["leaves"].size(), 4);
  EXPECT_EQ(unit["leaves"][0]["uplinks"], 3);
  EXPECT_EQ(unit["leaves"][0]["uplink_rates"]["4xNDR"], 3);
  EXPECT_EQ(unit["leaves"][0]["findings"]["leaf-uplinks"], 1);
  EXPECT_EQ(unit["leaves"][1]["device"], "mlx5_1");
}

TEST(FabricPicture, HostileNamesStayText) {
  Fabric fabric = make_fabric({});
  const std::string hostile = "a\x1b]0;x\a</title>&\"'<b>\xff";
  for (uint32_t rail = 0; rail < 4; ++rail) {
    const std::string device = " mlx5_" + std::to_string(rail);
    fabric.nodes[node_called(fabric, "node3" + device)].description = hostile + device;
  }
  fabric.nodes[node_called(fabric, "MF0;leaf-p1-u1-r1:MQM9700/U1")].description = hostile;
  Drawn drawn(std::move(fabric));
  drawn.name = hostile;
  const std::string svg = draw_fabric_svg(drawn.picture());
  for (const std::string& text : {svg, draw_fabric(drawn.picture(), 100)}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  EXPECT_NE(svg.find("a?]0;x?&lt;/title&gt;&amp;&quot;&#39;&lt;b&gt;?"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(fabric_json(drawn.picture())));
}

TEST(FabricPicture, EmptyFabricsHavePictures) {
  const Drawn drawn((Fabric()));
  EXPECT_NE(draw_fabric(drawn.picture(), 80).find("0 hosts, 0 adapters, 0 switches"),
            std::string::npos);
  EXPECT_TRUE(draw_fabric_svg(drawn.picture()).ends_with("</svg>\n"));
  EXPECT_TRUE(nlohmann::json::accept(fabric_json(drawn.picture())));
}

TEST(FabricPicture, RealPod) {
  const auto snapshot = read_fabric(shared_fabric("topograph-example.out"));
  if (!snapshot) GTEST_SKIP() << kNoSharedFabrics;
  const Drawn drawn(snapshot->fabric);
  const std::string text = draw_fabric(drawn.picture(), 200);
  EXPECT_NE(
      text.find("40 switches (31 leaves, 9 spines, 0 core), 4 rails; 1 island, 1 pod, 8 units"),
      std::string::npos)
      << text;
  EXPECT_EQ(count_in(text, "leaf-uplinks"), 12);
  EXPECT_EQ(count_in(text, "10 rail-missing"), 1);
  EXPECT_EQ(count_in(text, "1 rail-swapped"), 1);
}

TEST(FabricFigures, Texts) {
  EXPECT_EQ(rates_text({}), "none");
  EXPECT_EQ(rates_text({{"2xNDR", 1}, {"4xNDR", 575}}), "575 4xNDR and 1 2xNDR");
  EXPECT_EQ(rates_text({{"a", 1}, {"b", 3}, {"c", 2}}), "3 b, 2 c and 1 a");
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({3, 4, 5, 9, 11, 12}), "3-5, 9, 11-12");
}

}  // namespace
}  // namespace mfu
