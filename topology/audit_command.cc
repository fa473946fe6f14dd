#include "topology/audit_command.hh"

#include <iostream>

#include "topology/command_line.hh"
#include "topology/fabric_audit.hh"
#include "topology/fabric_options.hh"
#include "topology/fabric_places.hh"
#include "topology/finding_report.hh"
#include "topology/host_list.hh"
#include "topology/job_nodes.hh"
#include "topology/node_audit.hh"
#include "topology/node_source.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

namespace options = boost::program_options;

constexpr int kTrouble = 3;
constexpr size_t kMostOfRule = 20;
constexpr std::chrono::seconds kSlurmLimit{30};

constexpr char kIntroduction[] =
    "Usage: mfu-topo audit [--node FILE] [OPTION...]\n"
    "       mfu-topo audit --fabric FILE | --live-fabric [--job ID | --hosts LIST] [OPTION...]\n\n"
    "Tells what is wrong with this node, a fabric, or the place of a job's nodes in a fabric, and\n"
    "what to do. Exit status: 0 nothing above information, 1 warnings, 2 high findings, 3 "
    "trouble.\n\n";

struct Given {
  std::string node, names, job, hosts, storage;
  FabricSource fabric;
  bool loaded = false, json = false, quiet = false, all = false;
};

FindingReport audit_of_node(const Given& given) {
  if (!given.names.empty()) throw WrongUsage{"--names is for a fabric"};
  const SourcedNode node = value_or_fail(take_node(given.node, given.fabric.seconds));
  NodeAuditOptions audit;
  audit.storage_nics = value_or_fail(expand_hosts(given.storage));
  if (given.loaded) {
    for (const Gpu& gpu : node.map.gpus) audit.busy_gpus.push_back(gpu.pci.bus_id);
  }
  StepPlacement step;
  if (node.live) step.node = node.name;
  FindingReport report;
  report.subject = "node " + node.name;
  report.findings = audit_node(node.map, step, audit);
  if (node.map.gpus.empty()) report.notes.push_back("there is no GPU: little is judged");
  return report;
}

std::vector<std::string> nodes_of(const Given& given) {
  auto nodes = given.job.empty() ? expand_hosts(given.hosts) : job_nodes(given.job, kSlurmLimit);
  if (!nodes) throw CommandFailed{(given.job.empty() ? "--hosts: " : "") + nodes.error()};
  if (nodes->empty()) throw CommandFailed{"--hosts names no node"};
  return std::move(*nodes);
}

FindingReport audit_of_job(const Given& given, const Fabric& fabric, const FabricRoles& roles,
                           const NameMap& names) {
  const std::vector<std::string> nodes = nodes_of(given);
  const PlacedHosts placed = find_hosts_of(roles, names, nodes);
  if (placed.hosts.empty()) {
    throw CommandFailed{"none of " + shortened(compress_hosts(nodes), 80) +
                        " is in the fabric; --names FILE tells NodeGUIDs of Slurm's nodes"};
  }
  const JobSpan span = FabricSpans(fabric, roles).span(placed.hosts);
  FindingReport report;
  report.subject = given.job.empty() ? "" : "job " + given.job + ", ";
  report.subject += counted(nodes.size(), "node") + " on " + counted(span.units, "unit") + ", " +
                    std::to_string(span.leaves) + (span.leaves == 1 ? " leaf" : " leaves") + ", " +
                    counted(span.pods, "pod");
  report.findings = audit_job(roles, span, placed.hosts, audit_fabric(fabric, roles));
  if (!placed.absent.empty()) {
    report.notes.push_back(count_hosts(placed.absent, "of the nodes are not in the fabric"));
  }
  return report;
}

FindingReport audit_of_fabric(const Given& given) {
  if (!given.storage.empty() || given.loaded) {
    throw WrongUsage{"--storage-nics and --loaded are for a node"};
  }
  const NameMap names = value_or_fail(read_name_map(given.names));
  const FabricSnapshot snapshot = value_or_fail(take_fabric(given.fabric));
  const Fabric& fabric = snapshot.fabric;
  const FabricRoles roles = find_roles(fabric, adapter_names(fabric, names));
  FindingReport report;
  if (!given.job.empty() || !given.hosts.empty()) {
    report = audit_of_job(given, fabric, roles, names);
  } else {
    report.subject = given.fabric.live ? "fabric" : "fabric " + given.fabric.file;
    for (FabricFinding& found : audit_fabric(fabric, roles)) {
      report.findings.push_back(std::move(found.finding));
    }
  }
  if (roles.leaves.empty()) {
    report.notes.push_back("no switch with hosts is in it, so little is judged: was it complete?");
  }
  if (snapshot.contradictions > 0) {
    report.notes.push_back(counted(snapshot.contradictions, "link") +
                           " of the file are told differently by their ends, and left out");
  }
  return report;
}

int audit(const Given& given) {
  const bool fabric = given.fabric.live || !given.fabric.file.empty();
  const bool job = !given.job.empty() || !given.hosts.empty();
  if (given.fabric.live && !given.fabric.file.empty()) {
    throw WrongUsage{"--fabric and --live-fabric: one of them"};
  }
  if (!given.job.empty() && !given.hosts.empty())
    throw WrongUsage{"--job and --hosts: one of them"};
  if (!given.job.empty() && !is_job_id(given.job)) throw WrongUsage{"--job: no job's number"};
  if (job && !fabric) throw WrongUsage{"a job's nodes need --fabric FILE"};
  if (fabric && !given.node.empty()) throw WrongUsage{"a node or a fabric: one of them"};
  const FindingReport report = fabric ? audit_of_fabric(given) : audit_of_node(given);
  if (given.json) {
    std::cout << findings_json(report);
  } else if (!given.quiet) {
    std::cout << write_findings(report, terminal_columns(), given.all ? 0 : kMostOfRule);
  }
  return findings_status(report.findings);
}

}  // namespace

int run_audit(int argc, char** argv) {
  Given given;
  options::options_description shown("Options");
  auto add = shown.add_options();
  add("node", options::value(&given.node)->value_name("FILE"),
      "a node from a file of hwloc or of NCCL instead of this one");
  add("storage-nics", options::value(&given.storage)->value_name("LIST"),
      "adapters of the node that are not for computing: mlx5_[10-11]");
  add("loaded", options::bool_switch(&given.loaded),
      "the node's GPUs are computing now: judge the speed of their PCIe links too");
  add_fabric_options(&shown, &given.fabric);
  add("job", options::value(&given.job)->value_name("ID"),
      "the nodes of a running or finished job in the fabric, by squeue or sacct");
  add("hosts", options::value(&given.hosts)->value_name("LIST"), "these nodes: dgx[001-032]");
  add("names", options::value(&given.names)->value_name("FILE"),
      "lines of KEY NODE; KEY is a node GUID (0x...), a node description or a host's name");
  add("all", options::bool_switch(&given.all), "every finding of a rule, not the first 20");
  add("json", options::bool_switch(&given.json), "one JSON object with all findings");
  add("quiet,q", options::bool_switch(&given.quiet), "nothing but the exit status");
  return run_command(argc, argv, {"audit", kIntroduction, kTrouble, kTrouble}, &shown,
                     [&given] { return audit(given); });
}

}  // namespace mfu
