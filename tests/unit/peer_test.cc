// Collectors talking to each other, with a private munged.
#include "plugin/peer.hh"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <munge.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/private_munged.hh"

namespace mfu {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr uid_t kNobody = 65534;

// A munged of its own for all tests of this program.
class Munged : public testing::Environment {
 public:
  void SetUp() override { own_.emplace(); }
  void TearDown() override { own_.reset(); }
  bool runs() const { return own_->runs(); }
  std::string socket() const { return own_->socket(); }

 private:
  std::optional<PrivateMunged> own_;
};
auto* const munged = static_cast<Munged*>(testing::AddGlobalTestEnvironment(new Munged));

StepPlan plan_of(uint32_t step = 0) {
  StepPlan plan;
  plan.job = 7;
  plan.step = step;
  plan.nodes = 4;
  plan.site.munge = munged->socket();
  plan.site.first_port = free_ports();
  plan.site.last_port = static_cast<uint16_t>(plan.site.first_port + 15);
  return plan;
}

peer::Message sums_of(const StepPlan& plan, uint32_t node_id = 1, uint64_t sequence = 1) {
  peer::Message whole;
  NodeSums& sums = whole.sums;
  sums.job = plan.job;
  sums.step = plan.step;
  sums.restart = plan.restart;
  sums.node_id = node_id;
  sums.sequence = sequence;
  sums.gpus = 4;
  sums.compute_ns = 12345;
  return whole;
}

// How long what must come is waited for: a machine may stop any thread for seconds.
constexpr auto kPatience = 60s;

template <typename Condition>
bool comes_true(Condition condition) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

// A first node's collector in a thread. `answer_now`: what accept returns, up to answer_all().
class FirstNode {
 public:
  explicit FirstNode(const StepPlan& plan, bool answer_now = true) : answer_now_(answer_now) {
    open_ = listener_.open(plan);
    if (!open_) return;
    thread_ = std::thread([this] {
      while (!stop_) {
        std::vector<pollfd> waited;
        for (int fd : listener_.descriptors()) waited.push_back({fd, POLLIN, 0});
        poll(waited.data(), waited.size(), 5);
        listener_.turn([this](const peer::Message& received) {
          last_compute_ = received.sums.compute_ns;
          ++accepted_;
          return answer_now_.load();
        });
        if (answer_now_) listener_.answer_waiting();
      }
    });
  }
  ~FirstNode() { close(); }
  void close() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  bool is_open() const { return open_; }
  int accepted() const { return accepted_; }
  uint64_t last_compute() const { return last_compute_; }
  // As behind the line's last write: those that wait, and who did not wait for it and asks again.
  void answer_all() { answer_now_ = true; }

 private:
  peer::Listener listener_;
  bool open_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<bool> answer_now_;
  std::atomic<int> accepted_{0};
  std::atomic<uint64_t> last_compute_{0};
  std::thread thread_;
};

// --- a stranger

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in local(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Descriptor connected(uint16_t port) {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = local(port);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Descriptor(-1);
  }
  return fd;
}

// Listens and says nothing.
Descriptor silent_listener(uint16_t port) {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = local(port);
  address.sin_addr.s_addr = INADDR_ANY;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), 64) != 0) {
    return Descriptor(-1);
  }
  return fd;
}

