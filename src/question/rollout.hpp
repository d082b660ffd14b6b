// SPDX-License-Identifier: Apache-2.0
// Memory of an inference engine that shares its devices with the trainer (reinforcement learning).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/problem_request.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

/// On every device, while the trainer trains.
struct RolloutMemory {
  Bytes weights;   ///< of the engine's copy of the network
  Bytes cache;     ///< of keys and values, and whatever else its share holds
  Bytes exchange;  ///< the buffer through which new weights pass

  [[nodiscard]] Bytes held() const { return weights + cache + exchange; }
};

/// "util=0.6,tp=2,buffer=1 GiB" or "40 GiB": the engine's share of a device of so much memory, or its
/// bytes; the ranks over which its weights in 16 bits lie; the buffer. With `asleep` it has given its
/// cache back. InputError for other words, and where its weights do not fit in its share.
[[nodiscard]] RolloutMemory read_rollout(std::string_view text, Bytes device,
                                         std::int64_t parameters);

/// "weights 15.0 GiB, cache 33.0 GiB, exchange 0.5 GiB"
[[nodiscard]] std::string to_text(const RolloutMemory& memory);

/// Memory of a device that a question keeps free, for an engine and besides, which `settings` says.
/// InputError for wrong words, and where it leaves nothing.
[[nodiscard]] Bytes kept_free(const ProblemRequest& request, Bytes device, std::int64_t parameters,
                              std::vector<SettingReport>& settings);

}  // namespace plansearch
