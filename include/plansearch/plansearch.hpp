// SPDX-License-Identifier: Apache-2.0
// All of the library: load_problem, PlanEvaluator::evaluate, search, render_search
// (docs/library.md).
#pragma once

#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"
