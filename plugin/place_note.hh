// Findings of a job's placement behind its line, in the same field of the accounting record:
//
//   mfu-place/1 high nic-down {n3 mlx5_2}{port 1 is DOWN}{ibstat mlx5_2} warning cpu-gpu-remote
//   {n1 rank 0}{n1 rank 1}{runs on CPUs ...}{srun --cpu-bind=...} .
//
// Each finding has its severity, its rule, one or more places, the evidence and the remedy; "+"
// behind the places, or before the full stop: there were more. `run=` is the line's, left out when
// 0. Printable ASCII without quotes, '|', ';', '\' and newline, at most kMostPlaceNote bytes; the
// full stop shows that nothing was cut off. mfu-comment(5) defines it for users.
//
// The user's own Comment has no room for it.
#ifndef MFU_PLUGIN_PLACE_NOTE_HH_
#define MFU_PLUGIN_PLACE_NOTE_HH_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/finding.hh"

namespace mfu {

inline constexpr size_t kMostPlaceNote = 4096;

// Findings that are equal but for the place.
struct NotedFinding {
  Severity severity = Severity::kInformation;
  std::string rule;
  std::vector<std::string> places;  // 1 to kMostPlaces
  bool more_places = false;
  std::string evidence;
  std::string remedy;

  static constexpr size_t kMostPlaces = 8;
  // For people: "n1 rank 0, n2 rank 0, ...".
  std::string places_text() const;
  bool operator==(const NotedFinding&) const = default;
};

struct PlaceNote {
  uint32_t run = 0;                    // how often the job had been requeued
  std::vector<NotedFinding> findings;  // the most severe first, then in the order they came
  bool left_out = false;               // there were more

  bool operator==(const PlaceNote&) const = default;
  // A rule speaks once of a place: what comes later is dropped, unless it is more severe. What does
  // not fit into kMostPlaceNote bytes goes from the end.
  void add(const Finding& finding);
  // Adds those of a note of the same run. Joining the same once more changes nothing.
  void join(const PlaceNote& other);
};

// Without newline; empty when there is nothing to say.
std::string format_place_note(const PlaceNote& note);

// The note that stands in a field: a sound one anywhere, or a broken one behind our line.
struct PlaceNoteReading {
  std::optional<PlaceNote> note;
  std::string_view text;  // sound or not, as far as it is ours; empty, at the field's end: none
  std::string fault;      // why there is no sound note, with the byte; empty: there is one, or none
};
// `field` must outlive the result.
PlaceNoteReading read_place_note(std::string_view field);

// `field` with the note `text` in place of the one there, sound or broken, or behind our line with
// a blank between; everybody else's text stays, byte for byte. Without text the note goes. Nothing
// when the result would exceed `limit` bytes.
std::optional<std::string> replace_place_note(std::string_view field, std::string_view text,
                                              size_t limit);

}  // namespace mfu

#endif
