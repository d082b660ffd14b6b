// SPDX-License-Identifier: Apache-2.0
// Text of exports, read back by the libraries that read it.
#include <doctest/doctest.h>
#include <yaml-cpp/yaml.h>

#include "exporters/export_plan.hpp"

namespace plansearch::exporters::write_documents_test {
namespace {

const std::vector<std::string> kHeader{"one", "two"};
/// Words that YAML or a shell takes for something else.
const std::vector<std::string> kHard{"on",    "1f1b", "null",  "1e5",  "a: b", "#x",  "it's",
                                     "\"q\"", "a\nb", "$HOME", "`id`", "",     "\\n", "[1]"};

Entries entries() {
  Entries result{{"a.flag", Value(true)}, {"a.number", Value(8)},   {"a.rate", Value(1e-8)},
                 {"a.half", Value(0.5)},  {"b.deep.list", Value()}, {"b.none", Value(nullptr)}};
  Value list = Value::array();
  for (const std::string& word : kHard) list.push_back(word);
  result[4].value = list;
  return result;
}

TEST_CASE("exporters: JSON is read back") {
  const auto read = Value::parse(write_json(kHeader, entries()));
  CHECK(read["plansearch"] == Value(kHeader));
  CHECK(read["a"]["flag"] == Value(true));
  CHECK(read["a"]["rate"].get<double>() == 1e-8);
  CHECK(read["b"]["deep"]["list"] == entries()[4].value);
}

TEST_CASE("exporters: YAML is read back, strings as strings and numbers as numbers") {
  const std::string text = write_yaml(kHeader, entries());
  CHECK(text.starts_with("# one\n# two\n"));
  const YAML::Node read = YAML::Load(text);
  CHECK(read["a"]["flag"].as<bool>());
  CHECK(read["a"]["rate"].as<double>() == 1e-8);
  // PyYAML takes 1e-08 for a string and 1.0e-08 for a number.
  CHECK(read["a"]["rate"].Scalar() == "1.0e-08");
  for (std::size_t i = 0; i < kHard.size(); ++i) {
    CHECK(read["b"]["deep"]["list"][i].as<std::string>() == kHard[i]);
    CHECK(read["b"]["deep"]["list"][i].Tag() == "!");  // quoted
  }
  CHECK(read["b"]["none"].IsNull());
}

TEST_CASE("exporters: TOML has a section for every path") {
  const std::string text = write_toml(
      kHeader, {{"a.x", Value(1)}, {"a.y", Value("q\"")}, {"b.z", Value(std::vector<int>{1, 2})}});
  CHECK(text == "# one\n# two\n\n[a]\nx = 1\ny = \"q\\\"\"\n\n[b]\nz = [1,2]\n");
}

TEST_CASE("exporters: shell words and arrays") {
  CHECK(shell_word("p2p") == "p2p");
  CHECK(shell_word("Et*3|t*4L") == "'Et*3|t*4L'");
  CHECK(shell_word("it's $x") == "'it'\\''s $x'");
  CHECK(shell_word("") == "''");
  const Entries words{{"--flag", Value(true)}, {"--n", Value(3)}, {"--list", Value({"a", "b c"})}};
  CHECK(shell_array("ARGS", words) == "ARGS=(\n  --flag\n  --n 3\n  --list a 'b c'\n)\n");
}

}  // namespace
}  // namespace plansearch::exporters::write_documents_test
