// SPDX-License-Identifier: Apache-2.0
// The rows of operator kinds, question by question: what the derivatives and the kernels of PyTorch
// and Megatron say. A new kind joins the lists where it belongs.
#include "workload/operator_traits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plansearch/transformer_builder.hpp"
#include "support/broken_rules.hpp"
#include "unit/workload/descriptions.hpp"

namespace plansearch::operator_traits_test {
namespace {

using K = OperatorKind;
using Kinds = std::vector<OperatorKind>;

template <typename Predicate>
Kinds kinds_where(Predicate holds) {
  Kinds kinds;
  for (const OperatorTraits& row : kOperatorTraits) {
    if (holds(row)) kinds.push_back(row.kind);
  }
  return kinds;
}

Kinds reading(BackwardReads what) {
  return kinds_where([what](const OperatorTraits& row) { return row.backward_reads == what; });
}

Kinds multiplying(SecondOperand what) {
  return kinds_where([what](const OperatorTraits& row) { return row.second_operand == what; });
}

Kinds priced_as(CostClass cost) {
  return kinds_where([cost](const OperatorTraits& row) { return row.cost == cost; });
}

Kinds seen_as(PolicyOperation operation) {
  return kinds_where([operation](const OperatorTraits& row) { return row.policy == operation; });
}

Kinds gathering(ReadsAgain when) {
  return kinds_where([when](const OperatorTraits& row) { return row.reads_again == when; });
}

bool names_rule(const Network& network, const std::string& words) {
  const std::vector<std::string> rules = test::broken_rules(network);
  return std::any_of(rules.begin(), rules.end(), [&](const std::string& rule) {
    return rule.find(words) != std::string::npos;
  });
}

/// The network with what the operator of this name keeps forgotten.
Network forgetting(Network network, const std::string& name) {
  for (Block& block : network.blocks) {
    for (Operator& op : block.operators) {
      if (op.name == name) op.saved.clear();
    }
  }
  return network;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every kind of operator has a row and a name of its own") {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < kOperatorKindCount; ++i) {
      const OperatorTraits& row = traits(static_cast<OperatorKind>(i));
      CHECK(static_cast<std::size_t>(row.kind) == i);
      CHECK(names.insert(row.name).second);
    }
  }

  TEST_CASE("what backward reads, as the derivatives say") {
    CHECK(reading(BackwardReads::Inputs) ==
          Kinds{
              K::Matmul,                // dW = X^T dY; dX = dY W^T reads the weight only
              K::BatchedMatmul,         // of S = Q K^T: dQ = dS K, dK = dS^T Q
              K::GroupedMatmul,         // dW of every expert, as of a matmul
              K::Norm,                  // native_layer_norm_backward(dy, x, mean, rstd, weight)
              K::Convolution,           // dW correlates input and dY
              K::DepthwiseConvolution,  // the same, channel by channel
          });
    CHECK(reading(BackwardReads::Outputs) ==
          Kinds{
              K::Softmax,       // _softmax_backward_data(dy, y): y (dy - sum(dy y))
              K::CrossEntropy,  // p - onehot(target): nll_loss of the kept log_softmax
          });
    // FlashAttention keeps q, k, v, out and one log-sum-exp a row: D = rowsum(dO o O).
    CHECK(reading(BackwardReads::InputsAndOutputs) == Kinds{K::Attention});
    CHECK(reading(BackwardReads::Nothing) ==
          Kinds{
              K::Embedding,  // embedding_dense_backward(dy, indices)
              K::Dispatch,   // index_select keeps its indices
          });
    CHECK(reading(BackwardReads::ByFunction) ==
          Kinds{
              K::Elementwise,  // gelu and silu: input; relu: result; dropout: mask; addition: none
              K::Route,        // softmax or sigmoid of the scores, the choice, a map
              K::Combine,      // weighted with probabilities: its input; else only indices
              K::Recurrence,   // kernels that run convolutions again keep what those read
              K::Scores,       // the choice has no derivative
          });
  }

