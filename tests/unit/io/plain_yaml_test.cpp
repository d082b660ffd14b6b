// SPDX-License-Identifier: Apache-2.0
// The fast reader of YAML reads what the library reads, or leaves it to the library.
#include "io/document/plain_yaml.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/document/file.hpp"
#include "support/source_directory.hpp"

namespace plansearch::io::plain_yaml_test {
namespace {

namespace fs = std::filesystem;

const auto kFile = std::make_shared<const std::string>("file.yaml");

std::optional<RawValue> plain(const std::string& text) {
  return parse_plain_yaml(text, kFile, {});
}

/// The first difference of two trees, in words; empty: none.
std::string difference(const RawValue& a, const RawValue& b) {
  const std::string place = std::to_string(b.line) + ":" + std::to_string(b.column);
  if (a.kind != b.kind || a.text != b.text) return place + " value '" + a.text + "'";
  if (a.line != b.line || a.column != b.column) {
    return place + " stands at " + std::to_string(a.line) + ":" + std::to_string(a.column);
  }
  if (a.size != b.size || a.text_size != b.text_size || *a.file != *b.file) return place + " size";
  if (a.items.size() != b.items.size() || a.entries.size() != b.entries.size()) {
    return place + " number";
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (auto found = difference(a.items[i], b.items[i]); !found.empty()) return found;
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    const RawEntry& x = a.entries[i];
    const RawEntry& y = b.entries[i];
    if (x.key != y.key || x.line != y.line || x.column != y.column) return place + " " + y.key;
    if (auto found = difference(x.value, y.value); !found.empty()) return found;
  }
  return {};
}

/// Whether the fast reader takes the text; what it takes must be what the library reads.
bool reads(const std::string& text) {
  const auto fast = plain(text);
  if (!fast) return false;
  CAPTURE(text.substr(0, 300));
  std::string found = "the library refuses it";
  CHECK_NOTHROW(found = difference(*fast, parse_any_yaml(text, kFile, {})));
  CHECK(found == "");
  return true;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_SUITE("io: plain YAML") {
  TEST_CASE("nearly all shipped files are plain, and read as the library reads them") {
    int all = 0;
    int taken = 0;
    for (const char* folder :
         {"models", "hardware_profiles", "frameworks", "recipes", "constraints", "validation"}) {
      for (const fs::path& file : files_below(fs::path(PLANSEARCH_SOURCE_DIR) / folder)) {
        if (file.extension() != ".yaml") continue;
        CAPTURE(file.string());
        ++all;
        taken += reads(read_file(file, ParseLimits{}.size)) ? 1 : 0;
      }
    }
    CHECK(all > 300);
    CHECK(taken > all * 9 / 10);
  }

  TEST_CASE("texts of the fuzz corpora, and shipped files cut anywhere") {
    for (const fs::path& file :
         files_below(fs::path(PLANSEARCH_SOURCE_DIR) / "tests/fuzz/corpus")) {
      if (fs::file_size(file) < 20'000) reads(read_file(file, ParseLimits{}.size));
    }
    for (const char* name : {"models/gpt3-175b.yaml", "hardware_profiles/selene.yaml"}) {
      const std::string text =
          read_file(fs::path(PLANSEARCH_SOURCE_DIR) / name, ParseLimits{}.size);
      for (std::size_t cut = 0; cut < text.size(); ++cut) {
        reads(text.substr(0, cut));
        std::string without = text;
        reads(without.erase(cut, 1));
        std::string other = text;
        other[cut] = "\n :#-[{\"'"[cut % 9];
        reads(other);
      }
    }
  }

  TEST_CASE("block and flow values, quotes, comments and lists below their key") {
    for (const char* text :
         {"a: 1\n", "a: 1", "# c\n\na:  b c   # d\nb: 'x # y'\nc: \"z: w\"\n",
          "- a\n- - b\n  - c\n", "a:\n- b\n- c: 1\n  d: 2\ne: f\n",
          "a:\n  b:\n    - c\n  # comment\n  d: e:f\n", "a: [1, {b: c, d: [e]}, \"f, g\"]  # h\n",
          "a: [b,\n  c,  # d\n  e]\nf: {}\ng: []\n", "url: https://x.y/z#w\n",
          "a : b\n\"c d\": e\n", "-1.5\n", "a:\n  b\nc: d\n", "a: null\nb: [~, Null]\n"}) {
      CHECK(reads(text));
    }
  }

  TEST_CASE("everything else is left to the library") {
    for (const char* text : {"",
                             "# c\n",
                             "a:\n",
                             "~: a\n",

                             "a: b\n  c\n",
                             "a: b: c\n",
                             "a: |\n  b\n",
                             "a: &x 1\nb: *x\n",
                             "a: !t 1\n",
                             "a:\tb\n",
                             "a: 1\r\n",
                             "a: \xC2\xB5s\n",
                             "---\na: 1\n",
                             "a: 1\n...\n",
                             "a: 'it''s'\n",
                             "a: \"b\\n\"\n",
                             "a: 1\na: 2\n",
                             "a: [b\n",
                             "a: [b]c\n",
                             "a: [b: c]\n",
                             "a: {b}\n",
                             "a: [b, ]\n",
                             "? a\n: b\n",
                             "a: 1\n b: 2\n",
                             "- a\nb: c\n",
                             "a: \"b\n  c\"\n",
                             "%YAML 1.2\n"}) {
      CAPTURE(text);
      CHECK_FALSE(plain(text).has_value());
    }
  }
}

}  // namespace plansearch::io::plain_yaml_test
