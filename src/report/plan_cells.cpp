// SPDX-License-Identifier: Apache-2.0
#include "report/plan_cells.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/units.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

std::string counts_text(const std::array<int, 4>& counts) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      parts.push_back(fmt::format("{} {}", counts[i], to_text(static_cast<Evidence>(i))));
    }
  }
  return parts.empty() ? "nothing stated" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string by_stage(const std::vector<std::string>& values) {
  std::string text;
  for (auto at = values.begin(); at != values.end();) {
    const auto end = std::find_if(at, values.end(), [&](const auto& v) { return v != *at; });
    text += (text.empty() ? "" : "/") + *at;
    const bool is_word = !at->empty() && std::isdigit(static_cast<unsigned char>(at->back())) == 0;
    if (end - at > 1) text += fmt::format("{}x{}", is_word ? " " : "", end - at);
    at = end;
  }
  return text;
}

std::string layers_by_stage(const PlanSummary& plan) {
  std::vector<std::string> layers;
  for (const StageDescription& stage : plan.written) {
    layers.push_back(fmt::format("{}", layers_of(stage, *plan.network)));
  }
  return by_stage(layers);
}

std::string across_stages(const PlanSummary& plan,
                          const std::function<std::string(const PlanDegrees&)>& cell) {
  std::vector<std::string> cells;
  for (const PlanDegrees& stage : plan.stages) cells.push_back(cell(stage));
  const bool alike =
      std::ranges::all_of(cells, [&](const std::string& text) { return text == cells.front(); });
  return alike ? cell(plan.degrees) : by_stage(cells);
}

bool any_stage(const PlanSummary& plan, const std::function<bool(const PlanDegrees&)>& holds) {
  return holds(plan.degrees) || std::ranges::any_of(plan.stages, holds);
}

std::string recompute_cell(const PlanDegrees& plan) {
  if (plan.modules != 0) return to_text(LayerModules(plan.modules), "+");
  if (plan.recompute_layers == 0) return std::string(to_text(plan.recompute));
  return fmt::format("first {}", plan.recompute_layers);
}

std::string short_plan(const PlanSummary& plan) {
  using Degrees = const PlanDegrees&;
  std::string text;
  const auto add = [&](const char* name, const std::function<std::string(Degrees)>& cell) {
    const std::string value = across_stages(plan, cell);
    if (value == cell(PlanDegrees{})) return;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, value);
  };
  const auto number = [](int value) { return fmt::format("{}", value); };
  add("dp ", [&](Degrees d) { return number(d.data); });
  add("pp ", [&](Degrees d) { return number(d.pipeline); });
  if (!plan.written.empty()) {
    text += fmt::format("{}layers {}", text.empty() ? "" : ", ", layers_by_stage(plan));
  }
  add("vpp ", [&](Degrees d) { return number(d.chunks); });
  add("tp ", [&](Degrees d) {
    const bool spread = d.tensor() > 1 && d.sequence_parallel == SequenceParallel::On;
    const bool ring = d.temporal == Temporal::Ring;
    return number(d.tensor()) + (spread ? "+sp" : "") + (ring ? " ring" : "");
  });
  add("cp ", [&](Degrees d) {
    const bool ring = d.context == 1 || d.context_kind == ContextKind::Ring;
    return number(d.context) + (ring ? "" : fmt::format(" {}", to_text(d.context_kind)));
  });
  add("ep ", [&](Degrees d) { return number(d.expert); });
  add("zero ", [&](Degrees d) { return number(static_cast<int>(d.zero)); });
  if (text.empty()) text = "one device";
  text += fmt::format(", micro-batch {}",
                      across_stages(plan, [&](Degrees d) { return number(d.micro_batch); }));
  add("pieces ", [&](Degrees d) { return number(d.pieces); });
  const std::string recompute = across_stages(plan, recompute_cell);
  if (const int first = plan.degrees.recompute_layers; first > 0) {
    text += fmt::format(", {} layer{} recomputed", recompute, first == 1 ? "" : "s");
  } else if (plan.degrees.modules != 0) {
    text += fmt::format(", {} recomputed", recompute);
  } else if (recompute != to_text(Recompute::None)) {
    text += fmt::format(", {} recompute", recompute);
  }
  if (plan.degrees.dispatcher != kOwnDispatcher) {
    text += fmt::format(", {}", to_text(plan.degrees.dispatcher));
  }
  if (plan.degrees.on_host != 0) {
    text += fmt::format(", {} on the host", host_text(plan.degrees.on_host));
  }
  return text;
}

std::vector<BreakdownPart<Seconds>> parts_of(const StepTimeBreakdown& step) {
  std::vector<BreakdownPart<Seconds>> parts{{"compute_s", "compute", step.compute},
                                            {"recompute_s", "recompute", step.recompute}};
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    const std::string_view purpose = to_text(static_cast<Purpose>(i));
    parts.push_back({fmt::format("exposed_communication_s/{}", purpose),
                     fmt::format("exposed communication, {}", purpose), step.exposed[i]});
  }
  parts.push_back({"bubble_s", "pipeline bubble", step.bubble});
  parts.push_back({"optimizer_s", "optimizer", step.optimizer});
  parts.push_back({"host_s", "host", step.host});
  parts.push_back({"site_s", "site", step.site});
  return parts;
}

