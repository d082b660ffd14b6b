// SPDX-License-Identifier: Apache-2.0
// Shipped (or given) profiles, models and frameworks as people read them.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "report/shown.hpp"

namespace plansearch {

[[nodiscard]] Shown show_cluster(const Cluster& cluster);
[[nodiscard]] Shown show_model(const ModelDescription& model);
[[nodiscard]] Shown show_framework(const Framework& framework);

/// `what`: hw, model or framework; `name`: a shipped name, an alias or a file.
[[nodiscard]] Shown show_file(const std::string& what, const std::string& name,
                              const ShippedData& data);

/// The network of a model as a graph file (docs/graphs.md), as the default framework builds it.
[[nodiscard]] std::string graph_file(const std::string& model, const ShippedData& data);

/// The evidence of a field, or of what it lies in: a path stands for everything below it.
[[nodiscard]] inline std::optional<Provenance> evidence_at(
    const std::map<std::string, Provenance>& known, std::string path) {
  while (true) {
    if (const auto found = known.find(path); found != known.end()) return found->second;
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos) return std::nullopt;
    path.erase(dot);
  }
}

class ShownRows {
 public:
  ShownRows(std::string title, const std::map<std::string, Provenance>& known)
      : section_{std::move(title), {}}, known_(&known) {}

  void text(const std::string& field, std::string value, std::string meaning = {}) {
    add(field, {field, std::move(value), std::nullopt, "", {}, std::move(meaning)});
  }
  void number(const std::string& field, double value, const std::string& unit = {},
              std::string meaning = {}) {
    std::string shown = fmt::format("{:.6g}{}{}", value, unit.empty() ? "" : " ", unit);
    add(field, {field, std::move(shown), value, unit, {}, std::move(meaning)});
  }
  void count(const std::string& field, std::int64_t value, std::string shown = {},
             std::string meaning = {}) {
    if (shown.empty()) shown = fmt::format("{}", value);
    add(field, {field, std::move(shown), static_cast<double>(value), "", {}, std::move(meaning)});
  }
  void quantity(const std::string& field, Seconds value, std::string meaning = {}) {
    add(field, {field, to_text(value), value.value(), "s", {}, std::move(meaning)});
  }
  void quantity(const std::string& field, Bytes value, std::string meaning = {}) {
    add(field, {field, to_text(value), value.value(), "B", {}, std::move(meaning)});
  }
  void quantity(const std::string& field, Bandwidth value, std::string meaning = {}) {
    add(field, {field, to_text(value), value.value(), "B/s", {}, std::move(meaning)});
  }
  void quantity(const std::string& field, FlopRate value, std::string meaning = {}) {
    add(field, {field, to_text(value), value.value(), "FLOP/s", {}, std::move(meaning)});
  }
  /// Where the evidence of the next rows lies, when that is not their own field: "curve".
  void under(std::string path) { path_ = std::move(path); }

  [[nodiscard]] ShownSection take() { return std::move(section_); }

 private:
  void add(const std::string& field, ShownRow row) {
    row.from = evidence_at(*known_, path_.empty() ? field : path_);
    section_.rows.push_back(std::move(row));
  }

  ShownSection section_;
  const std::map<std::string, Provenance>* known_;
  std::string path_;
};

/// One of `listing_names()`, as a table, CSV or JSON.
[[nodiscard]] std::string list_shipped(std::string_view what, Format format, int columns);

[[nodiscard]] std::vector<std::string> listing_names();

}  // namespace plansearch
