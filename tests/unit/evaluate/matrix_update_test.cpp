// SPDX-License-Identifier: Apache-2.0
// Updates of whole matrices (Muon) against products counted by hand. A layer of the toy network has
// four matrices of 1024 x 1024 and two of 1024 x 4096; beside them lie vectors and a table.
#include "evaluate/states/matrix_update.hpp"

#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::matrix_update_test {
namespace {

constexpr double kHidden = 1024;
constexpr double kWide = 4096;
constexpr double kLayers = 8;

Problem with_muon(MatrixUpdates updates, const test::ToyOptions& options = {}) {
  Problem problem = test::toy_problem(options);
  auto framework = std::make_shared<Framework>(*problem.framework);
  framework->matrix_updates = std::move(updates);
  framework->updates_matrices = true;
  problem.framework = framework;
  auto model = std::make_shared<ModelDescription>(*problem.model);
  model->training.optimizer = OptimizerKind::Muon;
  problem.model = model;
  return problem;
}

Estimate estimate_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  return evaluator.simulate(*evaluator.profile(plan), plan, *workspace);
}

std::vector<PricedCommunication> updates_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  std::vector<PricedCommunication> lines;
  for (const auto& line : plan_details(evaluator, plan, *workspace).communication) {
    if (line.communication.subject == Subject::Update) lines.push_back(line);
  }
  return lines;
}

/// Five iterations on the shorter side.
Seconds iterate(const Problem& problem, double side, double other) {
  const Accelerator& chip = problem.cluster->accelerator;
  const auto product = [&](double m, double n, double k) {
    return matmul_time(chip, DataType::Bf16, {1.0, m, n, k});
  };
  return 5.0 *
         (product(side, side, other) + product(side, side, side) + product(side, other, side));
}

/// Elements of matrices, and of everything else.
constexpr double kMatrices = kLayers * (4 * kHidden * kHidden + 2 * kHidden * kWide);

/// A gradient of 4 bytes and the parameter of 2 once, master and moments of 4 each read and
/// written: two moments beside matrices.
Seconds traffic(const Problem& problem, double others, double ranks) {
  const double bytes = kMatrices * (4 + 2 * 8 + 2) + others * (4 + 2 * 12 + 2);
  return stream_time(problem.cluster->accelerator, Bytes(1.1 * bytes / ranks), 1);
}

double others_of(const Problem& problem) {
  return static_cast<double>(parameter_count(*problem.network)) - kMatrices;
}

PlanDegrees data_parallel(ZeroStage zero) {
  PlanDegrees plan;
  plan.data = 16;
  plan.zero = zero;
  plan.micro_batches = 2;
  return plan;
}