  TEST_CASE("which operators are products, and of what") {
    CHECK(multiplying(SecondOperand::Weight) ==
          Kinds{K::Matmul, K::Convolution, K::DepthwiseConvolution});
    CHECK(multiplying(SecondOperand::GroupedWeights) == Kinds{K::GroupedMatmul});
    // Queries with keys, weights with values; fused attention is both.
    CHECK(multiplying(SecondOperand::Activation) ==
          Kinds{K::BatchedMatmul, K::Attention, K::Scores});
    // A weight gradient of its own: backward of the others is one product for each operand.
    CHECK(kinds_where([](const OperatorTraits& row) { return row.multiplies_weight(); }) ==
          Kinds{K::Matmul, K::GroupedMatmul, K::Convolution, K::DepthwiseConvolution});
    // Model FLOPs are those of products (Chowdhery et al., arXiv:2204.02311, appendix B).
    CHECK(kinds_where([](const OperatorTraits& row) { return row.model_flops; }) ==
          Kinds{K::Matmul, K::BatchedMatmul, K::Attention, K::GroupedMatmul, K::Convolution,
                K::DepthwiseConvolution, K::Recurrence, K::Scores});
    // Rings and squares are of linear layers: tiles of X, W and Y (docs/temporal.md).
    CHECK(kinds_where([](const OperatorTraits& row) { return row.runs_in_steps; }) ==
          Kinds{K::Matmul});
  }

  TEST_CASE("what a sharded reduction leaves behind") {
    // Sums over slices add up: products, sums of table rows, element-wise sums.
    CHECK(kinds_where([](const OperatorTraits& row) { return row.leaves_partial_sums; }) ==
          Kinds{K::Matmul, K::BatchedMatmul, K::Attention, K::GroupedMatmul, K::Elementwise,
                K::Embedding, K::Route, K::Convolution, K::DepthwiseConvolution});
    // Means, maxima and sums of exponentials do not: they are exchanged first.
    CHECK(kinds_where([](const OperatorTraits& row) { return !row.statistics.over.empty(); }) ==
          Kinds{K::Norm, K::Softmax, K::CrossEntropy});
    // Tokens change places, nothing is summed over a dimension.
    CHECK(kinds_where([](const OperatorTraits& row) { return row.exchanges_tokens; }) ==
          Kinds{K::Dispatch, K::Combine});
  }

  TEST_CASE("windows move over the inputs of convolutions, which borrow a curve") {
    CHECK(kinds_where([](const OperatorTraits& row) { return row.slides; }) ==
          Kinds{K::Convolution, K::DepthwiseConvolution});
    CHECK(kinds_where([](const OperatorTraits& row) { return row.borrows_curve; }) ==
          Kinds{K::Convolution, K::DepthwiseConvolution});
  }

  TEST_CASE("which operators make parts of parts") {
    const Network network = build_network(test::gpt(2, 64, 4, 128, 32));
    std::vector<std::string> linear;
    for (const Operator& op : network.blocks[1].operators) {
      if (is_linear(op)) linear.push_back(op.name);
    }
    // Products with weights and additions; no norm, no activation function, no attention.
    CHECK(linear == std::vector<std::string>{"query", "key", "value", "projection", "residual1",
                                             "mlp_in", "mlp_out", "residual2"});
    Operator copy;
    copy.kind = K::Elementwise;
    CHECK(is_linear(copy));
    copy.saved = {Saved(TensorId{0})};  // its derivative depends on what it reads
    CHECK_FALSE(is_linear(copy));
    copy.saved.clear();
    copy.parameters = {ParameterId{0}};  // every device would add a bias
    CHECK_FALSE(is_linear(copy));
  }

  TEST_CASE("row statistics by kind") {
    // Sum and sum of squares in one message; backward: sum of g and of g x.
    const RowStatistics& norm = traits(K::Norm).statistics;
    CHECK(norm.forward == 1);
    CHECK(norm.backward == 1);
    CHECK(norm.values == 2.0);
    CHECK(norm.over.contains(DimRole::Hidden));
    CHECK(norm.over.contains(DimRole::HeadSize));
    CHECK(norm.over.contains(DimRole::Latent));
    CHECK_FALSE(norm.over.contains(DimRole::Head));
    // Maximum, then the sum of exp(x - maximum); backward: sum(dy y).
    const RowStatistics& softmax = traits(K::Softmax).statistics;
    CHECK(softmax.forward == 2);
    CHECK(softmax.backward == 1);
    CHECK(softmax.values == 1.0);
    CHECK(softmax.over.contains(DimRole::KeySequence));
    CHECK(softmax.over.contains(DimRole::ExpertChoice));
    CHECK_FALSE(softmax.over.contains(DimRole::Sequence));
    // Megatron's vocab_parallel_cross_entropy: maximum, predicted logit, sum of exponentials.
    const RowStatistics& loss = traits(K::CrossEntropy).statistics;
    CHECK(loss.forward == 3);
    CHECK(loss.backward == 0);
    CHECK(loss.values == 1.0);
    CHECK(loss.over.contains(DimRole::Vocab));
    CHECK_FALSE(loss.over.contains(DimRole::Hidden));
  }

