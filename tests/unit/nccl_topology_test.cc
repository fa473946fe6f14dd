// NCCL's topology files: every shared one against its expected answers, and hostile ones.
#include "topology/nccl_topology.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/topology_data.hh"
#include "topology/pcie_link.hh"

namespace mfu {
namespace {

using Json = nlohmann::json;

// The words of a path are those of the bridges, all of which the answers name.
void expect_device(const PciDevice& pci, const Json& expected) {
  EXPECT_EQ(Json(pci.bus_id), expected["busid"].is_null() ? Json("") : expected["busid"]);
  EXPECT_EQ(std::to_string(pci.numa), expected["numa"]);
  EXPECT_EQ(Json(pci.bridges), expected["path"]);
  if (expected.contains("affinity") && expected["affinity"].is_string()) {
    EXPECT_EQ(pci.cpus, CpuSet::from_mask(expected["affinity"].get<std::string>()));
  }
  const Json& link = expected["link"];
  const std::string speed = link[0].is_string() ? link[0] : Json("");
  const std::string width = link[1].is_string() ? link[1] : Json("0");
  EXPECT_EQ(pci.link.speed_mts, pcie_speed_of(speed));
  EXPECT_EQ(pci.link.width, std::stoul(width));
}

TEST(NcclTopology, EqualsTheExpectedAnswersOfEveryFile) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  size_t files = 0, pairs = 0;
  for (const TopologyFile& file : topology_files("nccl")) {
    SCOPED_TRACE(file.name);
    const Json expected = Json::parse(topology_text(file.expected));
    const auto map = read_nccl_topology(topology_data() + file.name);
    ASSERT_TRUE(map) << map.error();
    ++files;
    ASSERT_EQ(map->gpus.size(), expected["gpus"].size());
    ASSERT_EQ(map->nics.size(), expected["nics"].size());
    for (size_t i = 0; i < map->gpus.size(); ++i) {
      const Json& answer = expected["gpus"][i];
      expect_device(map->gpus[i].pci, answer);
      EXPECT_EQ(map->gpus[i].cuda_index,
                answer["dev"].is_null() ? -1 : std::stoi(std::string(answer["dev"])));
    }
    for (size_t i = 0; i < map->nics.size(); ++i) {
      const Json& answer = expected["nics"][i];
      expect_device(map->nics[i].pci, answer);
      EXPECT_EQ(Json(map->nics[i].os_names), answer["nets"]);
    }
    for (const Gpu& gpu : map->gpus) {
      for (const Nic& nic : map->nics) {
        SCOPED_TRACE(gpu.pci.bus_id + " " + nic.name);
        EXPECT_EQ(distance_name(distance(*map, gpu.pci, nic.pci)),
                  expected["gpu_nic"][gpu.pci.bus_id][nic.name]);
        ++pairs;
      }
    }
  }
  EXPECT_EQ(files, 9u);
  EXPECT_EQ(pairs, 332u);
}

NodeMap map_of(const std::string& name) {
  auto map = read_nccl_topology(topology_data() + "nccl/" + name);
  EXPECT_TRUE(map) << map.error();
  return map ? *map : NodeMap();
}

TEST(NcclTopology, ReadsWhatADumpSaysOfNics) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = map_of("oci-H100-topology.xml");
  const Nic& nic = map.nics[static_cast<size_t>(map.find_nic("mlx5_1"))];
  EXPECT_EQ(nic.name, "mlx5_0");
  EXPECT_TRUE(nic.rdma);
  EXPECT_EQ(nic.node_guid, 0x946dae030050709au);  // as ibstat writes it: Mellanox's bytes first
  ASSERT_EQ(nic.ports.size(), 2u);
  EXPECT_EQ(nic.ports[0].rate_mbps, 180000u);
  EXPECT_FALSE(nic.known());  // a file does not know whether ports are up
  const NodeMap sockets = map_of("ncclrepo-ncv4-topo.xml");
  EXPECT_FALSE(sockets.nics[0].rdma);
}

TEST(NcclTopology, ReadsNvlinks) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap switched = map_of("oci-H100-topology.xml");
  ASSERT_EQ(switched.nvlinks.size(), 64u);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(switched.nvlinks[i], i / 8 != i % 8);
  const NodeMap pairs = map_of("ncclrepo-ncv4-topo.xml");
  ASSERT_EQ(pairs.nvlinks.size(), 16u);
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) EXPECT_EQ(pairs.nvlinked(a, b), a != b && a / 2 == b / 2);
  }
  EXPECT_TRUE(map_of("azure-ndv5-topo.xml").nvlinks.empty());
}

