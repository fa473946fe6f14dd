#include "plugin/node_records.hh"

#include <cstring>

namespace mfu {

NodeRecords::NodeRecords(std::span<const Record> records) {
  for (const Record& record : records) {
    Process& process = processes[process_key(record)];
    process.records.push_back(&record);
    if ((record.flags & kPrimary) != 0) process.primary = &record;
    // The driver named no device and nothing ran: a helper that may see none.
    const bool no_device = (record.flags & kDeviceKnown) == 0 && record.time.span_end_ns == 0 &&
                           record.state == State::kOk;
    if (!no_device) devices[device_key(record)].records.push_back(&record);
  }
}

DeviceKey NodeRecords::device_key(const Record& record) {
  DeviceKey key{};
  if ((record.flags & kDeviceKnown) != 0) {
    std::memcpy(key.data(), record.uuid, sizeof(record.uuid));
  } else {
    key[16] = 1;
    std::memcpy(key.data(), &record.pid, sizeof(record.pid));
    std::memcpy(key.data() + 4, &record.device, sizeof(record.device));
  }
  return key;
}

ProcessKey NodeRecords::process_key(const Record& record) {
  return {record.pid, record.started_ns};
}

const Record& NodeRecords::process_of(const Record& record) const {
  const auto found = processes.find(process_key(record));
  const bool known = found != processes.end() && found->second.primary != nullptr;
  return known ? *found->second.primary : record;
}

}  // namespace mfu
