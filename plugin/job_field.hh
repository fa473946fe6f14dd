// What a job step writes into its job's field: the line (comment.hh) and, behind it, the findings
// of its placement (place_note.hh), in one edit.
#ifndef MFU_PLUGIN_JOB_FIELD_HH_
#define MFU_PLUGIN_JOB_FIELD_HH_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "plugin/comment.hh"
#include "plugin/place_note.hh"

namespace mfu {

struct StepWords {
  const Comment& step;  // report_step()'s
  uint32_t step_id = 0;
  bool ended = false;
  // A batch step in which nothing used a GPU: it says only, should no other step of the job use
  // CUDA, that there was nothing to see.
  bool nothing_ran = false;
  const PlaceNote* findings = nullptr;  // of the step's run; nullptr: the field has no room for any
  size_t limit = 0;                     // of the field, in bytes
};

// The field with the step's words merged in; nothing when it is right already; an error when it
// must not be touched. A line or findings that cannot be read are replaced: they would never become
// right again. Findings that have no room are left out.
tl::expected<std::optional<std::string>, std::string> edit_job_field(std::string_view field,
                                                                     const StepWords& words);

}  // namespace mfu

#endif
