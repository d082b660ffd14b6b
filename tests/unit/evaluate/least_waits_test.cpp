// SPDX-License-Identifier: Apache-2.0
// What messages stop, by rules that hide nothing; what a bound takes for granted of them, on every
// machine that is shipped.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "cost/collective/collective_cost.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/device_mesh.hpp"
#include "support/rounds.hpp"
#include "support/source_directory.hpp"
#include "support/toy_class.hpp"

namespace plansearch::least_waits_test {
namespace {

std::vector<Cluster> shipped_clusters() {
  const std::filesystem::path folder =
      std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles";
  std::vector<Cluster> clusters;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!entry.is_regular_file() || name == "defaults") continue;
    clusters.push_back(io::load_cluster(name, std::vector{folder}));
  }
  return clusters;
}

/// Of a network on two tensor ranks that hide nothing.
BlockWaits waits_of(MessageWait wait, Piece piece) {
  const Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)] = {0.0, wait, {}, 1};
  });
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.data = problem.gpus / 2;
  const ProfileMaker maker(problem);
  const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  return maker.least_waits(*maker.placed(plan, mesh, nullptr), piece, kOwnDispatcher);
}

/// Of a mixture on two expert ranks whose framework hides 0.9 of an exchange; its own exchange is an
/// all-to-all of NCCL, named or not.
Seconds wait_for_tokens(bool any_dispatcher, const char* named) {
  test::ToyOptions options;
  options.experts = 8;
  const Problem problem =
      test::with_framework(test::toy_problem(options), [&](Framework& framework) {
        OverlapRule& rule = framework.overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)];
        rule = {0.9, MessageWait::AtOnce, {}, 1};
        rule.any_dispatcher = any_dispatcher;
        framework.dispatchers.push_back({"all-to-all", find_dispatcher("all-to-all").value(),
                                         TokenPath::Pairs, 1.0, 1.0, "a table"});
      });
  PlanDegrees plan;
  plan.expert = 2;
  plan.data = problem.gpus;
  const ProfileMaker maker(problem);
  const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  return maker.least_waits(*maker.placed(plan, mesh, nullptr), {4, true}, *find_dispatcher(named))
      .forward;
}

TEST_SUITE("unit") {
  TEST_CASE("a named dispatcher hides what its framework hides of any") {
    const Seconds own = wait_for_tokens(false, "own");
    CHECK(own > Seconds(0));
    CHECK(wait_for_tokens(true, "own") == own);
    CHECK(wait_for_tokens(true, "all-to-all") == own);
    // 0.9 of the same message stay hidden, or none of it.
    CHECK(wait_for_tokens(false, "all-to-all").value() == doctest::Approx(10.0 * own.value()));
  }

  TEST_CASE("a piece alone waits for what it uses next; weight gradients hide input gradients") {
    const BlockWaits blocking = waits_of(MessageWait::AtOnce, {4, true});
    const BlockWaits used = waits_of(MessageWait::Use, {4, true});
    CHECK(blocking.forward > Seconds(0));
    CHECK(blocking.behind == Seconds(0));
    CHECK(used.forward == blocking.forward);
    CHECK(used.behind > Seconds(0));
    // Of what backward waits for, input gradients on their way are all that something hides.
    CHECK((used.backward + used.behind).value() == doctest::Approx(blocking.backward.value()));
    CHECK(used.beside == used.forward + used.backward);
  }

  TEST_CASE("kernels of other pieces run beside what a piece waits for") {
    const BlockWaits blocking = waits_of(MessageWait::AtOnce, {4, false});
    CHECK(blocking.forward == waits_of(MessageWait::AtOnce, {4, true}).forward);
    const BlockWaits used = waits_of(MessageWait::Use, {4, false});
    CHECK(used.forward == Seconds(0));
    CHECK(used.backward == Seconds(0));
    CHECK(used.behind == Seconds(0));
  }
}

TEST_SUITE("property") {
  TEST_CASE("the time of a message is concave in its bytes") {
    // Between two sizes a call takes no less than the chord says: bounds draw it.
    std::mt19937 engine(29);
    const auto power = [&](unsigned most) { return 1 << engine() % (most + 1); };
    int calls = 0;
    for (const Cluster& cluster : shipped_clusters()) {
      INFO(cluster.name);
      for (int i = 0; i < test::rounds(300); ++i) {
        const AxisExtent group{2 * power(6), power(6)};
        const auto kind = static_cast<CommunicationKind>(engine() % 6);
        const double small = 64.0 * power(20);
        const double large = small * (2 << engine() % 6);
        const double share = static_cast<double>(engine() % 100) / 100.0;
        const auto time = [&](double bytes) {
          return collective_cost(cluster, kind, Bytes(bytes), group, Contention::TrainingStep).time;
        };
        const Seconds chord = time(small) * (1.0 - share) + time(large) * share;
        CAPTURE(group.size);
        CAPTURE(group.stride);
        CAPTURE(small);
        CAPTURE(share);
        CHECK(time(small + (large - small) * share) >= chord * (1.0 - 1e-9));
        ++calls;
      }
    }
    CHECK(calls > test::rounds(10000));
  }
}

}  // namespace
}  // namespace plansearch::least_waits_test