// The bus id of a switch that a virtual machine does not see.
TEST(NcclTopology, SwitchesOfAVirtualMachineJoinItsGpus) {
  auto linked = [](const std::string& target, const std::string& tclass) {
    std::string text = "<system><cpu numaid=\"0\">";
    for (const char* domain : {"0001", "0002"}) {
      text += std::string("<pci busid=\"") + domain + ":00:00.0\" class=\"0x030200\"><gpu>" +
              "<nvlink target=\"" + target + "\" count=\"18\" tclass=\"" + tclass +
              "\"/></gpu></pci>";
    }
    const auto map = parse_nccl_topology(text + "</cpu></system>", "vm");
    EXPECT_TRUE(map) << map.error();
    return map && !map->nvlinks.empty() && map->nvlinked(0, 1) && map->nvlinked(1, 0);
  };
  EXPECT_TRUE(linked("fffffff:ffff:ff", "0x068000"));
  EXPECT_TRUE(linked("0000:c4:00.0", "0x068000"));
  EXPECT_FALSE(linked("fffffff:ffff:ff", "0x060400"));
  EXPECT_FALSE(linked("fffffff:ffff:ff", ""));
}

std::string error_of(const std::string& text) {
  const auto map = parse_nccl_topology(text, "x.xml");
  return map ? "none" : map.error();
}

TEST(NcclTopology, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("<system>\n<cpu numaid=\"0\">\n</system>").rfind("x.xml: line 3: ", 0), 0u);
  EXPECT_NE(error_of("<topology version=\"2.0\"/>").find("no NCCL topology"), std::string::npos);
  EXPECT_NE(error_of("").find("x.xml: "), std::string::npos);
  EXPECT_EQ(error_of("<system/>"), "x.xml: no <cpu> in <system>");
  EXPECT_EQ(error_of("<system><cpu numaid=\"0\" affinity=\"xyz\"/></system>"),
            "x.xml: a <cpu>'s affinity is no CPU mask");
  EXPECT_EQ(error_of("<system><cpu><pci busid=\"a\nb\"/></cpu></system>"),
            "x.xml: a <pci>'s busid is \"a?b\": no PCI bus id");
}

TEST(NcclTopology, LimitsDepthAndNumber) {
  auto nested = [](size_t depth) {
    std::string text = "<system><cpu numaid=\"0\">";
    for (size_t i = 0; i < depth; ++i) text += "<pci busid=\"0000:01:00.0\" class=\"0x060400\">";
    text += "<pci busid=\"0000:02:00.0\" class=\"0x030200\"/>";
    for (size_t i = 0; i < depth; ++i) text += "</pci>";
    return text + "</cpu></system>";
  };
  EXPECT_EQ(error_of(nested(31)), "none");
  EXPECT_EQ(error_of(nested(32)), "x.xml: <pci> is nested more than 32 deep");
  EXPECT_EQ(error_of(nested(100000)), "x.xml: <pci> is nested more than 32 deep");
  std::string many = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 4097; ++i) many += "<pci busid=\"0000:01:00.0\" class=\"0x030200\"/>";
  EXPECT_EQ(error_of(many + "</cpu></system>"), "x.xml: more than 4096 devices");
  EXPECT_NE(error_of(std::string(kMostTopologyBytes + 1, ' ')).find("larger than"),
            std::string::npos);
}

TEST(PcieLink, ReadsTheKernelsWords) {
  EXPECT_EQ(pcie_speed_of("32.0 GT/s PCIe"), 32000u);
  EXPECT_EQ(pcie_speed_of("2.5 GT/s PCIe"), 2500u);
  EXPECT_EQ(pcie_speed_of("16 GT/s"), 16000u);
  for (const char* unknown :
       {"", "Unknown speed", "32", "GT/s", "32. GT/s", "99999999999 GT/s", "-1 GT/s"}) {
    EXPECT_EQ(pcie_speed_of(unknown), 0u) << unknown;
  }
  EXPECT_EQ(pcie_text(2500, 16), "2.5 GT/s x16");
  EXPECT_EQ(pcie_text(32000, 8), "32 GT/s x8");
  EXPECT_EQ(pcie_text(0, 0), "? GT/s x?");
}

}  // namespace
}  // namespace mfu
