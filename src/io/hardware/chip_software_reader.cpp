// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/profile_reader.hpp"

#include "io/document/document.hpp"
#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

double spread_of(const Node& node) {
  const double value = node.number();
  if (!(value >= 0.0 && value <= 1.0)) node.fail("a spread lies from 0 to 1");
  return value;
}

UsualPrecision read_usual(const Node& node) {
  UsualPrecision usual;
  usual.dense = node.at("dense").text();
  usual.experts = node.at("experts").text();
  usual.spread = spread_of(node.at("spread"));
  return usual;
}

ChipSoftware read_chip(const Node& node) {
  ChipSoftware chip;
  chip.accelerators = node.at("accelerators").texts();
  const Fields fields(node);
  fields.take("framework", chip.framework, &Node::text);
  fields.take("attention_kernel", chip.attention_kernel, &Node::text);
  fields.with("releases", [&](const Node& map) {
    for (const Node::Entry& entry : map.entries()) chip.releases[entry.key] = entry.value.text();
  });
  fields.with("precision", [&](const Node& map) {
    for (const Node::Entry& entry : map.entries()) {
      chip.precision[entry.key] = read_usual(entry.value);
    }
  });
  static_cast<void>(node.at("source").text());
  return chip;
}

}  // namespace

ChipSoftwareTable read_chip_software(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/chips/v1");
  ChipSoftwareTable table;
  for (const Node& node : root.at("chips").items()) table.push_back(read_chip(node));
  root.finish();
  return table;
}

}  // namespace plansearch::io
