// SPDX-License-Identifier: Apache-2.0
#include "io/model/network_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/ranges.hpp"
#include "io/document/document.hpp"
#include "io/model/family_file.hpp"

namespace plansearch::io {
namespace {

/// Runs of letters, digits and points, in lower case.
std::vector<std::string> words_of_name(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (kept) {
      words.back() += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// The last word may go on with a point: versions have smaller ones.
bool begins_at(const std::vector<std::string>& label, std::size_t start,
               const std::vector<std::string>& name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string& word = label[start + i];
    const bool version = i + 1 == name.size() && word.starts_with(name[i] + ".");
    if (word != name[i] && !version) return false;
  }
  return true;
}

bool mentions(const std::vector<std::string>& label, const std::vector<std::string>& name) {
  for (std::size_t start = 0; start + name.size() <= label.size(); ++start) {
    if (begins_at(label, start, name)) return true;
  }
  return false;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// "v0.3", "2507", "20250115": when it was published.
bool is_issue(std::string_view word) {
  constexpr std::size_t kShortest = 4;  // month and day, or year and month
  if (word.starts_with('v')) return are_digits(word.substr(1));
  return word.size() >= kShortest && are_digits(word) && !contains(word, '.');
}

}  // namespace

std::vector<std::string> plainer_names(const std::string& name,
                                       const std::filesystem::path& families) {
  const Document document = Document::read(families / "_variants.yaml");
  const Node root = document.root();
  const std::vector<std::string> before = root.at("before").texts();
  const std::vector<std::string> behind = root.at("behind").texts();
  std::vector<std::string> plainer;
  std::string left = name;
  const auto take = [&](std::string shorter) { plainer.push_back(left = std::move(shorter)); };
  for (std::size_t dash = left.find('-'); dash != std::string::npos; dash = left.find('-')) {
    if (!contains(before, left.substr(0, dash))) break;
    take(left.substr(dash + 1));
  }
  for (std::size_t dash = left.rfind('-'); dash != std::string::npos; dash = left.rfind('-')) {
    const std::string last = left.substr(dash + 1);
    if (!contains(behind, last) && !is_issue(last)) break;
    take(left.substr(0, dash));
  }
  return plainer;
}

NetworkNames::NetworkNames(const std::filesystem::path& families) {
  const std::filesystem::path path = families / "_unsupported.yaml";
  std::error_code error;
  if (families.empty() || !std::filesystem::exists(path, error)) return;
  const Document document = Document::read(path);
  const Node root = document.root();
  const std::vector<std::string> known = known_families(families);
  const Node reasons = root.at("families");
  for (const Node::Entry& family : root.at("names").entries()) {
    const auto unread = reasons.find(family.key);
    const bool described = std::ranges::find(known, family.key) != known.end();
    const std::string reason =
        unread      ? unread->text()
        : described ? fmt::format("its config.json describes it (family {})", family.key)
                    : "layers, width and heads are not all that it is made of";
    for (const Node& name : family.value.items()) {
      entries_.push_back({words_of_name(name.text()), family.key, reason});
    }
  }
}

const NetworkNames::Entry* NetworkNames::find(std::string_view label) const {
  const std::vector<std::string> words = words_of_name(label);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return mentions(words, entry.words); });
  return found == entries_.end() ? nullptr : &*found;
}

std::string NetworkNames::reason_against(std::string_view label) const {
  const Entry* entry = find(label);
  return entry == nullptr ? std::string() : entry->reason;
}

std::string NetworkNames::family_of(std::string_view label) const {
  const Entry* entry = find(label);
  return entry == nullptr ? std::string() : entry->family;
}

}  // namespace plansearch::io
