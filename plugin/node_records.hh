// A node's records, by device and by process.
#ifndef MFU_PLUGIN_NODE_RECORDS_HH_
#define MFU_PLUGIN_NODE_RECORDS_HH_

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "profiler/record.hh"

namespace mfu {

// The UUID; where the driver had not told it yet, the process's own ordinal stands in.
using DeviceKey = std::array<uint8_t, 24>;
// Two programs that one process executed one after the other have the same pid.
using ProcessKey = std::pair<uint32_t, uint64_t>;

// The records belong to whoever made this, and must outlive it.
struct NodeRecords {
  explicit NodeRecords(std::span<const Record> records);

  struct Device {
    std::vector<const Record*> records;  // of all processes that used it
    bool attributed = false;             // all of them were observed, and something was seen
  };
  struct Process {
    const Record* primary = nullptr;     // with the process-wide fields; nullptr: there is none
    std::vector<const Record*> records;  // of its devices
  };

  static DeviceKey device_key(const Record& record);
  static ProcessKey process_key(const Record& record);
  // The record with the process-wide fields, or itself.
  const Record& process_of(const Record& record) const;

  std::map<DeviceKey, Device> devices;
  std::map<ProcessKey, Process> processes;
};

}  // namespace mfu

#endif
