// How each NCCL version calls its profiler plugin: one class for each version of the table.
#ifndef MFU_TESTS_FAKE_NCCL_CALLERS_HH_
#define MFU_TESTS_FAKE_NCCL_CALLERS_HH_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>

#include "tests/fake/nccl_layouts.hh"

namespace mfu::fake {

// Event types, as in NCCL.
enum NcclEvent : uint64_t {
  kGroup = 1,
  kColl = 2,
  kP2p = 4,
  kProxyOp = 8,
  kGroupApi = 256,
  kCollApi = 512,
  kP2pApi = 1024,
  kCeColl = 4096,
};

struct NcclTask {
  const char* function;  // "AllReduce", ...; "Send" and "Recv" are point to point
  size_t count;          // as the user hands it in
  const char* datatype = "ncclFloat32";
  int peer = 0;         // of point to point
  bool engine = false;  // done by copy engines (version 5: without telling; 6)
};

struct NcclCommunicator {
  const char* name = nullptr;
  uint64_t hash = 0;
  int rank = 0;
  int ranks = 1;
  int nodes = 1;
  void* context = nullptr;
  std::map<std::string, uint64_t> sequence = {};
};

// One version's way to call.
class NcclPlugin {
 public:
  virtual ~NcclPlugin() = default;
  virtual int abi() const = 0;
  virtual const char* name() const = 0;
  virtual int init(NcclCommunicator& communicator, int* mask) = 0;
  virtual int finalize(void* context) = 0;
  virtual int stop(void* handle) = 0;
  virtual int record_state(void* handle, int state) = 0;
  // A whole descriptor of the type, everything that is not given being 0. `type` may be anything.
  virtual void* start(void* context, uint64_t type) = 0;
  virtual void* start_task(const NcclCommunicator& communicator, const NcclTask& task, void* api,
                           void* group) = 0;
  // Version 5 and later; nullptr otherwise.
  virtual void* start_api(const NcclCommunicator& communicator, const NcclTask& task, void* group,
                          bool captured) = 0;
  // Version 6 and later; nullptr otherwise.
  virtual void* start_engine(const NcclCommunicator& communicator, const NcclTask& task,
                             void* api) = 0;
  // Raw: startEvent with any pointers.
  virtual int start_raw(void* context, void** handle, void* event) = 0;
};

// Bytes of an element; 1 for what NCCL calls "Unknown".
inline size_t nccl_element_bytes(const std::string& datatype) {
  if (datatype.find("64") != std::string::npos) return 8;
  if (datatype.find("32") != std::string::npos) return 4;
  if (datatype.find("16") != std::string::npos) return 2;
  return 1;
}

inline void log(int, unsigned long, const char*, int, const char*, ...) {}

inline bool point_to_point(const NcclTask& task) {
  return std::strcmp(task.function, "Send") == 0 || std::strcmp(task.function, "Recv") == 0;
}

// NCCL counts these in bytes from here on.
inline bool turned_to_bytes(const NcclTask& task) {
  return std::strcmp(task.function, "AllGather") == 0 ||
         std::strcmp(task.function, "Broadcast") == 0;
}

inline size_t internal_count(const NcclTask& task) {
  return turned_to_bytes(task) ? task.count * nccl_element_bytes(task.datatype) : task.count;
}

inline const char* internal_datatype(const NcclTask& task) {
  return turned_to_bytes(task) ? "ncclInt8" : task.datatype;
}

template <typename Value>
Value place_of(const char* name, std::initializer_list<const char*> names) {
  Value place = 0;
  for (const char* candidate : names) {
    if (std::strcmp(candidate, name) == 0) return place;
    ++place;
  }
  return 200;  // no such number
}

inline void set_function(const char** to, const char* name) {
  *to = name;
}
inline void set_function(uint8_t* to, const char* name) {
  *to = place_of<uint8_t>(name, {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce",
                                 "SendRecv", "Send", "Recv"});
}
inline void set_datatype(const char** to, const char* name) {
  *to = name;
}
inline void set_datatype(uint8_t* to, const char* name) {
  *to = std::strcmp(name, "Unknown") == 0
            ? 1
            : place_of<uint8_t>(
                  name, {"ncclInt8", "", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
                         "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"});
}

template <int version, typename Init, typename Event>
class Caller : public NcclPlugin {
 public:
  explicit Caller(const void* table) : table_(static_cast<const Table<Init, Event>*>(table)) {}

