// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework.hpp"

#include "plansearch/error.hpp"

namespace plansearch {

std::string_view to_text(LayerDistribution value) {
  switch (value) {
    case LayerDistribution::EvenOnly:
      return "even";
    case LayerDistribution::EvenCeil:
      return "first-more";
    case LayerDistribution::EvenInner:
      return "inner-more";
    case LayerDistribution::EmbeddingAndHeadCount:
      return "by-cost";
  }
  throw InternalError("unknown layer distribution");
}

std::string_view to_text(OptimizerStart value) {
  switch (value) {
    case OptimizerStart::Together:
      return "together";
    case OptimizerStart::PerDevice:
      return "per-device";
    case OptimizerStart::PostValidated:
      return "post-validated";
  }
  throw InternalError("unknown optimizer start");
}

}  // namespace plansearch
