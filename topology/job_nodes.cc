#include "topology/job_nodes.hh"

#include <algorithm>

#include "topology/host_list.hh"
#include "topology/program_output.hh"

namespace mfu {
namespace {

constexpr size_t kMostText = 16 << 20;

using Nodes = tl::expected<std::vector<std::string>, std::string>;

// What a command says of nodes: hostlists, or words for none, which have a blank or a bracket in
// front.
Nodes nodes_in(const std::string& text) {
  std::string lists;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.find(' ') != std::string_view::npos || line.starts_with("(")) continue;
    lists.append(line).append(" ");
  }
  auto nodes = expand_hosts(lists);
  if (nodes) sort_hosts(&*nodes);
  return nodes;
}

Nodes ask(const char* name, const std::vector<std::string>& arguments,
          std::chrono::milliseconds limit) {
  const std::string path = find_program(name);
  if (path.empty()) return tl::unexpected(std::string(name) + ": not found in PATH");
  std::vector<std::string> command = {path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto text = program_output(command, limit, kMostText);
  if (!text) return tl::unexpected(text.error());
  return nodes_in(*text);
}

}  // namespace

bool is_job_id(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of("0123456789"), text.size());
  if (first == 0 || first > 10) return false;
  if (first == text.size()) return true;
  const std::string_view rest = text.substr(first + 1);
  return (text[first] == '_' || text[first] == '+') && !rest.empty() && rest.size() <= 10 &&
         rest.find_first_not_of("0123456789") == std::string_view::npos;
}

tl::expected<std::vector<std::string>, std::string> job_nodes(const std::string& job,
                                                              std::chrono::milliseconds limit) {
  if (!is_job_id(job)) return tl::unexpected("'" + job + "' is no job's number");
  const Nodes now =
      ask("squeue", {"--noheader", "--jobs=" + job, "--states=all", "--format=%N"}, limit);
  if (now && !now->empty()) return now;
  // It has left the queue, or accounting alone knows.
  const Nodes then = ask(
      "sacct", {"--noheader", "--parsable2", "--allocations", "--jobs=" + job, "--format=NodeList"},
      limit);
  if (then && !then->empty()) return then;
  if (now && then)
    return tl::unexpected("job " + job + " has no nodes: it has not started, or nobody knows it");
  return tl::unexpected("job " + job + ": neither squeue nor sacct tells its nodes (" +
                        (now ? "squeue: none" : now.error()) + "; " +
                        (then ? "sacct: none" : then.error()) + "); --hosts takes them");
}

PlacedHosts find_hosts_of(const FabricRoles& roles, const NameMap& names,
                          const std::vector<std::string>& nodes) {
  HostNames hosts;
  for (uint32_t i = 0; i < roles.hosts.size(); ++i) hosts.add(name_of(roles.hosts[i], names), i);
  PlacedHosts placed;
  for (const std::string& node : nodes) {
    const uint32_t host = hosts.find(node);
    if (host == kNoIndex) {
      placed.absent.push_back(node);
    } else {
      placed.hosts.push_back(host);
    }
  }
  return placed;
}

}  // namespace mfu