  int abi() const override { return version; }
  const char* name() const override { return table_->name; }
  int init(NcclCommunicator& to, int* mask) override {
    if constexpr (std::is_same_v<Init, Init1>) {
      return table_->init(&to.context, mask);
    } else if constexpr (std::is_same_v<Init, Init4>) {
      return table_->init(&to.context, mask, to.name, to.hash, to.nodes, to.ranks, to.rank, log);
    } else {
      return table_->init(&to.context, to.hash, mask, to.name, to.nodes, to.ranks, to.rank, log);
    }
  }
  int finalize(void* context) override { return table_->finalize(context); }
  int stop(void* handle) override { return table_->stop(handle); }
  int record_state(void* handle, int state) override {
    uint64_t arguments[2] = {};
    return table_->record(handle, state, arguments);
  }
  int start_raw(void* context, void** handle, void* event) override {
    return table_->start(context, handle, static_cast<Event*>(event));
  }
  void* start(void* context, uint64_t type) override {
    Event event = blank();
    event.type = static_cast<decltype(event.type)>(type);
    return send(context, event);
  }

  void* start_task(const NcclCommunicator& of, const NcclTask& task, void* api,
                   void* group) override {
    Event event = blank();
    event.parent = version >= 5 ? api : group;
    event.rank = of.rank;
    if (point_to_point(task)) {
      event.type = kP2p;
      if constexpr (version <= 3) {
        event.p2p.name = of.name;
        event.p2p.hash = of.hash;
      }
      if constexpr (version >= 5) event.p2p.group = group;
      set_function(&event.p2p.function, task.function);
      set_datatype(&event.p2p.datatype, task.datatype);
      event.p2p.count = task.count;
      event.p2p.peer = task.peer;
    } else {
      event.type = kColl;
      if constexpr (version <= 3) {
        event.coll.name = of.name;
        event.coll.hash = of.hash;
      }
      if constexpr (version <= 2) event.coll.traffic = traffic(of, task);
      if constexpr (version >= 5) event.coll.group = group;
      auto last = of.sequence.find(task.function);
      event.coll.sequence = last == of.sequence.end() ? 0 : last->second;
      set_function(&event.coll.function, task.function);
      set_datatype(&event.coll.datatype, internal_datatype(task));
      event.coll.count = internal_count(task);
    }
    return send(of.context, event);
  }

  void* start_api(const NcclCommunicator& of, const NcclTask& task, void* group,
                  bool captured) override {
    if constexpr (version >= 5) {
      Event event = blank();
      event.parent = group;
      auto fill = [&](auto& api) {
        api.function = task.function;
        api.count = task.count;
        api.datatype = task.datatype;
        api.captured = captured;
      };
      if (point_to_point(task)) {
        event.type = kP2pApi;
        fill(event.p2p_api);
      } else {
        event.type = kCollApi;
        fill(event.coll_api);
      }
      return send(of.context, event);
    }
    return nullptr;
  }

  void* start_engine(const NcclCommunicator& of, const NcclTask& task, void* api) override {
    if constexpr (version >= 6) {
      Event event = blank();
      event.type = kCeColl;
      event.parent = api;
      event.rank = of.rank;
      event.engine.function = task.function;
      event.engine.count = internal_count(task);
      event.engine.datatype = internal_datatype(task);
      return send(of.context, event);
    }
    return nullptr;
  }

 private:
  // Padding is whatever was on the stack, in NCCL too.
  static Event blank() {
    Event event;
    std::memset(static_cast<void*>(&event), 0xa5, sizeof(event));
    std::memset(static_cast<void*>(&event.coll), 0, sizeof(event) - offsetof(Event, coll));
    event.parent = nullptr;
    event.rank = 0;
    return event;
  }
  // ncclFuncTrafficPerByte
  static size_t traffic(const NcclCommunicator& of, const NcclTask& task) {
    size_t factor = 1;
    if (std::strcmp(task.function, "AllReduce") == 0) factor = 2;
    if (std::strcmp(task.function, "AllGather") == 0 ||
        std::strcmp(task.function, "ReduceScatter") == 0) {
      factor = static_cast<size_t>(of.ranks);
    }
    return task.count * nccl_element_bytes(task.datatype) * factor;
  }
  void* send(void* context, Event& event) {
    void* handle = &event;  // the plugin has to write it
    if (table_->start(context, &handle, &event) != 0) return nullptr;
    std::memset(static_cast<void*>(&event), 0x5a, sizeof(event));  // gone after the call
    return handle;
  }

  const Table<Init, Event>* table_;
};

}  // namespace mfu::fake

#endif
