// SPDX-License-Identifier: Apache-2.0
// Where the shipped profiles, models and frameworks are.
#pragma once

#include <filesystem>

namespace plansearch::cli {

/// $PLANSEARCH_DATA, else share/plansearch beside the executable's directory, else the source tree
/// it was built from. InputError when none of them holds data.
[[nodiscard]] std::filesystem::path data_root();

}  // namespace plansearch::cli
