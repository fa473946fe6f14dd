#include "plugin/place_note.hh"

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/comment.hh"
#include "plugin/node_findings.hh"
#include "plugin/value_reader.hh"

namespace mfu {
namespace {

constexpr std::string_view kOpening = "mfu-place/1";
constexpr std::string_view kRun = " run=";
constexpr std::string_view kMore = " +";
constexpr std::string_view kClosing = " .";
constexpr size_t kMostRunText = kRun.size() + 10;
constexpr Severity kSeverities[] = {Severity::kHigh, Severity::kWarning, Severity::kInformation};

bool is_blank(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// What a text in braces has as it is.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t i = 0; i < plain.size(); ++i) {
    const char byte = static_cast<char>(i);
    plain[i] = byte == ' ' || (is_value_byte(byte) && byte != '{' && byte != '}' && byte != '%');
  }
  return plain;
}();
bool is_plain(char byte) {
  return kPlain[static_cast<unsigned char>(byte)];
}

// Texts come from users too (NCCL_IB_HCA). Whoever looks for our line, by a pattern say, must not
// find one in them.
bool looks_like_ours(std::string_view text) {
  return text.starts_with("mfu/") || text.starts_with("mfu=") || text.starts_with("mfu-place/");
}

void append_text(std::string_view text, std::string* out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  *out += '{';
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_plain(text[i]) && !looks_like_ours(text.substr(i))) {
      *out += text[i];
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    out->append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  *out += '}';
}

// What append_text() appends, in bytes.
size_t text_size(std::string_view text) {
  auto encoded = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_plain(byte); }));
  for (size_t at = text.find("mfu"); at != text.npos; at = text.find("mfu", at + 1)) {
    encoded += looks_like_ours(text.substr(at)) ? 1 : 0;
  }
  return 2 + text.size() + 2 * encoded;
}

// The value of a hexadecimal digit, which sacctmgr may have made a small one; -1: it is none.
int digit_of(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

// Nothing for what append_text() does not write, and for bytes that are not printable ASCII.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_plain(text[i])) {
      plain += text[i];
      continue;
    }
    if (text[i] != '%' || text.size() - i < 3) return std::nullopt;
    const int high = digit_of(text[i + 1]);
    const int low = digit_of(text[i + 2]);
    if (high < 2 || high > 7 || low < 0 || (high == 7 && low == 15)) return std::nullopt;
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

std::optional<Severity> take_severity(ValueReader* in) {
  for (const Severity severity : kSeverities) {
    if (in->skip(std::string(" ") + severity_name(severity) + " ")) return severity;
  }
  return std::nullopt;
}

// A text in braces, of at most `most` bytes.
bool take_text(ValueReader* in, size_t most, std::string* text) {
  if (!in->skip("{")) return false;
  const auto plain = decoded(in->until("{}"));
  if (!plain || plain->size() > most || !in->skip("}")) return false;
  *text = *plain;
  return true;
}

// Behind the severity.
bool take_finding(ValueReader* in, NotedFinding* finding) {
  finding->rule = in->until(" {}");
  if (fit_finding({finding->rule}).rule != finding->rule || !in->skip(" ")) return false;
  std::vector<std::string> texts;
  do {
    if (texts.size() == NotedFinding::kMostPlaces + 2) return false;
    if (!take_text(in, kMostEvidence, &texts.emplace_back())) return false;
    if (in->skip("+")) {
      if (finding->more_places) return false;
      finding->more_places = true;
      finding->places = std::exchange(texts, {});
    }
  } while (in->next() == '{');
  const size_t behind = 2;  // evidence and remedy
  if (texts.size() < behind) return false;
  finding->remedy = std::move(texts.back());
  finding->evidence = std::move(texts[texts.size() - behind]);
  texts.resize(texts.size() - behind);
  if (finding->more_places && !texts.empty()) return false;
  if (!finding->more_places) finding->places = std::move(texts);
  return !finding->places.empty() &&
         std::all_of(finding->places.begin(), finding->places.end(),
                     [](const std::string& place) { return place.size() <= kMostPlace; });
}

// Reads a note at the front of `in`. Nothing when it is broken; `in` stands where it went wrong.
std::optional<PlaceNote> take_note(ValueReader* in) {
  PlaceNote note;
  in->expect(kOpening);
  if (in->skip(kRun)) {
    note.run = static_cast<uint32_t>(in->number(10, UINT32_MAX));
    if (note.run == 0) return std::nullopt;
  }
  while (const auto severity = take_severity(in)) {
    NotedFinding& finding = note.findings.emplace_back();
    finding.severity = *severity;
    if (!take_finding(in, &finding)) return std::nullopt;
  }
  note.left_out = in->skip(kMore);
  const bool sound = in->skip(kClosing) && (in->next() == '\0' || is_blank(in->next()));
  if (!sound || note.findings.empty()) return std::nullopt;
  std::stable_sort(
      note.findings.begin(), note.findings.end(),
      [](const NotedFinding& a, const NotedFinding& b) { return a.severity > b.severity; });
  return note;
}

bool equal_but_for_place(const NotedFinding& noted, const Finding& finding) {
  return noted.severity == finding.severity && noted.rule == finding.rule &&
         noted.evidence == finding.evidence && noted.remedy == finding.remedy;
}

// What format_place_note() appends for it, in bytes.
size_t finding_size(const NotedFinding& finding) {
  const std::string_view severity = severity_name(finding.severity);
  size_t size = 3 + severity.size() + finding.rule.size() + (finding.more_places ? 1 : 0);
  for (const std::string& place : finding.places) size += text_size(place);
  return size + text_size(finding.evidence) + text_size(finding.remedy);
}

