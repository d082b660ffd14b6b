// SPDX-License-Identifier: Apache-2.0
#include "calibrate/model_shapes.hpp"

#include <algorithm>
#include <array>

#include "plansearch/operator_kind.hpp"
#include "plansearch/transformer_builder.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::array kCut{DimRole::Head, DimRole::KvHead, DimRole::Ffn, DimRole::Vocab,
                          DimRole::ExpertFfn};

std::vector<double> extents_of(const Network& network, std::int64_t ranks) {
  std::vector<double> extents;
  for (const Dimension& dimension : network.dimensions) {
    const bool cut = std::find(kCut.begin(), kCut.end(), dimension.role) != kCut.end() &&
                     dimension.extent % ranks == 0;
    extents.push_back(static_cast<double>(cut ? dimension.extent / ranks : dimension.extent));
  }
  return extents;
}

}  // namespace

std::vector<MatmulShape> model_shapes(const std::vector<std::string>& models,
                                      const ShippedData& data) {
  std::vector<MatmulShape> shapes;
  for (const std::string& name : models) {
    const Network network = build_network(data.model(name).description);
    for (const std::int64_t ranks : {1, 2, 4, 8}) {
      const std::vector<double> extents = extents_of(network, ranks);
      for (const Block& block : network.blocks) {
        for (const Operator& op : block.operators) {
          if (traits(op).cost != CostClass::Product || traits(op).slides || op.parameters.empty())
            continue;
          const MatmulShape shape = matmul_shape(network, block, op, extents);
          const bool known = std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
          if (!known && shape.batch == 1.0) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

}  // namespace plansearch::calibrate
