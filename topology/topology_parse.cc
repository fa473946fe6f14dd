#include "topology/topology_parse.hh"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "topology/host_list.hh"
#include "topology/node_file.hh"
#include "topology/topology_yaml.hh"

namespace mfu {
namespace {

constexpr size_t kMostBytes = 16 << 20;

using Wrong = tl::unexpected<std::string>;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Lines as Slurm sees them, with the number of their first one.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  // False at the end.
  bool next(std::string* line, uint32_t* number) {
    if (rest_.empty()) return false;
    line->clear();
    *number = read_ + 1;
    bool joined = true;
    while (joined && !rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view one = without_comment(rest_.substr(0, end));
      while (!one.empty() && is_blank(one.back())) one.remove_suffix(1);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++read_;
      size_t slashes = 0;
      while (slashes < one.size() && one[one.size() - 1 - slashes] == '\\') ++slashes;
      joined = slashes % 2 == 1;
      if (joined) one.remove_suffix(1);
      line->append(one);
    }
    return true;
  }

 private:
  static std::string_view without_comment(std::string_view line) {
    size_t slashes = 0;  // in front of it
    for (size_t at = 0; at < line.size(); ++at) {
      if (line[at] == '#' && slashes % 2 == 0) return line.substr(0, at);
      slashes = line[at] == '\\' ? slashes + 1 : 0;
    }
    return line;
  }
  std::string_view rest_;
  uint32_t read_ = 0;
};

struct Pair {
  std::string key;  // lower case
  std::string_view value;
};

// "A=b C = "d e"": the pairs of a line. The error has no place yet.
tl::expected<std::vector<Pair>, std::string> pairs_of(std::string_view line) {
  std::vector<Pair> pairs;
  for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
    size_t at = 0;
    while (at < line.size() &&
           (std::isalnum(static_cast<unsigned char>(line[at])) != 0 || line[at] == '_')) {
      ++at;
    }
    const std::string_view key = line.substr(0, at);
    if (lowered(key) == "include")
      return Wrong("Include is not followed: give that file by itself");
    while (at < line.size() && is_blank(line[at])) ++at;
    if (key.empty() || at == line.size() || line[at] != '=') {
      return Wrong("'" + std::string(line.substr(0, 40)) + "' is not KEY=VALUE");
    }
    line = trimmed(line.substr(at + 1));
    size_t end = 0;
    std::string_view value;
    if (!line.empty() && line.front() == '"') {
      end = line.find('"', 1);
      if (end == std::string_view::npos) return Wrong("a quote is not closed");
      value = line.substr(1, end - 1);
      ++end;
    } else {
      while (end < line.size() && !is_blank(line[end])) ++end;
      value = line.substr(0, end);
    }
    if (value.empty()) return Wrong(std::string(key) + " has no value");
    pairs.push_back({lowered(key), value});
    line.remove_prefix(end);
  }
  return pairs;
}

tl::expected<std::vector<uint32_t>, std::string> sizes_of(std::string_view list) {
  std::vector<uint32_t> sizes;
  while (true) {
    const size_t comma = std::min(list.find(','), list.size());
    uint32_t size = 0;
    const char* const end = list.data() + comma;
    const auto [stop, error] = std::from_chars(list.data(), end, size);
    if (error != std::errc() || stop != end || size == 0) {
      return Wrong("BlockSizes is a list of numbers above 0");
    }
    sizes.push_back(size);
    if (comma == list.size()) return sizes;
    list.remove_prefix(comma + 1);
  }
}

// Builds the topology line by line.
class Builder {
 public:
  // Returns what is wrong, or nothing.
  std::string add(const std::vector<Pair>& pairs, uint32_t line) {
    const std::string& key = pairs.front().key;
    const std::string name(pairs.front().value);
    if (key == "switchname") {
      auto& one = topology.switches.emplace_back();
      one.name = name;
      one.line = line;
      return fields(pairs, &one.nodes, &one.switches);
    }
    if (key == "blockname") {
      auto& one = topology.blocks.emplace_back();
      one.name = name;
      one.line = line;
      return fields(pairs, &one.nodes, nullptr);
    }
    if (key == "blocksizes") {
      if (pairs.size() > 1) return "BlockSizes stands alone in its line";
      auto sizes = sizes_of(name);
      if (!sizes) return sizes.error();
      topology.block_sizes = std::move(*sizes);
      return "";
    }
    if (key == "blocklevels") return "BlockLevels is of Slurm 23.11: later ones have BlockSizes";
    if (key == "ringname") return "topology/ring is not known to this program: tree and block are";
    return "a line begins with SwitchName=, BlockName= or BlockSizes=, not with '" + key + "'";
  }

  Topology topology;

 private:
  std::string fields(const std::vector<Pair>& pairs, std::vector<std::string>* nodes,
                     std::vector<std::string>* switches) {
    for (size_t i = 1; i < pairs.size(); ++i) {
      const Pair& pair = pairs[i];
      std::vector<std::string>* into = pair.key == "nodes" ? nodes : nullptr;
      if (pair.key == "switches") into = switches;
      if (into == nullptr && pair.key == "linkspeed" && switches != nullptr) continue;
      if (into == nullptr) return "unknown key '" + pair.key + "'";
      if (!into->empty()) return "'" + pair.key + "' twice in one line";
      auto names = expand_hosts(pair.value);
      if (!names) return names.error();
      names_ += names->size();
      if (names_ > 4 * kMostHosts) return "too many names in one file";
      *into = std::move(*names);
    }
    return "";
  }
  size_t names_ = 0;
};

bool is_yaml(const std::string& path, std::string_view text) {
  for (const std::string_view end : {".yaml", ".yml"}) {
    if (path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0) {
      return true;
    }
  }
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty() && line.front() != '#') {
      return line.substr(0, 2) == "- " || line.substr(0, 3) == "---";
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

}  // namespace

tl::expected<TopologyFile, std::string> parse_topology_conf(std::string_view text,
                                                            const std::string& where) {
  Builder builder;
  Lines lines(text);
  std::string line;
  uint32_t number = 0;
  while (lines.next(&line, &number)) {
    if (trimmed(line).empty()) continue;
    auto pairs = pairs_of(line);
    std::string error = pairs ? builder.add(*pairs, number) : pairs.error();
    if (error.empty() && !builder.topology.switches.empty() &&
        (!builder.topology.blocks.empty() || !builder.topology.block_sizes.empty())) {
      error = "switches and blocks in one file";
    }
    if (!error.empty()) return Wrong(where + ": line " + std::to_string(number) + ": " + error);
  }
  Topology& topology = builder.topology;
  if (topology.switches.empty() && topology.blocks.empty()) {
    return Wrong(where + ": neither SwitchName= nor BlockName=: no topology.conf, or an empty one");
  }
  topology.kind = topology.blocks.empty() ? TopologyKind::kTree : TopologyKind::kBlock;
  auto notes = check_topology(topology, where);
  if (!notes) return Wrong(notes.error());
  TopologyFile file;
  file.notes = std::move(*notes);
  if (std::string note = small_blocks_note(topology); !note.empty()) {
    file.notes.push_back(std::move(note));
  }
  file.topologies.push_back(std::move(topology));
  return file;
}

tl::expected<TopologyFile, std::string> read_topology_file(const std::string& path) {
  const auto text = read_node_file(path, kMostBytes);
  if (!text) return Wrong(text.error());
  return is_yaml(path, *text) ? parse_topology_yaml(*text, path) : parse_topology_conf(*text, path);
}

}  // namespace mfu
