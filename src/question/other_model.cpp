// SPDX-License-Identifier: Apache-2.0
#include "question/other_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {
namespace {

/// A size of a network that decides which plans it has.
struct Size {
  const char* name;
  std::int64_t (*of)(const ModelDescription& model);
};
constexpr Size kSizes[] = {
    {"layers", [](const ModelDescription& m) { return m.layers; }},
    {"hidden", [](const ModelDescription& m) { return m.hidden; }},
    {"heads", [](const ModelDescription& m) { return m.attention.heads; }},
    {"kv_heads", [](const ModelDescription& m) { return m.attention.kv_heads; }},
    {"ffn", [](const ModelDescription& m) { return m.mlp.width; }},
    {"vocab", [](const ModelDescription& m) { return m.embedding.vocab; }},
    {"experts", [](const ModelDescription& m) { return m.moe ? m.moe->experts : 0; }},
    {"max_positions", [](const ModelDescription& m) { return m.max_positions.value_or(0); }}};

std::shared_ptr<const ShippedModel> model_named(ProblemRequest request, const std::string& name) {
  request.model = name;
  try {
    return read_problem_files(request).model;
  } catch (const InputError&) {
    return nullptr;  // its file has gone; the plan says enough of its own
  }
}

}  // namespace

std::string other_model(const PlanRequest& asked, const ProblemFiles& files) {
  if (asked.written_for.empty() || asked.written_for == asked.request.model) return {};
  const auto before = model_named(asked.request, asked.written_for);
  if (before == nullptr || before->content_hash == files.model->content_hash) return {};
  const ModelDescription& was = before->description;
  const ModelDescription& is = files.model->description;
  std::vector<std::string> differences;
  for (const Size& size : kSizes) {
    if (size.of(was) == size.of(is)) continue;
    differences.push_back(fmt::format("{} {} instead of {}", size.name, size.of(is), size.of(was)));
  }
  return fmt::format("the plan was written for {}, and this is {}{}", was.name, is.name,
                     differences.empty() ? "" : fmt::format(" ({})", fmt::join(differences, ", ")));
}

}  // namespace plansearch
