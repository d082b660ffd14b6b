// SPDX-License-Identifier: Apache-2.0
// A value that may come from several places, and the one it came from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

/// The first place that has a value wins.
template <typename T>
class Chosen {
 public:
  Chosen& or_else(const std::optional<T>& candidate, std::string origin) {
    if (!value_ && candidate) {
      value_ = candidate;
      origin_ = std::move(origin);
    }
    return *this;
  }
  [[nodiscard]] const T& value() const { return value_.value(); }
  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  std::optional<T> value_;
  std::string origin_;
};

/// The flag, the model's own, or the first of bf16, fp16, tf32 and fp32 that framework and
/// accelerator both have. InputError with the available formats if they lack the requested one.
[[nodiscard]] Chosen<DataType> choose_precision(const ProblemRequest& request,
                                                const std::optional<DataType>& of_model,
                                                const Accelerator& accelerator,
                                                const Framework& framework);

/// The site asked for, else the one the profile was fitted to with this framework, else a typical
/// one. InputError for a name that no site has.
[[nodiscard]] Chosen<SiteEffect> choose_site(const ProblemRequest& request, const SiteTable& sites,
                                             const Cluster& cluster, std::string_view framework);

/// The framework to price a plan in, else that of the target, and who named it.
[[nodiscard]] Chosen<std::string> framework_name(const ProblemRequest& request);

}  // namespace plansearch
