// Nodes from hwloc's XML: every shared file against its expected answers, which an independent
// program derived, and what those do not say.
#include "topology/node_map.hh"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/unit/topology_data.hh"

namespace mfu {
namespace {

using Json = nlohmann::json;

std::string hex4(uint16_t value) {
  char text[8];
  snprintf(text, sizeof text, "%04x", value);
  return text;
}

std::string guid_text(uint64_t guid) {
  char text[24];
  snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
           static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
           static_cast<unsigned>(guid & 0xffff));
  return text;
}

void expect_device(const PciDevice& pci, const Json& expected) {
  EXPECT_EQ(pci.bus_id, expected["busid"]);
  EXPECT_EQ(hex4(pci.pci_class), expected["class"]);
  EXPECT_EQ(hex4(pci.vendor), expected["vendor"]);
  EXPECT_EQ(hex4(pci.device), expected["device"]);
  EXPECT_EQ(std::to_string(pci.numa), expected["numa"]);
  EXPECT_EQ(pci.cpus.text(), expected["cpuset"]);
}

std::set<std::string> names(const std::vector<std::string>& list) {
  return {list.begin(), list.end()};
}

// 64-bit numbers only where JSON has such; the answers repeat keys, of which the last one counts.
void expect_gpu(const Gpu& gpu, const Json& expected) {
  expect_device(gpu.pci, expected);
  EXPECT_EQ(gpu.name, expected["name"]);
  EXPECT_EQ(names(gpu.os_names), names(expected["osdevs"]));
  EXPECT_EQ(gpu.model, expected.value("GPUModel", ""));
  EXPECT_EQ(gpu.uuid, expected.value("NVIDIAUUID", ""));
}

void expect_nic(const Nic& nic, const Json& expected) {
  expect_device(nic.pci, expected);
  EXPECT_EQ(nic.name, expected["name"]);
  EXPECT_EQ(names(nic.os_names), names(expected["osdevs"]));
  EXPECT_EQ(nic.rdma, expected.contains("NodeGUID"));
  if (!nic.rdma) return;
  EXPECT_EQ(guid_text(nic.node_guid), expected["NodeGUID"]);
  EXPECT_EQ(guid_text(nic.system_guid), expected["SysImageGUID"]);
  ASSERT_FALSE(nic.ports.empty());
  EXPECT_EQ(nic.ports[0].number, 1u);
  EXPECT_EQ(nic.ports[0].lid, std::stoul(expected["Port1LID"].get<std::string>(), nullptr, 16));
  EXPECT_EQ(
      nic.ports[0].state,
      port_state_of(static_cast<uint32_t>(std::stoul(expected["Port1State"].get<std::string>()))));
}

void expect_nearest(const NodeMap& map, const Json& expected) {
  for (const Gpu& gpu : map.gpus) {
    const Json& answer = expected[gpu.pci.bus_id];
    Distance best = Distance::kSys;
    bool any = false;
    for (const Nic& nic : map.nics) {
      if (!nic.rdma) continue;
      best =
          any ? std::min(best, distance(map, gpu.pci, nic.pci)) : distance(map, gpu.pci, nic.pci);
      any = true;
    }
    std::vector<std::string> nearest;
    for (const Nic& nic : map.nics) {
      if (nic.rdma && distance(map, gpu.pci, nic.pci) == best) nearest.push_back(nic.name);
    }
    EXPECT_EQ(Json(nearest), answer["nics"]);
    EXPECT_EQ(any ? Json(distance_name(best)) : Json(), answer["distance"]);
  }
}

TEST(NodeMap, EqualsTheExpectedAnswersOfEveryFile) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  size_t files = 0, pairs = 0;
  std::vector<TopologyFile> all = topology_files("hwloc");
  for (const char* name :
       {"hwloc/fsroot-hwloc-nvidia-dgx-gb10", "hwloc/fsroot-hwloc-nvidiagpunumanodes"}) {
    all.push_back({std::string(name) + ".xml", std::string(name) + ".expected.json"});
  }
  for (const TopologyFile& file : all) {
    const std::string answers = file.expected.empty() ? "" : topology_text(file.expected);
    if (answers.empty()) continue;  // rejected, or not given
    SCOPED_TRACE(file.name);
    const Json expected = Json::parse(answers);
    const auto map = read_node_map(topology_data() + file.name);
    ASSERT_TRUE(map) << map.error();
    ++files;
    EXPECT_EQ(map->cpus.count(), expected["pus"]);
    EXPECT_EQ(map->numa.size(), expected["numanodes"]);
    EXPECT_EQ(map->packages, expected["packages"]);
    ASSERT_EQ(map->gpus.size(), expected["gpus"].size());
    ASSERT_EQ(map->nics.size(), expected["nics"].size());
    for (size_t i = 0; i < map->gpus.size(); ++i) expect_gpu(map->gpus[i], expected["gpus"][i]);
    for (size_t i = 0; i < map->nics.size(); ++i) expect_nic(map->nics[i], expected["nics"][i]);
    for (const Gpu& gpu : map->gpus) {
      for (const Nic& nic : map->nics) {
        SCOPED_TRACE(gpu.name + " " + nic.name);
        EXPECT_EQ(distance_name(distance(*map, gpu.pci, nic.pci)),
                  expected["gpu_nic"][gpu.pci.bus_id][nic.pci.bus_id]);
        EXPECT_EQ(distance(*map, gpu.pci, nic.pci), distance(*map, nic.pci, gpu.pci));
        ++pairs;
      }
      for (const Gpu& other : map->gpus) {
        SCOPED_TRACE(gpu.name + " " + other.name);
        EXPECT_EQ(distance_name(distance(*map, gpu.pci, other.pci)),
                  expected["gpu_gpu"][gpu.pci.bus_id][other.pci.bus_id]);
        ++pairs;
      }
    }
    expect_nearest(*map, expected["nearest_rdma"]);
  }
  EXPECT_EQ(files, 20u);
  EXPECT_EQ(pairs, 1014u);
}

