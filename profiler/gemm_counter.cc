#include "profiler/gemm_counter.hh"

#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "profiler/cublas_gate.hh"
#include "profiler/dlsym_patch.hh"
#include "profiler/got_patch.hh"
#include "profiler/graph_gate.hh"
#include "profiler/record.hh"

namespace mfu::gemm_counter {
namespace {

constinit GemmTable the_table{};
constinit GraphGemms the_graphs{};
constinit Snapshot snapshot{};
constinit std::atomic<bool> counting{false};
constinit bool is_open = false;

// The symbols of both gates: one walk serves all.
constinit GotPatch::Symbol symbols[GotPatch::kMostSymbols] = {};
constinit size_t symbol_count = 0;
constinit GotPatch patch(symbols, 0);

void append(const GotPatch::Symbol* some, size_t count) {
  memcpy(symbols + symbol_count, some, count * sizeof(*some));
  symbol_count += count;
}

}  // namespace

bool open() {
  const char* wanted = getenv(kCountVariable);
  if (wanted != nullptr && strcmp(wanted, "off") == 0) return false;
  if (!is_open) {
    is_open = true;
    the_graphs.attach(&the_table);
    size_t count = 0;
    const GotPatch::Symbol* some = cublas_gate::symbols(&count);
    append(some, count);
    some = graph_gate::symbols(&count);
    append(some, count);
    dlsym_patch::add(symbols, symbol_count);
    patch.extend(symbol_count);
    counting = true;
  }
  apply();
  return true;
}

void apply() {
  if (!is_open) return;
  cublas_gate::find_functions();
  graph_gate::find_functions();
  patch.apply();
  dlsym_patch::apply();
}

void abandon() {
  counting = false;
}

bool take(const Snapshot** out) {
  if (!is_open || !the_graphs.sum(snapshot.shapes, &snapshot.sums)) return false;
  the_table.unlisted(&snapshot.unlisted);
  for (size_t i = 0; i < symbol_count; ++i) snapshot.sums.entries += patch.patched(i);
  *out = &snapshot;
  return true;
}

bool counts() {
  return counting.load(std::memory_order_relaxed);
}

GemmTable& table() {
  return the_table;
}

GraphGemms& graphs() {
  return the_graphs;
}

}  // namespace mfu::gemm_counter
