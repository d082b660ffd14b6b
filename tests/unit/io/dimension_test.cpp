// SPDX-License-Identifier: Apache-2.0
// Dimensions of graph files that follow from others, other lengths, and blocks that are left out.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/document/file.hpp"
#include "io/model/graph/dimension_reader.hpp"
#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"

namespace plansearch::dimension_test {
namespace {

using test::says;

const std::filesystem::path kSource = PLANSEARCH_SOURCE_DIR;

std::variant<std::int64_t, std::string> evaluated(const std::string& text) {
  const std::map<std::string, std::int64_t, std::less<>> sizes{{"a", 6}, {"b_2", 4}};
  return io::evaluate_extent(text, [&](std::string_view name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? std::nullopt : std::optional(found->second);
  });
}

std::int64_t value(const std::string& text) {
  const auto made = evaluated(text);
  REQUIRE(std::holds_alternative<std::int64_t>(made));
  return std::get<std::int64_t>(made);
}

bool refused(const std::string& text, const std::string& why) {
  const auto made = evaluated(text);
  const auto* problem = std::get_if<std::string>(&made);
  return problem != nullptr && problem->find(why) != std::string::npos;
}

/// A layer over tokens `t` and their keys, with what the dimensions and the order say in addition.
std::string attention(const std::string& dims, const std::string& top = {},
                      const std::string& order = "[enter, {block: layer, copies: 2}]",
                      const std::string& field = {}) {
  return "schema: plansearch/graph/v1\nname: net\n" + top + "dims: {b: {extent: 1, role: batch}, " +
         dims +
         "c: 8, h: {extent: 2, role: head}, d: {extent: 4, role: head-size}}\nblocks:\n"
         "  enter: {in: {x: [b, t, c]}, out: [y], operators: [\n"
         "    {name: y, kind: product, read: x, weight: [c, h, d], make: \"y[b, t, h, d]\"}]}\n"
         "  layer: {in: {y: [b, t, h, d]}, out: {y: z}, operators: [\n"
         "    {name: z, kind: attention, read: [y, y, y], make: \"z[b, t, h, d]\", "
         "loop: [b, h, t, k, d], flops_per_point: 4" +
         field + "}]}\norder: " + order + "\n";
}

const std::string kTokens =
    "t: {extent: 64, role: sequence}, k: {extent: 64, role: key-sequence}, ";
const std::string kPixels =
    "side: 8, t: {extent: side*side, role: sequence}, k: {extent: t, role: key-sequence}, ";

Network network_of(const std::string& text) {
  return build_network(
      io::read_model(io::Document::parse(text, "net.yaml", io::Syntax::Yaml), "net").model);
}

std::string message_of(const std::string& text) {
  return test::message_of([&] { return network_of(text); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("extents are sums, products and exact quotients") {
    CHECK(value("3") == 3);
    CHECK(value("4*a") == 24);
    CHECK(value("a - b_2 + 1") == 3);
    CHECK(value("a + b_2*b_2/2") == 14);
    CHECK(value("(a/2)*((a + 2)/b_2)") == 6);
    CHECK(refused("a/4", "'a/4': 6 is not a multiple of 4"));
    CHECK(refused("a/(a - 6)", "is not a multiple of 0"));
    CHECK(refused("seq", "'seq' is not a number: shapes are static"));
    CHECK(refused("99999999999", "is neither a number"));
    CHECK(refused("100000000*2", "is beyond"));
    for (const char* text : {"", "4a", "4 a", "a+", "(a", "a)", "a^2", "1.5", "*a"}) {
      CAPTURE(text);
      CHECK(std::holds_alternative<std::string>(evaluated(text)));
    }
  }

  TEST_CASE("a size that follows from others is the same as its number") {
    CHECK(network_of(attention(kTokens)).dimensions[1].extent == 64);
    const Network square = network_of(attention(kPixels));
    CHECK(square.dimensions[2].extent == 64);
    CHECK(square.dimensions[3].extent == 64);
    CHECK(model_forward_flops(square).value() ==
          model_forward_flops(network_of(attention(kTokens))).value());
    CHECK(says(message_of(attention("t: {extent: side*side, role: sequence}, side: 8, k: 64, ")),
               "'side' is not a number: shapes are static"));
    CHECK(says(message_of(attention("z: 4, t: {extent: z - 4, role: sequence}, k: 4, ")),
               "'z - 4' is 0"));
  }

  TEST_CASE("another number of tokens moves the dimension of tokens and its keys") {
    const Network longer = network_of(attention(kTokens, "seq_len: 256\n"));
    CHECK(longer.dimensions[1].extent == 256);
    CHECK(longer.dimensions[2].extent == 256);
    CHECK(says(message_of(attention(kPixels, "seq_len: 256\n")),
               "t is side*side: its length follows from other sizes"));
    CHECK(
        says(message_of(attention(kTokens + "u: {extent: 32, role: sequence}, ", "seq_len: 256\n")),
             "t, u are sequences of several lengths"));
    CHECK(says(message_of(attention("t: 64, k: 64, ", "seq_len: 256\n")),
               "no dimension has the role sequence"));
    CHECK(
        says(message_of(attention(kTokens, "seq_len: 256\n", "[enter, layer]", ", windowed: true")),
             "z of layer attends to a window"));
  }

  TEST_CASE("a block without copies is left out") {
    const std::string none = "[enter, {block: layer, copies: 0}]";
    const Network network = network_of(attention(kTokens, {}, none));
    CHECK(network.blocks.size() == 1);
    CHECK(network.order.size() == 1);
    CHECK(
        says(message_of(attention(kTokens, {}, "[enter, {block: layer, copies: -1}]")), "copies"));
    CHECK(network_of(attention(kTokens, {}, "[enter, {block: layer, copies: 0}, layer]"))
              .blocks.size() == 2);
  }
}

}  // namespace plansearch::dimension_test
