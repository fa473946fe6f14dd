// The parser of ibnetdiscover's text: real files, every odd thing that the text may hold, nonsense,
// and the writer, which must give the same fabric back.
#include "topology/fabric_text.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "tests/unit/fabric_samples.hh"

namespace mfu {
namespace {

uint32_t count_of(const Fabric& fabric, FabricKind kind) {
  uint32_t count = 0;
  for (const FabricNode& node : fabric.nodes) count += node.kind == kind;
  return count;
}

Fabric parsed(const std::string& text) {
  auto snapshot = parse_fabric(text);
  EXPECT_TRUE(snapshot) << snapshot.error();
  return snapshot ? std::move(snapshot->fabric) : Fabric();
}

std::string error_of(const std::string& text) {
  const auto snapshot = parse_fabric(text);
  return snapshot ? "none" : snapshot.error();
}

// Every link has its other end, numbers rise, and the index holds all nodes.
void expect_sound(const Fabric& fabric) {
  EXPECT_EQ(fabric.by_guid.size(), fabric.nodes.size());
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    EXPECT_EQ(fabric.find(fabric.nodes[i].guid), i);
    uint32_t last = 0;
    for (const FabricPort& port : fabric.nodes[i].ports) {
      EXPECT_GT(port.number, last);
      last = port.number;
      ASSERT_LT(port.peer, fabric.nodes.size());
      bool mutual = false;
      for (const FabricPort& other : fabric.nodes[port.peer].ports) {
        mutual = mutual || (other.number == port.peer_port && other.peer == i &&
                            other.peer_port == port.number);
      }
      EXPECT_TRUE(mutual) << fabric.nodes[i].description << " port " << port.number;
    }
    EXPECT_LE(last, fabric.nodes[i].port_count);
  }
}

const char kSmall[] =
    "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa0\nswitchguid=0xa(a)\n"
    "Switch\t65 \"S-000000000000000a\"\t\t# \"MF0;leaf:MQM9700/U1\" enhanced port 0 lid 73 lmc 0\n"
    "[1]\t\"H-000000000000000b\"[1](b) \t\t# \"n1 mlx5_0\" lid 7 4xNDR\n"
    "\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0xb0\ncaguid=0xb\n"
    "Ca\t1 \"H-000000000000000b\"\t\t# \"n1 mlx5_0\"\n"
    "[1](b) \t\"S-000000000000000a\"[1]\t\t# lid 7 lmc 0 \"MF0;leaf:MQM9700/U1\" lid 73 4xNDR\n";

TEST(FabricText, ReadsNodesAndLinks) {
  const Fabric fabric = parsed(kSmall);
  ASSERT_EQ(fabric.nodes.size(), 2u);
  const FabricNode& leaf = fabric.nodes[0];
  EXPECT_EQ(leaf.kind, FabricKind::kSwitch);
  EXPECT_EQ(leaf.guid, 0xau);
  EXPECT_EQ(leaf.system_guid, 0xa0u);
  EXPECT_EQ(leaf.vendor, 0x2c9u);
  EXPECT_EQ(leaf.device, 0xd2f2u);
  EXPECT_EQ(leaf.lid, 73u);
  EXPECT_EQ(leaf.port_count, 65u);
  EXPECT_EQ(leaf.description, "MF0;leaf:MQM9700/U1");
  EXPECT_EQ(leaf.ports, (std::vector<FabricPort>{{1, 1, 1, 4, 106250}}));
  const FabricNode& adapter = fabric.nodes[1];
  EXPECT_EQ(adapter.kind, FabricKind::kAdapter);
  EXPECT_EQ(adapter.lid, 7u);
  EXPECT_EQ(adapter.description, "n1 mlx5_0");
  EXPECT_EQ(link_name(adapter.ports.at(0)), "4xNDR");
  expect_sound(fabric);
}

TEST(FabricText, KnowsRatesAndForgivesOthers) {
  auto rate = [](const std::string& text) {
    return link_name(
        parsed("Ca 1 \"H-1\" # \"x\"\n[1] \"S-2\"[3] # \"y\" lid 1 " + text).nodes[0].ports[0]);
  };
  for (const char* known : {"1xSDR", "4xDDR", "4xQDR", "4xFDR10", "4xFDR", "4xEDR", "2xHDR",
                            "4xNDR", "4xXDR", "8xHDR", "12xQDR"}) {
    EXPECT_EQ(rate(known), known);
    EXPECT_EQ(rate(std::string(known) + " s=4 w=2 v=4 e=4"), known);
  }
  EXPECT_EQ(rate("?????"), "?x?");
  EXPECT_EQ(rate("4x???"), "4x?");
  EXPECT_EQ(rate("4xGDR"), "4x?");
  EXPECT_EQ(rate("99xNDR"), "?xNDR");
  EXPECT_EQ(rate(""), "?x?");
}

TEST(FabricText, DescriptionsMayHoldAnything) {
  const Fabric fabric = parsed(
      "Switch 9 \"S-1\" # \"say \"lid 5\" # it's\" enhanced port 0 lid 4 lmc 0\n"
      "[1] \"H-2\"[1](2) # \"a \"[2]\" # lid 99 1xSDR\" lid 6 4xEDR\n"
      "Ca 1 \"H-2\" # \"\"\n"
      "[1](2) \"S-1\"[1] # lid 6 lmc 0 \"quote \" lid 1 1xSDR\" lid 4 4xEDR\n"
      "Ca 1 \"H-3\" # \"caf\xc3\xa9\tx" +
      std::string(80, 'y') + "\"\n");
  EXPECT_EQ(fabric.nodes[0].description, "say \"lid 5\" # it's");
  EXPECT_EQ(fabric.nodes[0].lid, 4u);
  EXPECT_EQ(link_name(fabric.nodes[0].ports[0]), "4xEDR");
  EXPECT_EQ(fabric.nodes[1].description, "");
  EXPECT_EQ(fabric.nodes[1].lid, 6u);
  EXPECT_EQ(link_name(fabric.nodes[1].ports[0]), "4xEDR");
  EXPECT_EQ(fabric.nodes[2].description, "caf   x" + std::string(56, 'y'));
}

TEST(FabricText, DuplicateNamesAreTwoNodes) {
  const Fabric fabric = parsed("Ca 1 \"H-1\" # \"n HCA-1\"\nCa 1 \"H-2\" # \"n HCA-1\"\n");
  EXPECT_EQ(fabric.nodes.size(), 2u);
}

TEST(FabricText, SkipsLogLinesAndHeadings) {
  std::string text =
      "bash: warning: setlocale\nsrc/query_smp.c:195; umad (DR path slid 0) bad status 110\n#\n"
      "Chassis 1 (guid 0x8f10400410015)\nHostname: x\n\n# Spine Nodes\n";
  text += kSmall;
  text +=
      "\n../libibnetdisc/ibnetdisc.c:313; could not query\nibwarn: [12] mad_rpc: x\n"
      "Non-Chassis Nodes\nvendid=0x2c9\nsysimgguid=0xc0\t\t# Chassis 1\nswitchguid=0xc(c)\t# Spine "
      "1\n"
      "Switch 24 \"S-c\" # \"x\" base port 0 lid 3 lmc 0\r\n"
      "[22][ext 5]\t\"R-d\"[1][ext 2](d) # \"router\" lid 9 4xQDR\n";
  const Fabric fabric = parsed(text);
  EXPECT_EQ(count_of(fabric, FabricKind::kSwitch), 2u);
  EXPECT_EQ(count_of(fabric, FabricKind::kRouter), 1u);
  EXPECT_EQ(fabric.nodes[fabric.find(0xc)].system_guid, 0xc0u);
  expect_sound(fabric);
}

TEST(FabricText, AddsTheOtherEndOfALink) {
  const Fabric fabric = parsed(
      "Switch 36 \"S-1\" # \"a\" base port 0 lid 1 lmc 0\n[7] \"H-2\"[1](2) # \"n mlx5_0\" lid 5 "
      "4xHDR\n");
  ASSERT_EQ(fabric.nodes.size(), 2u);
  EXPECT_EQ(fabric.nodes[1].description, "n mlx5_0");
  EXPECT_EQ(fabric.nodes[1].lid, 5u);
  EXPECT_EQ(fabric.nodes[1].ports, (std::vector<FabricPort>{{1, 0, 7, 4, 53125}}));
  expect_sound(fabric);
}

TEST(FabricText, DropsLinksThatContradictTheirOtherEnd) {
  const auto snapshot = parse_fabric(
      "Switch 4 \"S-1\" # \"a\"\n[1] \"S-2\"[1] # \"b\" lid 2 4xHDR\n[2] \"S-2\"[2] # \"b\" lid 2 "
      "4xHDR\n"
      "Switch 4 \"S-2\" # \"b\"\n[1] \"S-1\"[1] # \"a\" lid 1 4xHDR\n[2] \"S-3\"[1] # \"c\" lid 3 "
      "4xHDR\n"
      "Switch 4 \"S-3\" # \"c\"\n[1] \"S-2\"[2] # \"b\" lid 2 4xHDR\n[2] \"S-4\"[1] # \"d\" lid 4 "
      "4xHDR\n"
      "Switch 4 \"S-5\" # \"e\"\n[2] \"S-4\"[1] # \"d\" lid 4 4xHDR\n");
  ASSERT_TRUE(snapshot) << snapshot.error();
  EXPECT_EQ(snapshot->contradictions, 2u);
  expect_sound(snapshot->fabric);
  EXPECT_EQ(snapshot->fabric.nodes[0].ports.size(), 1u);
  EXPECT_EQ(snapshot->fabric.nodes[2].ports.size(), 2u);
  EXPECT_EQ(snapshot->fabric.nodes[3].ports.size(), 0u);
}

TEST(FabricText, NonsenseIsAnErrorWithItsLine) {
  const std::string node = "Switch 8 \"S-1\" # \"a\" base port 0 lid 1 lmc 0\n";
  EXPECT_EQ(error_of(""), "no node: this is not ibnetdiscover's output");
  EXPECT_EQ(error_of("hello\nworld\n"), "no node: this is not ibnetdiscover's output");
  EXPECT_EQ(error_of("[1] \"S-1\"[2]\n"), "line 1: a port without a node");
  EXPECT_EQ(error_of(node + "gibberish\n"), "line 2: neither a node nor a port: \"gibberish\"");
  EXPECT_EQ(error_of(node + "\n" + node),
            "line 3: node 0x0000000000000001 for the second time: keep one snapshot in a file");
  EXPECT_EQ(error_of(node + "[1] \"X-2\"[1]\n"),
            "line 2: no link such as [1] \"S-0002c90300000001\"[2]");
  EXPECT_EQ(error_of(node + "[1] \"S-2\"[1\n"),
            "line 2: no link such as [1] \"S-0002c90300000001\"[2]");
  EXPECT_EQ(error_of(node + "[1] \"S-2\"[1] # \"open\n"), "line 2: the description has no end");
  EXPECT_EQ(error_of(node + "[9] \"S-2\"[1]\n"),
            "line 2: port 9 of 0x0000000000000001, which has 8");
  EXPECT_EQ(error_of(node + "[0] \"S-2\"[1]\n"),
            "line 2: port 0 of 0x0000000000000001, which has 8");
  EXPECT_EQ(error_of(node + "[1] \"S-2\"[255]\n"),
            "line 2: port 255 of 0x0000000000000002, which has 0");
  EXPECT_EQ(error_of(node + "[1] \"S-2\"[1]\n[1] \"S-2\"[2]\n"),
            "line 3: port 1 of 0x0000000000000001 for the second time");
  EXPECT_EQ(error_of(node + "[1] \"H-2\"[1]\nSwitch 8 \"S-2\" # \"b\"\n"),
            "line 2: a link to 0x0000000000000002, which is of another kind");
  EXPECT_EQ(error_of("Switch many \"S-1\"\n"), "line 1: no number of ports");
  EXPECT_EQ(error_of("Switch 8 \"H-1\" # \"a\"\n"),
            "line 1: no node such as \"S-0002c90300000001\" behind the number of ports");
  EXPECT_EQ(error_of("vendid=2c9\n"), "line 1: no hexadecimal number behind vendid=");
  EXPECT_EQ(error_of("Switch 1234567890 \"S-1\"\n"), "line 1: no number of ports");
  EXPECT_EQ(error_of("CA 1 x\n"), "line 1: no LID, port and GUID behind the kind of node");
}

TEST(FabricText, KnowsWhenItWasTaken) {
  EXPECT_EQ(parse_fabric(kSmall)->taken_at, 0);
  setenv("TZ", "UTC", 1);
  tzset();
  const std::string stamp = "# Topology file: generated on Wed Aug  6 16:11:23 2025\n";
  EXPECT_EQ(parse_fabric(stamp + kSmall)->taken_at, 1754496683);
  setenv("TZ", "America/New_York", 1);
  tzset();
  EXPECT_EQ(parse_fabric(write_fabric(parsed(kSmall), 1754496683))->taken_at, 1754496683);
  unsetenv("TZ");
  tzset();
}

TEST(FabricText, WrittenAndReadAgainIsTheSame) {
  FabricMaker maker;
  const uint32_t leaf = maker.add(FabricKind::kSwitch, "odd \"quoted\" # name ", 8);
  const uint32_t other = maker.add(FabricKind::kSwitch, "", 8);
  const uint32_t router = maker.add(FabricKind::kRouter, "rt", 2);
  const uint32_t alone = maker.add(FabricKind::kAdapter, "alone", 2);
  maker.fabric.nodes[leaf].lid = 17;
  maker.fabric.nodes[alone].system_guid = 0;
  maker.link(leaf, 1, other, 2, "XDR");
  maker.link(leaf, 2, other, 1, "none", 0);
  maker.link(leaf, 3, leaf, 4, "FDR10", 12);
  maker.link(router, 2, other, 5, "none");
  const Fabric fabric = maker.made();
  const Fabric again = parsed(write_fabric(fabric, 0));
  EXPECT_EQ(again.nodes.size(), 4u);
  for (const FabricNode& node : fabric.nodes) {
    const FabricNode& other_node = again.nodes[again.find(node.guid)];
    EXPECT_EQ(node.description, other_node.description);
    EXPECT_EQ(node.system_guid, other_node.system_guid);
    EXPECT_EQ(node.lid, other_node.lid);
    EXPECT_EQ(node.port_count, other_node.port_count);
    ASSERT_EQ(node.ports.size(), other_node.ports.size());
    for (size_t i = 0; i < node.ports.size(); ++i) {
      EXPECT_EQ(link_name(node.ports[i]), link_name(other_node.ports[i]));
      EXPECT_EQ(fabric.nodes[node.ports[i].peer].guid, again.nodes[other_node.ports[i].peer].guid);
    }
  }
  EXPECT_EQ(write_fabric(again, 5), write_fabric(fabric, 5));
}

struct RealFile {
  const char* name;
  uint32_t switches, adapters, linked_ends, contradictions;
};

// Nodes that are only named by a link count, and links told by one end have two.
TEST(FabricText, RealFiles) {
  struct stat status;
  if (stat(shared_fabric("").c_str(), &status) != 0) GTEST_SKIP() << kNoSharedFabrics;
  for (const RealFile& file :
       std::initializer_list<RealFile>{{"topograph-example.out", 40, 582, 2228, 0},
                                       {"topograph-example-bad.out", 0, 1, 0, 0},
                                       {"superbench-ibnetdiscover.txt", 8, 11, 36, 0},
                                       {"ibtopotool-1.topo", 2, 4, 14, 0},
                                       {"ibtopotool-3.topo", 2, 6, 20, 0},
                                       {"ibexporter-test.p.out", 4, 3, 8, 0},
                                       {"ibexporter-test2.p.out", 5, 2, 4, 1},
                                       {"weird.net", 1, 6, 12, 0}}) {
    SCOPED_TRACE(file.name);
    const auto snapshot = read_fabric(shared_fabric(file.name));
    ASSERT_TRUE(snapshot) << snapshot.error();
    const Fabric& fabric = snapshot->fabric;
    EXPECT_EQ(count_of(fabric, FabricKind::kSwitch), file.switches);
    EXPECT_EQ(count_of(fabric, FabricKind::kAdapter), file.adapters);
    uint32_t ends = 0;
    for (const FabricNode& node : fabric.nodes) ends += static_cast<uint32_t>(node.ports.size());
    EXPECT_EQ(ends, file.linked_ends);
    EXPECT_EQ(snapshot->contradictions, file.contradictions);
    expect_sound(fabric);
    const std::string text = write_fabric(fabric, snapshot->taken_at);
    const auto again = parse_fabric(text);
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(write_fabric(again->fabric, again->taken_at), text);
  }
}

TEST(FabricText, FilesThatCannotBeRead) {
  EXPECT_EQ(read_fabric("no/such/file").error(), "no/such/file: No such file or directory");
  EXPECT_EQ(read_fabric("/").error(), "/: not a regular file");
}

}  // namespace
}  // namespace mfu