std::vector<BreakdownPart<Bytes>> parts_of(const MemoryBreakdown& memory) {
  return {{"parameters_bytes", "parameters", memory.parameters},
          {"gradients_bytes", "gradients", memory.gradients},
          {"optimizer_bytes", "optimizer states", memory.optimizer},
          {"activations_bytes", "activations", memory.activations},
          {"transient_bytes", "working set", memory.transient},
          {"buffers_bytes", "communication buffers", memory.buffers},
          {"reserve_bytes", "reserve", memory.reserve}};
}

std::string evidence_text(const std::vector<std::string>& files) {
  return fmt::format("these numbers rest on: {}", fmt::join(files, "; "));
}

std::string share_text(double share) {
  return fmt::format("{:.1f} %", share * 100.0);
}

std::string memory_of(Bytes used, Bytes capacity) {
  constexpr double kGiB = 1073741824.0;
  return fmt::format("{:.1f} / {:.0f} GiB", used.value() / kGiB, capacity.value() / kGiB);
}

std::string risk_text(const PlanReport& plan) {
  if (plan.memory_risk < 0.005) return "<1 %";
  if (plan.memory_risk > 0.995) return ">99 %";
  return fmt::format("{:.0f} %", 100.0 * plan.memory_risk);
}

std::string count_text(double count) {
  struct Prefix {
    double factor;
    const char* name;
  };
  static constexpr std::array<Prefix, 4> kPrefixes{
      {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}}};
  constexpr double kAlmost = 0.9995;  // three digits would round to the next prefix
  for (const Prefix& prefix : kPrefixes) {
    if (count < kAlmost * prefix.factor) continue;
    return fmt::format("{:.3g}{}", count / prefix.factor, prefix.name);
  }
  return fmt::format("{:.3g}", count);
}

std::string grouped(std::int64_t count) {
  constexpr std::int64_t kReadable = 1'000'000'000'000'000;
  if (count >= kReadable) return fmt::format("{:.1e}", static_cast<double>(count));
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string tensor_cell(const PlanDegrees& plan) {
  std::string text =
      plan.tensor_in == 1 && plan.tensor_depth == 1
          ? fmt::format("{}", plan.tensor_out)
          : fmt::format("{}x{}x{}", plan.tensor_in, plan.tensor_out, plan.tensor_depth);
  if (plan.tensor() > 1 && plan.sequence_parallel == SequenceParallel::On) text += "+sp";
  if (plan.temporal == Temporal::Ring) text += " ring";
  return text;
}

std::string steps_cell(const PlanSummary& plan) {
  if (!plan.placements) return {};
  std::set<std::string> shapes;
  for (const PlacementEntry& entry : plan.placements->operators) {
    if (entry.ring) shapes.insert("ring");
    for (const NamedSquare& square : entry.squares) {
      int side = 1;
      for (const std::uint8_t factor : square.rows) side *= plan.placements->factors[factor];
      shapes.insert(fmt::format("{0}x{0}", side));
    }
  }
  return shapes.empty() ? std::string() : fmt::format(" {}", fmt::join(shapes, ","));
}

std::string context_cell(const PlanDegrees& plan) {
  if (plan.context == 1) return "1";
  switch (plan.context_kind) {
    case ContextKind::Ring:
      return fmt::format("{}", plan.context);
    case ContextKind::Ulysses:
      return fmt::format("{}u", plan.context);
    case ContextKind::AllGather:
      return fmt::format("{}g", plan.context);
  }
  throw InternalError("unknown kind of context parallelism");
}

std::string reasons_cell(const PlanReport& plan) {
  constexpr std::size_t kShown = 2;
  std::string text = fmt::format(
      "{}",
      fmt::join(plan.why.begin(),
                plan.why.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, plan.why.size())),
                ", "));
  for (const PlanFeature& feature : plan.features) text += ", by " + feature.name;
  return text;
}

std::string schedule_cell(const PlanDegrees& plan) {
  const bool plain = plan.pipeline == 1 && !schedule_row(plan.schedule).joins;
  return plain ? "-" : std::string(to_text(plan.schedule));
}

std::vector<std::string> evidence_of(const Problem& problem) {
  const Cluster& cluster = *problem.cluster;
  const Framework& framework = *problem.framework;
  std::array<int, 4> of_framework{};
  for (const auto& [key, from] : framework.provenance) {
    ++of_framework[static_cast<std::size_t>(from.evidence)];
  }
  return {fmt::format("profile {} ({})", cluster.name, counts_text(count_evidence(cluster))),
          fmt::format(
              "framework {} ({}{})", framework.name, counts_text(of_framework),
              framework.validation.empty() ? "; unvalidated: no measured step was compared" : ""),
          fmt::format("site {} ({})", problem.site.name, problem.site.basis)};
}

std::string evidence_line(const Problem& problem) {
  return evidence_text(evidence_of(problem));
}

}  // namespace plansearch
