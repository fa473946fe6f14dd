// Collectors talking to each other: one TCP connection per message. Both the message and the answer
// are MUNGE credentials that only uid 0 can have made and only uid 0 can open; the payload is bound
// to job, step and node, and its sequence number must not fall, so that nothing old can be
// replayed. The newest message may come again: its answer may have been lost.
//
// The collector of the step's first node listens on the first free port of a few that follow from
// job and step; the others try the same ports until one answers with a credential for their step.
#ifndef MFU_PLUGIN_PEER_HH_
#define MFU_PLUGIN_PEER_HH_

#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/collective_spreads.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/step_plan.hh"

namespace mfu::peer {

// What a node says.
struct Message {
  NodeSums sums;
  CollectiveSpreads spreads;  // complete with its last word
  NodeFindings findings;      // of its placement
};
static_assert(std::has_unique_object_representations_v<Message>, "padding would leak memory");

// Who was not let in: strangers, noise, forged and replayed messages. Collectors of other steps,
// who look for theirs, are none of them.
struct Refusals {
  uint64_t count = 0;
  std::string first;   // what was wrong with the first one
  std::string sender;  // its address
  std::string text() const;
};

// How many ports of the range a step may listen on.
inline constexpr int kPortTries = 16;
std::vector<uint16_t> ports(const StepPlan& plan);

// Listening end. Never blocks; all work is done in turn() when poll() says so.
class Listener {
 public:
  ~Listener();
  // False when no port of the step's is free.
  bool open(const StepPlan& plan);
  bool is_open() const { return fd_ >= 0; }

  // Descriptors to wait for (POLLIN).
  std::vector<int> descriptors() const;
  // Accepts, reads and answers whatever is ready. `accept` gets what has proved itself and returns
  // true when the peer is to be answered now; false keeps it waiting until answer_waiting().
  using Acceptor = std::function<bool(const Message&)>;
  void turn(const Acceptor& accept);
  // Answers everyone who waits: the step's line has been written.
  void answer_waiting();
  const Refusals& refusals() const { return refusals_; }
  // Of all the step's nodes: from now on in the answers.
  void know_gpus(uint32_t step_gpus) { plan_.step_gpus = step_gpus; }

 private:
  struct Connection {
    int fd;
    std::string received;
    int64_t deadline_ms;
    bool waiting;  // its answer is being held back
    uint32_t node_id;
    uint64_t sequence;
  };
  void receive(Connection* connection, const Acceptor& accept);
  // Anybody may connect and keep silent: the oldest who has not proved himself, but had the time
  // to, goes when all places are taken. False: none such.
  bool make_room();
  void answer(Connection* connection);
  void refuse(const Connection& connection, const std::string& why);
  // Why a message is not to be taken; empty: it is. `foreign`: it is another step's.
  std::string fault(const Message& message, bool* foreign) const;

  StepPlan plan_;
  int fd_ = -1;
  std::vector<Connection> connections_;
  std::vector<uint64_t> sequences_;  // last seen, by node
  Refusals refusals_;
};

// Sends `message` to the first node's collector at `host` and waits for its answer, all together at
// most `milliseconds`: the GPUs of all the step's nodes, or 0, as long as not all have been heard.
// `port` is the one that answered last time (0: unknown) and is updated.
tl::expected<uint32_t, std::string> send(const StepPlan& plan, const std::string& host,
                                         const Message& message, int milliseconds, uint16_t* port);

}  // namespace mfu::peer

#endif
