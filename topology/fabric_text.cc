// The text is lines. A node is a block: ids, "Switch", "Ca" or "Rt", then a line for each linked
// port.
//
//   sysimgguid=0x2c5eab0300b87b40
//   Switch  65 "S-2c5eab0300b87b40"  # "MF0;leaf-04:MQM9701/U1" enhanced port 0 lid 73 lmc 0
//   [1]     "H-e09d7303007a4bd8"[1](e09d7303007a4bd8)   # "node1 mlx5_5" lid 647 4xNDR
//   Ca      1 "H-e09d7303007a4bd8"   # "node1 mlx5_5"
//   [1](e09d7303007a4bd8)  "S-2c5eab0300b87b40"[1]   # lid 647 lmc 0 "MF0;leaf-04" lid 73 4xNDR
//
// With --ports there are no blocks, but a line for each port with both ends:
//
//   CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'n1 HCA-1' - 'leaf1' )
//   SW  2052 37 0x506b4b03005c2740 4x ???                                   'leaf4'
#include "topology/fabric_text.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "topology/fabric_assembly.hh"
#include "topology/fabric_cursor.hh"

namespace mfu {
namespace {

constexpr size_t kMostBytes = size_t{512} << 20;

bool kind_of_letter(char letter, FabricKind* kind) {
  switch (letter) {
    case 'S':
      *kind = FabricKind::kSwitch;
      return true;
    case 'H':
      *kind = FabricKind::kAdapter;
      return true;
    case 'R':
      *kind = FabricKind::kRouter;
      return true;
    default:
      return false;
  }
}

bool kind_of_word(FabricCursor* line, FabricKind* kind) {
  if (line->literal("SW ")) {
    *kind = FabricKind::kSwitch;
  } else if (line->literal("CA ")) {
    *kind = FabricKind::kAdapter;
  } else if (line->literal("RT ")) {
    *kind = FabricKind::kRouter;
  } else {
    return false;
  }
  return true;
}

// What the tools write to stderr ("src/query_smp.c:195; ...", "ibwarn: [7] ..."), and -g's
// headings.
bool is_remark(std::string_view line) {
  for (std::string_view begin :
       {"Chassis", "Non-Chassis", "Hostname:", "ibwarn:", "ibpanic:", "ibdebug:", "Warning"}) {
    if (line.starts_with(begin)) return true;
  }
  const size_t source = line.find(".c:");
  return source != std::string_view::npos && source + 3 < line.size() && line[source + 3] >= '0' &&
         line[source + 3] <= '9';
}

class Parser {
 public:
  tl::expected<FabricSnapshot, std::string> parse(std::string_view text) {
    constexpr size_t kBytesOfNode = 512;  // with its links
    constexpr size_t kBytesOfLink = 90;
    assembly_.expect(std::min(text.size() / kBytesOfNode, kMostFabricNodes),
                     text.size() / kBytesOfLink);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      ++line_;
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      if (!line.empty() && !parse_line(line)) return tl::unexpected(told());
    }
    if (assembly_.nodes() == 0) {
      return tl::unexpected(std::string("no node: this is not ibnetdiscover's output"));
    }
    auto fabric = assembly_.finish();
    if (!fabric) {
      error_ = std::move(fabric.error());
      return tl::unexpected(told());
    }
    return FabricSnapshot{std::move(*fabric), taken_at_, assembly_.contradictions()};
  }

 private:
  std::string told() const { return "line " + std::to_string(error_.line) + ": " + error_.text; }
  bool fail(std::string text) {
    error_ = {line_, std::move(text)};
    return false;
  }

  bool parse_line(std::string_view line) {
    FabricCursor cursor(line);
    switch (line[0]) {
      case '[':
        return parse_port(cursor);
      case '#':
        parse_remark(line);
        return true;
      default:
        break;
    }
    FabricKind kind;
    if (kind_of_word(&cursor, &kind)) return parse_port_report(cursor, kind);
    const size_t word = line.find_first_of(" \t=");
    if (word != std::string_view::npos) {
      const std::string_view name = line.substr(0, word);
      if (line[word] == '=') {
        if (name.ends_with("guid") || name.ends_with("id")) return parse_id(name, cursor);
      } else if (name == "Switch") {
        return parse_node(cursor, FabricKind::kSwitch, name);
      } else if (name == "Ca") {
        return parse_node(cursor, FabricKind::kAdapter, name);
      } else if (name == "Rt") {
        return parse_node(cursor, FabricKind::kRouter, name);
      }
    }
    // Ahead of the first node anything may stand: a shell's or a tool's complaint.
    if (assembly_.nodes() == 0 || is_remark(line)) return true;
    return fail("neither a node nor a port: \"" + clean_description(line) + "\"");
  }

