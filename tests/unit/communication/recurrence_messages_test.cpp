// SPDX-License-Identifier: Apache-2.0
// Context ranks of a recurrence: all-to-alls of all that it reads and of its result, or its states.
#include <doctest/doctest.h>

#include <filesystem>

#include "communication/redistribution/redistribution.hpp"
#include "io/model/model_reader.hpp"
#include "plansearch/transformer_builder.hpp"
#include "small_networks.hpp"
#include "support/source_directory.hpp"

namespace plansearch::recurrence_messages_test {
namespace {

constexpr double kHeads = 16;
constexpr double kGroups = 8;
constexpr double kState = 32;
constexpr double kValue = 8;

/// One layer of that mixer alone.
Network layer(const std::string& mixer, std::int64_t tokens, RecurrenceContext context) {
  const std::string text =
      "schema: plansearch/model/v1\nname: one\nsource: \"a test\"\nlayers: 1\nhidden: 64\n"
      "attention: {heads: 4, positions: none}\nmlp: {width: 64, activation: silu}\n"
      "norm: {kind: rmsnorm}\nembedding: {vocab: 128}\n"
      "training: {seq_len: 64, global_batch: 8}\n" +
      mixer + "layer_mixers: [state]\nlayer_feed_forwards: [none]\n";
  const ModelDescription model =
      io::read_model(io::Document::parse(text, "m.yaml", io::Syntax::Yaml), "m",
                     PLANSEARCH_SOURCE_DIR "/models/families")
          .model;
  NetworkOptions options;
  options.seq_len = tokens;
  options.implementation.recurrence_context = context;
  Network network = build_network(model, options);
  network.blocks = {network.blocks[1]};
  network.order = {{0, 1}};
  return network;
}

const std::string kMamba =
    "mixers: {state: {form: mamba2, heads: 16, key_heads: 8, key_size: 32, value_size: 8, taps: 4, "
    "norm: each-head}}\n";
const std::string kDelta =
    "mixers: {state: {form: gated-delta, heads: 16, key_heads: 8, key_size: 32, value_size: 8, "
    "taps: 4, norm: per-head}}\n";

double elements(const Network& network, CommunicationKind kind, DemandPhase phase) {
  PlanDegrees plan;
  plan.context = 4;
  double sum = 0.0;
  for (const Communication& d : test::derive(network, plan)) {
    const bool activation = d.subject != Subject::Parameter && d.subject != Subject::Gradient;
    if (activation && d.kind == kind && d.phase == phase) sum += d.count * d.elements;
  }
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("heads: an all-to-all of all parts of the first product, and one of the result") {
    // z, x, B, C and dt of a token, then the normed result.
    const double read = 2 * kHeads * kValue + 2 * kGroups * kState + kHeads;
    const double made = kHeads * kValue;
    for (const std::int64_t tokens : {64, 256}) {
      const Network network = layer(kMamba, tokens, RecurrenceContext::Heads);
      const double local = static_cast<double>(tokens) / 4 * (read + made);
      CHECK(elements(network, CommunicationKind::AllToAll, DemandPhase::Forward) ==
            doctest::Approx(local));
      CHECK(elements(network, CommunicationKind::AllGather, DemandPhase::Forward) == 0.0);
      CHECK(elements(network, CommunicationKind::SendReceive, DemandPhase::Forward) == 0.0);
    }
  }

  TEST_CASE("states: what passes from slice to slice does not grow with the sequence") {
    for (const std::int64_t tokens : {64, 256, 4096}) {
      const Network mamba = layer(kMamba, tokens, RecurrenceContext::States);
      CHECK(elements(mamba, CommunicationKind::AllGather, DemandPhase::Forward) ==
            4 * kHeads * kState * kValue);
      CHECK(elements(mamba, CommunicationKind::AllToAll, DemandPhase::Forward) == 0.0);
      // The delta rule hands on how it changes a state as well: N rows of N columns.
      const Network delta = layer(kDelta, tokens, RecurrenceContext::States);
      CHECK(elements(delta, CommunicationKind::AllGather, DemandPhase::Forward) ==
            4 * kHeads * (kState * kValue + kState * kState));
      CHECK(elements(delta, CommunicationKind::AllGather, DemandPhase::InputGradient) ==
            4 * kHeads * (kState * kValue + kState * kState));
      // Three tokens in front of a slice enter its convolutions.
      CHECK(elements(mamba, CommunicationKind::SendReceive, DemandPhase::Forward) ==
            3 * (kHeads * kValue + 2 * kGroups * kState));
    }
  }
}

}  // namespace plansearch::recurrence_messages_test