NodeMap map_of(const std::string& name) {
  auto map = read_node_map(topology_data() + "hwloc/" + name);
  EXPECT_TRUE(map) << map.error();
  return map ? *map : NodeMap();
}

TEST(NodeMap, CountsTheBridgesBetweenDevices) {
  NodeMap map;
  auto device = [](const char* bus_id, int bridge, int numa, std::vector<std::string> bridges) {
    PciDevice pci;
    pci.bus_id = bus_id;
    pci.host_bridge = bridge;
    pci.numa = numa;
    pci.bridges = std::move(bridges);
    return pci;
  };
  const PciDevice a = device("0000:04:00.0", 1, 0, {"root", "up", "down1"});
  auto from_a = [&](const PciDevice& other) { return distance_name(distance(map, a, other)); };
  EXPECT_STREQ(from_a(a), "SELF");
  EXPECT_STREQ(from_a(device("0000:04:00.1", 1, 0, {"root", "up", "down1"})), "PIX");
  EXPECT_STREQ(from_a(device("0000:05:00.0", 1, 0, {"root", "up", "down2"})), "PIX");
  EXPECT_STREQ(from_a(device("0000:08:00.0", 1, 0, {"root", "up", "down2", "up2"})), "PXB");
  EXPECT_STREQ(from_a(device("0000:08:00.0", 1, 0, {"root", "up", "down2", "up2", "d"})), "PXB");
  EXPECT_STREQ(from_a(device("0000:09:00.0", 1, 0, {"other root"})), "PHB");
  EXPECT_STREQ(from_a(device("0000:09:00.0", 1, 0, {})), "PHB");
  EXPECT_STREQ(from_a(device("0001:04:00.0", 2, 0, {"root", "up", "down1"})), "NODE");
  EXPECT_STREQ(from_a(device("0001:04:00.0", 2, 1, {})), "SYS");
  // Nobody knows where: not the same place.
  const PciDevice unknown = device("0002:04:00.0", -1, -1, {});
  EXPECT_EQ(distance(map, unknown, device("0003:04:00.0", -1, -1, {})), Distance::kSys);
}

TEST(NodeMap, TellsTheMemoryOfGpusFromNodesWithCpus) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = map_of("fluxcore-sierra.xml");
  std::vector<int> with_cpus, of_gpus;
  for (const NumaNode& node : map.numa) {
    (node.gpu_memory ? of_gpus : with_cpus).push_back(node.os_index);
  }
  EXPECT_EQ(with_cpus, (std::vector<int>{0, 8}));
  EXPECT_EQ(of_gpus, (std::vector<int>{252, 253, 254, 255}));
  EXPECT_EQ(map.numa[0].cpus.text(), "0-87");
}

