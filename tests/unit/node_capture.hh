// A small machine as a folder of /sys and /proc, which hwloc and our own readers take for a real
// one: two sockets of four CPUs and, below a switch on each, a GPU and an RDMA adapter.
#ifndef MFU_TESTS_UNIT_NODE_CAPTURE_HH_
#define MFU_TESTS_UNIT_NODE_CAPTURE_HH_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mfu {

class NodeCapture {
 public:
  static constexpr const char* kGpu[] = {"0000:14:00.0", "0000:94:00.0"};
  static constexpr const char* kNic[] = {"0000:13:00.0", "0000:93:00.0"};

  NodeCapture() {
    char path[] = "/tmp/mfu-node-XXXXXX";
    root_ = mkdtemp(path);
    add_cpus();
    for (int socket = 0; socket < 2; ++socket) add_socket_devices(socket);
    write("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
  }
  NodeCapture(const NodeCapture&) = delete;
  NodeCapture& operator=(const NodeCapture&) = delete;
  ~NodeCapture() { std::filesystem::remove_all(root_); }

  const std::string& root() const { return root_; }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ + path); }
  // An attribute of a PCI device: "current_link_width".
  void pci(const std::string& bus_id, const std::string& name, const std::string& text) const {
    write("/sys/bus/pci/devices/" + bus_id + "/" + name, text);
  }
  // One of the only port of an adapter: "state".
  void port(const std::string& nic, const std::string& name, const std::string& text) const {
    write("/sys/class/infiniband/" + nic + "/ports/1/" + name, text);
  }

 private:
  void link(const std::string& from, const std::string& to) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + from).parent_path());
    std::filesystem::create_directory_symlink(to, root_ + from);
  }

  void add_cpus() const {
    const std::string system = "/sys/devices/system/";
    for (const char* name : {"online", "possible", "present"})
      write(system + "cpu/" + name, "0-7\n");
    write(system + "node/online", "0-1\n");
    for (int socket = 0; socket < 2; ++socket) {
      const std::string node = system + "node/node" + std::to_string(socket) + "/";
      const std::string mask = socket == 0 ? "0000000f\n" : "000000f0\n";
      write(node + "cpumap", mask);
      write(node + "meminfo", "Node " + std::to_string(socket) + " MemTotal: 1048576 kB\n");
      write(node + "distance", socket == 0 ? "10 21\n" : "21 10\n");
      for (int cpu = socket * 4; cpu < socket * 4 + 4; ++cpu) {
        char own[16];
        snprintf(own, sizeof own, "%08x\n", 1 << cpu);
        const std::string folder = system + "cpu/cpu" + std::to_string(cpu) + "/topology/";
        write(folder + "physical_package_id", std::to_string(socket) + "\n");
        write(folder + "core_id", std::to_string(cpu) + "\n");
        write(folder + "core_cpus", own);
        write(folder + "package_cpus", mask);
      }
    }
    std::string processors;
    for (int cpu = 0; cpu < 8; ++cpu) processors += "processor\t: " + std::to_string(cpu) + "\n\n";
    write("/proc/cpuinfo", processors);
    write("/proc/meminfo", "MemTotal: 2097152 kB\n");
    write("/proc/mounts", "");
  }

  struct Function {
    std::string bus_id;
    uint16_t pci_class, vendor, device;
    int secondary = -1, subordinate = -1;  // of a bridge
  };

  // The place of the device below /sys/devices.
  std::string add_function(const std::string& parent, const Function& function, int socket) const {
    const std::string place = parent + "/" + function.bus_id;
    std::array<char, 64> config{};
    auto put16 = [&config](size_t at, uint16_t value) {
      config[at] = static_cast<char>(value & 0xff);
      config[at + 1] = static_cast<char>(value >> 8);
    };
    put16(0, function.vendor);
    put16(2, function.device);
    put16(10, function.pci_class);
    if (function.secondary >= 0) {
      config[0x0e] = 1;
      config[0x18] = static_cast<char>(std::stoi(function.bus_id.substr(5, 2), nullptr, 16));
      config[0x19] = static_cast<char>(function.secondary);
      config[0x1a] = static_cast<char>(function.subordinate);
    }
    const std::string folder = "/sys/devices/" + place + "/";
    write(folder + "config", std::string(config.data(), config.size()));
    char text[32];
    auto hex = [&](const char* name, unsigned value, int digits) {
      snprintf(text, sizeof text, "0x%0*x\n", digits, value);
      write(folder + name, text);
    };
    hex("class", static_cast<unsigned>(function.pci_class) << 8, 6);
    hex("vendor", function.vendor, 4);
    hex("device", function.device, 4);
    hex("subsystem_vendor", function.vendor, 4);
    hex("subsystem_device", 1, 4);
    write(folder + "numa_node", std::to_string(socket) + "\n");
    write(folder + "local_cpus", socket == 0 ? "0000000f\n" : "000000f0\n");
    for (const char* end : {"current", "max"}) {
      write(folder + end + "_link_speed", "32.0 GT/s PCIe\n");
      write(folder + end + "_link_width", "16\n");
    }
    link("/sys/bus/pci/devices/" + function.bus_id, "../../../devices/" + place);
    return place;
  }

  void add_socket_devices(int socket) const {
    const int first = socket == 0 ? 0x10 : 0x90;  // bus of the root port
    auto id = [first](int bus, const char* rest) {
      char text[24];
      snprintf(text, sizeof text, "0000:%02x:%s", first + bus, rest);
      return std::string(text);
    };
    const std::string bus = "pci" + id(0, "").substr(0, 7);
    write("/sys/class/pci_bus/" + bus.substr(3) + "/cpuaffinity",
          socket == 0 ? "0000000f\n" : "000000f0\n");
    const std::string root =
        add_function(bus, {id(0, "01.0"), 0x0604, 0x8086, 0x352a, first + 1, first + 4}, socket);
    const std::string up =
        add_function(root, {id(1, "00.0"), 0x0604, 0x1000, 0xc030, first + 2, first + 4}, socket);
    const std::string one =
        add_function(up, {id(2, "00.0"), 0x0604, 0x1000, 0xc030, first + 3, first + 3}, socket);
    const std::string two =
        add_function(up, {id(2, "01.0"), 0x0604, 0x1000, 0xc030, first + 4, first + 4}, socket);
    const std::string nic = add_function(one, {id(3, "00.0"), 0x0207, 0x15b3, 0x1021}, socket);
    add_function(two, {id(4, "00.0"), 0x0302, 0x10de, 0x2330}, socket);
    add_adapter(nic, "mlx5_" + std::to_string(socket), socket);
  }

  void add_adapter(const std::string& place, const std::string& name, int socket) const {
    const std::string folder = "/sys/devices/" + place + "/infiniband/" + name + "/";
    const std::string guid = "e09d:7303:0000:00" + std::to_string(socket + 1) + "0\n";
    write(folder + "node_guid", guid);
    write(folder + "sys_image_guid", guid);
    write(folder + "ports/1/state", "4: ACTIVE\n");
    write(folder + "ports/1/phys_state", "5: LinkUp\n");
    write(folder + "ports/1/rate", "400 Gb/sec (4X NDR)\n");
    write(folder + "ports/1/lid", "0x1" + std::to_string(socket) + "\n");
    write(folder + "ports/1/lid_mask_count", "0\n");
    write(folder + "ports/1/link_layer", "InfiniBand\n");
    write(folder + "ports/1/gids/0", "fe80:0000:0000:0000:" + guid);
    link("/sys/devices/" + place + "/infiniband/" + name + "/device",
         "../../../" + place.substr(place.rfind('/') + 1));
    link("/sys/class/infiniband/" + name, "../../devices/" + place + "/infiniband/" + name);
  }

  std::string root_;
};

}  // namespace mfu

#endif
