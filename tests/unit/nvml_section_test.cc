// NVML's word as text behind hwloc's XML: written and read, kept with it, and asked for by the
// program itself.
#include "topology/nvml_section.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/node_capture.hh"
#include "topology/child_output.hh"
#include "topology/node_discovery.hh"
#include "topology/nvml_command.hh"

namespace mfu {
namespace {

constexpr char kFirst[] = "0000:1b:00.0";
constexpr char kSecond[] = "0000:2b:00.0";

NodeMap two_gpus() {
  NodeMap map;
  for (const char* id : {kSecond, kFirst}) {
    Gpu gpu;
    gpu.pci.bus_id = id;
    gpu.pci.vendor = kNvidia;
    map.gpus.push_back(std::move(gpu));
  }
  return map;
}

std::vector<NvmlGpu> told() {
  return {{kFirst, "GPU-1", 3, "ab-cd.7", "", std::vector<std::string>{kSecond}},
          {kSecond, "", -1, "", "in-progress", std::vector<std::string>{}}};
}

TEST(NvmlSection, IsReadAsItWasWritten) {
  const std::string text = write_nvml_section(told());
  EXPECT_EQ(text,
            "\n<!-- mfu-nvml\n"
            "0000:1b:00.0 uuid=GPU-1 minor=3 clique=ab-cd.7 nvlinks=0000:2b:00.0\n"
            "0000:2b:00.0 fault=in-progress nvlinks=none\n"
            "-->\n");
  NodeMap map = two_gpus();
  map.gpus[0].uuid = "GPU-of-hwloc";
  read_nvml_section("<topology/>" + text, &map);
  EXPECT_EQ(map.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(map.gpus[1].minor, 3);
  EXPECT_EQ(map.gpus[1].clique, "ab-cd.7");
  EXPECT_EQ(map.gpus[1].fabric_fault, "");
  EXPECT_EQ(map.gpus[0].uuid, "GPU-of-hwloc");
  EXPECT_EQ(map.gpus[0].minor, -1);
  EXPECT_EQ(map.gpus[0].fabric_fault, "in-progress");
  EXPECT_EQ(map.nvlinks, (std::vector<uint8_t>{0, 0, 1, 0}));
  EXPECT_EQ(write_nvml_section({}), "");
}

TEST(NvmlSection, NeverEndsTheComment) {
  std::vector<NvmlGpu> gpus = told();
  gpus[0].uuid = "GPU--><x/>";
  EXPECT_EQ(write_nvml_section(gpus).find("<x/>"), std::string::npos);
}

TEST(NvmlSection, LinksAreUnknownUnlessEachGpusAre) {
  std::vector<NvmlGpu> gpus = told();
  gpus[1].nvlinked.reset();
  NodeMap map = two_gpus();
  map.nvlinks = {0, 1, 1, 0};  // hwloc's own
  read_nvml_section(write_nvml_section(gpus), &map);
  EXPECT_EQ(map.nvlinks, (std::vector<uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(map.gpus[1].clique, "ab-cd.7");
  // Of others than NVIDIA's nothing is to be told.
  map.gpus[0].pci.vendor = 0x1002;
  gpus.pop_back();
  gpus[0].nvlinked->clear();
  read_nvml_section(write_nvml_section(gpus), &map);
  EXPECT_EQ(map.nvlinks, std::vector<uint8_t>(4, 0));
}

TEST(NvmlSection, InMigModeLinksAreUnknownToHwlocToo) {
  std::vector<NvmlGpu> gpus = told();
  for (NvmlGpu& gpu : gpus) gpu.nvlinked.reset();
  gpus[1].mig = true;
  const std::string text = write_nvml_section(gpus);
  EXPECT_NE(text.find("0000:2b:00.0 fault=in-progress mig=on\n"), std::string::npos) << text;
  NodeMap map = two_gpus();
  map.nvlinks.assign(4, 0);  // hwloc's own
  read_nvml_section(text, &map);
  EXPECT_TRUE(map.nvlinks.empty());
  EXPECT_EQ(map.gpus[1].uuid, "GPU-1");
  EXPECT_TRUE(nvml_section_ages(map));
}

TEST(NvmlSection, IsNotAskedForWithoutTimeThatIsLeft) {
  using std::chrono::milliseconds;
  EXPECT_EQ(nvml_limit(milliseconds(0)), milliseconds(900));
  EXPECT_EQ(nvml_limit(milliseconds(300)), milliseconds(900));
  EXPECT_EQ(nvml_limit(milliseconds(700)), milliseconds(500));
  EXPECT_EQ(nvml_limit(milliseconds(1200)), milliseconds(0));
  EXPECT_EQ(nvml_limit(milliseconds(60000)), milliseconds(0));
  EXPECT_EQ(nvml_section(two_gpus(), nvml_limit(milliseconds(5000))), "");
}

TEST(NvmlSection, NonsenseIsLeftOut) {
  for (const std::string text :
       {"", "\n<!-- mfu-nvml", "\n<!-- mfu-nvml\n", "\n<!-- mfu-nvml\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0", "\n<!-- mfu-nvml\nnothing uuid=GPU-1\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 uuid\n-->\n", "\n<!-- mfu-nvml\n0000:1b:00.0 =\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 uuid=<a>\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 minor=-5\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 minor=1x\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 minor=99999999999\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 clique=a\tb color=red\n-->\n",
        "\n<!-- mfu-nvml\n0000:1b:00.0 nvlinks=0000:2b:00.0\n-->\n"}) {
    SCOPED_TRACE(text);
    NodeMap map = two_gpus();
    read_nvml_section(text, &map);
    for (const Gpu& gpu : map.gpus) {
      EXPECT_EQ(gpu.uuid + gpu.clique + gpu.fabric_fault, "");
      EXPECT_EQ(gpu.minor, -1);
    }
    EXPECT_TRUE(map.nvlinks.empty());
  }
  const std::string unclosed = "\n<!-- mfu-nvml\n0000:1b:00.0 clique=" + std::string(97, 'a');
  NodeMap map = two_gpus();
  read_nvml_section(unclosed, &map);
  EXPECT_EQ(map.gpus[1].clique, "");
}

TEST(NvmlSection, AHostileFileDoesNotCostTheSquareOfItsGpus) {
  NodeMap map = two_gpus();
  map.gpus.resize(1025, map.gpus[0]);
  read_nvml_section(write_nvml_section(told()), &map);
  EXPECT_EQ(map.gpus[1].uuid, "");
}

TEST(NvmlSection, AgesWhereThereIsAFabricOrNothingIsKnown) {
  NodeMap map;
  EXPECT_FALSE(nvml_section_ages(map));
  map = two_gpus();
  EXPECT_TRUE(nvml_section_ages(map));
  map.nvlinks.assign(4, 0);
  EXPECT_FALSE(nvml_section_ages(map));
  map.gpus[0].clique = "ab.1";
  EXPECT_TRUE(nvml_section_ages(map));
  map.gpus[0].clique = "";
  map.gpus[0].fabric_fault = "not-started";
  EXPECT_TRUE(nvml_section_ages(map));
}

// ---- with a captured machine, to which two GPUs of the fake library are added ----

class Captured : public ::testing::Test {
 protected:
  Captured() {
    for (const char* id : {kFirst, kSecond}) {
      const std::string folder = std::string("/sys/bus/pci/devices/") + id + "/";
      capture.write(folder + "class", "0x030200\n");
      capture.write(folder + "vendor", "0x10de\n");
      capture.write(folder + "device", "0x2330\n");
      capture.write(folder + "config", std::string(64, '\0'));
    }
    for (const char* id : NodeCapture::kGpu) {
      capture.remove(std::string("/sys/bus/pci/devices/") + id);
    }
    discovery.limit = std::chrono::seconds(60);
    discovery.cache = capture.root() + "/node.xml";
    discovery.root = capture.root();
  }
  // What this program says of the capture, with a fake NVML or with none.
  std::vector<std::string> program(const std::string& libraries) const {
    return {"/usr/bin/env",
            "HWLOC_FSROOT=" + capture.root(),
            "LD_LIBRARY_PATH=" + libraries,
            BUILD_FOLDER "/mfu-topo",
            "show",
            "--xml",
            "--limit",
            "60"};
  }
  const Gpu& gpu_of(const NodeMap& map, const char* id) const {
    return map.gpus.at(static_cast<size_t>(map.find_gpu(id)));
  }
  // A program that prints the capture's XML and this, and counts how often it is asked.
  void says(const std::string& section) {
    const auto xml = child_output(program(""), discovery.limit, kMostTopologyBytes);
    ASSERT_TRUE(xml) << xml.error();
    capture.write("/xml", *xml + section);
    discovery.command = {"/bin/sh", "-c",
                         "echo x >> " + capture.root() + "/asked; cat " + capture.root() + "/xml"};
  }
  size_t asked() const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(capture.root() + "/asked", none);
    return none ? 0 : bytes / 2;
  }
  void age(long seconds) const {
    const timespec then = {time(nullptr) - seconds, 0};
    const timespec both[] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, discovery.cache.c_str(), both, 0), 0);
  }

  NodeCapture capture;
  NodeDiscovery discovery;
};

TEST_F(Captured, TheProgramAsksNvml) {
  const std::string fakes = std::filesystem::absolute(BUILD_FOLDER "/tests/fake");
  discovery.command = program(fakes);
  for (int turn = 0; turn < 2; ++turn) {  // by the program, and from the cache
    const auto map = discover_node(discovery);
    ASSERT_TRUE(map) << map.error();
    ASSERT_EQ(map->gpus.size(), 2u);
    EXPECT_EQ(map->nvlinks, (std::vector<uint8_t>{0, 1, 1, 0}));
    EXPECT_EQ(gpu_of(*map, kFirst).minor, 0);
    EXPECT_EQ(gpu_of(*map, kSecond).minor, 1);
    EXPECT_TRUE(gpu_of(*map, kSecond).uuid.starts_with("GPU-"));
    discovery.command = {"/bin/false"};
  }
  // hwloc reads the cache as before.
  const auto map = read_node_map(discovery.cache);
  ASSERT_TRUE(map) << map.error();
  EXPECT_FALSE(map->nvlinks.empty());
}

TEST_F(Captured, WithoutNvmlTheMapIsAsBefore) {
  discovery.command = program("/nonexistent");
  const auto map = discover_node(discovery);
  ASSERT_TRUE(map) << map.error();
  ASSERT_EQ(map->gpus.size(), 2u);
  EXPECT_TRUE(map->nvlinks.empty());
  EXPECT_EQ(map->gpus[0].minor, -1);
}

TEST_F(Captured, ACliqueIsAskedForAgain) {
  says("\n<!-- mfu-nvml\n0000:1b:00.0 clique=ab.1 nvlinks=none\n0000:2b:00.0 nvlinks=none\n-->\n");
  EXPECT_EQ(gpu_of(discover_node(discovery).value(), kFirst).clique, "ab.1");
  age(3500);
  EXPECT_EQ(gpu_of(discover_node(discovery).value(), kFirst).clique, "ab.1");
  EXPECT_EQ(asked(), 1u);
  says("\n<!-- mfu-nvml\n0000:1b:00.0 clique=ab.2 nvlinks=none\n0000:2b:00.0 nvlinks=none\n-->\n");
  age(3700);
  EXPECT_EQ(gpu_of(discover_node(discovery).value(), kFirst).clique, "ab.2");
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(gpu_of(discover_node(discovery).value(), kFirst).clique, "ab.2");
  EXPECT_EQ(asked(), 2u);
}

// Links that a GPU in MIG mode hides come back without a boot.
TEST_F(Captured, LinksAreAskedForAgainWhereAGpuWasInMigMode) {
  says("\n<!-- mfu-nvml\n0000:1b:00.0 minor=0 mig=on\n0000:2b:00.0 minor=1\n-->\n");
  EXPECT_TRUE(discover_node(discovery).value().nvlinks.empty());
  age(3500);
  EXPECT_TRUE(discover_node(discovery).value().nvlinks.empty());
  EXPECT_EQ(asked(), 1u);
  says(
      "\n<!-- mfu-nvml\n0000:1b:00.0 nvlinks=0000:2b:00.0\n"
      "0000:2b:00.0 nvlinks=0000:1b:00.0\n-->\n");
  age(3700);
  EXPECT_EQ(discover_node(discovery).value().nvlinks, (std::vector<uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(asked(), 2u);
}

// A file of the version before is good, and asked for again after an hour.
TEST_F(Captured, AnOldCacheHolds) {
  says("");
  ASSERT_TRUE(discover_node(discovery));
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 1u);
  says("\n<!-- mfu-nvml\n0000:1b:00.0 nvlinks=none\n0000:2b:00.0 nvlinks=none\n-->\n");
  age(3700);
  EXPECT_FALSE(discover_node(discovery).value().nvlinks.empty());
  EXPECT_EQ(asked(), 2u);
  age(100000);  // no fabric: nothing changes without a boot
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
}

TEST_F(Captured, WhenAskingFailsTheRestHolds) {
  says(
      "\n<!-- mfu-nvml\n0000:1b:00.0 uuid=GPU-1 clique=ab.1 nvlinks=none\n"
      "0000:2b:00.0 fault=in-progress nvlinks=none\n-->\n");
  ASSERT_TRUE(discover_node(discovery));
  age(3700);
  discovery.command = {"/bin/sh", "-c", "echo x >> " + capture.root() + "/asked; exit 9"};
  for (int turn = 0; turn < 2; ++turn) {  // the second one does not try
    const auto map = discover_node(discovery);
    ASSERT_TRUE(map) << map.error();
    EXPECT_EQ(gpu_of(*map, kFirst).uuid, "GPU-1");
    EXPECT_EQ(gpu_of(*map, kFirst).clique, "");
    EXPECT_EQ(gpu_of(*map, kSecond).fabric_fault, "");
    EXPECT_EQ(asked(), 2u);
  }
}

}  // namespace
}  // namespace mfu
