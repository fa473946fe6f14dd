#include "plugin/node_sensors.hh"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <vector>

#include "plugin/bounded_sum.hh"
#include "plugin/goodput.hh"

namespace mfu {
namespace {

bool lived_together(const Record& a, const Record& b) {
  return a.started_ns < b.published_ns && b.started_ns < a.published_ns;
}

// Processes that lived together have seen the same of a device: the one that knows most speaks for
// them. Those of other times add to it.
std::vector<const Record*> speakers(std::vector<const Record*> records) {
  std::stable_sort(records.begin(), records.end(), [](const Record* a, const Record* b) {
    return std::tie(a->sensors.energy_ns, a->sensors.readings) >
           std::tie(b->sensors.energy_ns, b->sensors.readings);
  });
  std::vector<const Record*> chosen;
  for (const Record* record : records) {
    if (std::none_of(chosen.begin(), chosen.end(),
                     [&](const Record* other) { return lived_together(*record, *other); })) {
      chosen.push_back(record);
    }
  }
  return chosen;
}

// A reading may be of the moment before the link speeds up.
constexpr uint32_t kLeastLinkReadings = 5;

std::string link_text(const DeviceLink& link) {
  return "gen " + std::to_string(link.generation) + " x" + std::to_string(link.width);
}

// As sysfs writes it; empty for what is none.
std::string bus_id_of(const Record& record) {
  std::string id = record.pci_bus_id;
  if (id.find_first_not_of("0123456789abcdefABCDEF:.") != id.npos) return {};
  for (char& letter : id) letter = static_cast<char>(std::tolower(letter));
  return id;
}

}  // namespace

// A launcher's counters have those of the children that it waits for: where processes computed,
// theirs are taken alone.
void add_storage(const NodeRecords& node, NodeSums* sums) {
  const auto computed = [](const NodeRecords::Process& process) {
    return std::any_of(process.records.begin(), process.records.end(),
                       [](const Record* record) { return record->time.span_end_ns != 0; });
  };
  const bool any_computed = std::any_of(node.processes.begin(), node.processes.end(),
                                        [&](const auto& entry) { return computed(entry.second); });
  for (const auto& [key, process] : node.processes) {
    if (process.primary == nullptr) continue;
    const StorageSums& storage = process.primary->storage;
    if (storage.result != 0) {
      ++sums->storage_failures;
      continue;
    }
    if (any_computed && !computed(process)) continue;
    add_bounded(&sums->read_bytes, storage.read_bytes());
    add_bounded(&sums->written_bytes, storage.written_bytes());
  }
}

void add_sensors(const NodeRecords& node, NodeSums* sums) {
  for (const auto& [key, device] : node.devices) {
    for (const Record* record : speakers(device.records)) {
      const SensorSums& sensors = record->sensors;
      add_bounded(&sums->energy_mj, sensors.energy_mj);
      add_bounded(&sums->energy_ns, sensors.energy_ns);
      add_bounded(&sums->sm_cycles, sensors.sm_cycles);
      add_bounded(&sums->clock_ns, sensors.clock_ns);
      add_bounded(&sums->tensor_active_ns, sensors.tensor_active_ns);
      add_bounded(&sums->tensor_ns, sensors.tensor_ns);
      for (int i = 0; i < kClockReasons; ++i) {
        add_bounded(&sums->reason_ns[i], sensors.reason_ns[i]);
      }
      add_bounded(&sums->reasons_ns, sensors.reasons_ns);
      const uint64_t limit_mhz = sensors.clock_limit_mhz;
      if (limit_mhz > kMostClockMhz) continue;
      sums->clock_limit_mhz = std::max(sums->clock_limit_mhz, limit_mhz);
    }
  }
}

std::vector<Finding> link_findings(std::span<const Record> records, const std::string& node,
                                   const std::string& pci_devices) {
  std::vector<Finding> findings;
  const NodeRecords by_device(records);
  // A board may be wired with fewer lanes than both chips have (Tesla M10: 8 of 16).
  std::map<std::string_view, uint32_t> widest;
  for (const Record& record : records) {
    uint32_t& width = widest[record.device_name];
    width = std::max(width, record.sensors.link.width);
  }
  for (const auto& [key, device] : by_device.devices) {
    SensorSums seen{};
    std::string bus_id;
    uint32_t lanes = 0;
    for (const Record* record : device.records) {
      const SensorSums& sensors = record->sensors;
      lanes = widest[record->device_name];
      seen.link.generation = std::max(seen.link.generation, sensors.link.generation);
      seen.link.width = std::max(seen.link.width, sensors.link.width);
      if (sensors.link_readings <= seen.link_readings) continue;
      seen.link_readings = sensors.link_readings;
      seen.most_link = sensors.most_link;
      bus_id = bus_id_of(*record);
    }
    const bool judged =
        seen.link_readings >= kLeastLinkReadings && seen.most_link.known() && !bus_id.empty();
    if (!judged) continue;
    lanes = std::min(lanes, seen.most_link.width);
    if (seen.link.generation >= seen.most_link.generation && seen.link.width >= lanes) continue;
    // The record is the user's: an address of no device would send somebody looking for it.
    if (access((pci_devices + "/" + bus_id).c_str(), F_OK) != 0) continue;
    findings.push_back({"pcie-link-loaded", Severity::kHigh, node + " GPU " + bus_id,
                        "its PCIe link was at most " + link_text(seen.link) + " in all of " +
                            std::to_string(seen.link_readings) +
                            " readings under load, both ends can " + link_text(seen.most_link),
                        "report to the administrator: lspci -vv -s " + bus_id +
                            " under load (LnkSta, LnkCap), dmesg for AER errors; reseat or replace "
                            "the card"});
  }
  std::sort(findings.begin(), findings.end(),
            [](const Finding& a, const Finding& b) { return a.place < b.place; });
  return findings;
}

StepEstimate whole_steps(const Record& record, const Record& process) {
  const bool whole = process.state == State::kOk && process.dropped == 0 && process.lost_ns == 0;
  return record.steps.source == StepSource::kNvtx || whole ? record.steps : StepEstimate{};
}

void add_goodput(const NodeRecords& node, uint64_t begin_ns, uint64_t end_ns, NodeSums* sums) {
  for (const auto& [key, device] : node.devices) {
    DeviceTraining training{.begin_ns = begin_ns, .end_ns = end_ns};
    for (const Record* record : device.records) {
      const Record& process = node.process_of(*record);
      const StepEstimate steps = whole_steps(*record, process);
      if (std::tie(steps.source, steps.productive_ns) <=
          std::tie(training.steps.source, training.steps.productive_ns)) {
        continue;
      }
      training.steps = steps;
      training.writing_ns = process.storage.writing_ns;
      training.reading_ns = process.storage.reading_ns;
    }
    const GoodputSums parts = goodput_of(training);
    const auto add = [](uint64_t* sum, uint128 ns) {
      add_bounded(sum, static_cast<uint64_t>(std::min<uint128>(ns, kMostSum)));
    };
    add(&sums->productive_ns, parts.productive_ns);
    add(&sums->start_up_ns, parts.start_up_ns);
    add(&sums->writing_ns, parts.writing_ns);
    add(&sums->reading_ns, parts.reading_ns);
    add(&sums->stalled_ns, parts.stalled_ns);
    add(&sums->tail_ns, parts.tail_ns);
  }
}

}  // namespace mfu
