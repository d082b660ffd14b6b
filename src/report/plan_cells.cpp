// SPDX-License-Identifier: Apache-2.0
#include "report/plan_cells.hpp"

#include <fmt/format.h>

#include <array>

#include "base/units.hpp"

namespace plansearch {

std::string short_plan(const PlanDegrees& plan) {
  std::string text;
  const auto add = [&](const char* name, int degree) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, degree);
  };
  add("dp", plan.data);
  add("pp", plan.pipeline);
  add("vpp", plan.chunks);
  add("tp", plan.tensor());
  if (plan.tensor() > 1 && plan.sequence_parallel == SequenceParallel::On) text += "+sp";
  add("cp", plan.context);
  if (plan.context > 1 && plan.context_kind == ContextKind::Ulysses) text += " ulysses";
  add("ep", plan.expert);
  if (plan.zero != ZeroStage::None) {
    text += fmt::format("{}zero {}", text.empty() ? "" : ", ", static_cast<int>(plan.zero));
  }
  if (text.empty()) text = "one device";
  text += fmt::format(", micro-batch {}", plan.micro_batch);
  if (plan.recompute != Recompute::None) {
    text += fmt::format(", {} recompute", to_text(plan.recompute));
  }
  return text;
}

std::string share_text(double share) {
  return fmt::format("{:.1f} %", share * 100.0);
}

std::string memory_of(Bytes used, Bytes capacity) {
  constexpr double kGiB = 1073741824.0;
  return fmt::format("{:.1f} / {:.0f} GiB", used.value() / kGiB, capacity.value() / kGiB);
}

std::string count_text(double count) {
  struct Prefix {
    double factor;
    const char* name;
  };
  static constexpr std::array<Prefix, 4> kPrefixes{
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const Prefix& prefix : kPrefixes) {
    if (count >= prefix.factor) return fmt::format("{:.3g}{}", count / prefix.factor, prefix.name);
  }
  return fmt::format("{:.3g}", count);
}

std::string grouped(std::int64_t count) {
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
  return text;
}

std::string context_cell(const PlanDegrees& plan) {
  const bool ulysses = plan.context > 1 && plan.context_kind == ContextKind::Ulysses;
  return fmt::format("{}{}", plan.context, ulysses ? "u" : "");
}

std::string schedule_cell(const PlanDegrees& plan) {
  return plan.pipeline == 1 ? "-" : std::string(to_text(plan.schedule));
}

}  // namespace plansearch