std::string framed(const std::string& text) {
  uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

// The size of what comes; 0 or less: the connection ended without.
ssize_t received(const Descriptor& fd) {
  timeval limit{kPatience.count(), 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char buffer[4096];
  errno = 0;
  const ssize_t size = recv(fd.get(), buffer, sizeof(buffer), 0);
  EXPECT_NE(errno, EAGAIN) << "neither an answer nor an end";
  return size;
}

// Sends the bytes and tells whether anything was answered before the end.
bool answered(uint16_t port, const std::string& bytes) {
  Descriptor fd = connected(port);
  EXPECT_GE(fd.get(), 0);
  [[maybe_unused]] ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return received(fd) > 0;
}

// A credential made by `uid`, which only root may open, as the collector makes it.
std::string credential(const void* payload, size_t size, uid_t uid = 0) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  pid_t child = fork();
  if (child == 0) {
    if (uid != 0 && (setgid(uid) != 0 || setuid(uid) != 0)) _exit(1);
    munge_ctx_t context = munge_ctx_create();
    munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, uid_t{0});
    munge_ctx_set(context, MUNGE_OPT_SOCKET, munged->socket().c_str());
    char* text = nullptr;
    if (munge_encode(&text, context, payload, static_cast<int>(size)) != EMUNGE_SUCCESS) _exit(1);
    _exit(write(ends[1], text, strlen(text)) > 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string text(32'768, '\0');
  size_t got = 0;
  for (ssize_t count; (count = read(ends[0], text.data() + got, text.size() - got)) > 0;) {
    got += static_cast<size_t>(count);
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  text.resize(got);
  return text;
}

std::string message(const peer::Message& sums, uid_t uid = 0) {
  return framed(credential(&sums, sizeof(sums), uid));
}

class Peer : public testing::Test {
 protected:
  void SetUp() override {
    if (!munged->runs()) GTEST_SKIP() << "no private munged: needs root and the user munge";
  }
};

// Enough for whatever succeeds: half of it passes before a port is asked again. What is refused
// ends at once.
constexpr int kEnoughMs = 60'000;

auto send(const StepPlan& plan, const peer::Message& sums, int milliseconds = kEnoughMs) {
  uint16_t port = 0;
  return peer::send(plan, "localhost", sums, milliseconds, &port);
}

TEST_F(Peer, PortsFollowFromTheStepAndStayInTheRange) {
  StepPlan plan = plan_of();
  auto ports = peer::ports(plan);
  EXPECT_EQ(ports.size(), 16u);
  EXPECT_EQ(ports, peer::ports(plan));
  for (uint32_t job = 0; job < 500; ++job) {
    plan.job = job * 7919;
    for (uint16_t port : peer::ports(plan)) {
      EXPECT_GE(port, plan.site.first_port);
      EXPECT_LE(port, plan.site.last_port);
    }
  }
  plan.site.first_port = plan.site.last_port = 65535;
  EXPECT_EQ(peer::ports(plan), std::vector<uint16_t>{65535});
}

TEST_F(Peer, SumsArriveAndThePortIsRemembered) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  ASSERT_TRUE(first.is_open());
  uint16_t port = 0;
  auto sent = peer::send(plan, "localhost", sums_of(plan), kEnoughMs, &port);
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(first.last_compute(), 12345u);
  EXPECT_NE(port, 0);
  EXPECT_EQ(*sent, 0u);  // how many GPUs there are
  sent = peer::send(plan, "localhost", sums_of(plan, 1, 2), kEnoughMs, &port);
  EXPECT_TRUE(sent) << sent.error();
  EXPECT_EQ(first.accepted(), 2);
}

TEST_F(Peer, AnAnswerTellsTheGpusOfAllNodesOnceTheyAreKnown) {
  StepPlan plan = plan_of();
  StepPlan knowing = plan;
  knowing.step_gpus = 40;
  FirstNode first(knowing);
  ASSERT_TRUE(first.is_open());
  const auto sent = send(plan, sums_of(plan));
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(*sent, 40u);
}

// Bytes that no compression would make fewer, as far as a message may have them.
TEST_F(Peer, TheFullestMessageFitsIntoItsFrame) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  std::mt19937 random(1);
  const auto letters = [&random](size_t count) {
    std::string text(count, ' ');
    for (char& byte : text) byte = static_cast<char>('!' + random() % 94);
    return text;
  };
  peer::Message full = sums_of(plan);
  std::vector<Finding> findings;
  for (int i = 0; i < 5; ++i) {
    findings.push_back({"rule", Severity::kHigh, letters(200), letters(300), letters(300)});
  }
  full.findings = top_findings(findings);
  full.spreads.count = CollectiveSpreads::kMost;
  uint64_t key = 0;
  for (CollectiveSpreads::Spread& spread : full.spreads.spreads) {
    key += 1 + random();
    spread = {key, random(), uint64_t{random()} << 22, 2 + static_cast<uint32_t>(random() % 9), 1};
  }
  ASSERT_EQ(full.spreads.fault(), nullptr) << full.spreads.fault();
  const auto sent = send(plan, full);
  EXPECT_TRUE(sent) << sent.error();
  EXPECT_EQ(first.accepted(), 1);
}

TEST_F(Peer, ManyNodesAtTheSameTime) {
  StepPlan plan = plan_of();
  plan.nodes = 40;
  FirstNode first(plan);
  std::vector<std::thread> nodes;
  std::atomic<int> good{0};
  for (uint32_t id = 1; id < plan.nodes; ++id) {
    nodes.emplace_back([&, id] { good += send(plan, sums_of(plan, id)) ? 1 : 0; });
  }
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(good, 39);
  EXPECT_EQ(first.accepted(), 39);
}

TEST_F(Peer, SumsOfAnotherStepAreRefused) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  auto refused = [&](auto spoil) {
    peer::Message sums = sums_of(plan);
    spoil(&sums);
    return !answered(port, message(sums));
  };
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.job = 8; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.step = 1; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.restart = 1; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.node_id = 4; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.magic = 0; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.device_name[0] = '\n'; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->sums.clique[0] = '\x1b'; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->spreads.count = 257; }));
  EXPECT_TRUE(refused([](peer::Message* m) { m->findings.count = 5; }));
  EXPECT_EQ(first.accepted(), 0);
  EXPECT_FALSE(refused([](peer::Message*) {}));
  EXPECT_EQ(first.accepted(), 1);
}

