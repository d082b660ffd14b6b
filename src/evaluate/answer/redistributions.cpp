// SPDX-License-Identifier: Apache-2.0
// Computes: which tensors change their layout between two operators or two stages, by which
//           messages, over which links, at which price.
// Source: the lines that block profiles are added up from (ProfileMaker::passes), and the messages
//         between groups that the pipeline waits for (group_pass.hpp). Nothing is priced here.
// Assumes: messages of one tensor to one reader in one phase are one path, in the order of
//          derivation.
// Units: seconds of one call, bytes of one message.
// Checked by: tests/unit/evaluate/redistributions_test.cpp

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cost/collective/place.hpp"
#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/plan_views.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

std::string links_of(const Cluster& cluster, const ProcessGroup& group) {
  const GroupSpan span = locate(cluster, group);
  const std::string& wide = cluster.tiers[span.wide_tier].name;
  const bool both = span.local > 1.0 && span.nodes > 1.0;
  return both ? fmt::format("{}, {}", cluster.tiers[span.local_tier].name, wide) : wide;
}

bool moves_activation(const Communication& c) {
  return c.subject == Subject::Activation || c.subject == Subject::ActivationGradient;
}

bool one_path(const Communication& a, const Communication& b) {
  return a.subject == b.subject && a.phase == b.phase && a.index == b.index &&
         a.reader == b.reader && a.operator_index == b.operator_index && a.side == b.side;
}

/// Redistributions of one block as one class of stages runs it.
class BlockPaths {
 public:
  BlockPaths(const PricingInput& view, const ClassProfile& profile, const Block& block,
             const BlockIndex& index)
      : view_(view), mesh_(profile.memory->placed->mesh), block_(block), index_(index) {}

  void append(const std::vector<PhaseLine>& lines, double copies,
              std::vector<Redistribution>& paths) const {
    const Communication* before = nullptr;
    for (const PhaseLine& pass : lines) {
      const Communication& c = pass.line.communication;
      if (!moves_activation(c)) continue;
      if (before == nullptr || !one_path(*before, c)) paths.push_back(path_of(c));
      before = &c;
      const bool forward = c.phase == DemandPhase::Forward;
      paths.back().path.push_back(
          {c.kind, to_text(c.axes), c.group_size,
           links_of(*view_.problem.cluster, process_group(mesh_, c.axes)), pass.line.bytes,
           pass.line.time,
           pass.line.count * copies * view_.repeats() * (forward ? view_.forwards() : 1.0)});
    }
  }

 private:
  [[nodiscard]] std::string name(std::size_t op, const char* outside) const {
    return op < block_.operators.size()
               ? fmt::format("{}: {}", block_.name, block_.operators[op].name)
               : fmt::format("{}: {}", block_.name, outside);
  }

  /// Forward from the operator that makes the tensor to its reader, gradients the other way.
  [[nodiscard]] Redistribution path_of(const Communication& c) const {
    const std::size_t maker = c.reader == kNoReader ? c.operator_index : index_.producers[c.index];
    const std::size_t reader = c.reader == kNoReader ? c.operator_index : c.reader;
    std::string made = name(maker, "what enters");
    std::string read = name(reader, "what leaves");
    if (c.subject == Subject::ActivationGradient) std::swap(made, read);
    std::string pass(to_text(c.phase));
    std::replace(pass.begin(), pass.end(), '-', ' ');
    return {subject_name(block_, c), std::move(made), std::move(read), std::move(pass), 1, {}};
  }

  const PricingInput& view_;
  const DeviceMesh& mesh_;
  const Block& block_;
  const BlockIndex& index_;
};

