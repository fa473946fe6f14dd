// What the fake CUPTI does wrong on purpose, and what it notes down.
//
//   FAKE_CUPTI_FAIL="function[:argument][@N]=code,..."  the function returns `code` without doing
//       anything; with an argument (cuptiActivityEnable's kind, cuptiActivityFlushAll's flag,
//       cuptiActivitySetAttribute's attribute) only for that one; with @N from its N-th call on.
//   FAKE_CUPTI_FAULT="fault,..."
//       drop=N        every N-th record is dropped and counted as dropped
//       no-buffers    no buffer is ever asked for: every record is dropped and counted
//       silence       everything succeeds and nothing is delivered or counted
//       zero-times=N  every N-th record has start = end = 0
//       reversed=N    every N-th record has start and end swapped
//       duplicate=N   every N-th record is delivered twice
//       late=N        every N-th record is held back until a forced flush
//       hang=FUNCTION[@N] the function never returns, with @N from its N-th call on
//       slow=FUNCTION[@N] each call takes a fifth of a second longer, with @N from the N-th call on
//   FAKE_CUPTI_LOG=path  appends "<pid> <function>[:argument]" for every call.
//
// Both lists are read at the first call. A mistake in them aborts the process: a test that injects
// nothing by accident would pass.
#ifndef MFU_TESTS_FAKE_CUPTI_FAULTS_HH_
#define MFU_TESTS_FAKE_CUPTI_FAULTS_HH_

#include <cupti.h>

#include <cstdint>

namespace mfu::fake {

struct RecordFaults {
  // 0: never
  uint64_t drop = 0;
  uint64_t zero_times = 0;
  uint64_t reversed = 0;
  uint64_t duplicate = 0;
  uint64_t late = 0;
  bool no_buffers = false;
  bool silence = false;
};

const RecordFaults& record_faults();

inline constexpr int64_t kNoArgument = -1;

// Every API function begins with it: writes the log line, hangs if told to, and returns the code
// with which the function has to fail, or CUPTI_SUCCESS.
CUptiResult enter(const char* function, int64_t argument = kNoArgument);

}  // namespace mfu::fake

#endif
