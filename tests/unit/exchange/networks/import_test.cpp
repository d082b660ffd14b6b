// SPDX-License-Identifier: Apache-2.0
// Exported programs: the network that one is, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "exchange/networks/import_reader.hpp"
#include "exchange/networks/imported_graph.hpp"
#include "io/document/file.hpp"
#include "io/model/model_reader.hpp"
#include "io/model/model_writer.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"

namespace plansearch::import_test {
namespace {

using test::says;

namespace fs = std::filesystem;
const fs::path kData = fs::path(PLANSEARCH_SOURCE_DIR) / "tests/data/imports";
const fs::path kFamilies = fs::path(PLANSEARCH_SOURCE_DIR) / "models/families";
const io::ImportedRows kRows = io::read_rows(kFamilies);

Network imported(const std::string& name) {
  return build_network(io::read_model(kData / (name + ".pt2"), kFamilies).model);
}

Network shipped(const std::string& name) {
  return build_network(
      io::read_model(fs::path(PLANSEARCH_SOURCE_DIR) / "models" / (name + ".yaml")).model);
}

std::int64_t largest_run(const Network& network) {
  std::int64_t most = 0;
  for (const BlockRun& run : network.order) most = std::max(most, run.count);
  return most;
}

/// One linear layer of [b, 8] by [4, 8], and its ReLU, as PyTorch 2.15 writes it.
std::string linear_program() {
  return R"({"graph_module": {"graph": {
"inputs": [], "outputs": [], "nodes": [
{"target": "torch.ops.aten.linear.default", "inputs": [
  {"name": "input", "arg": {"as_tensor": {"name": "x"}}},
  {"name": "weight", "arg": {"as_tensor": {"name": "w"}}}],
 "outputs": [{"as_tensor": {"name": "y"}}],
 "metadata": {"nn_module_stack": "L__self__,,Net;L__self__fc,fc,torch.nn.modules.linear.Linear"}},
{"target": "torch.ops.aten.relu_.default", "inputs": [
  {"name": "self", "arg": {"as_tensor": {"name": "y"}}}],
 "outputs": [{"as_tensor": {"name": "z"}}], "metadata": {}}],
"tensor_values": {
 "x": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 8}]},
 "w": {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 8}]},
 "y": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 4}]},
 "z": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 4}]}},
"sym_int_values": {}, "sym_bool_values": {}},
"signature": {"input_specs": [
 {"parameter": {"arg": {"name": "w"}, "parameter_name": "fc.weight"}},
 {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
"output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "z"}}}}]}},
"opset_version": {"aten": 10}, "schema_version": {"major": 8, "minor": 20}, "torch_version": "2.15.0"})";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = linear_program();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Network network_of(const std::string& program) {
  const io::ImportedGraph graph = io::parse_exported_program(program, "net.pt2", "model.json");
  return build_network(io::read_model(io::graph_document(graph, kRows), "net").model);
}

std::string message_for(const std::string& program) {
  return test::message_of([&] { return network_of(program); });
}

}  // namespace

TEST_CASE("one linear layer is a product and a pass over memory") {
  const Network network = network_of(linear_program());
  REQUIRE(network.blocks.size() == 1);
  const Block& block = network.blocks.front();
  REQUIRE(block.operators.size() == 2);
  CHECK(block.operators[0].kind == OperatorKind::Matmul);
  CHECK(parameter_count(network) == 32);
  CHECK(model_forward_flops(network).value() == 2.0 * 8 * 4);
  // The weight's gradient needs the input, ReLU's its result; the input needs no gradient.
  CHECK(block.operators[0].saved.size() == 1);
  CHECK(block.operators[1].saved == std::vector<Saved>{Saved(block.operators[1].outputs[0])});
  CHECK_FALSE(needs_input_gradient(block, block.operators[0]));
}

