// Discovery of a machine: by hwloc from a capture, by a child within limits, from the cache, and
// what is read afresh each time.
#include "topology/node_discovery.hh"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/unit/node_capture.hh"
#include "topology/child_output.hh"
#include "topology/driver_gpus.hh"
#include "topology/pcie_link.hh"
#include "topology/port_state.hh"

namespace mfu {
namespace {

using std::chrono::milliseconds;

std::string captured_xml(const NodeCapture& capture) {
  const auto xml = discover_node_xml(capture.root());
  unsetenv("HWLOC_FSROOT");
  unsetenv("HWLOC_COMPONENTS");
  EXPECT_TRUE(xml) << xml.error();
  return xml.value_or("");
}

// The GPU and the adapter of each socket, whatever order hwloc has them in.
const Gpu& gpu_of(const NodeMap& map, int socket) {
  return map.gpus.at(static_cast<size_t>(map.find_gpu(NodeCapture::kGpu[socket])));
}
const Nic& nic_of(const NodeMap& map, int socket) {
  return map.nics.at(static_cast<size_t>(map.find_nic("mlx5_" + std::to_string(socket))));
}

TEST(NodeDiscovery, ReadsACaptureByHwloc) {
  const NodeCapture capture;
  const auto map = node_map_from_xml(captured_xml(capture), "capture");
  ASSERT_TRUE(map) << map.error();
  ASSERT_EQ(map->gpus.size(), 2u);
  ASSERT_EQ(map->nics.size(), 2u);
  EXPECT_EQ(map->packages, 2u);
  EXPECT_EQ(map->cpus.text(), "0-7");
  for (int socket = 0; socket < 2; ++socket) {
    const Gpu& gpu = gpu_of(*map, socket);
    EXPECT_EQ(gpu.pci.numa, socket);
    EXPECT_EQ(gpu.pci.package, socket);
    EXPECT_EQ(gpu.pci.cpus.text(), socket == 0 ? "0-3" : "4-7");
    EXPECT_EQ(gpu.pci.bridges.size(), 3u);
    EXPECT_EQ(distance(*map, gpu.pci, nic_of(*map, socket).pci), Distance::kPix);
    EXPECT_EQ(distance(*map, gpu.pci, nic_of(*map, 1 - socket).pci), Distance::kSys);
    EXPECT_EQ(nic_of(*map, socket).node_guid,
              0xe09d730300000010u + static_cast<uint64_t>(socket) * 0x10);
    EXPECT_TRUE(nic_of(*map, socket).active());
  }
}

TEST(PortState, IsReadAfresh) {
  const NodeCapture capture;
  auto map = node_map_from_xml(captured_xml(capture), "capture").value();
  capture.port("mlx5_0", "state", "1: DOWN\n");
  capture.port("mlx5_0", "phys_state", "2: Polling\n");
  capture.port("mlx5_0", "lid", "0xffff\n");
  capture.port("mlx5_0", "rate", "2.5 Gb/sec (1X SDR)\n");
  capture.port("mlx5_1", "link_layer", "Ethernet\n");
  read_port_states(capture.root(), &map);
  const NicPort& down = nic_of(map, 0).ports.at(0);
  EXPECT_EQ(down.state, PortState::kDown);
  EXPECT_EQ(down.physical, "Polling");
  EXPECT_EQ(down.lid, kNoLid);
  EXPECT_EQ(down.rate_mbps, 2500u);
  EXPECT_EQ(down.layer, LinkLayer::kInfiniBand);
  const NicPort& up = nic_of(map, 1).ports.at(0);
  EXPECT_EQ(up.state, PortState::kActive);
  EXPECT_EQ(up.rate_mbps, 400000u);
  EXPECT_EQ(up.lid, 0x11u);
  EXPECT_EQ(up.layer, LinkLayer::kEthernet);

  capture.port("mlx5_1", "state", "9: SOMETHING\n");
  capture.remove("/sys/class/infiniband/mlx5_0");
  read_port_states(capture.root(), &map);
  EXPECT_TRUE(nic_of(map, 0).ports.empty());
  EXPECT_FALSE(nic_of(map, 1).known());
}

TEST(PcieLink, MaximumIsThatOfBothEnds) {
  const NodeCapture capture;
  auto map = node_map_from_xml(captured_xml(capture), "capture").value();
  capture.pci(NodeCapture::kGpu[0], "current_link_speed", "8.0 GT/s PCIe\n");
  capture.pci("0000:12:01.0", "max_link_speed", "16.0 GT/s PCIe\n");  // the slot of that GPU
  capture.pci(NodeCapture::kNic[0], "current_link_width", "8\n");
  capture.pci(NodeCapture::kNic[1], "current_link_speed", "Unknown\n");
  capture.pci(NodeCapture::kNic[1], "current_link_width", "0\n");
  capture.pci(NodeCapture::kNic[1], "max_link_width", "255\n");
  capture.remove("/sys/bus/pci/devices/" + std::string(NodeCapture::kGpu[1]));
  read_pcie_links(capture.root(), &map);
  EXPECT_EQ(gpu_of(map, 0).pci.link.speed_mts, 8000u);
  EXPECT_EQ(gpu_of(map, 0).pci.link.max_speed_mts, 16000u);
  EXPECT_EQ(gpu_of(map, 0).pci.link.width, 16u);
  EXPECT_EQ(nic_of(map, 0).pci.link.width, 8u);
  EXPECT_EQ(nic_of(map, 0).pci.link.max_width, 16u);
  EXPECT_EQ(nic_of(map, 1).pci.link.speed_mts, 0u);
  EXPECT_EQ(nic_of(map, 1).pci.link.width, 0u);
  EXPECT_EQ(nic_of(map, 1).pci.link.max_width, 16u);  // the slot's alone
  EXPECT_EQ(gpu_of(map, 1).pci.link.width, 0u);
}

TEST(DriverGpus, AreNamedWithoutNvml) {
  const NodeCapture capture;
  auto map = node_map_from_xml(captured_xml(capture), "capture").value();
  const std::string driver = "/proc/driver/nvidia/";
  capture.write(driver + "gpus/" + NodeCapture::kGpu[0] + "/information",
                "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t "
                "GPU-029490c8-a116-638b-7018-1a6b7a9002ef\nDevice Minor: \t 3\n");
  capture.write(driver + "gpus/" + NodeCapture::kGpu[1] + "/information",
                "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-? ?\n");
  capture.write(driver + "capabilities/gpu3/mig/gi1/access", "");
  capture.write(driver + "capabilities/gpu3/mig/gi2/access", "");
  read_driver_gpus(capture.root(), &map);
  EXPECT_EQ(gpu_of(map, 0).model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu_of(map, 0).uuid, "GPU-029490c8-a116-638b-7018-1a6b7a9002ef");
  EXPECT_EQ(gpu_of(map, 0).minor, 3);
  EXPECT_EQ(gpu_of(map, 0).mig_instances, 2u);
  EXPECT_EQ(gpu_of(map, 1).model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu_of(map, 1).uuid, "");
  EXPECT_EQ(gpu_of(map, 1).minor, -1);
  EXPECT_EQ(gpu_of(map, 1).mig_instances, 0u);
}

std::string shell_error(const std::string& script, milliseconds limit, size_t most = 1000) {
  const auto text = child_output({"/bin/sh", "-c", script}, limit, most);
  return text ? "printed " + *text : text.error();
}

TEST(ChildOutput, GivesWhatTheProgramPrints) {
  EXPECT_EQ(shell_error("echo hello; echo no >&2", milliseconds(60000)), "printed hello\n");
  EXPECT_EQ(shell_error("cat; echo ${HOME-none} $LC_ALL", milliseconds(60000)), "printed none C\n");
  EXPECT_EQ(shell_error("exit 3", milliseconds(60000)), "/bin/sh: ended with exit code 3");
  EXPECT_EQ(shell_error("kill -9 $$", milliseconds(60000)), "/bin/sh: ended by signal 9");
  EXPECT_EQ(shell_error("yes", milliseconds(60000)), "/bin/sh: prints more than 1000 bytes");
  EXPECT_EQ(child_output({"/nonexistent"}, milliseconds(60000), 10).error(),
            "/nonexistent: No such file or directory");
  EXPECT_EQ(child_output({}, milliseconds(1000), 10).error(), "no command: nothing to run");
}

TEST(ChildOutput, KillsWhatIsLateWithItsChildren) {
  using Clock = std::chrono::steady_clock;
  const NodeCapture folder;
  const std::string script = "echo $$ > " + folder.root() + "/own; sleep 300 & echo $! > " +
                             folder.root() + "/child; wait";
  const auto process = [&](const char* name) {
    pid_t number = 0;
    std::ifstream(folder.root() + name) >> number;
    return number;
  };
  // As long as this machine takes to start a shell: it is killed where it waits for its child.
  for (milliseconds limit(500); process("/child") == 0; limit *= 4) {
    ASSERT_LT(limit, milliseconds(60'000)) << "the shell has not come so far";
    const auto begin = Clock::now();
    EXPECT_EQ(shell_error(script, limit),
              "/bin/sh: not done after " + std::to_string(limit.count()) + " ms");
    const auto took = Clock::now() - begin;
    // Nothing is left to reap, unless the kernel has not let go of it for a fifth of a second.
    if (took < limit + milliseconds(200)) {
      EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  for (const char* name : {"/own", "/child"}) {
    const pid_t number = process(name);
    ASSERT_GT(number, 1) << name;
    // The grandchild is reaped by init, some time; a zombie runs no more.
    for (int i = 0; i < 6000 && kill(number, 0) == 0; ++i) {
      std::string status, word;
      std::ifstream(("/proc/" + std::to_string(number)) + "/stat") >> word >> status >> status;
      if (status == "Z") break;
      usleep(10000);
      ASSERT_LT(i, 5999) << name << " still runs";
    }
  }
}

// As slurmstepd, which waits for any child.
TEST(ChildOutput, DoesWithoutTheStatusThatAStrangerTook) {
  signal(SIGCHLD, SIG_IGN);  // the kernel takes it
  EXPECT_EQ(shell_error("echo hello", milliseconds(60000)), "printed hello\n");
  signal(SIGCHLD, SIG_DFL);
}

TEST(ChildOutput, WorksInSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> texts(8);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back(
        [&texts, i] { texts[i] = shell_error("echo " + std::to_string(i), milliseconds(60000)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], "printed " + std::to_string(i) + "\n");
}

// Discovery through a program that counts how often it is asked.
class Cached : public ::testing::Test {
 protected:
  Cached() {
    capture.write("/xml", captured_xml(capture));
    discovery.command = {"/bin/sh", "-c",
                         "echo x >> " + capture.root() + "/asked; cat " + capture.root() + "/xml"};
    discovery.limit = milliseconds(60000);
    discovery.cache = capture.root() + "/node.xml";
    discovery.root = capture.root();
  }
  size_t asked() const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(capture.root() + "/asked", none);
    return none ? 0 : bytes / 2;
  }

  NodeCapture capture;
  NodeDiscovery discovery;
};

TEST_F(Cached, AsksOnceAndReadsStatesEachTime) {
  auto map = discover_node(discovery);
  ASSERT_TRUE(map) << map.error();
  EXPECT_TRUE(nic_of(*map, 0).active());
  EXPECT_EQ(asked(), 1u);
  struct stat status;
  ASSERT_EQ(stat(discovery.cache.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
  capture.port("mlx5_0", "state", "1: DOWN\n");
  map = discover_node(discovery);
  ASSERT_TRUE(map) << map.error();
  EXPECT_EQ(asked(), 1u);
  EXPECT_FALSE(nic_of(*map, 0).active());
  EXPECT_EQ(gpu_of(*map, 0).pci.link.max_speed_mts, 32000u);
  // No temporary file stays, and hwloc reads the file itself.
  for (const auto& entry : std::filesystem::directory_iterator(capture.root())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("node.xml.")) << entry.path();
  }
  EXPECT_TRUE(read_node_map(discovery.cache));
}

TEST_F(Cached, AsksAgainWhenTheMachineIsAnother) {
  ASSERT_TRUE(discover_node(discovery));
  capture.write("/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
  capture.remove("/sys/bus/pci/devices/0000:12:01.0");
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 3u);
  capture.write("/sys/devices/system/cpu/online", "0-6\n");
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 4u);
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 4u);
}

TEST_F(Cached, BelievesOnlyItsOwnFile) {
  ASSERT_TRUE(discover_node(discovery));
  ASSERT_EQ(chmod(discovery.cache.c_str(), 0664), 0);
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
  // Replaced by a whole one of our own again.
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
  std::filesystem::rename(discovery.cache, capture.root() + "/elsewhere");
  std::filesystem::create_symlink(capture.root() + "/elsewhere", discovery.cache);
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 3u);
  std::filesystem::resize_file(discovery.cache, 500);
  ASSERT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 4u);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(discovery.cache.c_str(), 65534, 65534), 0);
    ASSERT_TRUE(discover_node(discovery));
    EXPECT_EQ(asked(), 5u);
  }
}

TEST_F(Cached, RemembersAFailure) {
  discovery.command = {"/bin/sh", "-c", "echo x >> " + capture.root() + "/asked; exit 9"};
  EXPECT_EQ(discover_node(discovery).error(), "/bin/sh: ended with exit code 9");
  EXPECT_NE(discover_node(discovery).error().find("exit code 9 (as found "), std::string::npos);
  EXPECT_EQ(asked(), 1u);
  discovery.retry = std::chrono::seconds(0);
  EXPECT_FALSE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
  discovery.retry = std::chrono::seconds(3600);
  capture.write("/proc/sys/kernel/random/boot_id", "99999999\n");
  EXPECT_FALSE(discover_node(discovery));
  EXPECT_EQ(asked(), 3u);
}

TEST_F(Cached, DoesWithoutAPlaceForTheFile) {
  discovery.cache = "/nonexistent/node.xml";
  EXPECT_TRUE(discover_node(discovery));
  discovery.cache.clear();
  EXPECT_TRUE(discover_node(discovery));
  EXPECT_EQ(asked(), 2u);
  discovery.command = {"/bin/echo", "no XML"};
  EXPECT_NE(discover_node(discovery).error().find("/bin/echo: no hwloc topology"),
            std::string::npos);
}

}  // namespace
}  // namespace mfu
