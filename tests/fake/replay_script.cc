#include "tests/fake/replay_script.hh"

#include <limits>
#include <stdexcept>

namespace mfu::fake {
namespace {

constexpr char kFirstLine[] = "mfu-replay 1";
constexpr char kKinds[] = {'k', 'm', 'p', 's'};  // by GpuWork

std::string escaped(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      if (c == '\\') line += '\\';
      line += c;
    }
  }
  return line;
}

}  // namespace

ScriptWriter::ScriptWriter(std::ostream* out) : out_(*out) {
  out_ << kFirstLine << '\n';
}

void ScriptWriter::write(const GpuOperation& operation, const std::string& name) {
  auto [entry, fresh] = numbers_.emplace(name, numbers_.size());
  if (fresh) out_ << "name " << entry->second << ' ' << escaped(name) << '\n';
  const uint32_t* grid = operation.grid;
  const uint32_t* block = operation.block;
  out_ << kKinds[static_cast<size_t>(operation.work)] << ' ' << operation.device << ' '
       << operation.stream << ' ' << operation.start_ns << ' ' << operation.end_ns << ' '
       << operation.correlation << ' ' << operation.graph_node << ' ' << operation.bytes << ' '
       << operation.copy_kind << ' ' << grid[0] << ',' << grid[1] << ',' << grid[2] << ' '
       << block[0] << ',' << block[1] << ',' << block[2] << ' ' << entry->second << '\n';
}

ScriptReader::ScriptReader(std::istream* in, std::string path) : in_(*in), path_(std::move(path)) {
  if (!read_line() || line_ != kFirstLine) {
    fail(std::string("not a replay script: expected \"") + kFirstLine + '"');
  }
}

void ScriptReader::fail(const std::string& what) const {
  throw std::runtime_error(path_ + ":" + std::to_string(line_number_) + ": " + what);
}

bool ScriptReader::read_line() {
  at_ = 0;
  ++line_number_;
  return static_cast<bool>(std::getline(in_, line_));
}

uint64_t ScriptReader::number(uint64_t limit) {
  size_t from = at_;
  uint64_t value = 0;
  for (; at_ < line_.size() && line_[at_] >= '0' && line_[at_] <= '9'; ++at_) {
    uint64_t digit = static_cast<uint64_t>(line_[at_] - '0');
    if (value > (limit - digit) / 10)
      fail("number out of range at column " + std::to_string(from + 1));
    value = value * 10 + digit;
  }
  if (at_ == from) fail("expected a number at column " + std::to_string(from + 1));
  return value;
}

void ScriptReader::separator(char c) {
  if (at_ >= line_.size() || line_[at_] != c) {
    fail(std::string("expected '") + c + "' at column " + std::to_string(at_ + 1));
  }
  ++at_;
}

void ScriptReader::triple(uint32_t (&values)[3]) {
  for (int i = 0; i < 3; ++i) {
    if (i != 0) separator(',');
    values[i] = static_cast<uint32_t>(number(std::numeric_limits<uint32_t>::max()));
  }
}

void ScriptReader::read_name() {
  at_ = sizeof("name ") - 1;
  uint64_t key = number(std::numeric_limits<uint64_t>::max());
  if (key != names_.size()) fail("expected name number " + std::to_string(names_.size()));
  separator(' ');
  std::string& text = names_[key];
  for (; at_ < line_.size(); ++at_) {
    char c = line_[at_];
    if (c == '\\') {
      char escape = ++at_ < line_.size() ? line_[at_] : '\0';
      if (escape != 'n' && escape != 'r' && escape != '\\') fail("unknown escape in the name");
      c = escape == 'n' ? '\n' : escape == 'r' ? '\r' : '\\';
    }
    text += c;
  }
}

bool ScriptReader::read(GpuOperation* operation) {
  while (read_line()) {
    if (line_.empty() || line_[0] == '#') continue;
    if (line_.starts_with("name ")) {
      read_name();
      continue;
    }
    constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
    constexpr uint64_t kMaxTime = std::numeric_limits<int64_t>::max();
    size_t work = 0;
    while (work < sizeof(kKinds) && kKinds[work] != line_[0]) ++work;
    if (work == sizeof(kKinds)) fail("unknown kind of line");
    *operation = {};
    operation->work = static_cast<GpuWork>(work);
    at_ = 1;
    auto next = [this](uint64_t limit) {
      separator(' ');
      return number(limit);
    };
    operation->device = static_cast<CUdevice>(next(std::numeric_limits<CUdevice>::max()));
    operation->stream = static_cast<uint32_t>(next(kMax32));
    operation->start_ns = next(kMaxTime);
    operation->end_ns = next(kMaxTime);
    operation->correlation = static_cast<uint32_t>(next(kMax32));
    operation->graph_node = next(std::numeric_limits<uint64_t>::max());
    operation->bytes = next(std::numeric_limits<uint64_t>::max());
    operation->copy_kind = static_cast<uint32_t>(next(kMax32));
    separator(' ');
    triple(operation->grid);
    separator(' ');
    triple(operation->block);
    auto name = names_.find(next(std::numeric_limits<uint64_t>::max()));
    if (name == names_.end()) fail("a name that was not declared");
    if (at_ != line_.size()) fail("more than expected at column " + std::to_string(at_ + 1));
    if (operation->end_ns < operation->start_ns) fail("ends before it starts");
    if (operation->start_ns < last_start_ns_) fail("starts before the operation above it");
    last_start_ns_ = operation->start_ns;
    operation->name = name->second.c_str();
    return true;
  }
  return false;
}

}  // namespace mfu::fake
