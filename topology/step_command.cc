#include "topology/step_command.hh"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "topology/driver_gpus.hh"
#include "topology/fabric_audit.hh"
#include "topology/fabric_source.hh"
#include "topology/fabric_text.hh"
#include "topology/host_list.hh"
#include "topology/job_nodes.hh"
#include "topology/node_discovery.hh"
#include "topology/node_file.hh"
#include "topology/node_source.hh"
#include "topology/pcie_link.hh"
#include "topology/port_state.hh"
#include "topology/program_output.hh"
#include "topology/slurm_nodes.hh"
#include "topology/step_gpus.hh"
#include "topology/visible_gpus.hh"

namespace mfu {
namespace {

constexpr size_t kMostRequest = 4 << 20;
// The collector waits for us no longer than this, and a little.
constexpr std::chrono::milliseconds kDiscoveryLimit{1500};

template <typename Number>
bool parse_number(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

void add_environment(std::string_view setting, StepRequest::Task* task) {
  const size_t equals = setting.find('=');
  if (equals == setting.npos) return;
  const std::string name(setting.substr(0, equals));
  const std::string value(setting.substr(equals + 1));
  if (name == "CUDA_VISIBLE_DEVICES") {
    task->has_devices = true;
    task->devices = value;
  } else {
    task->placement.environment[name] = value;
  }
}

// False: the line is none that a request has.
bool add_line(std::string_view key, std::string_view value, StepRequest* request) {
  std::string* text = key == "node"        ? &request->node
                      : key == "hosts"     ? &request->hosts
                      : key == "allocated" ? &request->allocated
                      : key == "map"       ? &request->map
                      : key == "cache"     ? &request->cache
                      : key == "fabric"    ? &request->fabric
                      : key == "names"     ? &request->names
                                           : nullptr;
  if (text != nullptr) {
    *text = value;
    return true;
  }
  if (key == "nodes") return parse_number(value, &request->nodes);
  if (key == "confined") {
    if (value != "?") request->confined = value == "1";
    return value == "0" || value == "1" || value == "?";
  }
  if (key == "task") {
    TaskPlacement placement;
    const size_t comma = value.find(',');
    if (comma == value.npos || !parse_number(value.substr(0, comma), &placement.rank) ||
        !parse_number(value.substr(comma + 1), &placement.local_rank)) {
      return false;
    }
    request->tasks.push_back({placement, {}, false, ""});
    return true;
  }
  if (request->tasks.empty()) return false;
  StepRequest::Task& task = request->tasks.back();
  if (key == "cpus") {
    if (auto cpus = CpuSet::from_list(value)) task.placement.cpus = *cpus;
    return true;
  }
  if (key == "devices") {
    if (auto minors = CpuSet::from_list(value)) task.openable = *minors;
    return true;
  }
  if (key != "env") return false;
  add_environment(value, &task);
  return true;
}

// A file tells how nodes of this kind are built. What single GPUs are called, their fabric, states
// of ports and links are of the node and the day that it was made on: the kernel tells this one's,
// but nobody its fabric, since NVML may take seconds and this is asked for each step.
void forget_gpus(NodeMap* map) {
  for (Gpu& gpu : map->gpus) {
    gpu.uuid = gpu.clique = gpu.fabric_fault = "";
    gpu.minor = -1;
  }
}

tl::expected<NodeMap, std::string> map_of(const StepRequest& request, const std::string& self,
                                          const std::string& root) {
  if (!request.map.empty()) {
    auto node = take_node(request.map, 0);
    if (!node) return tl::make_unexpected(std::move(node.error()));
    forget_gpus(&node->map);
    read_port_states(root, &node->map);
    read_pcie_links(root, &node->map);
    read_driver_gpus(root, &node->map);
    return std::move(node->map);
  }
  NodeDiscovery discovery;
  discovery.command = {self, "show", "--xml"};
  discovery.limit = kDiscoveryLimit;
  discovery.cache = request.cache;
  discovery.root = root;
  return discover_node(discovery);
}

// What a task sees; none where nobody knows.
std::vector<std::string> gpus_of(const StepRequest& request, const StepRequest::Task& task,
                                 const NodeMap& map, const std::optional<GpuSet>& allocated) {
  const auto order = task.placement.environment.find("CUDA_DEVICE_ORDER");
  const bool pci = order != task.placement.environment.end() && order->second == "PCI_BUS_ID";
  const auto devices = task.has_devices ? std::optional<std::string_view>(task.devices)
                                        : std::optional<std::string_view>();
  if (!task.openable.empty()) {
    return visible_gpus(map, gpus_by_minor(map, task.openable), devices, pci);
  }
  auto all = visible_gpus(map, all_gpus(map), devices, pci);
  if (request.confined == false || request.allocated.empty()) return all;
  auto own = visible_gpus(map, allocated, devices, pci);
  // Unknown is no harm where both come to the same.
  if (!request.confined && all != own) own.clear();
  return own;
}

StepPlacement placement_of(const StepRequest& request, const NodeMap& map) {
  StepPlacement step;
  step.node = request.node;
  step.nodes = request.nodes;
  const auto allocated = gpus_by_place(map, request.allocated);
  for (const size_t gpu : allocated.value_or(GpuSet())) {
    step.allocated.push_back(map.gpus[gpu].pci.bus_id);
  }
  for (const StepRequest::Task& task : request.tasks) {
    step.tasks.push_back(task.placement);
    step.tasks.back().gpus = gpus_of(request, task, map, allocated);
  }
  return step;
}

tl::expected<std::vector<Finding>, std::string> audit_fabric_place(const StepRequest& request) {
  const auto snapshot = read_fabric(request.fabric);
  if (!snapshot) return tl::make_unexpected(snapshot.error());
  const auto names = read_name_map(request.names);
  if (!names) return tl::make_unexpected(names.error());
  const auto listed = expand_hosts(request.hosts);
  if (!listed) return tl::make_unexpected(listed.error());
  const FabricRoles roles = find_roles(snapshot->fabric, adapter_names(snapshot->fabric, *names));
  const std::vector<uint32_t> hosts = find_hosts_of(roles, *names, *listed).hosts;
  if (hosts.empty()) {
    return tl::make_unexpected(request.fabric +
                               ": none of the step's nodes is in it: " + "see fabric-names=");
  }
  const FabricSpans spans(snapshot->fabric, roles);
  return audit_job(roles, spans.span(hosts), hosts, audit_fabric(snapshot->fabric, roles));
}

}  // namespace

tl::expected<StepRequest, std::string> parse_step_request(std::string_view text) {
  StepRequest request;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == line.npos ||
        !add_line(line.substr(0, equals), line.substr(equals + 1), &request)) {
      return tl::make_unexpected("line " + std::to_string(number) + ": no line of a request");
    }
  }
  return request;
}