  void parse_remark(std::string_view line) {
    const std::string text(line);
    tm time{};
    if (const char* at = strstr(text.c_str(), "snapshot taken at "); at != nullptr) {
      if (strptime(at + 18, "%Y-%m-%dT%H:%M:%SZ", &time) != nullptr) taken_at_ = timegm(&time);
    } else if (at = strstr(text.c_str(), "generated on "); at != nullptr) {
      time.tm_isdst = -1;
      if (strptime(at + 13, "%a %b %d %H:%M:%S %Y", &time) != nullptr) taken_at_ = mktime(&time);
    }
  }

  // "vendid=0x2c9": of the node to come.
  bool parse_id(std::string_view name, FabricCursor cursor) {
    uint64_t value = 0;
    if (!cursor.literal(name) || !cursor.literal("=0x") || !cursor.hex(&value)) {
      return fail("no hexadecimal number behind " + clean_description(name) + "=");
    }
    if (name == "vendid") {
      next_.vendor = static_cast<uint32_t>(value);
    } else if (name == "devid") {
      next_.device = static_cast<uint32_t>(value);
    } else if (name == "sysimgguid") {
      next_.system_guid = value;
    }
    return true;
  }

  // "S-2c5eab0300b87b40" in quotes.
  static bool parse_name(FabricCursor* cursor, FabricKind* kind, uint64_t* guid) {
    if (!cursor->literal("\"") || cursor->rest().size() < 3 ||
        !kind_of_letter(cursor->rest()[0], kind) || cursor->rest()[1] != '-') {
      return false;
    }
    *cursor = FabricCursor(cursor->rest().substr(2));
    return cursor->hex(guid) && cursor->literal("\"");
  }

  bool parse_node(FabricCursor cursor, FabricKind kind, std::string_view word) {
    FabricNode node = std::exchange(next_, {});
    FabricKind named;
    std::string_view description;
    cursor.literal(word);
    cursor.blanks();
    if (!cursor.number(&node.port_count)) return fail("no number of ports");
    cursor.blanks();
    if (!parse_name(&cursor, &named, &node.guid) || named != kind) {
      return fail("no node such as \"S-0002c90300000001\" behind the number of ports");
    }
    node.kind = kind;
    cursor.blanks();
    if (cursor.literal("#")) {
      cursor.blanks();
      if (!cursor.quoted('"', &description)) return fail("the description has no end");
      if (const size_t lid = cursor.rest().find(" lid "); lid != std::string_view::npos) {
        FabricCursor number(cursor.rest().substr(lid + 5));
        number.number(&node.lid);
      }
    }
    node.description = clean_description(description);
    const auto added = assembly_.add_node(std::move(node), line_);
    if (!added) {
      error_ = added.error();
      return false;
    }
    current_ = *added;
    return true;
  }

  // "[1]", "[1][ext 5]", and a GUID in parentheses that is skipped.
  static bool parse_port_number(FabricCursor* cursor, uint32_t* port) {
    uint32_t external;
    uint64_t guid;
    if (!cursor->literal("[") || !cursor->number(port) || !cursor->literal("]")) return false;
    if (cursor->literal("[ext ") && !(cursor->number(&external) && cursor->literal("]"))) {
      return false;
    }
    cursor->blanks();
    if (cursor->literal("(") && !(cursor->hex(&guid) && cursor->literal(")"))) return false;
    cursor->blanks();
    return true;
  }

