// SPDX-License-Identifier: Apache-2.0
// One pass of one block as instructions on streams: kernels on one, messages on a stream per
// process group. When a message is posted and waited for is the framework's rule.
#pragma once

#include <vector>

#include "evaluate/block/block_profile.hpp"
#include "schedule/simulation/stream_program.hpp"

namespace plansearch {

/// The part of a micro-batch's training that a program runs.
enum class BlockPass : std::uint8_t {
  Forward,
  Backward,        ///< recomputation and both gradients
  InputGradient,   ///< recomputation and input gradients, where weight gradients run later
  WeightGradient,  ///< those
  Joined,          ///< the forward of one micro-batch beside all of the backward of another
};

/// The subject of an instruction: a message, or the kernels of neighbouring operators.
struct IssuedWork {
  const PhaseMessage* message = nullptr;  ///< null: kernels
  bool repeated = false;                  ///< by a recomputation
  /// Kernels: of which operators, in the order they run; both 0 where there are none.
  std::size_t first = 0;
  std::size_t last = 0;
};

struct BlockProgram {
  StreamProgram streams;
  std::vector<IssuedWork> issued;  ///< by instruction
};

/// Whether every piece of a micro-batch sends the message, or one message goes for all.
enum class Senders : std::uint8_t { EachPiece, AllPieces };

/// Messages of operators and of kept states, in the order in which they happen.
template <typename Visit>
void for_each_message(const BlockParts& parts, Visit visit) {
  const auto& kept = parts.kept.passes;
  auto next = kept.begin();
  for (const PhaseMessage& message : parts.work.messages) {
    while (next != kept.end() && comes_before(next->communication, message.communication)) {
      visit(*next++, Senders::AllPieces);
    }
    visit(message, Senders::EachPiece);
  }
  while (next != kept.end()) visit(*next++, Senders::AllPieces);
}

/// Whether kernels run on while a message of this block is on its way.
[[nodiscard]] bool posts_ahead(const PricingContext& context, const BlockParts& parts);

void build_block_program(const PricingContext& context, const BlockParts& parts, BlockPass pass,
                         BlockProgram& program);

}  // namespace plansearch