TEST_F(Peer, OnlyRootIsBelieved) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  std::string of_nobody = message(sums_of(plan), kNobody);
  ASSERT_GT(of_nobody.size(), 100u);
  EXPECT_FALSE(answered(port, of_nobody));
  EXPECT_EQ(first.accepted(), 0);
  EXPECT_TRUE(answered(port, message(sums_of(plan))));
}

TEST_F(Peer, ACredentialIsGoodOnce) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  std::string bytes = message(sums_of(plan));
  EXPECT_TRUE(answered(port, bytes));
  EXPECT_FALSE(answered(port, bytes));
  EXPECT_EQ(first.accepted(), 1);
}

TEST_F(Peer, AnOldSequenceIsRefusedAndTheNewestMayComeAgain) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  EXPECT_TRUE(send(plan, sums_of(plan, 1, 5)));
  EXPECT_FALSE(send(plan, sums_of(plan, 1, 4)));
  EXPECT_EQ(first.accepted(), 1);
  EXPECT_TRUE(send(plan, sums_of(plan, 1, 5)));  // its answer was lost
  EXPECT_TRUE(send(plan, sums_of(plan, 2, 1)));  // another node counts for itself
  EXPECT_EQ(first.accepted(), 3);
}

TEST_F(Peer, APayloadOfAnotherSizeIsRefused) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  peer::Message sums = sums_of(plan);
  EXPECT_FALSE(answered(port, framed(credential(&sums, sizeof(sums) - 8))));
  EXPECT_FALSE(answered(port, framed(credential(&sums, 0))));
  EXPECT_EQ(first.accepted(), 0);
}

