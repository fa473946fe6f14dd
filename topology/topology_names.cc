#include "topology/topology_names.hh"

#include <algorithm>
#include <cctype>
#include <unordered_map>

namespace mfu {
namespace {

constexpr size_t kLongest = 48;

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t dash = std::min(name.find('-'), name.size());
    words.push_back(name.substr(0, dash));
    if (dash == name.size()) return words;
    name.remove_prefix(dash + 1);
  }
}

}  // namespace

std::string slurm_name(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (is_word_character(c)) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
    if (name.size() == kLongest) break;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '-' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_word_character(c) || c == '-'; });
}

std::string switch_name(std::string_view description) {
  const size_t begin = description.find(';');
  if (begin != std::string_view::npos) {
    description.remove_prefix(begin + 1);
    description = description.substr(0, description.find(':'));
  }
  return slurm_name(description);
}

std::string shared_name(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  if (names.size() == 1) return names.front();
  std::vector<std::string_view> shared = words_of(names.front());
  for (const std::string& name : names) {
    const std::vector<std::string_view> words = words_of(name);
    if (words.size() != shared.size()) return "";
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] != shared[i]) shared[i] = {};
    }
  }
  std::string result;
  for (std::string_view word : shared) {
    if (!word.empty()) result.append(result.empty() ? "" : "-").append(word);
  }
  return result;
}

std::vector<std::string> unique_names(const std::vector<std::string>& wanted,
                                      const std::string& fallback,
                                      std::unordered_set<std::string>* taken) {
  std::unordered_map<std::string, int> counts;
  for (const std::string& name : wanted) ++counts[name];
  std::vector<std::string> names;
  for (const std::string& name : wanted) {
    const bool good = !name.empty() && counts[name] == 1 && taken->insert(name).second;
    names.push_back(good ? name : "");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t number = i + 1; names[i].empty(); number += names.size()) {
      std::string name = fallback + std::to_string(number);
      if (taken->insert(name).second) names[i] = std::move(name);
    }
  }
  return names;
}

}  // namespace mfu
