// Brings the times of activity records to CLOCK_REALTIME when another client has given CUPTI a
// clock of its own, as torch.profiler does (the processor's time stamp counter), and has left it
// registered. To register ours again would not do: each registration spoils records of the other
// client's next session (pytorch issue 192021: one more each time, timed by CUPTI's default clock).
//
// Both clocks are read together every now and then, and a record's time is interpolated between the
// readings before and after it. The error is at most half of what the wider of the two readings
// took (below a microsecond, unless the thread lost its processor in all of its tries), plus what
// CLOCK_REALTIME was adjusted between them (500 ppm at most while NTP slews it).
//
// Any thread may call. The clock is called without a lock.
#ifndef MFU_PROFILER_RECORD_CLOCK_HH_
#define MFU_PROFILER_RECORD_CLOCK_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/cupti_gate.hh"

namespace mfu::record_clock {

// Times from `since_ns` on are CLOCK_REALTIME as they are: a counter's are far below it, and after
// a change of clocks CUPTI mixes both. Until follow() all are.
void open(uint64_t since_ns);

// CUPTI stamps records with this clock from now on. Takes the first reading.
void follow(uint64_t (*clock)());

// One more reading, if there is a clock to follow: before records are converted, so that they lie
// between readings.
void read();

void convert(cupti::Activity* activities, size_t count);

}  // namespace mfu::record_clock

#endif
