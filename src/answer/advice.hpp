// SPDX-License-Identifier: Apache-2.0
// Advice: questions that do better than the answer, or nearly as well with less; each is searched
// before it is given.
#pragma once

#include <string>
#include <vector>

#include "answer/search_session.hpp"

namespace plansearch {

/// The report of a search. InputError where the question has no plan at all, with numbers of GPUs
/// near this one that have, and their best plans.
[[nodiscard]] SearchReport report_or_refuse(const ResolvedQuestion& asked, int gpus,
                                            const std::string& label, SideQuestions beside,
                                            SearchSession& session);
/// InputError that says why there is no plan, and near which sizes there is one.
[[noreturn]] void refuse_question(const Infeasible& infeasible,
                                  const std::vector<std::string>& near = {});

/// Whether advice is sought on other numbers of GPUs, which a ladder shows by itself.
enum class OtherSizes { No, Yes };
/// Batches near one whose factors leave few replicas, and fewer GPUs that are as fast.
[[nodiscard]] std::vector<std::string> find_advice(const ResolvedQuestion& asked,
                                                   const SearchReport& report, OtherSizes sizes,
                                                   SearchSession& session);

/// "2^5 x 5^4"
[[nodiscard]] std::string factors_text(std::int64_t number);

/// Changes of the question, each with the best plan it leads to. Empty when none of them helps.
[[nodiscard]] std::vector<std::string> find_remedies(const ResolvedQuestion& asked, int gpus,
                                                     SearchSession& session);

}  // namespace plansearch
