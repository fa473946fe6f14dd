// What mfu-analyze knows of all its files, and the three forms in which it says so.
#ifndef MFU_PROFILER_ANALYSIS_HH_
#define MFU_PROFILER_ANALYSIS_HH_

#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/collective_skew.hh"
#include "profiler/record_reader.hh"
#include "profiler/trace_figures.hh"

namespace mfu {

class Analysis {
 public:
  explicit Analysis(size_t top) : top_(top) {}

  // Files come in any order and are kept by rank, then path. Of a file's kernels the first `top`
  // are kept; all of them go into the merged table.
  void add(TraceFigures figures);
  void fail(std::string error) { errors_.push_back(std::move(error)); }
  CollectiveSkew& skew() { return skew_; }
  // The number of the next file's first device, for FigureBuilder::finish().
  size_t next_participant() const { return participants_; }
  // Once, after the last file. False with *error when the temporary files failed.
  bool finish(std::string* error);

  // One GPU of one file.
  struct Row {
    const TraceFigures* file = nullptr;
    const DeviceFigures* device = nullptr;
    std::string label;  // "3", or the file's name where it does not know its rank
  };
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<TraceFigures>& files() const { return files_; }
  const std::vector<std::string>& errors() const { return errors_; }
  const Attribution& total() const { return total_; }
  // By collective, of the records whose processes let NCCL tell; `told` is false without any.
  struct Traffic {
    bool told = false;
    CollectiveTraffic collectives[kCollectives];
    uint64_t kernel_ns[kCollectives] = {};  // of the same processes
  };
  const Traffic& traffic() const { return traffic_; }
  // FLOPs that were counted: of each process whose record is there, by rank, and of all of them.
  struct Flops {
    const TraceFigures* file;  // the process's first record
    std::string label;         // as Row's
    ProcessFlops flops;
  };
  const std::vector<Flops>& flops() const { return flops_; }
  const ProcessFlops& total_flops() const { return total_flops_; }
  // Merged over the files, longest time first; the rest of the table is the last one, if any.
  const std::vector<KernelFigures>& kernels() const { return kernels_; }
  const KernelFigures& other_kernels() const { return other_kernels_; }
  size_t kernel_names() const { return kernel_names_; }
  const SkewFigures& skew_figures() const { return skew_figures_; }
  // Several ranks whose collectives can be compared.
  bool has_skew() const { return skew_figures_.groups > 0; }
  const Row& row_of(size_t participant) const { return rows_[row_of_participant_[participant]]; }
  size_t participant_of(size_t row) const { return participant_of_row_[row]; }
  bool partial() const;
  // Sentences that the figures must not go without.
  std::vector<std::string> notes() const;

 private:
  void add_traffic(const Record& record);
  void add_flops();

  size_t top_;
  size_t participants_ = 0;
  std::vector<size_t> first_participants_;  // by order of arrival
  std::vector<TraceFigures> files_;
  std::vector<std::string> errors_;
  std::vector<Row> rows_;
  std::vector<size_t> row_of_participant_;
  std::vector<size_t> participant_of_row_;
  Attribution total_;
  Traffic traffic_;
  std::vector<Flops> flops_;
  ProcessFlops total_flops_;
  std::unordered_map<std::string, KernelFigures> merged_;
  std::vector<KernelFigures> kernels_;
  KernelFigures other_kernels_;
  size_t kernel_names_ = 0;
  CollectiveSkew skew_;
  SkewFigures skew_figures_;
};

// A step by its name, over all files that have it.
struct MergedStep {
  std::string name;
  size_t files = 0;
  uint64_t shortest_ns = UINT64_MAX;  // span of its GPU work
  uint64_t longest_ns = 0;
  Attribution sums;
};
std::vector<MergedStep> merged_steps(const std::vector<TraceFigures>& files);

// A kernel's name without return type and parameters, with at most `width` characters, all of them
// printable.
std::string short_kernel_name(const std::string& name, size_t width);

// "allreduce", "gemm bf16", "" for other compute.
std::string kind_name(const KernelKind& kind);

// Bus bandwidth of a collective in GB/s, or negative where it is not known: bytes that NCCL did not
// tell, calls in CUDA graphs, or no kernel of the collective's name.
double bus_bandwidth_of(const Analysis::Traffic& traffic, int collective);

void write_table(std::ostream& out, const Analysis& analysis);
void write_json(std::ostream& out, const Analysis& analysis);
void write_html(std::ostream& out, const Analysis& analysis);

}  // namespace mfu

#endif
