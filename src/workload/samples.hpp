// SPDX-License-Identifier: Apache-2.0
// Size of one sample of a network.
#pragma once

#include "plansearch/model_description.hpp"

namespace plansearch {

/// Whether it is a sequence of tokens: batches and FLOPs are counted by token then, else by sample
/// (an image).
[[nodiscard]] inline bool reads_tokens(const ModelDescription& model) {
  return model.stack != StackKind::Graph || model.embedding.vocab > 0;
}

}  // namespace plansearch
