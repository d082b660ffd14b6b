// SPDX-License-Identifier: Apache-2.0
#include "answer/show.hpp"

#include "plansearch/shipped_data.hpp"

namespace plansearch {

Shown show_file(const std::string& what, const std::string& name) {
  const ShippedData data = shipped_data();
  if (what == "hw") return show_cluster(data.cluster(name));
  if (what == "framework") return show_framework(data.framework(name));
  return show_model(data.model(name).description);
}

}  // namespace plansearch
