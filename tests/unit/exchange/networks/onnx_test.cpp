// SPDX-License-Identifier: Apache-2.0
// ONNX models, written field by field as onnx.proto numbers them.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "exchange/networks/import_reader.hpp"
#include "exchange/networks/imported_graph.hpp"
#include "exchange/networks/wire_reader.hpp"
#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"

namespace plansearch::onnx_test {
namespace {

using test::says;

const std::filesystem::path kFamilies =
    std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "models/families";

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 0x7f; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3U) + varint(value);
}
std::string text(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3U | 2U) + varint(bytes.size()) + bytes;
}

std::string dim(const std::string& extent) {
  const bool digits = extent.find_first_not_of("0123456789") == std::string::npos;
  return text(1, digits ? number(1, std::stoull(extent)) : text(2, extent));
}
/// ValueInfoProto of floats [rows, columns].
std::string value(const std::string& name, const std::string& rows, const std::string& columns) {
  const std::string shape = dim(rows) + dim(columns);
  return text(1, name) + text(2, text(1, number(1, 1) + text(2, shape)));
}
std::string node(const std::string& op, const std::string& in, const std::string& second,
                 const std::string& out, const std::string& name) {
  std::string bytes = text(1, in);
  if (!second.empty()) bytes += text(1, second);
  return bytes + text(2, out) + text(3, name) + text(4, op);
}
/// x [rows, 8] times w [8, 4], and its ReLU.
std::string model(const std::string& rows = "1", const std::string& op = "MatMul",
                  const std::string& made = "4") {
  const std::string weight = number(1, 8) + number(1, 4) + number(2, 1) + text(8, "w") +
                             text(9, std::string(128, 'z'));  // data, never read
  const std::string graph = text(1, node(op, "x", "w", "y", "/fc/MatMul")) +
                            text(1, node("Relu", "y", "", "z", "/act/Relu")) + text(5, weight) +
                            text(11, value("x", rows, "8")) + text(12, value("z", rows, made)) +
                            text(13, value("y", rows, made));
  return number(1, 8) + text(2, "pytorch") + text(7, graph) + text(8, number(2, 20));
}

Network network_of(const std::string& bytes) {
  static const io::ImportedRows kRows = io::read_rows(kFamilies);
  return build_network(
      io::read_model(io::graph_document(io::parse_onnx(bytes, "net.onnx"), kRows), "net").model);
}

std::string message_for(const std::string& bytes) {
  return test::message_of([&] { return network_of(bytes); });
}

}  // namespace

TEST_CASE("fields of every wire type are read or skipped") {
  const std::string bytes = number(1, 300) + std::string("\x15\1\2\3\4", 5) +
                            std::string("\x19\1\0\0\0\0\0\0\0", 9) + text(4, "abc");
  io::WireReader reader(bytes);
  CHECK(reader.next()->value == 300);
  CHECK(reader.next()->value == 0x04030201);
  CHECK(reader.next()->value == 1);
  CHECK(reader.next()->bytes == "abc");
  CHECK_FALSE(reader.next().has_value());
  CHECK_FALSE(reader.damaged());
}

TEST_CASE("a field that is longer than the message is damage") {
  io::WireReader reader("\x22\x7f short");
  CHECK_FALSE(reader.next().has_value());
  CHECK(reader.damaged());
}

TEST_CASE("a product and its ReLU") {
  const Network network = network_of(model());
  REQUIRE(network.blocks.size() == 1);
  REQUIRE(network.blocks[0].operators.size() == 2);
  CHECK(network.blocks[0].operators[0].kind == OperatorKind::Matmul);
  CHECK(parameter_count(network) == 32);
  CHECK(model_forward_flops(network).value() == 2.0 * 8 * 4);
}

TEST_CASE("a residual network has the parameters and FLOPs of the shipped one") {
  const std::filesystem::path source = PLANSEARCH_SOURCE_DIR;
  const Network network = build_network(
      io::read_model(source / "tests/data/imports/wide-resnet50-2.onnx", kFamilies).model);
  const Network shipped =
      build_network(io::read_model(source / "models/wide-resnet50-2.yaml").model);
  CHECK(parameter_count(network) == 68'883'240);
  CHECK(model_forward_flops(network).value() ==
        doctest::Approx(model_forward_flops(shipped).value()).epsilon(1e-9));
}

TEST_CASE("what is not a static graph of known operators is refused") {
  CHECK(says(message_for(model("batch")), "the shape of 'x' depends on 'batch'"));
  CHECK(says(message_for(model("1", "TopK")), "unknown operator onnx.TopK, 1 of them"));
  CHECK(says(message_for(model("1", "MatMul", "5")), "'y' has the shape [1, 5]"));
  CHECK(says(message_for("hello"), "not an ONNX model"));
  const std::string whole = model();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(message_for(whole.substr(0, length)) != "no error");
  }
}

}  // namespace plansearch::onnx_test
