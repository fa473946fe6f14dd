// record_figures FOLDER: what the records in it say, as lines "KEY VALUE" that a shell script
// reads. Summed over the records; it needs no library but libc, as mfu-analyze does.
#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "profiler/record.hh"

namespace {

void print(const std::string& key, uint64_t value) {
  std::printf("%s %llu\n", key.c_str(), static_cast<unsigned long long>(value));
}

// A FLOP count of a test fits 64 bits.
void print(const std::string& key, const mfu::FlopSum& sum) {
  print(key, static_cast<uint64_t>(sum.value()));
}

struct Folder {
  std::vector<mfu::Record> records;
  uint64_t faulty = 0;
};

Folder read_folder(const char* path) {
  Folder folder;
  DIR* open = opendir(path);
  if (open == nullptr) {
    std::perror(path);
    std::exit(1);
  }
  while (const dirent* entry = readdir(open)) {
    const std::string name = entry->d_name;
    if (!name.ends_with(mfu::kRecordSuffix)) continue;
    std::ifstream file(std::string(path) + "/" + name, std::ios::binary);
    unsigned char bytes[mfu::kRecordFileSize] = {};
    file.read(reinterpret_cast<char*>(bytes), sizeof(bytes));
    mfu::Record record;
    if (mfu::newest_record(bytes, &record)) {
      folder.records.push_back(record);
    } else {
      ++folder.faulty;
    }
  }
  closedir(open);
  return folder;
}

void print_process(const mfu::Record& record) {
  std::printf("state %s\ncupti_call %s\ncupti_result %d\n", mfu::state_name(record.state),
              mfu::cupti_call_name(record.cupti_call), record.cupti_result);
  print("cupti_version", record.cupti_version);
  print("finished", (record.flags & mfu::kFinished) != 0);
  print("flush_failed", (record.flags & mfu::kFlushFailed) != 0);
  print("dropped", record.dropped);
  print("unfinished", record.unfinished);
  print("lost_ns", record.lost_ns);
  print("life_ns", record.published_ns - record.started_ns);
  print("callback_ns", record.callback_ns);
  print("worker_ns", record.worker_ns);
  print("memory_bytes", record.memory_bytes);
  for (int i = 0; i < mfu::kPrecisions; ++i) {
    const std::string name = mfu::precision_name(static_cast<mfu::Precision>(i));
    print("calls." + name, record.gemms.calls[i]);
    print("flops." + name, record.gemms.flops[i]);
  }
  print("replayed", record.gemms.replayed);
  print("graph_launches", record.gemms.graph_launches);
  print("uncovered", record.gemms.uncovered);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: record_figures FOLDER\n", stderr);
    return 2;
  }
  const Folder folder = read_folder(argv[1]);
  print("records", folder.records.size());
  print("faulty", folder.faulty);
  uint64_t processes = 0, span = 0, compute = 0, exposed = 0, hidden = 0, memory = 0, idle = 0;
  uint64_t compute_kernels = 0, communication_kernels = 0, copies = 0;
  uint64_t gemm_kernels = 0, graph_kernels = 0, uncounted = 0, odd = 0;
  for (const mfu::Record& record : folder.records) {
    if ((record.flags & mfu::kPrimary) != 0) {
      ++processes;
      print_process(record);
    }
    if ((record.flags & mfu::kDeviceKnown) != 0) std::printf("device %s\n", record.device_name);
    span += record.time.span_ns();
    compute += record.time.compute_ns();
    exposed += record.time.exposed_communication_ns();
    hidden += record.time.overlapped_communication_ns();
    memory += record.time.exposed_memory_ns();
    idle += record.time.idle_ns();
    compute_kernels += record.compute_kernels;
    communication_kernels += record.communication_kernels;
    copies += record.copies;
    gemm_kernels += record.counted.gemm_kernels;
    graph_kernels += record.counted.graph_gemm_kernels;
    uncounted += record.counted.uncounted_kernels;
    odd +=
        record.zero_times + record.reversed + record.implausible + record.duplicates + record.late;
    for (const mfu::RecordedKernel& kernel : record.kernels) {
      if (kernel.count == 0) continue;
      std::printf("kernel %llu %.6f %s\n", static_cast<unsigned long long>(kernel.count),
                  static_cast<double>(kernel.ns) / 1e9, kernel.name);
    }
  }
  print("processes", processes);
  print("span_ns", span);
  print("compute_ns", compute);
  print("exposed_communication_ns", exposed);
  print("hidden_communication_ns", hidden);
  print("exposed_memory_ns", memory);
  print("idle_ns", idle);
  print("compute_kernels", compute_kernels);
  print("communication_kernels", communication_kernels);
  print("copies", copies);
  print("gemm_kernels", gemm_kernels);
  print("graph_gemm_kernels", graph_kernels);
  print("uncounted_kernels", uncounted);
  print("odd_records", odd);
  return 0;
}
