// SPDX-License-Identifier: Apache-2.0
#include "plansearch/concurrency.hpp"

namespace plansearch {

std::string_view to_text(Activity activity) {
  constexpr std::array<std::string_view, kActivityCount> kNames{"compute", "local", "fabric",
                                                                "from-host", "to-host"};
  return kNames[static_cast<std::size_t>(activity)];
}

}  // namespace plansearch
