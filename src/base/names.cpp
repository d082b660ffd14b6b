// SPDX-License-Identifier: Apache-2.0
#include "base/names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"

namespace plansearch {
namespace {

/// A longer text is not a misspelled name; comparing takes time that grows with the square.
constexpr std::size_t kLongestName = 200;

/// Edits (insert, delete, replace, swap of neighbours) that turn one text into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

/// Canonical, without the characters people leave out.
std::string letters_of(std::string_view name) {
  std::string text = canonical_name(name);
  std::erase(text, '-');
  return text;
}

/// "8b" for "llama3-8b": one of its words, whole.
bool is_word_of(std::string_view wanted, const std::string& known) {
  const std::vector<std::string> words = split(canonical_name(known), "-");
  return wanted.size() > 1 && std::ranges::find(words, wanted) != words.end();
}

/// "h100" for "dgxh100", "gpt2xlarge" for "gpt2xl"; very short words are in everything.
bool one_contains_the_other(std::string_view wanted, std::string_view known) {
  constexpr std::size_t kTelling = 3;
  if (std::min(wanted.size(), known.size()) < kTelling) return false;
  if (known.find(wanted) != std::string_view::npos) return true;
  return 2 * known.size() >= wanted.size() && wanted.find(known) != std::string_view::npos;
}

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Bytes of the control character there: of ASCII, U+0080 to U+009F in UTF-8, or one that turns the
/// direction of what follows (U+202A to U+202E, U+2066 to U+2069), or a byte outside of UTF-8.
/// 0: none.
std::size_t control_length(std::string_view text, std::size_t at) {
  const unsigned byte = byte_at(text, at);
  if (byte < 0x20 || byte == 0x7F) return 1;
  if (byte >= 0x80 && utf8_length(text.substr(at)) == 0) return 1;
  const unsigned next = byte_at(text, at + 1);
  if (byte == 0xC2) return next >= 0x80 && next < 0xA0 ? 2 : 0;
  if (byte != 0xE2) return 0;
  const unsigned last = byte_at(text, at + 2);
  const bool turns = (next == 0x80 && last >= 0xAA && last <= 0xAE) ||
                     (next == 0x81 && last >= 0xA6 && last <= 0xA9);
  return turns ? 3 : 0;
}

bool continues_a_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string escaped(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t control = control_length(text, i);
    for (std::size_t k = 0; k < control; ++k)
      shown += fmt::format("\\x{:02x}", byte_at(text, i + k));
    const std::size_t length = control > 0 ? control : utf8_length(text.substr(i));
    if (control == 0) shown += text.substr(i, length);
    i += length;
  }
  return shown;
}

}  // namespace

std::string canonical_name(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c == '_' || c == ' ') c = '-';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known,
                                       std::size_t count) {
  struct Scored {
    std::size_t distance;
    const std::string* name;
  };
  const std::string wanted = letters_of(name);
  std::vector<Scored> scored;
  for (const std::string& candidate : known) {
    const std::string letters = letters_of(candidate);
    std::size_t distance = 1;
    if (!one_contains_the_other(wanted, letters) && !is_word_of(wanted, candidate)) {
      const std::size_t limit = letters.size() / 2;
      const std::size_t longer = std::max(wanted.size(), letters.size());
      if (longer > kLongestName) continue;
      if (longer - std::min(wanted.size(), letters.size()) > limit) continue;
      distance = edit_distance(wanted, letters);
      if (distance > limit) continue;
    }
    scored.push_back({distance, &candidate});
  }
  std::ranges::stable_sort(scored, {}, &Scored::distance);
  std::vector<std::string> nearest;
  for (const Scored& s : scored) {
    if (nearest.size() == count || s.distance > scored.front().distance + 2) break;
    if (std::ranges::find(nearest, *s.name) == nearest.end()) nearest.push_back(*s.name);
  }
  return nearest;
}

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find_first_of(separators, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::vector<std::string> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> words = split(text, separators);
  std::erase(words, "");
  return words;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  const std::vector<std::string> nearest = nearest_names(name, known);
  if (nearest.empty()) return {};
  std::string text = "did you mean " + nearest.front();
  for (std::size_t i = 1; i < nearest.size(); ++i) {
    text += (i + 1 == nearest.size() ? " or " : ", ") + nearest[i];
  }
  return text + "?";
}

std::string printable(std::string_view text, std::size_t most) {
  if (text.size() <= most) return escaped(text);
  // Whole characters from the front and the back.
  std::size_t front = most * 2 / 3;
  std::size_t back = text.size() - (most - front);
  while (front > 0 && continues_a_character(text[front])) --front;
  while (back < text.size() && continues_a_character(text[back])) ++back;
  return fmt::format("{} ... ({} bytes left out) ... {}", escaped(text.substr(0, front)),
                     back - front, escaped(text.substr(back)));
}

std::size_t find_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool blank = text[i] == '\t' || text[i] == '\n' || text[i] == '\r';
    if (!blank && control_length(text, i) > 0) return i;
    i += utf8_length(text.substr(i)) - 1;
  }
  return std::string_view::npos;
}

}  // namespace plansearch
