// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "plansearch/error.hpp"
#include "question/framework_flags.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::routing_choice_test {
namespace {

struct Asked {
  Framework framework;
  Network network;
  std::string error{};
};

Asked ask(const std::string& text, bool drops = true) {
  test::ToyOptions options;
  options.experts = 8;
  options.imbalance = 1.2;
  const Problem problem = test::toy_problem(options);
  Asked asked{*problem.framework, *problem.network};
  asked.framework.drops_tokens = drops;
  asked.framework.routings = {
      {"balanced", {"forced balance"}, 0.0, {}}, {"real", {}, 1.5, {}}, {"dealt", {}, 0.0, true}};
  try {
    apply_routing(asked.framework, *problem.model, asked.network, text);
  } catch (const InputError& error) {
    asked.error = error.what();
  }
  return asked;
}

TEST_SUITE("unit") {
  TEST_CASE("a kind by its name or another one; it replaces what the model states") {
    const Asked real = ask("real");
    CHECK(real.network.routing->spread == 1.5);
    CHECK(real.network.routing->imbalance == 1.0);
    CHECK(routing_text(real.framework, real.network) == "real");
    CHECK(routing_text(ask("Forced-Balance").framework, ask("Forced-Balance").network) ==
          "balanced");
  }

  TEST_CASE("experts that are dealt in turn: a token has one group of neighbours, all are alike") {
    const Routing routing = *ask("dealt").network.routing;
    CHECK(routing.groups == routing.experts / routing.top_k);
    CHECK(routing.top_groups == 1);
    CHECK_FALSE(routing.spread.has_value());
    // Token i of 128 experts and top 8 has 8 i to 8 i + 7: one rank of 16 neighbours, four of two.
    Routing dealt = routing;
    dealt.experts = 128;
    dealt.top_k = 8;
    dealt.groups = 16;
    CHECK(expected_boxes(dealt, 8.0) == 1.0);
    CHECK(expected_boxes(dealt, 64.0) == 4.0);
  }

  TEST_CASE("a load over the mean, a capacity behind either") {
    const Asked load = ask("1.4");
    CHECK(load.network.routing->imbalance == 1.4);
    CHECK_FALSE(load.network.routing->spread.has_value());
    const Asked capacity = ask("real, capacity factor 2");
    CHECK(capacity.network.routing->most == 2.0);
    CHECK(routing_text(capacity.framework, capacity.network) == "real, capacity factor 2");
    CHECK(ask("3, capacity factor 2").network.routing->imbalance == 2.0);
  }

  TEST_CASE("what is refused, and why") {
    CHECK(ask("reel").error.find("none of balanced, real") != std::string::npos);
    CHECK(ask("0.9").error.find("at least the mean") != std::string::npos);
    CHECK(ask("real, factor 2").error.find("not a capacity factor") != std::string::npos);
    CHECK(ask("real, capacity factor 0").error.find("above 0") != std::string::npos);
    CHECK(ask("real, capacity factor 2", false).error.find("drops no tokens") != std::string::npos);
    Framework framework = *test::toy_problem().framework;
    Network dense = *test::toy_problem().network;
    CHECK_THROWS_AS(apply_routing(framework, *test::toy_problem().model, dense, "real"),
                    InputError);
  }
}

}  // namespace
}  // namespace plansearch::routing_choice_test
