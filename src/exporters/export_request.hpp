// SPDX-License-Identifier: Apache-2.0
// The request of an export: one plan with equal stages, the question it answers and what
// was predicted. Everything a plan decides is a setting; a target says each of them or refuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/degree_table.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch::exporters {

/// A decision of a plan or of its question. The first are the degrees, in their order.
enum class Setting : std::uint8_t {
  FirstDegree = 0,
  MicroBatches = kDegreeCount,
  GlobalBatch,
  SequenceLength,
  Precision,
  Optimizer,
  Attention,
  RankOrder,
  Layers,  ///< which virtual stage holds which layers
  Gpus,
  Model,
  Checkpoints,   ///< where they are written and read again; matters where the user states it
  FirstOverlap,  ///< six of them, in the order of `Overlap`
  /// Settings of the question that the user chose, in the order of their table. A target that says
  /// nothing of one refuses plans with it.
  FirstChosen = FirstOverlap + kOverlapCount,
};
inline constexpr std::size_t kSettingCount =
    static_cast<std::size_t>(Setting::FirstChosen) + plansearch::kSettingCount;

[[nodiscard]] constexpr Setting setting_of(Degree degree) {
  return static_cast<Setting>(degree);
}
[[nodiscard]] constexpr Setting setting_of(Overlap overlap) {
  return static_cast<Setting>(static_cast<std::size_t>(Setting::FirstOverlap) +
                              static_cast<std::size_t>(overlap));
}
[[nodiscard]] constexpr Setting setting_of(plansearch::Setting setting) {
  return static_cast<Setting>(static_cast<std::size_t>(Setting::FirstChosen) +
                              static_cast<std::size_t>(setting));
}
/// "tp", "seq_len", "overlap grad"
[[nodiscard]] std::string name_of(Setting setting);

/// One virtual pipeline stage: what it holds, in order.
struct StageContent {
  bool embedding = false;
  std::int64_t layers = 0;
  std::int64_t predictions = 0;  ///< multi-token prediction modules
  bool head = false;
  bool operator==(const StageContent&) const = default;
};

/// Predicted for the plan.
struct Prediction {
  Seconds step;
  Seconds p10;
  Seconds p90;
  Bytes memory;  ///< peak of the fullest device
  bool fits = true;
};

/// Wishes of a job beside its plan.
struct JobOptions {
  std::vector<std::string> sbatch;  ///< "time=24:00:00": lines of a Slurm script
  std::string image;                ///< container of a Kubernetes job
  std::string checkpoints;          ///< folder; empty: none
  int save_every = 500;             ///< steps
};

struct ExportRequest {
  Problem problem;
  PlanDegrees degrees;               ///< of every stage, or of the first
  std::vector<StageContent> stages;  ///< virtual ones, in the order micro-batches pass them
  /// As the target itself would split the layers; empty where it cannot.
  std::vector<StageContent> own_stages;
  std::string optimizer;  ///< adam, sgd, adafactor, muon
  std::string attention;  ///< flash, unfused
  ProblemRequest chosen;  ///< the settings that the user chose, not the framework
  Prediction prediction;
  std::string identity;  ///< hash of the plan and of what it was made for
  std::string version;   ///< of this program
  JobOptions job{};
  std::vector<PlanDegrees> positions{};  ///< degrees of each pipeline position
  DegreeSet differ{};                    ///< degrees of which positions have several values
  std::string difference{};              ///< "the stages differ in tp: 2, 4"; empty: they do not

  [[nodiscard]] const ModelDescription& model() const { return *problem.model; }
  [[nodiscard]] int nodes() const;
  [[nodiscard]] int gpus_per_node() const;
  [[nodiscard]] bool overlaps(Overlap overlap) const;
  [[nodiscard]] int virtual_stages() const { return degrees.virtual_stages(); }
  [[nodiscard]] bool spreads_tokens() const {
    return degrees.sequence_parallel == SequenceParallel::On;
  }
  [[nodiscard]] bool sharded() const {
    return degrees.data * degrees.context > 1 && degrees.zero != ZeroStage::None;
  }
  /// Ranks that share one copy of what ZeRO shards.
  [[nodiscard]] int shard_ranks() const;
};

/// The stages of a plan, which may differ in degrees.
struct PlanStages {
  PlanDegrees degrees;               ///< of the first position, with the pipeline's own
  std::vector<StageContent> stages;  ///< virtual ones
  std::vector<PlanDegrees> positions;
  DegreeSet differ;        ///< degrees of which the positions have several values
  std::string difference;  ///< "the stages differ in tp: 2, 4"; empty where they are equal
};
/// Equal positions lie where the rank order puts them, or the answer is what lies elsewhere.
[[nodiscard]] std::variant<PlanStages, std::string> plan_stages(const ParallelPlan& plan,
                                                                const Network& network,
                                                                const Framework& framework);

/// Whether it makes a difference: the schedule of one stage does not, nor what hides the
/// communication of an axis with one rank.
[[nodiscard]] bool matters(Setting setting, const ExportRequest& request);
[[nodiscard]] bool matters(Degree degree, const PlanDegrees& d, const ModelDescription& model);
/// The value as text: "8", "ring", "tp-cp-dp-pp" (axes with several ranks only), "even".
[[nodiscard]] std::string value_of(Setting setting, const ExportRequest& request);
/// The value that plain data parallelism without any of it has; empty where there is none.
[[nodiscard]] std::string neutral_value(Setting setting);

inline constexpr std::string_view kOn = "on";
inline constexpr std::string_view kOff = "off";
inline constexpr std::string_view kEven = "even";
inline constexpr std::string_view kUneven = "uneven";
/// Offered by targets that split the layers themselves.
inline constexpr std::string_view kOwnSplit = "its own split";

/// Whether every virtual stage holds as many layers, the first the embedding, the last the head.
[[nodiscard]] bool is_even(const std::vector<StageContent>& stages);
/// "1+20, 20, 19+1": layers of the virtual stages, embedding and head marked.
[[nodiscard]] std::string stages_text(const std::vector<StageContent>& stages);

}  // namespace plansearch::exporters
