// SPDX-License-Identifier: Apache-2.0
// Parts of the study of AxoNN.
#pragma once

#include <vector>

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// Its communication model and rates, exact checks.
void add_axonn_checks(const StudyContext& context, std::vector<ReproducedRow>& rows);
/// Its runs, beside what the search finds.
void add_axonn_runs(const StudyContext& context, std::vector<ReproducedRow>& rows);

}  // namespace plansearch
