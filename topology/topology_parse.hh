// Reads a topology.conf of Slurm: a tree (SwitchName=...) or blocks (BlockName=...,
// BlockSizes=...).
//
// Slurm's syntax: KEY=VALUE words, blanks around the '=' allowed, keys in any case, values bare or
// in double quotes, '#' to the end of the line is a comment ("\#" is not), a backslash at the end
// of a line joins the next one, whose blanks in front count. LinkSpeed is ignored, as Slurm does.
#ifndef MFU_TOPOLOGY_TOPOLOGY_PARSE_HH_
#define MFU_TOPOLOGY_TOPOLOGY_PARSE_HH_

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/topology_conf.hh"

namespace mfu {

// One for topology.conf, several for topology.yaml.
struct TopologyFile {
  std::vector<Topology> topologies;  // each is as check_topology wants it
  std::vector<std::string> notes;    // check_topology's, small_blocks_note's, and what was skipped
};

// Errors: "`where`: line 12: what is wrong".
tl::expected<TopologyFile, std::string> parse_topology_conf(std::string_view text,
                                                            const std::string& where);

// A file of at most 16 MiB in either format: YAML by its name's end (.yaml, .yml), else by its
// first line that is neither empty nor a comment ("- ", "---").
tl::expected<TopologyFile, std::string> read_topology_file(const std::string& path);

}  // namespace mfu

#endif
