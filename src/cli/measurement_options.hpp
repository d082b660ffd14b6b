// SPDX-License-Identifier: Apache-2.0
// Options of the commands about measurements: validate, fit, calibrate, reproduce.
#pragma once

#include "cli/options.hpp"

namespace plansearch::cli {

void add_validate(CLI::App& app, Options& o);
void add_fit(CLI::App& app, Options& o);
void add_calibrate(CLI::App& app, Options& o);
void add_reproduce(CLI::App& app, Options& o);

}  // namespace plansearch::cli
