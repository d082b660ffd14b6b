// SPDX-License-Identifier: Apache-2.0
// Cost of reading a weight that is kept in fewer bits than its product multiplies.
#pragma once

#include "plansearch/data_type.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Work in front of one product. A call counts once for the host, however many kernels it launches;
/// bytes are per element of the weight.
struct WeightExpansion {
  int calls = 0;
  Bytes moved;  ///< read and written by all kernels, the kept format and the result included
  Bytes peak;   ///< of their results, while they run
  bool kept_for_backward = false;  ///< backward reads the result again; else it is made anew
};

/// `product`: the format in which the weight is multiplied.
[[nodiscard]] WeightExpansion weight_expansion(DataType kept, DataType product);

}  // namespace plansearch