// hwloc 2 gives such a node the CPUs of its place: it must not make a GPU's own node ambiguous.
TEST(NodeMap, KeepsTheNodeOfAGpuBesideItsMemory) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  std::string text = topology_text("hwloc/synth-gb200.xml");
  const size_t node = text.find("<object type=\"NUMANode\"");
  const size_t end = text.find("</object>", node);
  ASSERT_NE(end, std::string::npos);
  std::string memory = text.substr(node, text.find('>', node) - node) + "/>";
  auto put = [&memory](const std::string& from, const std::string& to) {
    const size_t at = memory.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    memory.replace(at, from.size(), to);
  };
  put("os_index=\"0\"", "subtype=\"GPUMemory\" os_index=\"2\"");
  put(" nodeset=\"0x00000001\"", " nodeset=\"0x00000004\"");
  put("complete_nodeset=\"0x00000001\"", "complete_nodeset=\"0x00000004\"");
  put("gp_index=\"", "gp_index=\"9");
  text.insert(end + 9, memory);
  const auto map = node_map_from_xml(text, "gb200 with memory");
  ASSERT_TRUE(map) << map.error();
  ASSERT_EQ(map->numa.size(), 3u);
  size_t of_gpus = 0;
  for (const NumaNode& of : map->numa) {
    if (!of.gpu_memory) continue;
    ++of_gpus;
    EXPECT_EQ(of.os_index, 2);
    EXPECT_FALSE(of.cpus.empty());
  }
  EXPECT_EQ(of_gpus, 1u);
  for (const Gpu& gpu : map->gpus) EXPECT_EQ(gpu.pci.numa, gpu.pci.package);
}

TEST(NodeMap, KnowsSocketsBehindNumaNodes) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = map_of("fluxcore-ipa20.xml");
  ASSERT_EQ(map.gpus.size(), 4u);
  for (const Gpu& gpu : map.gpus) {
    EXPECT_EQ(gpu.pci.package, gpu.pci.numa < 4 ? 0 : 1) << gpu.name;
    EXPECT_FALSE(gpu.coherent);
  }
  EXPECT_EQ(map.gpus[1].cuda_index, 0);
  const Nic& down = map.nics[static_cast<size_t>(map.find_nic("mlx5_2"))];
  EXPECT_FALSE(down.active());
  EXPECT_TRUE(down.known());
  EXPECT_EQ(down.ports[0].state, PortState::kDown);
  EXPECT_EQ(down.ports[0].lid, kNoLid);
  EXPECT_EQ(map.find_nic("ibp94s0"), map.find_nic("mlx5_2"));
  EXPECT_EQ(map.find_nic("mlx5_9"), -1);
}

TEST(NodeMap, ReadsNvlinksBetweenGpusAndThroughSwitches) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap pairs = map_of("hwloc-power8gpudistances.xml");
  ASSERT_EQ(pairs.nvlinks.size(), 16u);
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) EXPECT_EQ(pairs.nvlinked(a, b), a != b && a / 2 == b / 2);
  }
  const NodeMap switched = map_of("hwloc-nvidiaDGX2.xml");
  ASSERT_EQ(switched.nvlinks.size(), 256u);
  for (size_t a = 0; a < 16; ++a) {
    for (size_t b = 0; b < 16; ++b) EXPECT_EQ(switched.nvlinked(a, b), a != b) << a << ' ' << b;
  }
  EXPECT_TRUE(map_of("synth-dgxh100.xml").nvlinks.empty());
}

TEST(NodeMap, SeesACpuBehindNvlink) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = map_of("synth-gb200.xml");
  ASSERT_EQ(map.gpus.size(), 4u);
  for (const Gpu& gpu : map.gpus) EXPECT_TRUE(gpu.coherent);
  for (const Gpu& gpu : map_of("synth-dgxh100.xml").gpus) EXPECT_FALSE(gpu.coherent);
}

TEST(NodeMap, TakesAnEfaWithoutAGuid) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const NodeMap map = map_of("mpibind-g4dnmetal.xml");
  const Nic& efa = map.nics[static_cast<size_t>(map.find_nic("rdmap197s0"))];
  EXPECT_TRUE(efa.rdma);
  EXPECT_EQ(efa.node_guid, 0u);
  EXPECT_TRUE(efa.active());
  EXPECT_FALSE(map.nics[static_cast<size_t>(map.find_nic("eth0"))].rdma);
}

