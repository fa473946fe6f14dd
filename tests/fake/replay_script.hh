// The replay script: GPU operations as text, one a line, in order of their start.
//
//   mfu-replay 1
//   # a comment
//   name NUMBER TEXT
//   KIND DEVICE STREAM START END CORRELATION NODE BYTES COPY GRID BLOCK NUMBER
//
// Fields are separated by single spaces; all numbers are decimal and without sign.
//   name    declares a name before its first use; NUMBER counts from 0; TEXT is the rest of the
//           line, where \n, \r and \\ stand for line feed, carriage return and backslash
//   KIND    k kernel, m copy, p peer copy, s fill (memset)
//   START   nanoseconds since the first operation; END likewise, >= START
//   NODE    graph node id; 0: launched alone
//   BYTES   of a copy or fill, else 0; COPY is its CUpti_ActivityMemcpyKind, else 0
//   GRID    x,y,z as is BLOCK; 0,0,0 if unknown or no kernel
//   NUMBER  the operation's name
#ifndef MFU_TESTS_FAKE_REPLAY_SCRIPT_HH_
#define MFU_TESTS_FAKE_REPLAY_SCRIPT_HH_

#include <cstdint>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

class ScriptWriter {
 public:
  explicit ScriptWriter(std::ostream* out);
  // In order of start_ns. The name may be of any kind of work.
  void write(const GpuOperation& operation, const std::string& name);

 private:
  std::ostream& out_;
  std::map<std::string, size_t> numbers_;
};

class ScriptReader {
 public:
  // `path` is for messages only. All errors are std::runtime_error "path:line: what".
  ScriptReader(std::istream* in, std::string path);
  // The next operation, false at the end. Its name stays valid as long as the reader.
  bool read(GpuOperation* operation);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool read_line();
  void read_name();
  uint64_t number(uint64_t limit);
  void triple(uint32_t (&values)[3]);
  void separator(char c);

  std::istream& in_;
  std::string path_;
  size_t line_number_ = 0;
  std::string line_;
  size_t at_ = 0;  // in line_
  uint64_t last_start_ns_ = 0;
  std::map<uint64_t, std::string> names_;
};

}  // namespace mfu::fake

#endif