tl::expected<StepAudit, std::string> audit_step(const StepRequest& request, const std::string& self,
                                                const std::string& root) {
  const auto map = map_of(request, self, root);
  if (!map) return tl::make_unexpected(map.error());
  const StepPlacement step = placement_of(request, *map);
  StepAudit audit = {audit_node(*map, step), clique_of(*map, step)};
  std::vector<Finding>& findings = audit.findings;
  size_t unknown = 0;
  for (size_t i = 0; i < step.tasks.size(); ++i) {
    const std::string& devices = request.tasks[i].devices;
    const auto named = static_cast<size_t>(std::count(devices.begin(), devices.end(), ',')) + 1;
    const size_t least = request.tasks[i].has_devices ? named : 1;
    if (seen_gpus(*map, step.tasks[i]).size() < least) ++unknown;
  }
  if (unknown != 0) {
    findings.push_back({kGpusUnknown, Severity::kInformation, request.node,
                        "the GPUs of " + std::to_string(unknown) + " of " +
                            std::to_string(step.tasks.size()) +
                            " tasks are not in the node's topology",
                        "mfu-topo show, on the node"});
  }
  if (request.fabric.empty()) return audit;
  const auto place = audit_fabric_place(request);
  if (!place) {
    findings.push_back({kFabricUnknown, Severity::kInformation, request.fabric, place.error(),
                        "mfu-topo snapshot, by a timer"});
    return audit;
  }
  findings.insert(findings.end(), place->begin(), place->end());
  return audit;
}

std::string write_step_findings(const StepAudit& audit) {
  std::string out;
  const auto add = [&out](std::string_view text, char end) {
    for (const char byte : text) out += byte >= ' ' && byte <= '~' ? byte : '?';
    out += end;
  };
  for (const Finding& finding : audit.findings) {
    add(severity_name(finding.severity), '\t');
    add(finding.rule, '\t');
    add(finding.place, '\t');
    add(finding.evidence, '\t');
    add(finding.remedy, '\n');
  }
  if (!audit.clique.empty()) {
    add("fact", '\t');
    add("clique", '\t');
    add(audit.clique, '\n');
  }
  return out;
}

int run_step(int argc, char** argv) {
  // Killed with the collector, or by its limit: a discovery of ours must not outlive us.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 2) {
    std::fputs("usage: mfu-topo step REQUEST\nRun by mfu-collector; see mfu-topo(1).\n", stderr);
    return 2;
  }
  const auto audit =
      read_node_file(argv[1], kMostRequest)
          .and_then(parse_step_request)
          .and_then([&](const StepRequest& request) { return audit_step(request, own_program()); });
  if (!audit) {
    std::fprintf(stderr, "mfu-topo: step: %s\n", audit.error().c_str());
    return 1;
  }
  std::fputs(write_step_findings(*audit).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace mfu
