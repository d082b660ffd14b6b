// SPDX-License-Identifier: Apache-2.0
// Graph files: what one says is the network it makes, and every network can be said.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/names.hpp"
#include "io/document/file.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_reader.hpp"
#include "io/model/model_writer.hpp"
#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "support/messages.hpp"
#include "support/source_directory.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::graph_test {
namespace {

using test::says;

namespace fs = std::filesystem;
const fs::path kSource = PLANSEARCH_SOURCE_DIR;

io::ModelFile parsed(const std::string& text) {
  return io::read_model(io::Document::parse(text, "net.yaml", io::Syntax::Yaml), "net");
}

Network network_of(const std::string& text) {
  return build_network(parsed(text).model);
}

Network shipped(const std::string& name) {
  return build_network(io::read_model(kSource / "models" / (name + ".yaml")).model);
}

std::string small_skip() {
  return io::read_file(kSource / "tests/data/graphs/small-skip.yaml");
}

/// The example with one text replaced; the message it earns.
std::string message_for(const std::string& from, const std::string& to) {
  std::string text = small_skip();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  return test::message_of([&] { return parsed(text); });
}

double convolution_products(const Network& network, int& count) {
  double products = 0.0;
  for (const BlockRun& run : network.order) {
    for (const Operator& op : network.blocks[run.block].operators) {
      if (op.kind != OperatorKind::Convolution) continue;
      products +=
          operator_forward_flops(network, op).value() / 2.0 * static_cast<double>(run.count);
      count += static_cast<int>(run.count);
    }
  }
  return products;
}

TEST_SUITE("unit") {
  TEST_CASE("indices: sums of dimensions, windows, strides, upsampled reads") {
    const auto read = std::get<io::TensorText>(
        io::parse_tensor("h.x[b, 2v+p-1, (x + q-1)/2, 3*w, w*3-2, -k+4]: mask no-gradient"));
    CHECK(read.name == "h.x");
    CHECK(read.words == std::vector<std::string>{"mask", "no-gradient"});
    std::vector<std::string> texts;
    for (const io::IndexText& index : read.indices) texts.push_back(to_text(index));
    CHECK(texts == std::vector<std::string>{"b", "2*v+p-1", "(x+q-1)/2", "3*w", "3*w-2", "-k+4"});
    for (const char* bad : {"h[b", "h[]x", "", "[b]", "h[b c]", "h[2]", "h[b/0]", "h[(b]", "h[b+]",
                            "h[0*b]", "h[99999999999b]", "h[b,,c]", "h[b**2]"}) {
      CAPTURE(bad);
      CHECK(std::holds_alternative<io::TextProblem>(io::parse_tensor(bad)));
    }
  }

  TEST_CASE("the example: parameters, FLOPs, edges and windows as counted by hand") {
    const Network net = network_of(small_skip());
    // 9 x 4 x 320 + 9 x 320 x 640 + 640 x 2560 + 2560 x 640 + 9 x 640 x 320.
    CHECK(parameter_count(net) == 6974720);
    CHECK(model_forward_flops(net).value() == 25679626240.0);
    CHECK(test::broken_rules(net).empty());
    CHECK(net.edges ==
          std::vector<Edge>{{.from = 0, .output = 0, .to = 2, .readers = 1, .input = 1}});
    const Operator& down = net.blocks[1].operators[0];
    const auto dim = [&](const char* name) {
      const auto at = std::find_if(net.dimensions.begin(), net.dimensions.end(),
                                   [&](const Dimension& d) { return d.name == name; });
      return static_cast<DimId>(at - net.dimensions.begin());
    };
    CHECK(down.reads[0][1] == IndexExpression{{{dim("v"), 2}, {dim("p"), 1}}, -1, 1});
    CHECK(down.loop ==
          std::vector{dim("b"), dim("v"), dim("u"), dim("p"), dim("q"), dim("c"), dim("d")});
    CHECK(net.blocks[2].operators[0].reads[0][2] ==
          IndexExpression{{{dim("x"), 1}, {dim("q"), 1}}, -1, 2});
    CHECK(net.blocks[2].operators[1].reads.empty());  // by their own dimensions
    CHECK(down.saved == std::vector<Saved>{net.blocks[1].inputs[0]});
  }

  TEST_CASE("every shipped model can be written as a graph, and is the same network when read") {
    std::size_t models = 0;
    for (const auto& entry : fs::directory_iterator(kSource / "models")) {
      if (entry.path().extension() != ".yaml") continue;
      CAPTURE(entry.path().string());
      const ModelDescription model = io::read_model(entry.path()).model;
      for (const AttentionKind attention : {AttentionKind::Fused, AttentionKind::Unfused}) {
        const Network network = build_network(model, {.attention = attention});
        const io::ModelFile again = parsed(io::write_graph(model, network));
        CHECK(build_network(again.model) == network);
        CHECK(again.model.training.global_batch == model.training.global_batch);
        CHECK(again.model.training.precision == model.training.precision);
        CHECK(again.model.training.optimizer == model.training.optimizer);
      }
      ++models;
    }
    CHECK(models > 80);
  }

  TEST_CASE("U-Nets and ResNets have the published number of parameters") {
    const Network sd = shipped("sd15-unet");
    CHECK(parameter_count(sd) == 859520964);
    CHECK(parameter_count(shipped("sdxl-unet")) == 2567463684);
    CHECK(parameter_count(shipped("wide-resnet50-2")) == 68883240);
    CHECK(parameter_count(shipped("axonn-unet-550m")) == 554281318);
    CHECK(parameter_count(shipped("axonn-unet-8b")) == 8195825606);
    int convolutions = 0;
    CHECK(convolution_products(sd, convolutions) == 221973053440.0);
    CHECK(convolutions == 98);
    const std::vector<std::size_t> blocks = block_of_copies(sd);
    const auto skips = std::count_if(sd.edges.begin(), sd.edges.end(), [&](const Edge& edge) {
      const Block& reader = sd.blocks[blocks[static_cast<std::size_t>(edge.to)]];
      return reader.tensor(reader.inputs[edge.input]).name == "skip";
    });
    CHECK(skips == 12);
    CHECK(test::broken_rules(sd).empty());
  }

  TEST_CASE("what makes no sense is told with its place and a way out") {
    CHECK(message_for("order", "order") == "no error");
    CHECK(
        says(message_for("[p, q, c, d]", "[p, q, c, dd]"),
             "net.yaml:9:88: error: blocks.middle.operators[0].weight[3]: unknown dimension 'dd'"));
    CHECK(says(message_for("kind: product, read: \"f", "kind: produkt, read: \"f"), "product"));
    CHECK(says(message_for("read: \"f[b, v, u, d]\"", "read: \"ff[b, v, u, d]\""),
               "middle has no tensor 'ff' here"));
    CHECK(says(message_for("2v+p-1, 2u", "3v+p-1, 2u"),
               "down reads places -1 to 94 of h, which has 64 along y"));
    CHECK(says(message_for("\"f[b, v, u, d]\", weight", "\"f[b, v, u]\", weight"),
               "'f' has 4 dimensions, 3 are read"));
    CHECK(says(message_for("from: enter.h, to: leave.h", "from: leave.z, to: middle.h"),
               "the edge closes a cycle: leave -> middle -> leave"));
    CHECK(says(message_for("y: 64", "y: seq"), "'seq' is not a number: shapes are static"));
    CHECK(says(message_for("from: enter.h, to", "from: enter.hh, to"), "it hands out h"));
    CHECK(says(message_for("to: leave.h", "to: leave.g2"), "leave reads no 'g2'"));
    CHECK(says(message_for("from: enter.h", "from: enter:1.h"), "enter has 1 copies"));
    CHECK(says(message_for("edges: [{from: enter.h, to: leave.h}]", "edges: []"),
               "nobody makes 'h' of leave: the block in front, middle, hands out g"));
    CHECK(says(message_for("order: [enter, middle, leave]", "order: [enter, leave]"),
               "block 'middle' is not in the order"));
    CHECK(says(message_for("h: [b, y, x, c]}, out: [z]", "h: [b, x, y, c]}, out: [z]"),
               "dimensions agree"));
    CHECK(says(message_for("read: \"f[b, v, u, d]\"", "read: \"f[b, v, v, d]\""),
               "widen reads f by v in two places"));
    CHECK(says(message_for("\"w[b, v, u, e]\", weight", "\"w[b, v, u, d]\", weight"),
               "narrow reads w along e, which has 2560, by d, which has 640"));
    CHECK(says(message_for("out: [g]", "out: [g, w]"), "nobody reads 'w' of middle"));
    CHECK(says(message_for("weight: [d, e], ", ""), "widen is a matmul: it has a weight"));
    CHECK(says(message_for("name: narrow", "name: widen"), "two operators of middle"));
    CHECK(says(message_for("{extent: 1, role: batch}", "1"), "0 dimensions have the role batch"));
    CHECK(says(message_for("name: small-skip", "nom: small-skip"), "key 'name' is missing"));
    CHECK(says(message_for("c: 320", "c: 0"), "0"));
  }
}

}  // namespace
}  // namespace plansearch::graph_test
