// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// AxoNN's communication model and rates, exact checks.
void add_axonn_checks(const StudyContext& context, Figures& figures);

}  // namespace plansearch
