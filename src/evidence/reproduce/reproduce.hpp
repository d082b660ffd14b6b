// SPDX-License-Identifier: Apache-2.0
// Published figures of a paper beside those of this program, checked against bands that were set
// before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evidence/reproduce/figures.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct StudyContext {
  const ShippedData& data;
  int threads = 1;
};

/// One paper or system.
struct ReproducedSeed {
  std::string_view name;
  std::string_view summary;
  std::string_view figures;  ///< the file of validation/published
  void (*add)(const StudyContext& context, Figures& figures);
};
[[nodiscard]] const std::vector<ReproducedSeed>& reproduced_seeds();

/// The seed of that name, or all of them for an empty one, as an answer. InputError for a name that
/// no seed has.
[[nodiscard]] std::string reproduce(std::string_view seed, const StudyContext& context,
                                    Format format, int columns);

/// Adds every figure of the file that has a question, in its order. Searches run side by side.
void add_priced(const StudyContext& context, Figures& figures);

}  // namespace plansearch
