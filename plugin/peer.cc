#include "plugin/peer.hh"

#include <arpa/inet.h>
#include <fcntl.h>
#include <munge.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

namespace mfu::peer {
namespace {

// Longer frames are not ours. A credential is base64, with less than 256 bytes of MUNGE's own.
constexpr uint32_t kMaxFrame = 16384;
static_assert((sizeof(Message) + 256) / 3 * 4 + 4 <= kMaxFrame);
constexpr size_t kMaxConnections = 512;
constexpr int kFrameDeadlineMs = 3000;
constexpr int kHeldDeadlineMs = 5000;
// Who has said nothing for so long makes room for others when there is none.
constexpr int kQuietMs = 100;
constexpr int kFullPauseMs = 5;

struct Answer {
  uint64_t magic = kMagic;
  uint32_t job = 0;
  uint32_t step = 0;
  uint32_t node_id = 0;
  uint32_t step_gpus = 0;
  uint64_t sequence = 0;
  static constexpr uint64_t kMagic = 0x31414355'55464d00;
};

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

struct ContextDeleter {
  void operator()(munge_ctx* context) const { munge_ctx_destroy(context); }
};

std::unique_ptr<munge_ctx, ContextDeleter> munge_context(const StepPlan& plan) {
  std::unique_ptr<munge_ctx, ContextDeleter> context(munge_ctx_create());
  if (context != nullptr) {
    munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, uid_t{0});
    if (!plan.site.munge.empty()) {
      munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, plan.site.munge.c_str());
    }
  }
  return context;
}

template <typename Payload>
tl::expected<std::string, std::string> seal(const StepPlan& plan, const Payload& payload) {
  auto context = munge_context(plan);
  char* credential = nullptr;
  munge_err_t error = munge_encode(&credential, context.get(), &payload, sizeof(payload));
  if (error != EMUNGE_SUCCESS) {
    return tl::make_unexpected(std::string("munge: ") + munge_strerror(error));
  }
  std::string text = credential;
  std::free(credential);
  return text;
}

template <typename Payload>
tl::expected<Payload, std::string> unseal(const StepPlan& plan, const std::string& text) {
  auto context = munge_context(plan);
  void* bytes = nullptr;
  int size = 0;
  uid_t uid = UINT32_MAX;
  gid_t gid = UINT32_MAX;
  munge_err_t error = munge_decode(text.c_str(), context.get(), &bytes, &size, &uid, &gid);
  std::unique_ptr<void, void (*)(void*)> owned(bytes, std::free);
  if (error != EMUNGE_SUCCESS) {
    return tl::make_unexpected(std::string("munge: ") + munge_strerror(error));
  }
  if (uid != 0) return tl::make_unexpected("a credential of uid " + std::to_string(uid));
  if (size != sizeof(Payload)) return tl::make_unexpected(std::string("a payload of another size"));
  Payload payload;
  std::memcpy(static_cast<void*>(&payload), bytes, sizeof(payload));
  return payload;
}

