// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "base/ranges.hpp"
#include "io/document/document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kResultSchema = "plansearch/result/v1";
constexpr std::string_view kPlanSchema = "plansearch/plan/v1";

struct PlanName {
  std::string file;
  std::size_t rank = 1;
};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

PlanName split_rank(const std::string& text) {
  const std::size_t at = text.rfind('#');
  if (at == std::string::npos || is_file(text)) return {text, 1};
  const std::string digits = text.substr(at + 1);
  PlanName name{text.substr(0, at), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), name.rank);
  if (error != std::errc() || end != digits.data() + digits.size() || name.rank == 0) {
    throw InputError({}, fmt::format("'{}': the part after # is not a rank", text),
                     "ranks count from 1, as in result.json#2");
  }
  return name;
}

/// Listed stages have degrees of their own.
void refuse_degrees(const ProblemRequest& request, const SourceLocation& where) {
  if (request.degrees.empty()) return;
  throw InputError(
      where,
      fmt::format("the stages are listed here, and {} is asked for", to_text(request.degrees)),
      "change the stages, or leave the degrees out");
}

io::PlanDocument read_plan(const io::Node& root, std::size_t rank) {
  const io::Node schema = root.at("schema");
  const std::string name = schema.text();
  if (name == kResultSchema) return io::read_ranked_plan(root, rank);
  if (name == kPlanSchema) return io::read_plan_document(root);
  schema.fail(fmt::format("'{}' is not the schema of a plan", name),
              fmt::format("plans come from {} and {} files", kPlanSchema, kResultSchema));
}

/// Not a name with a dot in it.
bool reads_as_file(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kExtensions{".yaml", ".json", ".pt2", ".onnx"};
  return path.has_parent_path() && contains(kExtensions, path.extension());
}

/// Paths are relative to the plan that names them; those of written answers to where they were
/// asked. Names of what ships have no folder.
void find_files(const fs::path& plan, const io::Node& root, ProblemRequest& question) {
  for (const SettingRow& row : setting_table()) {
    if (row.kind != SettingKind::Name) continue;
    const fs::path written(row.get(question).value_or(""));
    if (written.empty() || written.is_absolute()) continue;
    const fs::path beside = plan.parent_path() / written;
    const auto node = root.find(row.key);
    if (is_file(beside)) {
      row.set(question, beside.string());
    } else if (node && reads_as_file(written) && !is_file(written)) {
      node->fail(fmt::format("there is no file '{}'", beside.string()),
                 "paths are relative to the plan");
    }
  }
}

}  // namespace

PlanRequest complete_from_plan(const ProblemRequest& request, const std::string& plan) {
  if (plan.empty()) return {request, std::nullopt, std::nullopt, std::nullopt};
  const PlanName name = split_rank(plan);
  io::ParseLimits limits;
  limits.size = std::size_t{64} << 20U;
  limits.values = 4'000'000;
  const io::Document document = io::Document::read(name.file, limits);
  io::PlanDocument read = read_plan(document.root(), name.rank);
  find_files(name.file, document.root(), read.question);
  if (read.stages) refuse_degrees(request, read.stages->place.where);
  if (read.assign) refuse_degrees(request, read.assign->order.place.where);
  return {completed(request, read.question),
          std::move(read.stages),
          std::move(read.placements),
          std::move(read.transform),
          std::move(read.assign),
          std::move(read.shared),
          std::move(read.window),
          read.question.model};
}

}  // namespace plansearch
