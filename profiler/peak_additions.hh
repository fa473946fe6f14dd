// An administrator's peaks, for devices that the table does not know or rates that it lacks.
//
// A text file, a device a line, three columns separated by tabs:
//   NVIDIA Rubin<TAB>Rubin<TAB>bf16=4000,fp8=8000.5
// that is CUDA's name of the device, the accounting line's short name (1 to 16 characters without
// blanks), and dense TFLOP/s by precision with up to three decimals. Empty lines and lines that
// begin with # are skipped. Not part of the injected library.
#ifndef MFU_PROFILER_PEAK_ADDITIONS_HH_
#define MFU_PROFILER_PEAK_ADDITIONS_HH_

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "profiler/peaks.hh"

namespace mfu {

class PeakAdditions {
 public:
  struct Row {
    std::string name;
    std::string short_name;
    uint64_t gigaflops[kPrecisions] = {};
  };

  // `where` names the text in errors: "where: line 3: ...". Refused are, besides what is malformed,
  // a name that comes twice, and a rate that is twice the table's dense one: it is the sparse rate.
  static tl::expected<PeakAdditions, std::string> parse(std::string_view text,
                                                        const std::string& where);

  const std::vector<Row>& rows() const { return rows_; }
  const Row* find(std::string_view name) const;
  // The file's rate, which comes before the table's; else the table's, or what follows from it.
  Peak peak(std::string_view device_name, Precision precision, uint32_t sms = 0) const;

 private:
  std::vector<Row> rows_;
};

// At most 1 MiB of a regular file.
tl::expected<PeakAdditions, std::string> read_peak_additions(const std::string& path);

// Whether a rate is what data sheets print "with sparsity" for this device: twice the dense one,
// give or take 1%.
bool is_sparse_rate(std::string_view device_name, Precision precision, uint64_t gigaflops);

// "989.4", "989", "4000.25" to 10^9 a second, exactly; 0 for anything else, or beyond 10^6.
uint64_t parse_teraflops(std::string_view text);

}  // namespace mfu

#endif
