// SPDX-License-Identifier: Apache-2.0
// The model that a question asks about, and networks that have their sizes and operators already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/report.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch {

/// The change of a graph's file that gives it `seq_len` tokens; none where it has them, or no graph.
[[nodiscard]] std::optional<std::string> change_of_length(const ModelDescription& model,
                                                          std::optional<std::int64_t> seq_len);

/// Tokens of one sample: of an image its patches and the class token.
[[nodiscard]] std::int64_t tokens_of(const Network& network);

/// "4", "4,frozen" or "4,trained": images of a sequence of `tokens`, and the tower among `settings`; it
/// is trained unless the program freezes it. InputError for other texts, more images than a sequence has
/// tokens for, unfused attention, and models without a tower.
[[nodiscard]] Images asked_images(const ModelDescription& model, const ProblemRequest& request,
                                  AttentionKind attention, std::int64_t tokens,
                                  std::vector<SettingReport>& settings);

/// The parts of a configuration that a network of text lacks: its tower, by its size, or by their keys.
[[nodiscard]] std::string left_out_text(const ModelDescription& model,
                                        const std::vector<std::string>& parts);

/// A network of a graph file has its operators already.
void refuse_built(const ModelDescription& model, const ProblemRequest& request,
                  const Cluster& cluster);

}  // namespace plansearch
