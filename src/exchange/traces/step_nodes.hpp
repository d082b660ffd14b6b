// SPDX-License-Identifier: Apache-2.0
// One step of a plan as nodes: kernels, messages among ranks and between stages, and what waits for
// what. All ranks of a stage run the same nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ranges.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/communication.hpp"

namespace plansearch {

struct StepNode {
  enum class Kind : std::uint8_t {
    Kernels,
    Collective,  ///< among the ranks of `axes`, or of the stages in `StepNodes::holders`
    Ring,        ///< every rank sends to the next one on `axes` and receives from the one before
    Send,        ///< to the rank of `stage` that lies alike
    Receive,     ///< from it
  };
  Kind kind = Kind::Kernels;
  CommunicationKind how = CommunicationKind::AllReduce;  ///< of collectives
  AxisSet axes{};
  std::uint32_t name = 0;    ///< into StepNodes::names
  std::uint32_t number = 0;  ///< of sends and receives: the same at both ends; of collectives among
                             ///< stages: into StepNodes::holders
  int stage = 0;             ///< of sends and receives: the other end
  int micro_batch = -1;      ///< -1: of the step
  Seconds time;  ///< of kernels; of messages, if they had the links for themselves, what kernels
                 ///< around them do not hide by the framework's share
  Bytes bytes;   ///< full message, nccl-tests convention
  std::vector<std::uint32_t> after{};  ///< earlier nodes of the same stage
};

struct StepNodes {
  std::vector<std::string> names;
  std::vector<std::vector<StepNode>> stages;
  std::vector<std::vector<int>> holders;  ///< stages that sum something together
};

/// Kernels and messages of the ranks of a legal plan in one step. InputError where its stages do
/// more than to hand on to the next one: an order that is found, blocks on all devices, tensors
/// that pass over stages.
[[nodiscard]] StepNodes step_nodes(const PlanEvaluator& evaluator, const ParallelPlan& plan);

using NodeIds = std::vector<std::uint32_t>;

inline void append_to(NodeIds& ids, const NodeIds& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

class NodeNames {
 public:
  explicit NodeNames(std::vector<std::string>& names) : names_(names) {}
  std::uint32_t of(const std::string& name) {
    const auto [at, added] = known_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (added) names_.push_back(name);
    return at->second;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, std::uint32_t> known_;
};

/// Nodes that a pass hands to those after it.
struct PassEnd {
  NodeIds last;    ///< its last kernels and the messages that they leave open
  NodeIds copies;  ///< last kernels of the copies of blocks, in their order
  NodeIds unread;  ///< messages that only the end of the step waits for
};

struct PassRequest {
  BlockPass pass = BlockPass::Forward;
  const GroupContent& content;
  int micro_batch = 0;
  NodeIds before{};                               ///< before its first kernel
  const std::vector<NodeIds>* gathers = nullptr;  ///< by copy: before its first kernel
};

/// Calls visit(profile, block, copies) for the runs of a content in their order, each under the
/// profile it runs with.
template <typename Visit>
void for_each_run(const PricingInput& view, const GroupContent& content, Visit visit) {
  const TransformInvariants& transform = view.transform_of(content);
  const ClassProfile& profile = *transform.profile;
  for (const RecomputedRun& run :
       recomputed_runs(*view.problem.network, content.blocks, transform.degrees->recompute,
                       transform.degrees->recompute_layers)) {
    const bool kept = profile.kept != nullptr && run.level == Recompute::None;
    visit(kept ? *profile.kept : profile, run.run.block, static_cast<int>(run.run.count));
  }
}

/// Appends passes to the nodes of one stage.
class PassNodes {
 public:
  PassNodes(const ProfileMaker& profiles, const PricingInput& view, NodeNames& names,
            std::vector<StepNode>& nodes)
      : profiles_(profiles), view_(view), names_(names), nodes_(nodes) {}

  PassEnd append(const PassRequest& request);
  std::uint32_t add(StepNode node);

 private:
  struct Run {
    const ClassProfile* profile = nullptr;
    std::size_t block = 0;
    int copies = 1;
    std::size_t first = 0;  ///< of its copies, among those of the content
  };
  using Queue = std::pair<std::uint32_t, bool>;  ///< axes, parameters

  void append_run(const PassRequest& request, const Run& run, PassEnd& end);
  std::uint32_t append_one(const PassRequest& request, const Run& run, const BlockProgram& program,
                           std::size_t instruction, NodeIds after);
  [[nodiscard]] bool travels_beside(const PhaseMessage& message) const;
  std::uint32_t append_beside(StepNode node, const Communication& communication);
  [[nodiscard]] bool is_unread(std::uint32_t id) const { return contains(unread_, id); }
  std::uint32_t append_message(StepNode node, const Communication& communication);
  [[nodiscard]] NodeIds waits_of(const StreamInstruction& instruction,
                                 const std::vector<NodeIds>& ids, bool message) const;
  void carry(const Run& run, const BlockProgram& program, const std::vector<NodeIds>& ids,
             PassEnd& end);
  const BlockProgram& program_of(const Run& run, BlockPass pass);
  std::uint32_t name_of(const Run& run, const BlockProgram& program, std::size_t instruction,
                        BlockPass pass);

  const ProfileMaker& profiles_;
  const PricingInput& view_;
  NodeNames& names_;
  std::vector<StepNode>& nodes_;
  std::map<std::tuple<const ClassProfile*, std::size_t, BlockPass>, BlockProgram> programs_;
  std::map<std::tuple<const BlockProgram*, std::size_t>, std::uint32_t> named_;
  std::map<Queue, std::uint32_t> queues_;  ///< the message before, by queue
  std::optional<std::uint32_t> kernel_;    ///< the kernel before, in this pass
  std::optional<std::uint32_t> entry_;     ///< the kernel before this run
  NodeIds waits_;                          ///< further nodes before the next kernel
  NodeIds before_;                         ///< nodes before the pass
  NodeIds unread_;  ///< of this pass, what only the end of the step waits for
  std::map<std::uint32_t, NodeIds>
      asked_;  ///< by axes: what the gather before would have waited for
};

}  // namespace plansearch