  TEST_CASE("backward begins at the loss alone") {
    CHECK(kinds_where([](const OperatorTraits& row) { return row.starts_backward; }) ==
          Kinds{K::CrossEntropy});
  }

  TEST_CASE("whose inputs backward gathers again") {
    // Megatron's linear layers keep the sequence-parallel slice and gather for the weight gradient.
    CHECK(gathering(ReadsAgain::Always) == Kinds{K::Matmul});
    // Ring attention sends keys and values around once more.
    CHECK(gathering(ReadsAgain::FromContextRanks) == Kinds{K::BatchedMatmul, K::Attention});
  }

  TEST_CASE("operations of recompute policies") {
    // aten.mm, aten._grouped_mm and scaled_dot_product_attention; aten.bmm is in no list.
    CHECK(seen_as(PolicyOperation::Product) == Kinds{K::Matmul});
    CHECK(seen_as(PolicyOperation::GroupedProduct) == Kinds{K::GroupedMatmul});
    CHECK(seen_as(PolicyOperation::FusedAttention) == Kinds{K::Attention});
  }

  TEST_CASE("how kinds are priced") {
    CHECK(priced_as(CostClass::Product) == Kinds{K::Matmul, K::Convolution});
    CHECK(priced_as(CostClass::GroupedProduct) == Kinds{K::GroupedMatmul});
    CHECK(priced_as(CostClass::ActivationProduct) == Kinds{K::BatchedMatmul});
    CHECK(priced_as(CostClass::FusedAttention) == Kinds{K::Attention});
    CHECK(priced_as(CostClass::Loss) == Kinds{K::CrossEntropy});
    CHECK(priced_as(CostClass::Stream) == Kinds{K::Norm, K::Softmax, K::Elementwise, K::Route,
                                                K::Dispatch, K::Combine, K::DepthwiseConvolution});
    CHECK(priced_as(CostClass::LookUp) == Kinds{K::Embedding});
    CHECK(priced_as(CostClass::Recurrence) == Kinds{K::Recurrence});
    CHECK(priced_as(CostClass::Scores) == Kinds{K::Scores});
  }

  TEST_CASE("a network that does not keep what backward reads is broken") {
    const ModelDescription model = test::gpt(2, 64, 4, 128, 32);
    const Network fused = build_network(model);
    const Network unfused = build_network(model, {.attention = AttentionKind::Unfused});
    CHECK_FALSE(names_rule(fused, "nothing keeps"));
    CHECK_FALSE(names_rule(unfused, "nothing keeps"));
    CHECK(names_rule(forgetting(fused, "norm1"), "norm1 reads its input"));
    CHECK(names_rule(forgetting(fused, "attention"), "attention reads its output"));
    CHECK(names_rule(forgetting(fused, "query"), "attention reads its input"));
    CHECK(names_rule(forgetting(fused, "mlp_out"), "mlp_out reads its input"));
    CHECK(names_rule(forgetting(fused, "loss"), "loss reads its output"));
    CHECK(names_rule(forgetting(unfused, "softmax"), "softmax reads its output"));
    CHECK(names_rule(forgetting(unfused, "context"), "context reads its input"));
    CHECK_FALSE(names_rule(forgetting(fused, "residual1"), "nothing keeps"));  // a mask
  }

  TEST_CASE("a product without its weight is broken") {
    Network network = build_network(test::gpt(2, 64, 4, 128, 32));
    for (Operator& op : network.blocks[1].operators) {
      if (op.name == "mlp_in") op.parameters.clear();
    }
    CHECK(names_rule(network, "mlp_in multiplies with a weight that it does not have"));
  }
}

}  // namespace plansearch::operator_traits_test