  bool parse_port(FabricCursor cursor) {
    if (current_ == kNoFabricNode) return fail("a port without a node");
    ToldLink link;
    link.node = current_;
    link.line = line_;
    if (!parse_port_number(&cursor, &link.port.number) ||
        !parse_name(&cursor, &link.peer_kind, &link.peer_guid) ||
        !parse_port_number(&cursor, &link.port.peer_port)) {
      return fail("no link such as [1] \"S-0002c90300000001\"[2]");
    }
    if (cursor.literal("#")) {
      cursor.blanks();
      uint32_t own_lid = 0;
      if (cursor.literal("lid ") && cursor.number(&own_lid)) {
        uint32_t& lid = assembly_.node(current_).lid;
        if (lid == 0) lid = own_lid;
        cursor = FabricCursor(
            cursor.rest().substr(std::min(cursor.rest().find('"'), cursor.rest().size())));
      }
      if (!cursor.quoted('"', &link.peer_description)) return fail("the description has no end");
      cursor.blanks();
      if (cursor.literal("lid ")) cursor.number(&link.peer_lid);
      cursor.blanks();
      cursor.rate(&link.port);
    }
    assembly_.add_link(link);
    return true;
  }

  // An end in a port report: "134  1 0x7cfe9003003b4bde".
  static bool parse_end(FabricCursor* cursor, uint32_t* lid, uint32_t* port, uint64_t* guid) {
    cursor->blanks();
    if (!cursor->number(lid)) return false;
    cursor->blanks();
    if (!cursor->number(port)) return false;
    cursor->blanks();
    return cursor->literal("0x") && cursor->hex(guid);
  }

  bool parse_port_report(FabricCursor cursor, FabricKind kind) {
    ToldLink link;
    FabricNode node;
    node.kind = kind;
    link.line = line_;
    if (!parse_end(&cursor, &node.lid, &link.port.number, &node.guid)) {
      return fail("no LID, port and GUID behind the kind of node");
    }
    cursor.blanks();
    cursor.rate(&link.port);
    cursor.blanks();
    std::string_view description;
    const bool linked = cursor.literal("- ");
    if (linked) {
      if (!kind_of_word(&cursor, &link.peer_kind) ||
          !parse_end(&cursor, &link.peer_lid, &link.port.peer_port, &link.peer_guid)) {
        return fail("no kind, LID, port and GUID of the other end");
      }
      cursor.blanks();
      std::string_view both;
      if (!cursor.literal("( ") || !cursor.quoted('\'', &both)) return fail("no descriptions");
      const size_t middle = both.find("' - '");
      if (middle == std::string_view::npos) return fail("no description of the other end");
      description = both.substr(0, middle);
      link.peer_description = both.substr(middle + 5);
    } else if (!cursor.quoted('\'', &description)) {
      return fail("no description");
    }
    node.description = clean_description(description);
    link.node = assembly_.find(node.guid);
    if (link.node == kNoFabricNode) {
      const auto added = assembly_.add_node(std::move(node), line_);
      if (!added) {
        error_ = added.error();
        return false;
      }
      link.node = *added;
    } else if (assembly_.node(link.node).kind != kind) {
      return fail("a node that was of another kind before");
    }
    if (linked) assembly_.add_link(link);
    return true;
  }

  FabricAssembly assembly_;
  FabricNode next_;  // ids that were read ahead of it
  uint32_t current_ = kNoFabricNode;
  uint32_t line_ = 0;
  int64_t taken_at_ = 0;
  FabricError error_;
};

}  // namespace

tl::expected<FabricSnapshot, std::string> parse_fabric(std::string_view text) {
  return Parser().parse(text);
}

tl::expected<FabricSnapshot, std::string> read_fabric(const std::string& path) {
  auto failed = [&path](const std::string& text) { return tl::unexpected(path + ": " + text); };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return failed(strerror(errno));
  struct stat status;
  std::string text;
  std::string error;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    error = "not a regular file";
  } else if (static_cast<uint64_t>(status.st_size) > kMostBytes) {
    error = "larger than 512 MiB";
  } else {
    text.resize(static_cast<size_t>(status.st_size));
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t got = read(file, text.data() + done, text.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error = strerror(errno);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    text.resize(done);
  }
  close(file);
  if (!error.empty()) return failed(error);
  auto snapshot = parse_fabric(text);
  if (!snapshot) return failed(snapshot.error());
  return snapshot;
}

}  // namespace mfu
