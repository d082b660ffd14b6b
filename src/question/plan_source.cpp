// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <fmt/format.h>

#include <charconv>

#include "io/document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kResultSchema = "plansearch/result/v1";
constexpr std::string_view kPlanSchema = "plansearch/plan/v1";

struct PlanName {
  std::string file;
  std::size_t rank = 1;
};

PlanName split_rank(const std::string& text) {
  const std::size_t at = text.rfind('#');
  if (at == std::string::npos) return {text, 1};
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

}  // namespace

PlanRequest complete_from_plan(const ProblemRequest& request, const std::string& plan) {
  if (plan.empty()) return {request, std::nullopt, std::nullopt, std::nullopt};
  const PlanName name = split_rank(plan);
  io::ParseLimits limits;
  limits.size = std::size_t{64} << 20U;
  limits.values = 4'000'000;
  const io::Document document = io::Document::read(name.file, limits);
  io::PlanDocument read = read_plan(document.root(), name.rank);
  if (read.stages) refuse_degrees(request, read.stages->place.where);
  if (read.assign) refuse_degrees(request, read.assign->order.place.where);
  return {completed(request, read.question),
          std::move(read.stages),
          std::move(read.placements),
          std::move(read.transform),
          std::move(read.assign),
          std::move(read.shared),
          std::move(read.window)};
}

}  // namespace plansearch
