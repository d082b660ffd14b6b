// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>

#include "answer/show.hpp"
#include "exporters/exporter.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/framework_flags.hpp"

namespace plansearch {
namespace {

std::string kept(const std::optional<DataType>& type) {
  return type ? std::string(to_text(*type)) : "none";
}

ShownSection running_section(const Framework& framework) {
  ShownRows rows("how it runs", framework.provenance);
  rows.text("rank_order", rank_order_text(framework), "fastest first");
  rows.text("layers", std::string(to_text(framework.layers)), "over pipeline stages");
  rows.text("schedules", fmt::format("{}", fmt::join(framework.schedules, ", ")));
  rows.text("optimizer_start", std::string(to_text(framework.optimizer_start)),
            "when a device updates its parameters");
  rows.text("attention_kernel", framework.attention_kernel.value_or("the accelerator's"));
  rows.count("vocab_multiple", framework.vocab_multiple, {}, "the vocabulary is padded to it");
  for (const auto& [key, value] : framework.natural_degrees) {
    for (const DegreeRow& row : degree_table()) {
      if (row.key != key) continue;
      rows.text("defaults." + key, value_text(row.degree, value), "where a plan does not say");
    }
  }
  rows.text("accumulates", framework.accumulates ? "yes" : "no",
            "micro-batches of one sequence, where their size is not said");
  for (std::size_t i = 0; i < kOverlapCount; ++i) {
    const std::string key{to_text(static_cast<Overlap>(i))};
    const OverlapRule& rule = framework.overlap[i];
    rows.number("overlap." + key, rule.share, "", "share that compute can hide");
    if (rule.wait == MessageWait::Use) {
      rows.number("overlap." + key + ".ahead", rule.ahead, "",
                  "gathers before its own use that one is posted; waited for at its use");
    }
    if (rule.steps) {
      rows.text("overlap." + key + ".steps", *rule.steps == MessageWait::Use ? "use" : "at-once",
                "when tiles of operators in steps are waited for");
    }
  }
  return rows.take();
}

ShownSection precision_section(const Framework& framework) {
  ShownRows rows("precisions", framework.provenance);
  for (const auto& [type, p] : framework.precision) {
    rows.text(fmt::format("precision.{}", to_text(type)),
              fmt::format("matmul {}, activations {}, parameters {}, gradients {}, main gradients "
                          "{}, master {}, moments {}, reduced in {}, gathered in {}",
                          to_text(p.matmul), to_text(p.activation), to_text(p.parameter),
                          kept(p.gradient), kept(p.main_gradient), kept(p.master),
                          to_text(p.moment), to_text(p.reduction), to_text(p.gather)));
  }
  return rows.take();
}

ShownSection rule_section(const Framework& framework) {
  ShownRows rows("rules", framework.provenance);
  rows.under("rules");
  for (const FrameworkRule& rule : framework.rules) {
    bool limited = false;
    for (const RuleDescription& known : framework_rules()) {
      if (known.name == rule.name) limited = known.takes_limit;
    }
    rows.text(rule.name, limited ? fmt::format("{}: {}", rule.limit, rule.message) : rule.message);
  }
  return rows.take();
}

ShownSection constant_section(const Framework& framework) {
  ShownRows rows("constants", framework.provenance);
  FrameworkConstants constants = framework.constants;
  for (const ConstantRow& row : framework_constant_rows()) {
    const std::string field = fmt::format("constants.{}", row.name);
    std::visit(
        [&](const auto* value) {
          if constexpr (requires { rows.quantity(field, *value, ""); }) {
            rows.quantity(field, *value, std::string(row.meaning));
          } else {
            rows.number(field, *value, "", std::string(row.meaning));
          }
        },
        row.field(constants));
  }
  return rows.take();
}

/// The keys of an exported configuration that say a setting, in the order they are written.
std::vector<std::string_view> keys_saying(const exporters::Exporter& exporter,
                                          exporters::Setting setting) {
  std::vector<std::string_view> names;
  for (const exporters::Document& document : exporter.documents) {
    for (const exporters::Key& key : document.keys) {
      const bool says = std::ranges::find(key.says, setting) != key.says.end();
      if (says && std::ranges::find(names, key.name) == names.end()) names.push_back(key.name);
    }
  }
  return names;
}

ShownSection key_section(const exporters::Exporter& exporter) {
  const Provenance checked{Evidence::Published, std::string(exporter.checked)};
  ShownSection section{fmt::format("in its own words ({})", exporter.name), {}};
  for (std::size_t i = 0; i < exporters::kSettingCount; ++i) {
    const auto setting = static_cast<exporters::Setting>(i);
    const auto names = keys_saying(exporter, setting);
    if (names.empty() || setting == exporters::Setting::Model) continue;
    section.rows.push_back({exporters::name_of(setting), fmt::format("{}", fmt::join(names, ", ")),
                            std::nullopt, "", checked, ""});
  }
  return section;
}

}  // namespace

Shown show_framework(const Framework& framework) {
  Shown shown{"framework", framework.name, "", framework.aliases, {}};
  shown.sections.push_back(running_section(framework));
  const exporters::Targets targets(shipped_data().directory());
  for (const exporters::Exporter* exporter : targets.all()) {
    if (exporter->framework == framework.name) shown.sections.push_back(key_section(*exporter));
  }
  shown.sections.push_back(precision_section(framework));
  shown.sections.push_back(rule_section(framework));
  shown.sections.push_back(constant_section(framework));
  return shown;
}

}  // namespace plansearch
