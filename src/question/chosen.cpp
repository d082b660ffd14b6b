// SPDX-License-Identifier: Apache-2.0
#include "question/chosen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/units.hpp"
#include "evaluate/answer/site_population.hpp"
#include "plansearch/error.hpp"
#include "question/training_task.hpp"

namespace plansearch {
namespace {

std::optional<DataType> asked_precision(const ProblemRequest& request) {
  if (!request.precision) return std::nullopt;
  return parse_data_type(*request.precision);
}

bool runs(DataType type, const Accelerator& accelerator, const Framework& framework) {
  const auto policy = framework.precision.find(type);
  if (policy == framework.precision.end()) return false;
  const auto index = static_cast<std::size_t>(policy->second.matmul);
  return accelerator.peak[index] && accelerator.kernels.matmul[index];
}

void require(DataType type, const Accelerator& accelerator, const Framework& framework) {
  const auto policy = framework.precision.find(type);
  if (policy == framework.precision.end()) {
    std::vector<std::string_view> known;
    for (const auto& [format, unused] : framework.precision) known.push_back(to_text(format));
    throw InputError(
        {}, fmt::format("--precision {}: {} does not train in it", to_text(type), framework.name),
        fmt::format("it has {}", fmt::join(known, ", ")));
  }
  if (runs(type, accelerator, framework)) return;
  std::vector<std::string_view> possible;
  for (const auto& [format, unused] : framework.precision) {
    if (runs(format, accelerator, framework)) possible.push_back(to_text(format));
  }
  throw InputError(
      {},
      fmt::format("--precision {}: {} has no {} rate", to_text(type), accelerator.name,
                  to_text(policy->second.matmul)),
      fmt::format("with {} it trains in {}", framework.name, fmt::join(possible, ", ")));
}

/// Answers write a site with its factor: "tuned x1".
std::string_view name_part(std::string_view text) {
  const std::size_t factor = text.rfind(" x");
  const bool number = factor != std::string_view::npos && parse_number(text.substr(factor + 2));
  return number ? text.substr(0, factor) : text;
}

}  // namespace

Chosen<DataType> choose_precision(const ProblemRequest& request,
                                  const std::optional<DataType>& of_model,
                                  const Accelerator& accelerator, const Framework& framework) {
  Chosen<DataType> precision;
  precision.or_else(asked_precision(request), request.origin("precision"));
  if (of_model && runs(*of_model, accelerator, framework)) precision.or_else(of_model, "model");
  for (const DataType type : {DataType::Bf16, DataType::Fp16, DataType::Tf32, DataType::Fp32}) {
    if (!runs(type, accelerator, framework)) continue;
    precision.or_else(type, type == DataType::Bf16 ? "default" : "profile");
  }
  if (!precision.has_value()) {
    throw InputError(
        {}, fmt::format("{} runs no format that {} trains in", accelerator.name, framework.name));
  }
  require(precision.value(), accelerator, framework);
  return precision;
}

Chosen<SiteEffect> choose_site(const ProblemRequest& request, const SiteTable& sites,
                               const Cluster& cluster, std::string_view framework) {
  Chosen<SiteEffect> site;
  if (request.site) {
    try {
      site.or_else(find_site(sites, std::string(name_part(*request.site))), request.origin("site"));
    } catch (const InputError& error) {
      throw InputError({}, std::string("--site: ") + error.what(), error.hint());
    }
  }
  if (cluster.site && cluster.site->framework == framework) {
    site.or_else(cluster.site->effect, "profile");
  }
  return site.or_else(typical_site(population_of(sites)), "default");
}

Chosen<std::string> framework_name(const ProblemRequest& request) {
  const std::string& given = request.framework.empty() ? request.target : request.framework;
  Chosen<std::string> name;
  if (!given.empty()) name.or_else(given, request.origin("framework"));
  name.or_else(is_tuning(request) ? std::string(kTuningFramework) : "megatron", "default");
  return name;
}

}  // namespace plansearch
