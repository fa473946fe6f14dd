// A model's shape from a file: a Hugging Face config.json, or lines of key=value.
//
// Keys of the latter are the fields of ModelShape by name (layers=32, gated=1, ...), and
// `parameters`; empty lines and lines that begin with # are skipped. config.json is read for the
// decoder families named in model_config.cc; any other model_type is refused, since whether an MLP
// has a gate, or a layer attention at all, cannot be told from numbers. Files are untrusted: size,
// depth and every range are checked.
#ifndef MFU_PROFILER_MODEL_CONFIG_HH_
#define MFU_PROFILER_MODEL_CONFIG_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "profiler/model_flops.hh"

namespace mfu {

struct ModelConfig {
  ModelShape shape;
  uint64_t parameters = 0;         // as its makers count them; 0: not said
  std::string type;                // model_type of a config.json
  std::vector<std::string> notes;  // what was left out, for the reader
};

// Sets one field by its key=value name, a decimal number without sign. Returns what is wrong, or
// nothing. The ranges of shapes are checked by finish_model.
std::string set_model_field(std::string_view key, std::string_view value, ModelConfig* config);

// Completes the shape. The error names the field.
tl::expected<ModelConfig, std::string> finish_model(ModelConfig config);

// Neither completed nor checked as a whole yet: options may change fields first. Errors begin with
// `where` and name the line, or the byte and the key.
tl::expected<ModelConfig, std::string> parse_model_config(std::string_view text,
                                                          const std::string& where);
// At most 1 MiB.
tl::expected<ModelConfig, std::string> read_model_config(const std::string& path);

}  // namespace mfu

#endif
