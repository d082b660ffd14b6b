// SPDX-License-Identifier: Apache-2.0
// Figures that are questions: flags of the command line in the table of a paper, priced as the
// command line prices them, and what is read off the answer.
#pragma once

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// Adds every figure of the file that has a question, in its order. Searches run side by side.
void add_priced(const StudyContext& context, Figures& figures);

}  // namespace plansearch