TEST_CASE("a convolution of every channel by itself is depthwise, one of groups is not") {
  // [1, 8, 6, 6] by [16, 8 / groups, 3, 3], padded by one.
  const auto convolution = [](int groups) {
    std::string text = linear_program();
    const auto put = [&](const std::string& from, const std::string& to) {
      for (std::size_t at = text.find(from); at != std::string::npos;
           at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
    };
    put("linear.default", "conv2d.default");
    put(R"({"name": "weight", "arg": {"as_tensor": {"name": "w"}}})",
        R"({"name": "weight", "arg": {"as_tensor": {"name": "w"}}},
           {"name": "padding", "arg": {"as_ints": [1, 1]}},
           {"name": "groups", "arg": {"as_int": )" +
            std::to_string(groups) + "}}");
    const auto sizes = [](std::initializer_list<int> of) {
      std::string list;
      for (const int size : of) {
        list +=
            (list.empty() ? "" : ", ") + std::string(R"({"as_int": )") + std::to_string(size) + "}";
      }
      return list;
    };
    put(sizes({1, 8}), sizes({1, 8, 6, 6}));
    put(sizes({4, 8}), sizes({16, 8 / groups, 3, 3}));
    put(sizes({1, 4}), sizes({1, 16, 6, 6}));
    return network_of(text);
  };
  const struct {
    int groups;
    OperatorKind kind;
    std::int64_t parameters;
  } rows[] = {{1, OperatorKind::Convolution, 16 * 8 * 9},
              {2, OperatorKind::Convolution, 16 * 4 * 9},
              {8, OperatorKind::DepthwiseConvolution, 16 * 9}};
  for (const auto& row : rows) {
    CAPTURE(row.groups);
    const Network network = convolution(row.groups);
    CHECK(network.blocks.front().operators.front().kind == row.kind);
    CHECK(parameter_count(network) == row.parameters);
    // A product for every place, tap and channel that a result reads.
    CHECK(model_forward_flops(network).value() == 2.0 * 36 * static_cast<double>(row.parameters));
    CHECK(test::broken_rules(network).empty());
  }
}

TEST_CASE("published networks have their parameters, FLOPs and repeats") {
  const struct {
    const char* import;
    const char* model;
    std::int64_t parameters;
    std::int64_t repeats;
  } rows[] = {{"gpt2-xl", "gpt2-xl", 1'557'611'200, 48},
              {"sdxl-unet", "sdxl-unet", 2'567'463'684, 10},
              {"wide-resnet50-2", "wide-resnet50-2", 68'883'240, 5}};
  for (const auto& row : rows) {
    CAPTURE(row.import);
    const Network network = imported(row.import);
    CHECK(parameter_count(network) == row.parameters);
    CHECK(largest_run(network) == row.repeats);
    const double expected = model_forward_flops(shipped(row.model)).value();
    CHECK(model_forward_flops(network).value() == doctest::Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("blocks lie where their modules do") {
  const Network network = imported("wide-resnet50-2");
  std::vector<std::string> names;
  for (const Block& block : network.blocks) names.push_back(block.name);
  CHECK(names == std::vector<std::string>{"enter", "layer1", "layer1-2", "layer2", "layer2-2",
                                          "layer3", "layer3-2", "layer4", "layer4-2", "leave"});
  CHECK(network.blocks.front().kind == BlockKind::Embedding);
  CHECK(network.blocks.back().kind == BlockKind::Head);
  CHECK(layer_count(network) == 16);
}

TEST_CASE("attention written out is found, and its causal mask with it") {
  const Network network = imported("gpt2-small-eager");
  CHECK(largest_run(network) == 2);
  const Block& layer = network.blocks[1];
  int scores = 0;
  for (const Operator& op : layer.operators) {
    if (op.kind != OperatorKind::BatchedMatmul) continue;
    CHECK(op.useful_fraction == doctest::Approx(33.0 / 64.0));  // (n + 1) / 2n of 32 tokens
    CHECK(op.modules == bit_of(LayerModule::CoreAttention));
    ++scores;
  }
  CHECK(scores == 2);
  for (const DimRole role : {DimRole::Head, DimRole::HeadSize, DimRole::KeySequence, DimRole::Ffn,
                             DimRole::Hidden, DimRole::Sequence, DimRole::Vocab}) {
    CHECK(std::any_of(network.dimensions.begin(), network.dimensions.end(),
                      [&](const Dimension& d) { return d.role == role; }));
  }
}

TEST_CASE("shared heads, gates and rotation: FLOPs by hand") {
  const Network network = imported("llama-small");
  CHECK(parameter_count(network) == 98'624);
  // Per token: products of 2 layers and the vocabulary; causal attention over 32 tokens.
  const double weights = 2.0 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 160) + 64 * 128;
  const double attention = 2.0 * 4 * 64 * 32 * (33.0 / 64.0);
  CHECK(model_forward_flops(network).value() == doctest::Approx(32 * (2 * weights + attention)));
}

TEST_CASE("an imported network is a graph file, and is sound") {
  for (const char* name :
       {"gpt2-xl", "gpt2-small-eager", "llama-small", "sdxl-unet", "wide-resnet50-2"}) {
    CAPTURE(name);
    const ModelDescription model =
        io::read_model(kData / (std::string(name) + ".pt2"), kFamilies).model;
    const std::string text = io::write_graph(model, *model.graph);
    const auto again =
        io::read_model(io::Document::parse(text, "again.yaml", io::Syntax::Yaml), "again").model;
    CHECK(*again.graph == *model.graph);
    CHECK(test::broken_rules(*model.graph) == std::vector<std::string>{});
  }
}

TEST_CASE("dynamic shapes are refused with the symbol") {
  const std::string message =
      message_for(with(R"({"as_int": 8}]})", R"({"as_expr": {"expr_str": "s77"}}]})"));
  CHECK(says(message, "net.pt2"));
  CHECK(says(message, "'s77'"));
  CHECK(says(message, "dynamic_shapes"));
}

TEST_CASE("unknown operators are listed with number, place and shapes") {
  const std::string message = message_for(with("aten.relu_.default", "mylib.fused_act.default"));
  CHECK(says(message, "unknown operator mylib.fused_act.default, 1 of them"));
  CHECK(says(message, "[1, 4] -> [1, 4]"));
  CHECK(says(message, R"(operators: {"mylib.fused_act.default": {like: pass}}})"));  // to paste
}

TEST_CASE("a stub says what an unknown operator is like") {
  const std::string program = with("aten.relu_.default", "mylib.fused_act.default");
  const auto read = [&](const std::string& like) {
    const std::string text =
        "schema: plansearch/stubs/v1\noperators:\n  mylib.fused_act.default: {like: " + like +
        "}\n";
    const io::ImportedStubs stubs =
        io::read_stubs(io::Document::parse(text, "stubs.yaml", io::Syntax::Yaml), kRows);
    const io::ImportedGraph graph = io::parse_exported_program(program, "net.pt2", "model.json");
    return build_network(io::read_model(io::graph_document(graph, kRows, stubs), "net").model);
  };
  const Block known = network_of(linear_program()).blocks.front();
  CHECK(read("aten.relu").blocks.front().operators[1].saved == known.operators[1].saved);
  // Of an operator that nobody knows, backward may read all that it has read.
  const Operator pass = read("pass").blocks.front().operators[1];
  CHECK(pass.saved == std::vector<Saved>{Saved(pass.inputs[0])});
  CHECK_THROWS_AS(static_cast<void>(read("aten.rleu")), InputError);
}

TEST_CASE("a stub of an operator that the network does not have is refused at its place") {
  const io::ImportedStubs stubs = io::read_stubs(
      io::Document::parse(
          "schema: plansearch/stubs/v1\noperators:\n  aten.relu.default: {like: pass}\n",
          "stubs.yaml", io::Syntax::Yaml),
      kRows);
  const io::ImportedGraph graph =
      io::parse_exported_program(linear_program(), "net.pt2", "model.json");
  try {
    static_cast<void>(io::graph_document(graph, kRows, stubs));
    FAIL("no error");
  } catch (const InputErrors& errors) {
    const std::string message = errors.all().front().formatted();
    CHECK(says(message, "stubs.yaml:3:"));
    CHECK(says(message, "net.pt2 has no operator 'aten.relu.default'"));
    CHECK(says(message, "aten.relu_.default"));
  }
}

TEST_CASE("shapes that contradict their operator are damage") {
  CHECK(says(message_for(with(R"("y": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 4}]})",
                              R"("y": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 5}]})")),
             "'y' has the shape [1, 5], and its operator makes [1, 4]"));
}

TEST_CASE("other damage has its place") {
  CHECK(says(message_for(with(R"("major": 8)", R"("major": 99)")), "schema version 99"));
  CHECK(says(message_for(with(R"({"as_tensor": {"name": "y"}}}],
 "outputs")",
                              R"({"as_tensor": {"name": "q"}}}],
 "outputs")")),
             "there is no tensor 'q'"));
  CHECK(says(message_for(with(R"({"as_int": 8}]})", R"({"as_int": 0}]})")), "extent of 0"));
  CHECK(says(message_for("{}"), "'schema_version' is missing"));
  CHECK(says(message_for("{"), "not valid JSON"));
}

}  // namespace plansearch::import_test