// Thousands of nodes tell their findings at the same time: they are measured without being written.
void cut_to_size(PlaceNote* note) {
  size_t room = kMostPlaceNote - kOpening.size() - kMostRunText - kMore.size() - kClosing.size();
  size_t kept = 0;
  for (; kept < note->findings.size(); ++kept) {
    const size_t size = finding_size(note->findings[kept]);
    if (size > room) break;
    room -= size;
  }
  note->left_out = note->left_out || kept < note->findings.size();
  note->findings.resize(kept);
}

}  // namespace

void PlaceNote::add(const Finding& told) {
  const Finding finding = fit_finding(told);
  std::optional<PlaceNote> before;  // what is less severe went
  for (NotedFinding& noted : findings) {
    if (noted.rule != finding.rule) continue;
    const auto same = std::find(noted.places.begin(), noted.places.end(), finding.place);
    if (same == noted.places.end()) continue;
    if (noted.severity >= finding.severity) return;
    if (!before) before = *this;
    noted.places.erase(same);
  }
  std::erase_if(findings, [](const NotedFinding& noted) { return noted.places.empty(); });
  const auto equal = std::find_if(findings.begin(), findings.end(), [&](const NotedFinding& noted) {
    return equal_but_for_place(noted, finding);
  });
  if (equal != findings.end() && equal->places.size() == NotedFinding::kMostPlaces) {
    if (equal->more_places) return;
    equal->more_places = true;
  } else if (equal != findings.end()) {
    equal->places.push_back(finding.place);
  } else {
    const auto behind =
        std::find_if(findings.begin(), findings.end(),
                     [&](const NotedFinding& noted) { return noted.severity < finding.severity; });
    findings.insert(
        behind,
        {finding.severity, finding.rule, {finding.place}, false, finding.evidence, finding.remedy});
  }
  cut_to_size(this);
  // One for which there is no room must not make any: two writers would take turns for ever.
  const bool kept = std::any_of(findings.begin(), findings.end(), [&](const NotedFinding& noted) {
    return equal_but_for_place(noted, finding);
  });
  if (!before || kept) return;
  *this = std::move(*before);
  left_out = true;
}

void PlaceNote::join(const PlaceNote& other) {
  left_out = left_out || other.left_out;
  for (const NotedFinding& noted : other.findings) {
    Finding finding{noted.rule, noted.severity, "", noted.evidence, noted.remedy};
    for (const std::string& place : noted.places) {
      finding.place = place;
      add(finding);
    }
    if (!noted.more_places) continue;
    for (NotedFinding& ours : findings) {
      if (equal_but_for_place(ours, finding)) ours.more_places = true;
    }
  }
  cut_to_size(this);
}

std::string NotedFinding::places_text() const {
  std::string text;
  for (const std::string& place : places) text.append(text.empty() ? "" : ", ").append(place);
  return text + (more_places ? ", ..." : "");
}

std::string format_place_note(const PlaceNote& note) {
  if (note.findings.empty()) return "";
  std::string text(kOpening);
  if (note.run != 0) text.append(kRun).append(std::to_string(note.run));
  for (const NotedFinding& finding : note.findings) {
    text.append(" ").append(severity_name(finding.severity));
    text.append(" ").append(finding.rule).append(" ");
    for (const std::string& place : finding.places) append_text(place, &text);
    if (finding.more_places) text += '+';
    append_text(finding.evidence, &text);
    append_text(finding.remedy, &text);
  }
  return text.append(note.left_out ? kMore : "").append(kClosing);
}

PlaceNoteReading read_place_note(std::string_view field) {
  PlaceNoteReading broken{std::nullopt, field.substr(field.size()), ""};
  const std::string_view line = find_comment(field);
  const auto line_end = static_cast<size_t>(line.data() - field.data()) + line.size();
  for (size_t at = field.find(kOpening); at != field.npos; at = field.find(kOpening, at + 1)) {
    const std::string_view rest = field.substr(at);
    if (at > 0 && !is_blank(field[at - 1])) continue;
    if (rest.size() > kOpening.size() && !is_blank(rest[kOpening.size()])) continue;
    ValueReader in(rest.substr(0, kMostPlaceNote));
    if (auto note = take_note(&in)) return {std::move(note), rest.substr(0, in.at()), ""};
    // What is no note was one only where ours stand.
    if (!broken.text.empty() || line.empty() || at < line_end) continue;
    broken.text = rest.substr(0, in.at());
    broken.fault =
        "broken findings: byte " + std::to_string(in.at()) + ": they were cut off or edited";
  }
  return broken;
}

std::optional<std::string> replace_place_note(std::string_view field, std::string_view text,
                                              size_t limit) {
  const PlaceNoteReading old = read_place_note(field);
  const bool was_there = !old.text.empty();
  if (!was_there && text.empty()) return std::string(field);
  auto start = static_cast<size_t>(old.text.data() - field.data());
  size_t end = start + old.text.size();
  std::string between;
  if (!was_there) {
    const std::string_view line = find_comment(field);
    start = end = static_cast<size_t>(line.data() - field.data()) + line.size();
    if (start > 0 && !is_blank(field[start - 1])) between = " ";
  } else if (text.empty() && start > 0 && field[start - 1] == ' ') {
    --start;
  }
  std::string result(field.substr(0, start));
  result.append(between).append(text);
  // What stays of a broken one, or stood behind the line, must not run into the note.
  if (!text.empty() && end < field.size() && !is_blank(field[end])) result += ' ';
  result.append(field.substr(end));
  if (result.size() > limit) return std::nullopt;
  return result;
}

}  // namespace mfu
