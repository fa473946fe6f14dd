// Any bytes as the file in which a collector finds what another one had heard: no crash, no
// undefined behaviour. What was sound is known again, what is torn or changed leaves sound words
// or none.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "plugin/heard_nodes.hh"
#include "tests/fuzz/fuzz_input.hh"
#include "tests/fuzz/plausible_message.hh"

namespace {

using mfu::require;

constexpr uint32_t kNodes = 4;
constexpr uint64_t kEnded = mfu::kFuzzStart + 100 * mfu::kFuzzSecond;

class Folder {
 public:
  Folder() {
    require(mkdtemp(path_) != nullptr);
    plan = mfu::plan_of_message(kNodes);
    plan.folder = path_;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string stored() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(std::string_view bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  mfu::StepPlan plan;

 private:
  std::string path() const { return plan.folder + "/heard"; }
  char path_[32] = "/dev/shm/mfu-fuzz.XXXXXX";
};

bool is_sound(const mfu::NodeSums& sums, const mfu::StepPlan& plan) {
  return mfu::node_sums_fault(sums, plan.job, plan.step, plan.nodes) == nullptr;
}

// Words that a listener has let in: sound, and none older than what the node said before.
mfu::HeardNodes heard_from(mfu::FuzzInput* in, const mfu::StepPlan& plan) {
  mfu::HeardNodes heard;
  for (int left = in->take<uint8_t>() % 8; left > 0; --left) {
    const uint32_t node = in->take<uint8_t>() % kNodes;
    const mfu::peer::Message message = in->changed(mfu::plausible_message(node));
    if (message.spreads.fault() != nullptr || message.findings.fault() != nullptr) continue;
    if (!is_sound(message.sums, plan)) continue;
    const auto known = heard.sums().find(message.sums.node_id);
    if (known != heard.sums().end() && known->second.sequence > message.sums.sequence) continue;
    heard.take(message.sums, message.spreads, message.findings);
  }
  return heard;
}

template <typename Value>
bool is_same(const Value& one, const Value& other) {
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

// All is known again from what lies there.
void check_kept(const Folder& folder, const mfu::HeardNodes& heard) {
  require(heard.store(folder.plan, kEnded).empty());
  mfu::HeardNodes again;
  require(again.load(folder.plan) == kEnded);
  require(again.ended() == heard.ended() && again.sums().size() == heard.sums().size());
  for (const auto& [id, sums] : heard.sums()) require(is_same(again.sums().at(id), sums));
  require(is_same(again.spreads(), heard.spreads()) && again.findings() == heard.findings());
}

void check_loaded(const Folder& folder) {
  mfu::HeardNodes heard;
  const uint64_t ended_ns = heard.load(folder.plan);
  uint32_t ended = 0;
  for (const auto& [id, sums] : heard.sums()) {
    require(id == sums.node_id && is_sound(sums, folder.plan));
    ended += sums.last;
  }
  require(heard.ended() == ended && heard.spreads().fault() == nullptr);
  require(ended_ns == 0 || !folder.stored().empty());
  mfu::format_place_note(heard.findings());
}

// `bytes` with a few of them changed, and perhaps torn.
std::string damaged(std::string bytes, mfu::FuzzInput* in) {
  const uint8_t how = in->take<uint8_t>();
  for (int left = how % 16; left > 0 && !bytes.empty(); --left) {
    const size_t at = in->take<uint16_t>() % bytes.size();
    bytes[at] = in->take<char>();
  }
  if ((how & 64) != 0) bytes.resize(in->take<uint16_t>() % (bytes.size() + 1));
  if ((how & 128) != 0) bytes.append(in->take_text());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  mfu::FuzzInput in(data, size);
  if (in.take<uint8_t>() % 4 == 0) {
    folder.put(in.rest());
  } else {
    check_kept(folder, heard_from(&in, folder.plan));
    if (in.empty()) return 0;
    folder.put(damaged(folder.stored(), &in));
  }
  check_loaded(folder);
  return 0;
}