std::string frame(const std::string& text) {
  uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

// The frame's text once it is complete; an error when it cannot become one.
tl::expected<std::string, bool> unframe(const std::string& received) {
  if (received.size() < sizeof(uint32_t)) return tl::make_unexpected(true);
  uint32_t size;
  std::memcpy(&size, received.data(), sizeof(size));
  size = ntohl(size);
  if (size > kMaxFrame || received.size() > sizeof(size) + size) return tl::make_unexpected(false);
  if (received.size() < sizeof(size) + size) return tl::make_unexpected(true);
  return received.substr(sizeof(size));
}

bool wait_for(int fd, short what, int64_t deadline_ms) {
  int64_t left = deadline_ms - now_ms();
  pollfd entry{fd, what, 0};
  return left > 0 && poll(&entry, 1, static_cast<int>(left)) == 1;
}

// Sends `message`, receives one frame.
tl::expected<std::string, std::string> exchange(int fd, const std::string& message,
                                                int64_t deadline_ms) {
  for (size_t sent = 0; sent < message.size();) {
    if (!wait_for(fd, POLLOUT, deadline_ms)) return tl::make_unexpected(std::string("timed out"));
    ssize_t count = ::send(fd, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return tl::make_unexpected(std::string(strerror(errno)));
    if (count > 0) sent += static_cast<size_t>(count);
  }
  std::string received;
  for (;;) {
    auto text = unframe(received);
    if (text) return *text;
    if (!text.error()) return tl::make_unexpected(std::string("an overlong answer"));
    if (!wait_for(fd, POLLIN, deadline_ms)) return tl::make_unexpected(std::string("timed out"));
    char buffer[4096];
    ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count == 0) return tl::make_unexpected(std::string("closed without an answer"));
    if (count < 0 && errno != EAGAIN) return tl::make_unexpected(std::string(strerror(errno)));
    if (count > 0) received.append(buffer, static_cast<size_t>(count));
  }
}

int connect_to(const addrinfo& address, int64_t deadline_ms) {
  int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return fd;
  int error = errno;
  socklen_t size = sizeof(error);
  if (error == EINPROGRESS && wait_for(fd, POLLOUT, deadline_ms) &&
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// One message to one address, from `credential`, which is made when it is empty and emptied when
// somebody got it: the wrong collector's munged marks it as used. An error is empty when nobody
// listens there.
tl::expected<uint32_t, std::string> deliver(const StepPlan& plan, const addrinfo& address,
                                            const Message& message, std::string* credential,
                                            int64_t deadline_ms) {
  // Before the connection, which is not to be silent while others want its place.
  if (credential->empty()) {
    auto sealed = seal(plan, message);
    if (!sealed) return tl::make_unexpected(sealed.error());
    *credential = std::move(*sealed);
  }
  int fd = connect_to(address, deadline_ms);
  if (fd < 0) return tl::make_unexpected(std::string());
  auto text = exchange(fd, frame(std::exchange(*credential, {})), deadline_ms);
  close(fd);
  if (!text) return tl::make_unexpected(text.error());
  auto answer = unseal<Answer>(plan, *text);
  if (!answer) return tl::make_unexpected(answer.error());
  if (answer->magic == Answer::kMagic && answer->job == plan.job && answer->step == plan.step &&
      answer->node_id == message.sums.node_id && answer->sequence == message.sums.sequence) {
    return answer->step_gpus;
  }
  return tl::make_unexpected(std::string("answers for another step"));
}

}  // namespace

std::vector<uint16_t> ports(const StepPlan& plan) {
  uint32_t range = plan.site.last_port - plan.site.first_port + 1u;
  uint64_t hash = (uint64_t{plan.job} << 32 | plan.step) * 0x9e3779b97f4a7c15;
  std::vector<uint16_t> result;
  for (uint32_t i = 0; i < std::min<uint32_t>(range, kPortTries); ++i) {
    result.push_back(static_cast<uint16_t>(plan.site.first_port + ((hash >> 32) + i) % range));
  }
  return result;
}

Listener::~Listener() {
  for (Connection& connection : connections_) close(connection.fd);
  if (fd_ >= 0) close(fd_);
}

bool Listener::open(const StepPlan& plan) {
  plan_ = plan;
  sequences_.assign(plan.nodes, 0);
  for (uint16_t port : ports(plan)) {
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int no = 0;
    int yes = 1;
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = htons(port);
    const auto* address = reinterpret_cast<const sockaddr*>(&any6);
    socklen_t size = sizeof(any6);
    if (fd < 0) {  // a kernel without IPv6
      fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      if (fd < 0) return false;
      address = reinterpret_cast<const sockaddr*>(&any4);
      size = sizeof(any4);
    } else {
      setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) {
      fd_ = fd;
      return true;
    }
    close(fd);
  }
  return false;
}

std::vector<int> Listener::descriptors() const {
  std::vector<int> result;
  if (fd_ >= 0) result.push_back(fd_);
  for (const Connection& connection : connections_) {
    if (!connection.waiting) result.push_back(connection.fd);
  }
  return result;
}

void Listener::answer(Connection* connection) {
  Answer answer;
  answer.job = plan_.job;
  answer.step = plan_.step;
  answer.node_id = connection->node_id;
  answer.step_gpus = plan_.step_gpus;
  answer.sequence = connection->sequence;
  if (auto text = seal(plan_, answer)) {
    std::string message = frame(*text);
    // It fits into an empty socket buffer; a peer that does not take it is no loss.
    ::send(connection->fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  connection->deadline_ms = 0;
}

std::string Refusals::text() const {
  if (count == 1) return "refused a message from " + sender + ": " + first;
  return "refused " + std::to_string(count) + " messages, the first from " + sender + ": " + first;
}

void Listener::refuse(const Connection& connection, const std::string& why) {
  if (refusals_.count++ != 0) return;
  refusals_.first = why;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "an unknown address";
  if (getpeername(connection.fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), nullptr, 0,
                NI_NUMERICHOST);
  }
  refusals_.sender = host;
}

std::string Listener::fault(const Message& message, bool* foreign) const {
  const NodeSums& sums = message.sums;
  *foreign = sums.magic == NodeSums::kMagic &&
             (sums.job != plan_.job || sums.step != plan_.step || sums.restart != plan_.restart);
  if (*foreign) return "of another step";
  for (const char* why : {node_sums_fault(sums, plan_.job, plan_.step, plan_.nodes),
                          message.spreads.fault(), message.findings.fault()}) {
    if (why != nullptr) return why;
  }
  return sums.sequence < sequences_[sums.node_id] ? "older than what this node has said" : "";
}

// Whoever cannot prove to be root's collector of this step is let go without a word.
void Listener::receive(Connection* connection, const Acceptor& accept) {
  char buffer[4096];
  ssize_t count;
  while ((count = recv(connection->fd, buffer, sizeof(buffer), 0)) > 0) {
    connection->received.append(buffer, static_cast<size_t>(count));
    if (connection->received.size() > sizeof(uint32_t) + kMaxFrame) break;
  }
  auto text = unframe(connection->received);
  if (!text) {
    bool gone = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    if (!text.error()) refuse(*connection, "no message of a collector");
    if (!text.error() || gone) connection->deadline_ms = 0;
    return;
  }
  connection->deadline_ms = 0;
  auto message = unseal<Message>(plan_, *text);
  if (!message) return refuse(*connection, message.error());
  bool foreign = false;
  const std::string why = fault(*message, &foreign);
  if (foreign) return;
  if (!why.empty()) return refuse(*connection, why);
  const NodeSums& sums = message->sums;
  sequences_[sums.node_id] = sums.sequence;
  connection->node_id = sums.node_id;
  connection->sequence = sums.sequence;
  if (accept(*message)) {
    answer(connection);
  } else {
    connection->waiting = true;
    connection->deadline_ms = now_ms() + kHeldDeadlineMs;
  }
}

bool Listener::make_room() {
  if (connections_.size() < kMaxConnections) return true;
  auto oldest = std::find_if(connections_.begin(), connections_.end(),
                             [](const Connection& connection) { return !connection.waiting; });
  if (oldest == connections_.end()) oldest = connections_.begin();
  if (!oldest->waiting && oldest->deadline_ms - kFrameDeadlineMs + kQuietMs > now_ms())
    return false;
  close(oldest->fd);
  connections_.erase(oldest);
  return true;
}

void Listener::turn(const Acceptor& accept) {
  // Those that are here come first: a step's nodes may all end, and connect, at the same moment.
  for (Connection& connection : connections_) {
    if (!connection.waiting) receive(&connection, accept);
  }
  int64_t now = now_ms();
  std::erase_if(connections_, [now](const Connection& connection) {
    if (connection.deadline_ms > now) return false;
    close(connection.fd);
    return true;
  });
  for (size_t i = 0; i < kMaxConnections; ++i) {
    if (!make_room()) {
      // The others wait in the kernel's queue, and we not in a busy loop.
      poll(nullptr, 0, kFullPauseMs);
      break;
    }
    int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) break;
    connections_.push_back({fd, {}, now_ms() + kFrameDeadlineMs, false, 0, 0});
  }
}

void Listener::answer_waiting() {
  for (Connection& connection : connections_) {
    if (connection.waiting) answer(&connection);
  }
}

tl::expected<uint32_t, std::string> send(const StepPlan& plan, const std::string& host,
                                         const Message& message, int milliseconds, uint16_t* port) {
  int64_t deadline_ms = now_ms() + milliseconds;
  std::vector<uint16_t> candidates = ports(plan);
  if (*port != 0) candidates.insert(candidates.begin(), *port);
  std::string credential;
  std::string why = "no collector listens on " + host;
  // Whoever listens and keeps silent may be a stranger, or our collector holding its answer back:
  // he gets half of the time that is left, and another turn after the others.
  for (bool silent = true; silent && now_ms() < deadline_ms;) {
    silent = false;
    for (uint16_t candidate : candidates) {
      int64_t candidate_ms = candidate == *port ? deadline_ms : (now_ms() + deadline_ms + 1) / 2;
      addrinfo hints{};
      hints.ai_socktype = SOCK_STREAM;
      addrinfo* found = nullptr;
      int error = getaddrinfo(host.c_str(), std::to_string(candidate).c_str(), &hints, &found);
      if (error != 0) return tl::make_unexpected(host + ": " + gai_strerror(error));
      std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
      for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
        auto sent = deliver(plan, *address, message, &credential, candidate_ms);
        if (sent) {
          *port = candidate;
          return sent;
        }
        silent = silent || now_ms() >= candidate_ms;
        if (!sent.error().empty()) {
          why = host + " port " + std::to_string(candidate) + ": " + sent.error();
        }
      }
    }
  }
  *port = 0;  // another may listen there now
  return tl::make_unexpected(why);
}

}  // namespace mfu::peer