TEST_F(Peer, GarbageAndOverlongFramesAreDropped) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  std::mt19937 random(1);
  std::string noise(20'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  EXPECT_FALSE(answered(port, noise));
  EXPECT_FALSE(answered(port, framed(noise)));
  EXPECT_FALSE(answered(port, framed(std::string(16'384, 'x'))));
  EXPECT_FALSE(answered(port, framed("")));
  EXPECT_FALSE(answered(port, framed("MUNGE:AwQDAAA:")));
  EXPECT_FALSE(answered(port, "GET / HTTP/1.1\r\n\r\n"));
  EXPECT_FALSE(answered(port, framed("x") + "more"));
  EXPECT_EQ(first.accepted(), 0);
  EXPECT_TRUE(send(plan, sums_of(plan)));
}

// Without a thread and a pause: a frame has three seconds.
TEST_F(Peer, AFrameInSmallPiecesArrives) {
  StepPlan plan = plan_of();
  peer::Listener first;
  ASSERT_TRUE(first.open(plan));
  const std::string bytes = message(sums_of(plan));
  int accepted = 0;
  const auto turn = [&] {
    first.turn([&](const peer::Message&) {
      ++accepted;
      return true;
    });
  };
  Descriptor fd = connected(peer::ports(plan)[0]);
  for (size_t at = 0; at < bytes.size(); at += 100) {
    turn();
    EXPECT_EQ(accepted, 0);
    ::send(fd.get(), bytes.data() + at, std::min<size_t>(100, bytes.size() - at), MSG_NOSIGNAL);
  }
  turn();
  EXPECT_EQ(accepted, 1);
  EXPECT_GT(received(fd), 0);
}

TEST_F(Peer, SilentConnectionsEndAndKeepNobodyOut) {
  StepPlan plan = plan_of();
  FirstNode first(plan);
  uint16_t port = peer::ports(plan)[0];
  std::vector<Descriptor> idle;
  for (int i = 0; i < 700; ++i) {
    idle.push_back(connected(port));
    if (i % 3 == 0 && idle.back().get() >= 0) ::send(idle.back().get(), "\0\0", 2, MSG_NOSIGNAL);
  }
  auto sent = send(plan, sums_of(plan));
  EXPECT_TRUE(sent) << sent.error();
  // And the oldest have been let go.
  EXPECT_LE(received(idle[0]), 0);
}

// Who has kept silent for long enough goes as soon as his place is wanted, and not with the end of
// his time: counted in turns, for times are the machine's.
TEST_F(Peer, SilentConnectionsMakeRoomAtOnce) {
  StepPlan plan = plan_of();
  peer::Listener first;
  ASSERT_TRUE(first.open(plan));
  int accepted = 0;
  const auto turn = [&] {
    first.turn([&](const peer::Message&) {
      ++accepted;
      return true;
    });
  };
  const std::string bytes = message(sums_of(plan));
  std::vector<Descriptor> idle;
  for (int i = 0; i < 700; ++i) idle.push_back(connected(peer::ports(plan)[0]));
  turn();  // all places are taken
  std::this_thread::sleep_for(150ms);
  Descriptor fd = connected(peer::ports(plan)[0]);
  ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  turn();  // lets the oldest go, for all that wait
  turn();  // reads
  EXPECT_EQ(accepted, 1);
  EXPECT_GT(received(fd), 0);
  EXPECT_LE(received(idle[0]), 0);
}

TEST_F(Peer, WithAllPortsTakenNothingListensAndSendingEndsInTime) {
  StepPlan plan = plan_of();
  std::vector<Descriptor> strangers;
  for (uint16_t port : peer::ports(plan)) strangers.push_back(silent_listener(port));
  FirstNode first(plan);
  EXPECT_FALSE(first.is_open());
  auto before = Clock::now();
  EXPECT_FALSE(send(plan, sums_of(plan), 1000));
  // Had every one of them all the time, it would be 16 s.
  EXPECT_LT(Clock::now() - before, 15s);
}

TEST_F(Peer, AStrangerOnAnEarlierPortDoesNotUseUpTheTime) {
  StepPlan plan = plan_of();
  Descriptor stranger = silent_listener(peer::ports(plan)[0]);
  ASSERT_GE(stranger.get(), 0);
  FirstNode first(plan);
  ASSERT_TRUE(first.is_open());
  uint16_t port = 0;
  // The stranger gets half of it. Of what is left the first node gets half, and another turn.
  auto sent = peer::send(plan, "localhost", sums_of(plan), 14'000, &port);
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(port, peer::ports(plan)[1]);
}

// The collector that listened has gone, a stranger took its port, and who takes over has the next.
TEST_F(Peer, AStrangerOnTheKnownPortDoesNotKeepANodeFromTheNextOne) {
  StepPlan plan = plan_of();
  Descriptor stranger = silent_listener(peer::ports(plan)[0]);
  ASSERT_GE(stranger.get(), 0);
  FirstNode first(plan);
  ASSERT_TRUE(first.is_open());
  uint16_t port = peer::ports(plan)[0];
  EXPECT_FALSE(peer::send(plan, "localhost", sums_of(plan), 300, &port));
  auto sent = peer::send(plan, "localhost", sums_of(plan), 14'000, &port);
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(port, peer::ports(plan)[1]);
}

TEST_F(Peer, AnotherStepsCollectorOnThePortIsPassedOver) {
  StepPlan other = plan_of(1);
  StepPlan plan = other;
  plan.job = 8;
  plan.step = 0;
  FirstNode others(other);
  FirstNode first(plan);
  for (uint32_t node = 1; node < 4; ++node) {
    auto sent = send(plan, sums_of(plan, node));
    EXPECT_TRUE(sent) << sent.error();
    sent = send(other, sums_of(other, node));
    EXPECT_TRUE(sent) << sent.error();
  }
  EXPECT_EQ(first.accepted(), 3);
  EXPECT_EQ(others.accepted(), 3);
}

// The listener holds an answer for 5 s. Who gives it less than twice that asks again before, and
// gets an answer then.
constexpr int kHeldMs = 9000;

TEST_F(Peer, AnAnswerCanBeHeldBack) {
  StepPlan plan = plan_of();
  FirstNode first(plan, false);
  std::atomic<bool> done{false};
  std::thread node([&] {
    const auto sent = send(plan, sums_of(plan), kHeldMs);
    EXPECT_TRUE(sent) << sent.error();
    done = true;
  });
  EXPECT_TRUE(comes_true([&] { return first.accepted() > 0; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(done);
  first.answer_all();
  node.join();
}

TEST_F(Peer, AHeldAnswerDoesNotOutlastTheSendersTime) {
  StepPlan plan = plan_of();
  FirstNode first(plan, false);
  const auto sent = send(plan, sums_of(plan), 2500);
  ASSERT_FALSE(sent);
  // By the sender's own time, and not when the listener let it go.
  EXPECT_NE(sent.error().find("timed out"), std::string::npos) << sent.error();
  EXPECT_TRUE(comes_true([&] { return first.accepted() > 0; }));
}

// For longer than one turn, which is half of the time.
TEST_F(Peer, AnAnswerHeldForMostOfTheTimeStillCounts) {
  StepPlan plan = plan_of();
  FirstNode first(plan, false);
  std::thread late([&] {
    EXPECT_TRUE(comes_true([&] { return first.accepted() > 1; }));
    first.answer_all();
  });
  auto sent = send(plan, sums_of(plan), kHeldMs);
  EXPECT_TRUE(sent) << sent.error();
  late.join();
}

TEST_F(Peer, NobodyListensNobodyIsThereNoMunge) {
  StepPlan plan = plan_of();
  uint16_t port = 0;
  EXPECT_FALSE(peer::send(plan, "localhost", sums_of(plan), 500, &port));
  EXPECT_FALSE(peer::send(plan, "no-such-host.invalid", sums_of(plan), 500, &port));
  EXPECT_FALSE(peer::send(plan, "", sums_of(plan), 500, &port));
  FirstNode first(plan);
  StepPlan without = plan;
  without.site.last_port = without.site.first_port;
  without.site.munge = "/nonexistent/socket";
  auto sent = peer::send(without, "localhost", sums_of(plan), kEnoughMs, &port);
  ASSERT_FALSE(sent);
  EXPECT_NE(sent.error().find("munge:"), std::string::npos) << sent.error();
}

// Answers of a stranger who has a credential of root, but not for this message.
TEST_F(Peer, AForgedAnswerIsNotBelieved) {
  StepPlan plan = plan_of();
  plan.site.last_port = plan.site.first_port;
  Descriptor stranger = silent_listener(plan.site.first_port);
  ASSERT_GE(stranger.get(), 0);
  peer::Message echo = sums_of(plan);
  const std::pair<std::string, const char*> lies[] = {
      {framed(credential("x", 1, kNobody)), "a credential of uid 65534"},
      {framed(credential(&echo, sizeof(echo))), "a payload of another size"},
      {framed("rubbish"), "munge: "},
      {std::string(20'000, '\xff'), "an overlong answer"}};
  for (const auto& [lie, fault] : lies) {
    std::thread liar([&] {
      const Descriptor fd(accept(stranger.get(), nullptr, nullptr));
      // All of the message: what was not read would end the connection before the answer is.
      const size_t size = message(echo).size();
      std::string heard(size, '\0');
      EXPECT_EQ(recv(fd.get(), heard.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
      ::send(fd.get(), lie.data(), lie.size(), MSG_NOSIGNAL);
      received(fd);
    });
    const auto sent = send(plan, sums_of(plan));
    ASSERT_FALSE(sent);
    EXPECT_NE(sent.error().find(fault), std::string::npos) << sent.error();
    liar.join();
  }
}

}  // namespace
}  // namespace mfu
