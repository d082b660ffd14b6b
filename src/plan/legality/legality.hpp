// SPDX-License-Identifier: Apache-2.0
// Whether a plan can run at all, before anything is priced.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "plansearch/data_type.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// The first reason why the plan cannot run on `gpus` devices, in a fixed order: degrees, the
/// network's divisibility, pipeline, schedule, then the rules of the framework. Memory is not
/// checked.
[[nodiscard]] std::optional<Infeasible> check_legality(const PlanDegrees& plan,
                                                       const Network& network,
                                                       const Framework& framework, int gpus,
                                                       DataType precision = DataType::Bf16);

/// Whether one stage of a plan may be split like this and the framework runs its schedule:
/// everything but the number of devices, the layers and the shape of the pipeline, which are judged
/// for the plan as a whole. Operators that `placements` speaks of are judged by it, not by role.
[[nodiscard]] std::optional<Infeasible> check_transform(const PlanDegrees& degrees,
                                                        const Network& network,
                                                        const Framework& framework,
                                                        DataType precision = DataType::Bf16,
                                                        const Placements* placements = nullptr);

/// The same without words: cheap enough for every plan of a search.
[[nodiscard]] std::optional<Obstacle> find_obstacle(const PlanDegrees& plan, const Network& network,
                                                    const Framework& framework, int gpus,
                                                    DataType precision = DataType::Bf16);

/// A rule of the framework that a plan breaks.
struct BrokenRule {
  DegreeSet reads;  ///< empty: the network breaks it, whatever the plan
  Infeasible why;
};
/// The first rule that the decided degrees break whatever the open ones are.
[[nodiscard]] std::optional<BrokenRule> rule_broken_by(const PinnedDegrees& decided,
                                                       const Network& network,
                                                       const Framework& framework,
                                                       DataType precision = DataType::Bf16);

/// The features of the framework that a plan has.
[[nodiscard]] std::vector<const FrameworkFeature*> features_of(const PlanDegrees& plan,
                                                               const Network& network,
                                                               const Framework& framework,
                                                               DataType precision = DataType::Bf16);

/// Share of the parameters that tensor ranks cut, of those that are not experts'.
[[nodiscard]] double tensor_share(const Network& network);
/// Below it tensor ranks would hold most of the network whole: a degree of them is refused by name.
inline constexpr double kLeastTensorShare = 0.5;

/// Order in which ZeRO stages are tried by default: none where the framework can do without;
/// the one that always shards (FSDP) shards all it can.
inline constexpr std::array kZeroPreference{ZeroStage::None, ZeroStage::Parameters,
                                            ZeroStage::Gradients, ZeroStage::Optimizer};

/// One necessary condition of a legal plan. It depends on the degrees it reads alone,
/// so that a search can reject everything below a partial plan that has them.
struct LegalityCondition {
  DegreeSet reads;
  std::function<std::optional<Obstacle>(const PlanDegrees&)> obstacle;
};
/// All conditions; a plan is legal when none of them finds an obstacle. `network` and `framework`
/// must outlive them.
[[nodiscard]] std::vector<LegalityCondition> legality_conditions(
    const Network& network, const Framework& framework, int gpus,
    DataType precision = DataType::Bf16);

/// The closed vocabulary of framework rules (docs/frameworks.md) and what each forbids.
struct RuleDescription {
  std::string_view name;
  std::string_view meaning;
  bool takes_limit = false;
};
[[nodiscard]] const std::vector<RuleDescription>& framework_rules();

}  // namespace plansearch