PlanDegrees tensor_parallel() {
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.data = 8;
  plan.micro_batches = 4;
  return plan;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("products of an update, counted along the published loops") {
    const UpdateProducts direct = update_products(UpdateIteration::Direct, 5, false);
    CHECK(direct.gram == 5);
    CHECK(direct.square == 5);
    CHECK(direct.apply == 5);
    // Z every time, Q with it but in iterations 0 and 2, both halves of R behind 0, 2 and 3:
    // 5 + 3 + 6; X and its Gram matrix at the start, again before 2, X at the end.
    const UpdateProducts gram = update_products(UpdateIteration::Gram, 5, false);
    CHECK(gram.gram == 2);
    CHECK(gram.square == 14);
    CHECK(gram.apply == 2);
    CHECK(update_products(UpdateIteration::Gram, 5, true).gram == 5);
    // Jordan's bound: T iterations are no more than 6 T n m^2, T m / B of 6 n m B for B tokens.
    for (const double other : {kHidden, kWide}) {
      const double m = kHidden;
      const double flops = direct.gram * 2 * m * m * other + direct.square * 2 * m * m * m +
                           direct.apply * 2 * m * m * other;
      CHECK(flops == 5 * (4 * other * m * m + 2 * m * m * m));
      CHECK(flops <= 6 * 5 * other * m * m);
    }
  }

  TEST_CASE("every rank updates what it holds, or its share of the matrices") {
    MatrixUpdates updates;
    const Problem all = with_muon(updates);
    const Seconds square = iterate(all, kHidden, kHidden);
    const Seconds wide = iterate(all, kHidden, kWide);
    const Seconds sum = kLayers * (4 * square + 2 * wide);
    const double others = others_of(all);
    const auto optimizer = [](const Problem& problem, ZeroStage zero) {
      return estimate_of(problem, data_parallel(zero)).step.optimizer.value();
    };
    CHECK(optimizer(all, ZeroStage::Optimizer) ==
          doctest::Approx((traffic(all, others, 16) + sum).value()));
    updates.shards = UpdateShards::Whole;
    const Problem whole = with_muon(updates);
    CHECK(optimizer(whole, ZeroStage::Optimizer) ==
          doctest::Approx((traffic(whole, others, 16) + sum / 16.0).value()));
    // Nothing is sharded: everybody does everything.
    CHECK(optimizer(whole, ZeroStage::None) ==
          doctest::Approx((traffic(whole, others, 1) + sum).value()));
    // Eight layers of each of six weights on 16 ranks: some have one of each, others none.
    updates.deal = UpdateDeal::ByKind;
    const Problem kinds = with_muon(updates);
    CHECK(optimizer(kinds, ZeroStage::Optimizer) ==
          doctest::Approx((traffic(kinds, others, 16) + 4 * square + 2 * wide).value()));
  }

  TEST_CASE("no rank has less than the longest matrix") {
    test::ToyOptions options;
    options.layers = 1;
    const Problem one = with_muon({.shards = UpdateShards::Whole}, options);
    UpdateLoad load(UpdateDeal::Balanced, 16);
    const Seconds wide = iterate(one, kHidden, kWide);
    load.add({iterate(one, kHidden, kHidden), 1.0, false}, 4);
    load.add({wide, 1.0, false}, 2);
    CHECK(load.time() == wide);
  }

  TEST_CASE("what AdamW keeps beside Muon has two moments") {
    const Problem muon = with_muon({});
    const Problem adam = test::toy_problem();
    const PlanDegrees plan = data_parallel(ZeroStage::None);
    const Bytes fewer =
        estimate_of(adam, plan).memory.optimizer - estimate_of(muon, plan).memory.optimizer;
    CHECK(fewer.value() == doctest::Approx(4 * kMatrices));
  }

  TEST_CASE("slices: apart, gathered, summed over the cut side, or dealt") {
    MatrixUpdates updates;
    const PlanDegrees plan = tensor_parallel();
    const auto products = [&](const Problem& problem) {
      MatrixUpdates none = *problem.framework->matrix_updates;
      none.iterations = 1;
      const Seconds five = estimate_of(problem, plan).step.optimizer;
      return (five - estimate_of(with_muon(none), plan).step.optimizer).value() / 4 * 5;
    };
    const Problem apart = with_muon(updates);
    // Two ranks cut every side that the tensor axis cuts: 1024 to 512, 4096 to 2048.
    const double halves = (kLayers * (4 * iterate(apart, kHidden / 2, kHidden) +
                                      2 * iterate(apart, kHidden, kWide / 2)))
                              .value();
    CHECK(products(apart) == doctest::Approx(halves));
    CHECK(updates_of(apart, plan).empty());

    updates.slices = UpdateSlices::Gathered;
    const Problem gathered = with_muon(updates);
    const double wholes =
        (kLayers * (4 * iterate(apart, kHidden, kHidden) + 2 * iterate(apart, kHidden, kWide)))
            .value();
    CHECK(products(gathered) == doctest::Approx(wholes));
    const auto gathers = updates_of(gathered, plan);
    REQUIRE(gathers.size() == 1);
    CHECK(gathers[0].bytes.value() == doctest::Approx(4 * kMatrices));
    CHECK(gathers[0].exposed.value() ==
          doctest::Approx(collective_cost(*gathered.cluster, CommunicationKind::AllGather,
                                          Bytes(4 * kMatrices), {2, 1}, Contention::TrainingStep)
                              .time.value()));

    // Products over the cut side: square matrices are cut along either, wide ones along 4096.
    updates.slices = UpdateSlices::Summed;
    const Problem summed = with_muon(updates);
    const double parts = (kLayers * (4 * iterate(apart, kHidden, kHidden / 2) +
                                     2 * iterate(apart, kHidden, kWide / 2)))
                             .value();
    CHECK(products(summed) == doctest::Approx(parts));
    double bytes = 0;
    for (const auto& line : updates_of(summed, plan)) bytes += line.bytes.value();
    CHECK(bytes == doctest::Approx(5 * 2 * kLayers * 6 * kHidden * kHidden));

    updates.slices = UpdateSlices::Dealt;
    const Problem dealt = with_muon(updates);
    CHECK(products(dealt) == doctest::Approx(wholes / 2));
    bytes = 0;
    for (const auto& line : updates_of(dealt, plan)) bytes += line.bytes.value();
    CHECK(bytes == doctest::Approx(2 * 4 * kMatrices / 2));
  }

  TEST_CASE("pieces of cut matrices travel to the rank that updates them, and back") {
    const Problem cut = with_muon({.shards = UpdateShards::Cut});
    double bytes = 0;
    for (const auto& line : updates_of(cut, data_parallel(ZeroStage::Parameters))) {
      CHECK(line.communication.kind == CommunicationKind::AllToAll);
      bytes += line.bytes.value();
    }
    CHECK(bytes == doctest::Approx(2 * 4 * kMatrices / 16));
  }

  TEST_CASE("experts are matrices of their own") {
    test::ToyOptions options;
    options.experts = 8;
    const Problem all = with_muon({}, options);
    PlanDegrees plan = data_parallel(ZeroStage::None);
    plan.expert = 4;
    const double router = iterate(all, 8, kHidden).value();
    const double layer =
        (4 * iterate(all, kHidden, kHidden) + 2 * 2 * iterate(all, kHidden, kWide)).value() +
        router;
    MatrixUpdates once;
    once.iterations = 1;
    const double difference = estimate_of(all, plan).step.optimizer.value() -
                              estimate_of(with_muon(once, options), plan).step.optimizer.value();
    CHECK(difference == doctest::Approx(kLayers * layer * 4 / 5));
  }
}

}  // namespace plansearch::matrix_update_test
