// SPDX-License-Identifier: Apache-2.0
// Completion scripts, generated from the command line itself so that they cannot fall behind it.
#pragma once

#include <string>
#include <string_view>

namespace plansearch::cli {

/// `shell` is bash, zsh or fish.
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace plansearch::cli