/// Under each class of stages that holds it, with the most copies that a device has of it.
void append_blocks(const ProfileMaker& profiles, const PricingInput& view,
                   std::vector<Redistribution>& paths) {
  struct Held {
    const ClassProfile* profile;
    std::size_t block;
    double copies;
  };
  std::vector<Held> all;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    std::vector<Held> here;
    const auto add = [](std::vector<Held>& list, const Held& one, auto join) {
      const auto known = std::find_if(list.begin(), list.end(), [&](const Held& other) {
        return other.profile == one.profile && other.block == one.block;
      });
      if (known == list.end()) return list.push_back(one);
      known->copies = join(known->copies, one.copies);
    };
    for (const int index : view.contents_at(p)) {
      for_each_profile(view, view.content(index),
                       [&](const ClassProfile& profile, std::size_t b, double copies) {
                         add(here, {&profile, b, copies}, std::plus<>());
                       });
    }
    for (const Held& held : here) {
      add(all, held, [](double a, double b) { return std::max(a, b); });
    }
  }
  for (const Held& held : all) {
    const Block& block = view.problem.network->blocks[held.block];
    BlockPaths(view, *held.profile, block, profiles.index()[held.block])
        .append(profiles.passes(*held.profile, held.block), held.copies, paths);
  }
}

/// A message between stages, and what its receivers gather.
Redistribution border(const PricingInput& view, const StageLink& route,
                      const BoundaryTransfer& transfer, Redistribution path, double count) {
  const Cluster& cluster = *view.problem.cluster;
  const ProcessGroup pair{2, std::max(route.left_domain, 1)};
  path.path.push_back({CommunicationKind::SendReceive, "pipeline", 2, links_of(cluster, pair),
                       transfer.bytes, transfer.time - transfer.gathering, count});
  if (transfer.gathering > Seconds(0)) {
    path.path.push_back(
        {CommunicationKind::AllGather, "out", static_cast<int>(transfer.gathered_over.size()),
         links_of(cluster, transfer.gathered_over), transfer.gathered, transfer.gathering, count});
  }
  return path;
}

std::string stop_name(const Assignment& held, std::size_t stop) {
  if (held.gang_at(stop) != nullptr) return "blocks on all devices";
  const int position = held.group_at(stop).position;
  return held.held() > 1 ? fmt::format("stage {} (virtual {})", position, stop)
                         : fmt::format("stage {}", position);
}

struct Crossing {
  std::size_t from = 0;
  std::size_t to = 0;
  const char* what = "chain";
  int alike = 1;
};

void append_crossing(const PricingInput& view, const StageLink& route, const Crossing& crossing,
                     const BoundaryTransfers& transfers, std::vector<Redistribution>& paths) {
  const Assignment& held = view.assignment();
  const std::string from = stop_name(held, crossing.from);
  const std::string to = stop_name(held, crossing.to);
  if (transfers.activation.time > Seconds(0)) {
    paths.push_back(border(view, route, transfers.activation,
                           {crossing.what, from, to, "forward", crossing.alike, {}},
                           view.repeats() * view.forwards()));
  }
  if (transfers.gradient.time > Seconds(0)) {
    paths.push_back(border(view, route, transfers.gradient,
                           {crossing.what, to, from, "input gradient", crossing.alike, {}},
                           view.repeats()));
  }
}

void append_borders(const PricingInput& view, std::vector<Redistribution>& paths) {
  const LinkedAssignment& routed = *view.invariants.routed;
  const std::size_t stops = view.assignment().stop_count();
  for (std::size_t kind = 0; kind < routed.boundary_kinds.size(); ++kind) {
    const std::size_t k = routed.boundary_kinds[kind];
    const auto alike =
        std::count(routed.kind_of_boundary.begin(), routed.kind_of_boundary.end(), kind);
    const bool back = k + 1 >= stops;  // the next pass of a micro-batch
    append_crossing(view, view.boundary(k),
                    {k, back ? 0 : k + 1, back ? "next pass" : "chain", static_cast<int>(alike)},
                    chain_transfers(view, k), paths);
  }
  const auto& direct = view.assignment().direct;
  for (std::size_t i = 0; i < direct.size(); ++i) {
    append_crossing(view, routed.direct[i], {direct[i].from, direct[i].to, "edge", 1},
                    direct_transfers(view, i), paths);
  }
}

}  // namespace

std::vector<Redistribution> redistributions(const PlanEvaluator& evaluator,
                                            const ParallelPlan& plan) {
  const PlanViews& views = evaluator.views();
  return views.with_view(plan, [&](const PricingInput& view) {
    std::vector<Redistribution> paths;
    append_blocks(*views.profiles, view, paths);
    append_borders(view, paths);
    return paths;
  });
}

}  // namespace plansearch
