// SPDX-License-Identifier: Apache-2.0
// Computes: bytes that one micro-batch of one block keeps on one device, by recompute level.
// Source: the operators' saved tensors (Korthikanti et al., arXiv 2205.05198, section 4), sharded
//         as placed; layout copies around attention are a constant of the framework.
// Assumes: full recompute keeps the inputs of a block; a gathered input is not saved; what
//          products alone read again may be kept in a format of its own (precision.saved).
// Units: bytes, elements.
// Checked by: tests/unit/evaluate/block_memory_test.cpp; docs/validation.md (allocator peaks)
#include <algorithm>
#include <span>

#include "cost/kernels/kernel_shape.hpp"
#include "evaluate/block/local_work.hpp"
#include "evaluate/block/module_choices.hpp"
#include "evaluate/memory/saved_sizes.hpp"
#include "plan/primitives/recompute.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

class ActivationCounter : private SavedSizes {
 public:
  ActivationCounter(const PricingContext& context, const LocalBlock& local)
      : SavedSizes(context, local), selective_(local.selective) {
    if (local.placed.pieces) regions_ = local.placed.pieces->regions;
  }

  ByRecompute<BlockMemory> run() {
    BlockMemory common;
    common.cached = gathered_inputs();
    common.gathered_unit = local_.placed.gathered.largest;
    for (const TensorId id : block_.inputs) inputs_ += tile(id);
    for (const PieceRegion& region : regions_) {
      if (!region.runs_again()) continue;
      const Bytes bytes = dropped_in(region);
      dropped_ += bytes;
      most_of_piece_ = std::max(most_of_piece_, bytes / region.pieces);
    }
    for (std::size_t o = 0; o < block_.outputs.size(); ++o) {
      if (local_.index.handed_on[o]) common.boundary += tile(block_.outputs[o]);
    }
    Bytes all;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      const Bytes bytes = saved_by(i);
      all += bytes;
      look_at(i, bytes, common);
    }
    const Bytes gradients = gradients_inside();
    ByRecompute<BlockMemory> memory;
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      memory[level] = common;
      memory[level].saved = saved(static_cast<Recompute>(level), all);
      memory[level].working_set =
          made_again(static_cast<Recompute>(level), all - dropped_ - memory[level].saved) +
          most_of_piece_ + travelling() + gradients;
      leave_to_host(static_cast<Recompute>(level), memory[level]);
      keep_weights(static_cast<Recompute>(level), memory[level]);
      add_expanded_weights(context_, local_, static_cast<Recompute>(level), memory[level]);
    }
    return memory;
  }

  /// Everything that is saved, part by part.
  [[nodiscard]] std::vector<Bytes> parts() const {
    std::vector<Bytes> parts;
    for_each_part([&](std::size_t op, const Saved* saved) {
      const Bytes bytes = saved == nullptr ? copies(op) : size_of(*saved);
      parts.push_back(goes_to_host(op, saved) ? Bytes(0) : bytes);
    });
    return parts;
  }

  /// By part: under which sets of modules it comes back.
  [[nodiscard]] std::vector<ModuleSets> returned(const std::vector<std::uint8_t>& sets) const {
    std::vector<ModuleSets> parts(this->parts().size());
    for (const std::uint8_t set : sets) {
      const LayerModules modules(set);
      const std::vector<double> repeated = plansearch::repeated_shares(
          block_, Recompute::Selective, {SelectiveRule::Modules, modules});
      std::size_t part = 0;
      for_each_part([&](std::size_t op, const Saved* saved) {
        const bool back =
            saved == nullptr ? repeated[op] > 0.0 : comes_back(*saved, op, modules, repeated);
        parts[part++].set(set, back);
      });
    }
    return parts;
  }

  /// The tensors with a name; none where a policy by operator or pieces decide what is kept.
  [[nodiscard]] std::vector<SavedTensor> tensors(Recompute level) const {
    std::vector<SavedTensor> found;
    if (local_.host.activations && is_layer(block_.kind)) return found;  // all of it is there
    if (repeats_whole(block_, level)) {
      for (const TensorId id : block_.inputs) found.push_back({block_.tensor(id).name, tile(id)});
      return found;
    }
    const bool modules = level == Recompute::Selective && selective_.rule == SelectiveRule::Modules;
    if (!regions_.empty() || (level == Recompute::Selective && !modules)) return found;
    const std::vector<double>& repeated = local_.repeated[static_cast<std::size_t>(level)];
    for_each_part([&](std::size_t op, const Saved* saved) {
      if (goes_to_host(op, saved)) return;
      if (saved == nullptr) {
        const bool back = modules && repeated[op] > 0.0;
        if (!back) found.push_back({"copies around " + block_.operators[op].name, copies(op)});
      } else if (!modules || !comes_back(*saved, op, selective_.modules, repeated)) {
        found.push_back(
            {block_.tensor(saved->tensor).name, saved_part(op, *saved, loss_share(op))});
      }
    });
    std::erase_if(found, [](const SavedTensor& one) { return one.bytes == Bytes(0); });
    return found;
  }

  [[nodiscard]] BlockPorts ports() const {
    BlockPorts ports;
    for (const TensorId id : block_.inputs) ports.push_back(port_of(id, tile(id)));
    for (const TensorId id : block_.outputs) ports.push_back(port_of(id, Bytes(0)));
    return ports;
  }

 private:
  /// Tensors that operators save, and null for copies around attention.
  template <typename Visit>
  void for_each_part(Visit visit) const {
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const Saved& saved : block_.operators[i].saved) visit(i, &saved);
      visit(i, nullptr);
    }
  }

  [[nodiscard]] bool goes_to_host(std::size_t op, const Saved* saved) const {
    return waits_on_host(local_.host, block_, op, saved);
  }

  /// A block's own tensors are back while its backward runs, and the next one's on their way.
  void leave_to_host(Recompute level, BlockMemory& memory) const {
    const HostTensors& host = local_.host;
    if (host.activations && is_layer(block_.kind)) {
      memory.offloaded = memory.saved;
    } else if (host.modules.any() && !repeats_whole(block_, level)) {
      const std::vector<double>& repeated = local_.repeated[static_cast<std::size_t>(level)];
      Bytes bytes;
      for_each_part([&](std::size_t i, const Saved* saved) {
        if (repeated[i] > 0.0 || !goes_to_host(i, saved)) return;
        bytes += saved == nullptr ? copies(i) : size_of(*saved);
      });
      memory.offloaded = std::min(bytes, memory.saved);
    }
    memory.saved -= memory.offloaded;
    memory.working_set += memory.offloaded * 2.0;
  }

  /// `at_start`: what of it is kept as an input of the whole block.
  [[nodiscard]] PortBytes port_of(TensorId id, Bytes at_start) const {
    PortBytes port;
    port.tile = tile(id);
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      port.kept[level] = kept_of(id, at_start, static_cast<Recompute>(level));
    }
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      port.for_weights = std::max(port.for_weights, kept_for_weights(i, id));
    }
    return port;
  }

  /// The part of saved(level, ...) that is one tensor, as it was produced.
  [[nodiscard]] Bytes kept_of(TensorId id, Bytes at_start, Recompute level) const {
    if (local_.host.activations && is_layer(block_.kind)) return Bytes(0);
    if (repeats_whole(block_, level)) return at_start;
    const std::vector<double>& repeated = local_.repeated[static_cast<std::size_t>(level)];
    const bool selective = level == Recompute::Selective;
    const bool modules = selective_.rule == SelectiveRule::Modules;
    const std::size_t producer = local_.index.producers[static_cast<std::size_t>(id)];
    if (selective && !modules && keeps_outputs(selective_)) {
      if (producer == kEdge) return at_start;
      return element(id) * (local_.sizes.tensor(producer, id) * (1.0 - repeated[producer]));
    }
    Bytes bytes;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const Saved& saved : block_.operators[i].saved) {
        if (saved.tensor != id || saved.as != SavedAs::Itself || goes_to_host(i, &saved)) continue;
        bool gone = false;
        if (selective && modules) gone = comes_back(saved, i, selective_.modules, repeated);
        if (selective && !modules) gone = repeated[i] > 0.0 && is_dropped(block_, repeated, i, id);
        if (!gone) bytes += size_of(saved);
      }
    }
    return bytes;
  }

  /// The memory that does not depend on the recompute level.
  void look_at(std::size_t i, Bytes saved, BlockMemory& memory) const {
    const Operator& op = block_.operators[i];
    if (traits(op).starts_backward) {
      memory.loss += saved;
      if (!rewrites_logits(i)) {
        memory.logits += local_.sizes.tensor(i, op.inputs.front()) * loss_share(i);
      }
    }
    memory.kept_for_weights += kept_for_weights(i);
    if (traits(op).second_operand == SecondOperand::Weight) {
      memory.stream = std::max(memory.stream, hidden_elements(i, op.inputs.front()));
    }
  }

  /// Inside a block that runs again, pieces run again once more.
  [[nodiscard]] Bytes saved(Recompute level, Bytes all) const {
    if (repeats_whole(block_, level)) return inputs_;
    const std::vector<double>& repeated = local_.repeated[static_cast<std::size_t>(level)];
    if (level != Recompute::Selective) return all - dropped_;
    if (selective_.rule == SelectiveRule::Modules) {
      return all - dropped(selective_.modules, repeated);
    }
    if (!keeps_outputs(selective_)) return kept_beside(repeated);
    return inputs_ + policy_outputs(repeated) +
           (sends_again(level, selective_) ? Bytes(0) : exchanged(repeated));
  }

  [[nodiscard]] static bool is_of(const PieceRegion& region, std::size_t op) {
    return std::binary_search(region.operators.begin(), region.operators.end(), op);
  }

  /// Whether only operators of the region touch the tensor.
  [[nodiscard]] bool is_inner(const PieceRegion& region, TensorId id) const {
    const auto t = static_cast<std::size_t>(id);
    const std::vector<std::size_t>& readers = local_.index.consumers[t];
    return local_.index.producers[t] != kEdge && is_of(region, local_.index.producers[t]) &&
           !local_.index.leaves[t] &&
           std::all_of(readers.begin(), readers.end(),
                       [&](std::size_t reader) { return is_of(region, reader); });
  }

  /// The bytes that the operators of a region keep and no other one needs.
  [[nodiscard]] Bytes dropped_in(const PieceRegion& region) const {
    Bytes bytes;
    for (const std::size_t op : region.operators) {
      for (const Saved& saved : block_.operators[op].saved) {
        if (saved.as != SavedAs::Itself || is_inner(region, saved.tensor)) bytes += size_of(saved);
      }
      bytes += copies(op);
    }
    return bytes;
  }

  /// Modules are made again one after the other; else everything that was dropped is.
  [[nodiscard]] Bytes made_again(Recompute level, Bytes missing) const {
    if (level != Recompute::Selective || selective_.rule != SelectiveRule::Modules) {
      return std::max(missing, Bytes(0));
    }
    Bytes most;
    for (std::size_t i = 0; i < kLayerModuleCount; ++i) {
      const LayerModules one = bit_of(static_cast<LayerModule>(i)) & selective_.modules;
      if (one.none()) continue;
      const SelectiveRecompute alone{SelectiveRule::Modules, one};
      most = std::max(most, dropped(one, plansearch::repeated_shares(block_, level, alone)));
    }
    return most;
  }

  /// The part of all saved bytes that running these modules again gives back.
  [[nodiscard]] Bytes dropped(LayerModules modules, const std::vector<double>& repeated) const {
    Bytes bytes;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const Saved& saved : block_.operators[i].saved) {
        if (comes_back(saved, i, modules, repeated)) bytes += size_of(saved);
      }
      if (repeated[i] > 0.0) bytes += copies(i);
    }
    return bytes;
  }

  [[nodiscard]] bool comes_back(const Saved& saved, std::size_t saver, LayerModules modules,
                                const std::vector<double>& repeated) const {
    if (saved.as != SavedAs::Itself) return repeated[saver] > 0.0;
    const std::size_t producer = local_.index.producers[static_cast<std::size_t>(saved.tensor)];
    if (producer == kEdge || repeated[producer] == 0.0) return false;
    const LayerModules discarding =
        block_.operators[producer].modules & modules & discards_results();
    return discarding.any() || is_dropped(block_, repeated, producer, saved.tensor);
  }

  /// The bytes that are kept where some operators run again.
  [[nodiscard]] Bytes kept_beside(const std::vector<double>& repeated) const {
    Bytes kept;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      kept += repeated[i] == 0.0 ? saved_by(i) : kept_by_others(i, repeated);
    }
    return kept;
  }

  /// The part of the tensors of an operator that runs again which another one keeps.
  [[nodiscard]] Bytes kept_by_others(std::size_t index, const std::vector<double>& repeated) const {
    Bytes bytes;
    for (const Saved& saved : block_.operators[index].saved) {
      if (!is_dropped(block_, repeated, index, saved.tensor)) bytes += size_of(saved);
    }
    return bytes;
  }

  /// Results of exchanges and scattered sums of a forward pass, which are not sent again.
  [[nodiscard]] Bytes exchanged(const std::vector<double>& repeated) const {
    if (std::all_of(repeated.begin(), repeated.end(), [](double share) { return share == 0.0; })) {
      return Bytes(0);
    }
    Bytes bytes;
    for (const SequenceMessage& message : local_.placed.messages) {
      const Communication& demand = message.communication;
      const bool scatters = demand.kind == CommunicationKind::ReduceScatter;
      if (!scatters && demand.kind != CommunicationKind::AllToAll) continue;
      if (demand.phase != DemandPhase::Forward || demand.subject != Subject::Activation) continue;
      bytes += wire_size(demand.wire, context_.precision) * message.elements(local_.micro_batch) *
               demand.count / (scatters ? demand.group_size : 1);
    }
    return bytes + travelled_sums(repeated);
  }

  /// Sums that are scattered in steps while their product runs: kept, whether it runs again or not.
  [[nodiscard]] Bytes travelled_sums(const std::vector<double>& repeated) const {
    const auto travels = [&](std::size_t op, TensorId id) {
      const auto& messages = local_.placed.messages;
      return std::any_of(messages.begin(), messages.end(), [&](const SequenceMessage& message) {
        const Communication& c = message.communication;
        return c.steps > 1 && c.phase == DemandPhase::Forward && c.subject == Subject::Activation &&
               c.operator_index == op && static_cast<TensorId>(c.index) == id;
      });
    };
    Bytes bytes;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const TensorId id : block_.operators[i].outputs) {
        if (travels(i, id)) bytes += element(id) * (local_.sizes.tensor(i, id) * repeated[i]);
      }
    }
    return bytes;
  }

  /// Weights that stay gathered until backward: from forward, or from its repetition.
  void keep_weights(Recompute level, BlockMemory& memory) const {
    const Scope scope = context_.problem.framework->sharding.depth_gather;
    if (scope == Scope::Use) return;
    const Bytes weights = element_size(context_.precision.gather) * local_.placed.gathered.all;
    if (scope == Scope::Step) {
      memory.gathered_for_step = weights;
      return;
    }
    (repeats_whole(block_, level) ? memory.working_set : memory.saved) += weights;
  }

  /// A policy by operator keeps whole outputs, needed by backward or not.
  [[nodiscard]] Bytes policy_outputs(const std::vector<double>& repeated) const {
    Bytes bytes;
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      for (const TensorId id : block_.operators[i].outputs) {
        bytes += element(id) * (local_.sizes.tensor(i, id) * (1.0 - repeated[i]));
      }
    }
    return bytes;
  }

  /// Bytes of gradients inside the block beyond those that backward has freed by then of the
  /// tensors that it reads. It goes through the operators from the last to the first and has gradients of
  /// an operator's inputs beside those of its outputs; a sum hands its own on.
  [[nodiscard]] Bytes gradients_inside() const {
    std::vector<std::optional<Bytes>> gradients(block_.tensors.size());
    Bytes alive;
    for (const TensorId id : block_.outputs) alive += tile(id);
    Bytes most;
    for (std::size_t i = block_.operators.size(); i-- > 0;) {
      const Operator& op = block_.operators[i];
      for (const TensorId id : op.inputs) {
        std::optional<Bytes>& gradient = gradients[static_cast<std::size_t>(id)];
        if (gradient) continue;
        gradient = gradient_of(i, id);
        alive += *gradient;
      }
      most = std::max(most, alive);
      for (const TensorId id : op.outputs) {
        alive -= gradients[static_cast<std::size_t>(id)].value_or(Bytes(0));
      }
      alive -= saved_by(i) * at_once(i);
    }
    return most;
  }

  /// The gradient that an operator makes of one of its inputs.
  [[nodiscard]] Bytes gradient_of(std::size_t index, TensorId id) const {
    const Operator& op = block_.operators[index];
    const Tensor& tensor = block_.tensor(id);
    const std::size_t producer = local_.index.producers[static_cast<std::size_t>(id)];
    const bool made =
        tensor.element == ElementClass::Activation && tensor.gradient && producer != kEdge;
    const bool sums =
        op.passes == MemoryBound::Residual || op.passes == MemoryBound::DropoutResidual;
    if (!made || sums || traits(op).starts_backward) return Bytes(0);
    return element(id) * kept_elements(id) * std::max(at_once(index), at_once(producer));
  }

  /// The share of its tokens that an operator has at a time in backward.
  [[nodiscard]] double at_once(std::size_t op) const {
    for (const PieceRegion& region : regions_) {
      if (region.runs_again() && is_of(region, op)) return 1.0 / region.pieces;
    }
    return 1.0;
  }

  /// The second buffers of tiles that travel over the tensor group while an operator runs.
  [[nodiscard]] Bytes travelling() const {
    Bytes most;
    Bytes sum;
    const Communication* last = nullptr;
    for (const SequenceMessage& message : local_.placed.messages) {
      const Communication& c = message.communication;
      if (c.steps == 1 || (c.axes & kTensorAxes).empty()) continue;
      const bool other =
          last == nullptr || last->operator_index != c.operator_index || last->phase != c.phase;
      if (other) sum = Bytes(0);
      const bool same_tile = !other && last->subject == c.subject && last->index == c.index;
      if (!same_tile)
        sum += wire_size(c.wire, context_.precision) * message.elements(local_.micro_batch);
      last = &c;
      most = std::max(most, sum);
    }
    return most;
  }

  /// Results of the activation gathers of one forward pass.
  [[nodiscard]] Bytes gathered_inputs() const {
    Bytes bytes;
    for (const SequenceMessage& message : local_.placed.messages) {
      const Communication& demand = message.communication;
      if (demand.kind != CommunicationKind::AllGather) continue;
      if (demand.phase != DemandPhase::Forward || demand.subject != Subject::Activation) continue;
      bytes += wire_size(demand.wire, context_.precision) * message.elements(local_.micro_batch) *
               static_cast<double>(demand.count);
    }
    return bytes;
  }

  const SelectiveRecompute& selective_;
  std::span<const PieceRegion> regions_;
  Bytes inputs_;
  Bytes dropped_;        ///< by regions whose pieces run again
  Bytes most_of_piece_;  ///< that is there again at once
};

}  // namespace

ByRecompute<BlockMemory> block_memory(const PricingContext& context, const LocalBlock& local) {
  return ActivationCounter(context, local).run();
}

std::vector<Bytes> saved_parts(const PricingContext& context, const LocalBlock& local) {
  return ActivationCounter(context, local).parts();
}

std::vector<ModuleSets> returned_parts(const PricingContext& context, const LocalBlock& local,
                                       const std::vector<std::uint8_t>& sets) {
  return ActivationCounter(context, local).returned(sets);
}

std::vector<SavedTensor> saved_of(const PricingContext& context, const LocalBlock& local,
                                  Recompute level) {
  return ActivationCounter(context, local).tensors(level);
}

BlockPorts block_ports(const PricingContext& context, const LocalBlock& local) {
  return ActivationCounter(context, local).ports();
}

}  // namespace plansearch
