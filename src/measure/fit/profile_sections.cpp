// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/ranges.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

std::string key(std::string_view name, double value, std::string_view unit = {}) {
  const double scale = unit == "us" ? 1e6 : 1.0;
  return fmt::format("{}: {:.6g}{}{}", name, scale * value, unit.empty() ? "" : " ", unit);
}

std::string residual_key(const Residual& residual) {
  return fmt::format("residual: {{p10: {:.6g}, p50: {:.6g}, p90: {:.6g}}}", residual.p10,
                     residual.p50, residual.p90);
}

const KernelGroupFit* group_named(const KernelFit& fit, const std::string& part) {
  const auto found = std::ranges::find(fit.groups, part, &KernelGroupFit::part);
  return found == fit.groups.end() ? nullptr : &*found;
}

const MatmulCurve& curve_of(const KernelFit& fit, const std::string& format) {
  const KernelCurves& kernels = fit.cluster.accelerator.kernels;
  const auto type = parse_data_type(format);
  return (type ? kernels.matmul.at(static_cast<std::size_t>(*type)) : kernels.matmul_fp8_block)
      .value();
}

std::string changed_keys(const KernelGroupFit& group, const std::optional<Residual>& residual) {
  std::vector<std::string> keys = transformed(group.changes, [&](const CurveChange& change) {
    return key(change.quantity, change.own, change.unit == "s" ? "us" : "");
  });
  if (residual) keys.push_back(residual_key(*residual));
  return fmt::format("{{{}}}", fmt::join(keys, ", "));
}

std::string attention_section(const KernelFit& fit) {
  std::string text;
  for (const std::string& name : fit.attentions) {
    const AttentionKernel& kernel = *fit.cluster.accelerator.kernels.find_attention(name);
    text += fmt::format("      {}:\n        forward: {}\n", name, attention_keys(kernel.forward));
    if (!kernel.backward) continue;
    text += fmt::format("        backward: {}\n", attention_keys(*kernel.backward));
  }
  return text.empty() ? text : "    attention:\n" + text;
}

}  // namespace

std::string software_section(const KernelFit& fit) {
  for (const std::string& name : fit.attentions) {
    const auto fitted = [&](const char* direction) {
      return group_named(fit, fmt::format("attention {} {}", name, direction)) != nullptr;
    };
    if (!fitted("forward") || !fitted("backward")) continue;
    return fmt::format("software: {{attention_kernel: {}}}\n", name);
  }
  return {};
}

std::string matmul_keys(const MatmulCurve& curve) {
  std::vector<std::string> keys{key("launch", curve.launch.value(), "us"),
                                key("flop_efficiency", curve.flop_efficiency),
                                key("byte_efficiency", curve.byte_efficiency),
                                key("prologue_depth", curve.prologue_depth),
                                key("tile_penalty", curve.tile_penalty),
                                key("wave_quantisation", curve.wave_quantisation),
                                key("split_traffic", curve.split_traffic),
                                key("power_droop", curve.power_droop),
                                key("unaligned_rows", curve.unaligned_rows)};
  if (curve.residual) keys.push_back(residual_key(*curve.residual));
  return fmt::format("{{{}}}", fmt::join(keys, ", "));
}

std::string attention_keys(const AttentionCurve& curve) {
  constexpr double kGigaPerMicro = 1e-3;
  std::vector<std::string> keys{
      key("launch", curve.launch.value(), "us"),
      key("flop_efficiency", curve.flop_efficiency),
      key("exponential_rate", kGigaPerMicro * curve.exponentials_per_us, "GFLOP/s"),
      key("block", curve.block.value(), "us"),
      key("longest", curve.longest),
      key("query_byte_efficiency", curve.query_byte_efficiency),
      key("key_byte_efficiency", curve.key_byte_efficiency),
      key("token", curve.token.value(), "us"),
      key("wide_head", curve.wide_head)};
  if (curve.residual) keys.push_back(residual_key(*curve.residual));
  return fmt::format("{{{}}}", fmt::join(keys, ", "));
}

