// The cache is the XML itself, so that hwloc's own tools read it, with a comment of ours behind it:
//   <!-- mfu-node KEY -->
#include "topology/node_discovery.hh"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "topology/child_output.hh"
#include "topology/driver_gpus.hh"
#include "topology/node_file.hh"
#include "topology/nvml_section.hh"
#include "topology/pcie_link.hh"
#include "topology/port_state.hh"
#include "topology/whole_file.hh"

namespace mfu {
namespace {

constexpr std::string_view kMark = "\n<!-- mfu-node ";
constexpr std::string_view kMarkEnd = " -->\n";

// FNV-1a, over names and their ends.
void mix(std::string_view text, uint64_t* sum) {
  for (const char c : text) *sum = (*sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  *sum = (*sum ^ 0xff) * 0x100000001b3;
}

// Names of a folder and where they point to: of /sys/bus/pci/devices the tree itself.
void mix_folder(const std::string& folder, uint64_t* sum) {
  std::vector<std::string> names;
  if (DIR* open = opendir(folder.c_str()); open != nullptr) {
    while (const dirent* entry = readdir(open)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    closedir(open);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    mix(name, sum);
    char target[512];
    const ssize_t bytes = readlink((folder + "/" + name).c_str(), target, sizeof target);
    if (bytes > 0) mix(std::string_view(target, static_cast<size_t>(bytes)), sum);
  }
  mix("/", sum);
}

// Ours alone, and a plain file: what root wrote, and nobody since.
bool trusted(const std::string& path, timespec* written) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  *written = status.st_mtim;
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The text that a file of ours holds for this key; empty: none.
std::string kept(const std::string& path, const std::string& key, timespec* written) {
  if (path.empty() || !trusted(path, written)) return {};
  auto text = read_node_file(path, kMostTopologyBytes);
  if (!text) return {};
  const size_t mark = text->rfind(kMark);
  const std::string behind = std::string(kMark) + key + std::string(kMarkEnd);
  if (mark == std::string::npos || text->substr(mark) != behind) return {};
  text->resize(mark);
  return *text;
}

// A failure costs the next step a discovery, no more.
void keep(const std::string& path, const std::string& key, const std::string& text) {
  if (path.empty()) return;
  write_whole_file(path, text + std::string(kMark) + key + std::string(kMarkEnd), Kept::kInMemory);
}

time_t age_of(const timespec& written) {
  return time(nullptr) - written.tv_sec;
}
bool is_fresh(const timespec& written, const NodeDiscovery& discovery) {
  return age_of(written) >= 0 && age_of(written) < discovery.retry.count();
}

tl::expected<NodeMap, std::string> ask(const NodeDiscovery& discovery, const std::string& key) {
  const std::string failures = discovery.cache.empty() ? "" : discovery.cache + ".failed";
  timespec written = {};
  if (const std::string reason = kept(failures, key, &written); !reason.empty()) {
    if (is_fresh(written, discovery)) {
      return tl::make_unexpected(reason + " (as found " + std::to_string(age_of(written)) +
                                 " s ago; remove " + failures + " to try again)");
    }
  }
  const auto text = child_output(discovery.command, discovery.limit, kMostTopologyBytes);
  auto map = text ? node_map_from_xml(*text, discovery.command[0])
                  : tl::expected<NodeMap, std::string>(tl::unexpect, text.error());
  if (!map) {
    keep(failures, key, map.error());
    return map;
  }
  keep(discovery.cache, key, *text);
  return map;
}

}  // namespace

std::string node_key(const std::string& root) {
  uint64_t sum = 0xcbf29ce484222325;
  mix_folder(root + "/sys/bus/pci/devices", &sum);
  mix_folder(root + "/sys/class/infiniband", &sum);
  mix(read_attribute(root + "/sys/devices/system/cpu/online"), &sum);
  std::string boot = read_attribute(root + "/proc/sys/kernel/random/boot_id").substr(0, 36);
  std::erase_if(boot, [](char c) { return !isxdigit(static_cast<unsigned char>(c)); });
  char text[24];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return "boot=" + boot + " devices=" + text;
}

tl::expected<NodeMap, std::string> discover_node(const NodeDiscovery& discovery) {
  const std::string key = node_key(discovery.root);
  timespec written = {};
  const std::string text = kept(discovery.cache, key, &written);
  auto map = text.empty() ? ask(discovery, key) : node_map_from_xml(text, discovery.cache);
  if (!map && !text.empty()) map = ask(discovery, key);
  if (!map) return map;
  if (!text.empty() && nvml_section_ages(*map) && !is_fresh(written, discovery)) {
    auto fresh = ask(discovery, key);
    if (fresh) {
      map = std::move(fresh);
    } else {
      for (Gpu& gpu : map->gpus) gpu.clique = gpu.fabric_fault = "";
    }
  }
  read_port_states(discovery.root, &*map);
  read_pcie_links(discovery.root, &*map);
  read_driver_gpus(discovery.root, &*map);
  return map;
}

}  // namespace mfu
