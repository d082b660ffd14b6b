// SPDX-License-Identifier: Apache-2.0
// Options of the commands that write and read configurations of training frameworks.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.hpp"

namespace plansearch::cli {

void add_export(CLI::App& app, Options& options);

}  // namespace plansearch::cli
