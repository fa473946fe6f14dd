#include "profiler/storage_io.hh"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

namespace mfu {
namespace {

constexpr uint64_t kMaxSum = uint64_t{1} << 60;  // an exbibyte; as times the records' own bound
constexpr uint64_t kMaxNs = uint64_t{1} << 56;
constexpr int kMostChildren = 64;

// The whole file if it fits, NUL-terminated. Its length, or a negative errno.
template <size_t kSize>
ssize_t slurp(const char* path, char (&out)[kSize]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  size_t size = 0;
  while (size < kSize - 1) {
    ssize_t got = read(fd, out + size, kSize - 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int error = errno;
      close(fd);
      return -error;
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  close(fd);
  out[size] = '\0';
  return static_cast<ssize_t>(size);
}

// The digits at `at`, which moves behind them. False when there are none.
bool take_number(std::string_view text, size_t* at, uint64_t* out) {
  size_t begin = *at;
  uint64_t value = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    value = value * 10 + static_cast<uint64_t>(text[*at] - '0');
    ++*at;
  }
  *out = value;
  return *at != begin && *at - begin < 20;
}

// The number behind "NAME: " at a line's begin.
bool find_number(std::string_view text, std::string_view name, uint64_t* out) {
  for (size_t line = 0; line < text.size();) {
    size_t end = text.find('\n', line);
    if (end == text.npos) end = text.size();
    if (text.substr(line).substr(0, name.size()) == name) {
      size_t at = line + name.size();
      return take_number(text, &at, out);
    }
    line = end + 1;
  }
  return false;
}

void add_difference(uint64_t now, uint64_t before, uint64_t* sum) {
  if (now > before && now - before <= kMaxSum - *sum) *sum += now - before;
}

// a / b >= c / d, of bytes and nanoseconds.
bool at_least_rate(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return static_cast<unsigned __int128>(a) * d >= static_cast<unsigned __int128>(c) * b;
}

}  // namespace

bool parse_io(std::string_view text, IoCounters* out) {
  return find_number(text, "rchar: ", &out->called_read) &&
         find_number(text, "wchar: ", &out->called_written) &&
         find_number(text, "read_bytes: ", &out->device_read) &&
         find_number(text, "write_bytes: ", &out->device_written);
}

int read_io(const char* path, IoCounters* out) {
  char text[512];
  ssize_t size = slurp(path, text);
  if (size < 0) return static_cast<int>(-size);
  return parse_io({text, static_cast<size_t>(size)}, out) ? 0 : EPROTO;
}

int read_process_io(IoCounters* out) {
  int result = read_io("/proc/self/io", out);
  if (result != 0) return result;
  char path[64];
  char list[4096];
  int pid = static_cast<int>(getpid());
  snprintf(path, sizeof(path), "/proc/self/task/%d/children", pid);
  ssize_t size = slurp(path, list);
  // A list that was cut off may end in half a number.
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(list)) - 1) return 0;
  std::string_view text{list, static_cast<size_t>(size)};
  size_t at = 0;
  for (int i = 0; i < kMostChildren; ++i) {
    while (at < text.size() && text[at] == ' ') ++at;
    uint64_t child;
    if (!take_number(text, &at, &child)) break;
    snprintf(path, sizeof(path), "/proc/%llu/io", static_cast<unsigned long long>(child));
    IoCounters counters;
    if (read_io(path, &counters) != 0) continue;  // gone, or of another user
    out->called_read += counters.called_read;
    out->called_written += counters.called_written;
    out->device_read += counters.device_read;
    out->device_written += counters.device_written;
  }
  return 0;
}

const char* storage_fault(const StorageSums& sums) {
  for (uint64_t bytes : {sums.called_read_bytes, sums.called_written_bytes, sums.device_read_bytes,
                         sums.device_written_bytes}) {
    if (bytes > kMaxSum) return "storage bytes";
  }
  for (uint64_t ns : {sums.ns, sums.reading_ns, sums.writing_ns}) {
    if (ns > kMaxNs) return "storage time";
  }
  if (sums.result < 0 || sums.result > 4095 || sums.unused != 0) return "storage result";
  return nullptr;
}

void StallWatch::add(const StepEstimate& steps, StorageSums* sums) {
  bool same = steps.source == last_.source && steps.first_ns == last_.first_ns &&
              steps.count >= last_.count && steps.stalled_ns >= last_.stalled_ns;
  if (!same) {
    // Other steps than until now: what was said of their stalls holds no more.
    sums->reading_ns = 0;
    sums->writing_ns = 0;
  } else if (steps.stalled_ns > last_.stalled_ns) {
    uint64_t stall_ns = steps.stalled_ns - last_.stalled_ns;
    uint64_t read = sums->read_bytes() - read_bytes_;
    uint64_t written = sums->written_bytes() - written_bytes_;
    uint64_t took_ns = sums->ns - at_ns_;
    auto plenty = [&](uint64_t bytes) {
      return at_least_rate(bytes, stall_ns, kLeastBytesPerS, 1'000'000'000);
    };
    if (plenty(written) && written >= read) {
      sums->writing_ns += stall_ns;
    } else if (plenty(read) && at_least_rate(read, took_ns, sums->read_bytes(), sums->ns)) {
      sums->reading_ns += stall_ns;
    }
  }
  if (!same || steps.count != last_.count) {
    read_bytes_ = sums->read_bytes();
    written_bytes_ = sums->written_bytes();
    at_ns_ = sums->ns;
  }
  last_ = steps;
}

void StorageFold::add(const IoCounters& counters, int result, uint64_t at_ns,
                      const StepEstimate& steps) {
  sums.result = result;
  if (result != 0) return;
  if (begun_) {
    add_difference(counters.called_read, last_.called_read, &sums.called_read_bytes);
    add_difference(counters.called_written, last_.called_written, &sums.called_written_bytes);
    add_difference(counters.device_read, last_.device_read, &sums.device_read_bytes);
    add_difference(counters.device_written, last_.device_written, &sums.device_written_bytes);
    if (at_ns > last_ns_) sums.ns += at_ns - last_ns_;
  }
  begun_ = true;
  last_ = counters;
  last_ns_ = at_ns;
  stalls_.add(steps, &sums);
}

}  // namespace mfu