std::string stream_keys(const StreamCurve& curve) {
  return fmt::format("{{{}}}",
                     fmt::join(std::vector{key("launch", curve.launch.value(), "us"),
                                           key("graph_launch", curve.graph_launch.value(), "us"),
                                           key("efficiency", curve.efficiency)},
                               ", "));
}

std::string evidence_entry(std::string_view fields, std::string_view evidence,
                           std::string_view source) {
  return fmt::format("{{fields: [{}], evidence: {}, source: {}}}\n", fields, evidence,
                     io::in_quotes(source));
}

std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  return transformed(paths, [&](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  });
}

std::string source_of(const KernelGroupFit& group, const std::string& base) {
  return fmt::format("plansearch fit {}: {}{}{}", fmt::join(names_of(group.files), " "),
                     group_summary(group), base.empty() ? "" : "; like ",
                     base.empty() ? "" : base + " otherwise");
}

std::string kernels_section(const KernelFit& fit, WrittenKeys keys, const std::string& like) {
  std::string text;
  for (const std::string& format : fit.formats) {
    const KernelGroupFit& group = *group_named(fit, "matmul " + format);
    const MatmulCurve& curve = curve_of(fit, format);
    text += fmt::format(
        "      {}: {}\n", format,
        keys == WrittenKeys::All ? matmul_keys(curve) : changed_keys(group, curve.residual));
  }
  if (!text.empty()) text.insert(0, "    matmul:\n");
  text += attention_section(fit);
  const StreamCurve& stream = fit.cluster.accelerator.kernels.stream;
  if (const KernelGroupFit* group = group_named(fit, "stream")) {
    text += fmt::format("    stream: {}\n", keys == WrittenKeys::All
                                                ? stream_keys(stream)
                                                : changed_keys(*group, std::nullopt));
  }
  if (!like.empty()) text.insert(0, fmt::format("    like: {}\n", io::in_quotes(like)));
  return text.empty() ? text : "  kernels:\n" + text;
}

std::string kernels_provenance(const KernelFit& fit, const std::string& base) {
  std::string text;
  for (const std::string& format : fit.formats) {
    text += "    - " + evidence_entry("kernels.matmul." + format, "measured",
                                      source_of(*group_named(fit, "matmul " + format), base));
  }
  for (const std::string& name : fit.attentions) {
    const KernelGroupFit* group = group_named(fit, fmt::format("attention {} forward", name));
    if (group == nullptr) group = group_named(fit, fmt::format("attention {} backward", name));
    text +=
        "    - " + evidence_entry("kernels.attention." + name, "measured", source_of(*group, base));
  }
  if (const KernelGroupFit* group = group_named(fit, "stream")) {
    text += "    - " + evidence_entry("kernels.stream", "measured", source_of(*group, base));
  }
  if (const KernelGroupFit* group = group_named(fit, "overlap")) {
    text += "    - " + evidence_entry("concurrency", "measured", source_of(*group, base));
  }
  return text;
}

std::string link_lines(const KernelFit& fit, const std::string& tier, const std::string& base) {
  if (std::ranges::find(fit.tiers, tier) == fit.tiers.end()) return {};
  const auto found = std::ranges::find(fit.cluster.tiers, tier, &LinkTier::name);
  PLANSEARCH_CHECK(found != fit.cluster.tiers.end());
  std::string curve = io::curve_text(found->curve);
  curve.pop_back();  // the brace, behind the provenance
  std::string entry =
      evidence_entry("curve", "measured", source_of(*group_named(fit, "collectives"), base));
  entry.pop_back();
  return fmt::format("    {}: {}, provenance: [{}]}}\n", found->is_fabric() ? "fabric" : "link",
                     curve, entry);
}

}  // namespace plansearch
