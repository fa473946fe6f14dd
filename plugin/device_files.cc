#include "plugin/device_files.hh"

#include <dirent.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

namespace mfu {
namespace {

constexpr size_t kMostGpus = 128;
constexpr uint32_t kMostNumber = 4095;

// Without leading zeros.
std::optional<uint32_t> number_of(std::string_view digits) {
  uint32_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  const bool whole = error == std::errc() && rest == end && (digits == "0" || digits[0] != '0');
  return whole && number <= kMostNumber ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string openable_gpus(const std::string& folder) {
  constexpr std::string_view kName = "nvidia";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (listing == nullptr) return "";
  std::set<uint32_t> numbers;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kName)) continue;
    const auto number = number_of(name.substr(kName.size()));
    if (!number || access((folder + "/" + entry->d_name).c_str(), R_OK | W_OK) != 0) continue;
    numbers.insert(*number);
    if (numbers.size() == kMostGpus) break;
  }
  std::string text;
  for (const uint32_t number : numbers) {
    text.append(text.empty() ? "" : ",").append(std::to_string(number));
  }
  return text;
}

bool is_gpu_list(const std::string& text) {
  std::string_view rest = text;
  size_t count = 0;
  for (std::optional<uint32_t> before; !rest.empty();) {
    const std::string_view digits = rest.substr(0, rest.find(','));
    const auto number = number_of(digits);
    if (!number || (before && *number <= *before) || ++count > kMostGpus) return false;
    before = number;
    rest.remove_prefix(digits.size());
    if (rest == ",") return false;
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return count != 0;
}

}  // namespace mfu