TEST(NodeMap, FindsGpusByEverySpelling) {
  NodeMap map;
  for (const char* id : {"0000:4e:00.0", "0009:01:00.0", "10000:01:00.0"}) {
    map.gpus.emplace_back().pci.bus_id = id;
  }
  map.gpus[0].uuid = "GPU-029490c8-a116-638b-7018-1a6b7a9002ef";
  map.gpus[1].uuid = "GPU-029490c9-a116-638b-7018-1a6b7a9002ef";
  EXPECT_EQ(map.find_gpu("00000000:4E:00.0"), 0);
  EXPECT_EQ(map.find_gpu("4e:00.0"), 0);
  EXPECT_EQ(map.find_gpu("00000009:01:00.0"), 1);
  EXPECT_EQ(map.find_gpu("10000:01:00.0"), 2);
  EXPECT_EQ(map.find_gpu("GPU-029490c9"), 1);
  EXPECT_EQ(map.find_gpu("GPU-029490c"), -1);  // two begin so
  EXPECT_EQ(map.find_gpu("GPU-"), -1);
  EXPECT_EQ(map.find_gpu(""), -1);
  for (const char* wrong : {"0000:4e:00", "0000:4e:00.8", "0000:4e:20.0", "0000:100:00.0", "4e",
                            "0000:4e:00.0 ", "-1:4e:00.0", "::.", "0000:4e:00.0:1"}) {
    EXPECT_EQ(canonical_bus_id(wrong), "") << wrong;
  }
}

TEST(NodeMap, RefusesTheNextFormatByName) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const auto map = read_node_map(topology_data() + "hwloc/hwloc-nvidiaDGX2.xmlv3.xml");
  ASSERT_FALSE(map);
  EXPECT_NE(map.error().find("hwloc-nvidiaDGX2.xmlv3.xml: is of hwloc's XML format 3.0"),
            std::string::npos)
      << map.error();
  EXPECT_NE(map.error().find("--export-xml-flags v2"), std::string::npos);
}

TEST(NodeMap, RefusesWhatIsNoTopology) {
  auto error = [](const std::string& text) {
    const auto map = node_map_from_xml(text, "x.xml");
    return map ? std::string("none") : map.error();
  };
  EXPECT_NE(error("").find("x.xml: no hwloc topology"), std::string::npos);
  EXPECT_NE(error("<system version=\"1\"/>").find("no hwloc topology"), std::string::npos);
  EXPECT_NE(error("<topology version=\"2.0\">").find("x.xml: hwloc cannot read it"),
            std::string::npos);
  EXPECT_NE(error("<!DOCTYPE t [<!ENTITY a \"b\">]><topology version=\"2.0\"/>").find("entities"),
            std::string::npos);
  EXPECT_NE(error("<topology " + std::string(kMostTopologyBytes, ' ')).find("larger than 16777216"),
            std::string::npos);
  EXPECT_NE(read_node_map("/nonexistent/x.xml").error().find("No such file"), std::string::npos);
  EXPECT_NE(read_node_map("/dev/zero").error().find("not a regular file"), std::string::npos);
}

// hwloc itself crashes on some of these.
TEST(NodeMap, SurvivesDamagedFiles) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const std::string path = "/tmp/mfu-damaged-" + std::to_string(getpid()) + ".xml";
  std::mt19937 random(7);
  size_t crashes = 0;
  for (const char* name : {"synth-gb200", "mpibind-cts1-pascal", "hwloc-nvidiaDGX2"}) {
    const std::string whole = topology_text(std::string("hwloc/") + name + ".xml");
    for (int variant = 0; variant < 60; ++variant) {
      std::string text = whole;
      for (size_t change = 1 + random() % 6; change > 0; --change) {
        const size_t at = random() % text.size();
        const auto kind = random() % 3;
        if (kind == 0) text[at] = static_cast<char>(' ' + random() % 95);
        if (kind == 1) text.erase(at, random() % 40);
        if (kind == 2) text.insert(at, text.substr(random() % text.size(), random() % 60));
      }
      std::ofstream(path) << text;
      const auto map = read_node_map(path);
      crashes += !map && map.error().find("hwloc ends by signal") != std::string::npos;
    }
  }
  std::remove(path.c_str());
  RecordProperty("crashes", static_cast<int>(crashes));
}

TEST(NodeMap, SurvivesEveryFileCutAnywhere) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const std::string text = topology_text("hwloc/mpibind-cts1-pascal.xml");
  ASSERT_FALSE(text.empty());
  for (size_t end = 0; end + 20 < text.size(); end += 997) {
    EXPECT_FALSE(node_map_from_xml(std::string_view(text).substr(0, end), "cut")) << end;
  }
}

}  // namespace
}  // namespace mfu
