// Pictures of a node: what is in them is what the map says, and nothing that a name smuggles in.
#include "topology/node_picture.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/topology_data.hh"
#include "topology/nccl_topology.hh"

namespace mfu {
namespace {

CpuSet cpus(const char* list) {
  return *CpuSet::from_list(list);
}

PciDevice device(const std::string& bus_id, int32_t numa, const std::string& root) {
  PciDevice pci;
  pci.bus_id = bus_id;
  pci.numa = pci.package = numa;
  pci.cpus = cpus(numa == 0 ? "0-3" : "4-7");
  pci.host_bridge = numa;
  pci.bridges = {root, root + "up", root + bus_id};
  pci.link = {32000, 16, 32000, 16};
  return pci;
}

// Two sockets, each with a switch that has a GPU and an adapter; CUDA counts against the bus.
NodeMap two_sockets() {
  NodeMap map;
  map.packages = 2;
  map.cpus = cpus("0-7");
  for (int32_t socket = 0; socket < 2; ++socket) {
    map.numa.push_back({socket, cpus(socket == 0 ? "0-3" : "4-7"), 64'000'000'000, false});
    Gpu gpu;
    gpu.pci = device(socket == 0 ? "0000:14:00.0" : "0000:94:00.0", socket, std::to_string(socket));
    gpu.cuda_index = 1 - socket;
    gpu.name = "cuda" + std::to_string(gpu.cuda_index);
    gpu.model = "NVIDIA H100 80GB HBM3";
    map.gpus.push_back(gpu);
    Nic nic;
    nic.pci = device(socket == 0 ? "0000:13:00.0" : "0000:93:00.0", socket, std::to_string(socket));
    nic.name = "mlx5_" + std::to_string(socket);
    nic.rdma = true;
    nic.node_guid = 0xe09d730000000010 + static_cast<uint64_t>(socket);
    nic.ports = {{1, PortState::kActive, "LinkUp", 7, 400000, LinkLayer::kInfiniBand}};
    map.nics.push_back(nic);
  }
  map.nics[1].ports[0] = {1, PortState::kDown, "Polling", kNoLid, 0, LinkLayer::kInfiniBand};
  map.gpus[1].pci.link.width = 8;
  map.nvlinks = {0, 1, 1, 0};
  return map;
}

TEST(NodePicture, TellsTheWholeNode) {
  EXPECT_EQ(
      draw_node(two_sockets(), "n7", 100),
      "Node n7: 2 sockets, 2 NUMA nodes, 8 CPUs; 2 GPUs, 2 RDMA adapters\n"
      "\n"
      "       cuda0  cuda1  mlx5_0  mlx5_1  NUMA  CPUs\n"
      "cuda0  X      NV     SYS     PIX     1     4-7\n"
      "cuda1  NV     X      PIX     SYS     0     0-3\n"
      "\n"
      "X itself; PIX one PCIe switch; PXB several; PHB the same host bridge; NODE the same NUMA "
      "node; SYS\n"
      "across NUMA nodes; NV joined by NVLink\n"
      "\n"
      "GPU    BUS ID        SOCKET  PCIE                       NEAREST NICS  MODEL\n"
      "cuda0  0000:94:00.0  1       32 GT/s x8 of 32 GT/s x16  mlx5_1 PIX    NVIDIA H100 80GB "
      "HBM3\n"
      "cuda1  0000:14:00.0  0       32 GT/s x16                mlx5_0 PIX    NVIDIA H100 80GB "
      "HBM3\n"
      "\n"
      "NIC     BUS ID        SOCKET  NUMA  PCIE         PORT                    NODE GUID\n"
      "mlx5_0  0000:13:00.0  0       0     32 GT/s x16  ACTIVE 400 Gb/s, LID 7  "
      "0xe09d730000000010\n"
      "mlx5_1  0000:93:00.0  1       1     32 GT/s x16  DOWN (Polling), no LID  "
      "0xe09d730000000011\n"
      "\n"
      "NUMA  MEMORY  CPUS\n"
      "0     64 GB   0-3\n"
      "1     64 GB   4-7\n");
}

TEST(NodePicture, WithoutNvlinkThePathIsTold) {
  NodeMap map = two_sockets();
  map.nvlinks = {0, 0, 0, 0};
  EXPECT_NE(draw_node(map, "n7", 100).find("cuda0  X      SYS    SYS     PIX"), std::string::npos);
  map.nvlinks.clear();  // unknown
  EXPECT_NE(draw_node(map, "n7", 100).find("cuda0  X      SYS    SYS     PIX"), std::string::npos);
}

TEST(NodePicture, NamelessDevicesAreNumberedByTheBus) {
  NodeMap map = two_sockets();
  std::swap(map.gpus[0], map.gpus[1]);
  for (Gpu& gpu : map.gpus) {
    gpu.name = "pci:" + gpu.pci.bus_id;
    gpu.cuda_index = -1;
  }
  for (Nic& nic : map.nics) nic.name = nic.pci.bus_id;
  EXPECT_EQ(gpu_order(map), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(gpu_labels(map), (std::vector<std::string>{"GPU1", "GPU0"}));
  EXPECT_EQ(nic_labels(map), (std::vector<std::string>{"NIC0", "NIC1"}));
}

TEST(NodePicture, AdaptersAreInNaturalOrderThoseWithoutRdmaLast) {
  NodeMap map;
  for (const char* name : {"eth0", "mlx5_10", "mlx5_2"}) {
    Nic& nic = map.nics.emplace_back();
    nic.name = name;
    nic.rdma = nic.name != "eth0";
  }
  EXPECT_EQ(nic_order(map), (std::vector<size_t>{2, 1, 0}));
}

TEST(NodePicture, AWideMatrixIsToldInParts) {
  NodeMap map;
  for (int i = 0; i < 8; ++i) {
    Gpu gpu;
    gpu.pci = device("0000:1" + std::to_string(i) + ":00.0", i / 4, std::to_string(i));
    gpu.name = "cuda" + std::to_string(i);
    map.gpus.push_back(gpu);
    Nic nic;
    nic.pci = device("0000:2" + std::to_string(i) + ":00.0", i / 4, std::to_string(i));
    nic.name = "mlx5_" + std::to_string(i);
    nic.rdma = true;
    map.nics.push_back(nic);
  }
  for (const size_t columns : {60, 80, 120, 200}) {
    std::istringstream text(draw_node(map, "n", columns));
    std::string line;
    int heads = 0, rows = 0;
    std::string columns_told;
    while (std::getline(text, line) && !line.starts_with("X itself")) {
      rows += line.starts_with("cuda7");
      if (line.starts_with("     ")) {
        ++heads;
        columns_told += line.substr(line.find_first_not_of(' ')) + "  ";
      }
      EXPECT_TRUE(line.size() <= columns || line.starts_with("Node")) << line;
    }
    EXPECT_EQ(heads == 1, columns == 200) << columns;
    EXPECT_EQ(rows, heads);
    EXPECT_EQ(
        columns_told,
        "cuda0  cuda1  cuda2  cuda3  cuda4  cuda5  cuda6  cuda7  mlx5_0  mlx5_1  mlx5_2  mlx5_3  "
        "mlx5_4  mlx5_5  mlx5_6  mlx5_7  NUMA  CPUs  ");
  }
}

TEST(NodePicture, TellsPorts) {
  Nic nic;
  EXPECT_EQ(ports_text(nic), "unknown");
  nic.ports = {{1, PortState::kActive, "LinkUp", 0, 25000, LinkLayer::kEthernet},
               {2, PortState::kInit, "LinkUp", kNoLid, 0, LinkLayer::kInfiniBand}};
  EXPECT_EQ(ports_text(nic), "port 1 ACTIVE 25 Gb/s Ethernet; port 2 INIT (LinkUp), no LID");
  EXPECT_STREQ(nic_state(nic), "ACTIVE");
  nic.ports[0].state = PortState::kDown;
  EXPECT_STREQ(nic_state(nic), "DOWN");
}

TEST(NodePicture, HostileNamesStayText) {
  NodeMap map = two_sockets();
  const std::string hostile = "\x1b[31m</text><script>'\"&\xff";
  map.gpus[0].model = map.gpus[0].name = map.nics[0].name = hostile;
  map.gpus[0].pci.bus_id = map.nics[0].ports[0].physical = hostile;
  for (const std::string& text : {draw_node(map, hostile, 100), draw_node_svg(map, hostile)}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
  const std::string svg = draw_node_svg(map, hostile);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("?[31m&lt;/text&gt;&lt;script&gt;&#39;&quot;&amp;?"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(node_json(map, hostile)));
}

TEST(NodePicture, SvgColoursPortsAndJoinsGpus) {
  const std::string svg = draw_node_svg(two_sockets(), "n7");
  auto count = [&svg](const std::string& part) {
    size_t found = 0;
    for (size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<rect class=\"gpu\""), 2);
  EXPECT_EQ(count("<rect class=\"nic\""), 1);
  EXPECT_EQ(count("<rect class=\"nic-down\""), 1);
  EXPECT_EQ(count("<rect class=\"switch\""), 2);
  EXPECT_EQ(count("<line class=\"nvlink\""), 2);
  EXPECT_EQ(count("NVLink between all 2 GPUs"), 1);
  EXPECT_EQ(count("http"), 1);  // the name space: nothing is loaded
}

TEST(NodePicture, JsonHasWhatTheMapHas) {
  const auto json = nlohmann::json::parse(node_json(two_sockets(), "n7"));
  EXPECT_EQ(json["node"], "n7");
  EXPECT_EQ(json["numa"][1]["cpus"], "4-7");
  const auto& gpu = json["gpus"][0];
  EXPECT_EQ(gpu["name"], "cuda0");
  EXPECT_EQ(gpu["uuid"], nullptr);
  EXPECT_EQ(gpu["pcie"]["lanes"], 8);
  EXPECT_EQ(gpu["pcie"]["most_lanes"], 16);
  EXPECT_EQ(gpu["nic_distances"]["mlx5_0"], "SYS");
  EXPECT_EQ(gpu["gpu_distances"]["cuda1"], "SYS");
  EXPECT_EQ(gpu["nvlinks"], nlohmann::json::array({"cuda1"}));
  EXPECT_EQ(json["nics"][1]["state"], "DOWN");
  EXPECT_EQ(json["nics"][1]["ports"][0]["lid"], nullptr);
  EXPECT_EQ(json["nics"][0]["ports"][0]["rate_mbps"], 400000);
}

TEST(NodePicture, EmptyMapsHavePictures) {
  EXPECT_EQ(draw_node({}, "n", 80), "Node n: 0 NUMA nodes, 0 CPUs; 0 GPUs, 0 RDMA adapters\n");
  EXPECT_TRUE(draw_node_svg({}, "n").ends_with("</svg>\n"));
  EXPECT_TRUE(nlohmann::json::accept(node_json({}, "n")));
}

TEST(NodePicture, RealNode) {
  if (!has_topology_data()) GTEST_SKIP() << kNoTopologyData;
  const auto map = read_node_map(topology_data() + "hwloc/fluxcore-ipa20.xml");
  ASSERT_TRUE(map) << map.error();
  const std::string text = draw_node(*map, "ipa20", 100);
  for (const char* line :
       {"cuda2  NV     NV     X      NV     SYS     SYS     SYS     SYS     7     98-111,210-223\n",
        "cuda2  0000:cb:00.0  1       ?     none nearer than SYS  NVIDIA H100 80GB HBM3\n",
        "mlx5_3   0000:da:00.0  1       5     ?     DOWN, no LID    0xa088c20300097012\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace mfu
