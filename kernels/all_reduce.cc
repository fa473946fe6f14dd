#include "kernels/all_reduce.hh"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "kernels/device_code.hh"

namespace mfu {
namespace {

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result) + " (" +
                           ncclGetLastError(nullptr) + ")");
}

[[noreturn]] void fail(const std::string& path) {
  throw std::runtime_error(path + ": " + std::strerror(errno));
}

void say_and_end(int) {
  constexpr char kWords[] = "mfu-overlap: not all ranks have come in time\n";
  (void)!write(STDERR_FILENO, kWords, sizeof(kWords) - 1);
  _exit(1);
}

// Ends the process, unless it is destroyed before. NCCL waits for missing ranks for ever.
class Deadline {
 public:
  explicit Deadline(unsigned seconds) {
    signal(SIGALRM, say_and_end);
    alarm(seconds);
  }
  ~Deadline() { alarm(0); }
};

// Appears under its name with all its bytes or not at all.
void write_id(const std::string& path, const ncclUniqueId& id) {
  const std::string whole = path + ".new";
  const int file = open(whole.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) fail(whole);
  const bool written = write(file, &id, sizeof(id)) == static_cast<ssize_t>(sizeof(id));
  const bool closed = close(file) == 0;
  // link() replaces nothing: an id that somebody left there would have been read by others.
  const bool named = written && closed && link(whole.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(whole.c_str());
  errno = error;
  if (!named) fail(path);
}

// Waits until rank 0 has written it.
ncclUniqueId read_id(const std::string& path) {
  int file;
  while ((file = open(path.c_str(), O_RDONLY | O_CLOEXEC)) < 0) {
    if (errno != ENOENT) fail(path);
    usleep(50'000);
  }
  ncclUniqueId id;
  const ssize_t got = read(file, &id, sizeof(id));
  close(file);
  if (got != static_cast<ssize_t>(sizeof(id))) throw std::runtime_error(path + ": no id of NCCL");
  return id;
}

}  // namespace

AllReduce::AllReduce(std::span<const Gpu> gpus, const Place& place, uint64_t bytes,
                     uint64_t stand_in_ns)
    : gpus_(gpus),
      ranks_(place.ranks > 1 ? place.ranks : static_cast<int>(gpus.size())),
      alone_(place.ranks == 1),
      bytes_(bytes),
      stand_in_ns_(stand_in_ns) {
  if (ranks_ == 1) return;
  for (const Gpu& gpu : gpus) {
    use(gpu);
    buffers_.push_back(device_memory(bytes));
    mfu::check(cudaMemset(buffers_.back().get(), 0, bytes), "memory of the device");
    // It returns before it is done, and streams that wait for no other do not wait for it.
    mfu::check(cudaDeviceSynchronize(), "memory of the device");
  }
  const Deadline deadline(place.limit_seconds);
  alone_ ? connect() : join(place);
}

void AllReduce::connect() {
  std::vector<int> ordinals;
  for (const Gpu& gpu : gpus_) ordinals.push_back(gpu.ordinal);
  std::vector<ncclComm_t> created(ordinals.size());
  check(ncclCommInitAll(created.data(), static_cast<int>(created.size()), ordinals.data()), "NCCL");
  for (const ncclComm_t communicator : created) communicators_.emplace_back(communicator);
}

void AllReduce::join(const Place& place) {
  ncclUniqueId id;
  if (place.rank == 0) {
    check(ncclGetUniqueId(&id), "NCCL");
    write_id(place.id_file, id);
  } else {
    id = read_id(place.id_file);
  }
  ncclComm_t created = nullptr;
  const ncclResult_t result = ncclCommInitRank(&created, ranks_, id, place.rank);
  if (place.rank == 0) unlink(place.id_file.c_str());
  check(result, "NCCL");
  communicators_.emplace_back(created);
}

void AllReduce::enqueue(std::span<const cudaStream_t> streams) {
  if (!is_nccl()) {
    mfu::check(stand_in_all_reduce(stand_in_ns_, streams[0]), "a kernel");
    return;
  }
  check(ncclGroupStart(), "NCCL");
  for (size_t i = 0; i < communicators_.size(); ++i) {
    check(ncclAllReduce(buffers_[i].get(), buffers_[i].get(), bytes_ / sizeof(float), ncclFloat,
                        ncclSum, communicators_[i].get(), streams[i]),
          "ncclAllReduce");
  }
  check(ncclGroupEnd(), "NCCL");
}

double AllReduce::longest_seconds() const {
  return is_nccl() ? std::numeric_limits<double>::infinity()
                   : static_cast<double>(stand_in_ns_) / 1e9;
}

uint64_t AllReduce::highest(uint64_t value, cudaStream_t stream) {
  if (alone_) return value;
  const CudaOwner<void*> memory = device_memory(sizeof(value));
  mfu::check(cudaMemcpy(memory.get(), &value, sizeof(value), cudaMemcpyHostToDevice), "a copy");
  // From pageable memory it may return before the value is there, and `stream` waits for no other.
  mfu::check(cudaDeviceSynchronize(), "a copy");
  check(ncclAllReduce(memory.get(), memory.get(), 1, ncclUint64, ncclMax, communicators_[0].get(),
                      stream),
        "ncclAllReduce");
  finish(stream);
  mfu::check(cudaMemcpy(&value, memory.get(), sizeof(value), cudaMemcpyDeviceToHost), "a copy");
  return value;
}

}  // namespace mfu
