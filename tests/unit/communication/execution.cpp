// SPDX-License-Identifier: Apache-2.0
#include "execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "block_arithmetic.hpp"

namespace plansearch::test {
namespace {

using derivation::Slices;
using derivation::TileMove;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The elements of one tensor that one device holds.
struct Value {
  std::vector<long> data;
  std::vector<char> held;

  explicit Value(std::size_t size = 0) : data(size, 0), held(size, 0) {}
  [[nodiscard]] double count() const {
    return static_cast<double>(std::count(held.begin(), held.end(), 1));
  }
  [[nodiscard]] bool covers(const std::vector<std::size_t>& tile) const {
    return std::all_of(tile.begin(), tile.end(), [&](std::size_t e) { return held[e] != 0; });
  }
  [[nodiscard]] Value only(const std::vector<std::size_t>& tile) const {
    Value part(data.size());
    for (const std::size_t e : tile) {
      part.data[e] = data[e];
      part.held[e] = held[e];
    }
    return part;
  }
  void set(std::size_t e, long value) {
    data[e] = value;
    held[e] = 1;
  }
};

/// What a device has of an operand while an operator runs, from phase to phase.
struct Copy {
  Value now;
  std::optional<Value> home;
};

using Values = std::vector<Value>;  ///< by device

class Run : BlockArithmetic {
 public:
  Run(const PlacedBlockCase& placed, unsigned seed)
      : BlockArithmetic(placed), c_(placed), random_(seed) {
    list_devices();
    make_truth();
  }

  void run() {
    load();
    const auto count = block().operators.size();
    for (std::size_t i = 0; i < count; ++i) pass(i, OperatorPhase::Forward);
    compare_outputs();
    for (auto& [key, values] : before_gather_) stored(key) = values;  // gathered tiles are not kept
    for (std::size_t i = count; i-- > 0;) {
      pass(i, OperatorPhase::InputGradient);
      pass(i, OperatorPhase::WeightGradient);
    }
    for (const Communication& message : c_.messages) {
      if (message.phase == DemandPhase::Step) deliver(message);
    }
    compare_gradients();
    weights_are_home();
  }

 private:
  void list_devices() {
    const bool factors = c_.rules.mesh.active(kFactorAxes).count() > 0;
    AxisSet axes{Axis::In, Axis::Depth, Axis::Context, Axis::Data};
    axes = axes | (factors ? kFactorAxes : AxisSet{Axis::Out});
    devices_.push_back({});
    for_each_axis(c_.rules.mesh.active(axes), [&](Axis axis) {
      const std::size_t known = devices_.size();
      for (int i = 1; i < c_.rules.mesh[axis].size; ++i) {
        for (std::size_t d = 0; d < known; ++d) {
          devices_.push_back(devices_[d]);
          devices_.back()[static_cast<std::size_t>(axis)] = i;
        }
      }
    });
  }

  [[nodiscard]] std::size_t number(const Coordinates& device) const {
    return static_cast<std::size_t>(std::find(devices_.begin(), devices_.end(), device) -
                                    devices_.begin());
  }

  /// Elements of a tile, in order.
  [[nodiscard]] std::vector<std::size_t> tile(Key key, const Slices& slices,
                                              const Coordinates& device, int step = 0,
                                              int steps = 1) const {
    std::vector<std::size_t> elements{0};
    for (std::size_t i = 0; i < dims(key).size(); ++i) {
      const std::size_t whole = extent(dims(key)[i]);
      const auto length = whole / static_cast<std::size_t>(slices[i].slices());
      const std::size_t first =
          static_cast<std::size_t>(slices[i].evaluate(device, step, steps)) * length;
      std::vector<std::size_t> next;
      for (const std::size_t e : elements) {
        for (std::size_t x = first; x < first + length; ++x) next.push_back(e * whole + x);
      }
      elements = std::move(next);
    }
    return elements;
  }

  // ---- the truth, on one device

  Value& truth(Key key) {
    auto [place, made] = truth_.try_emplace(key);
    if (made) place->second = Value(size(key));
    return place->second;
  }

  void fill(Key key) {
    Value& value = truth(key);
    for (std::size_t e = 0; e < value.data.size(); ++e)
      value.set(e, static_cast<long>(random_() % 7) - 3);
  }

  void make_truth() {
    for (const TensorId id : block().inputs) fill(activation(id));
    for (const TensorId id : block().outputs) fill(gradient(id));
    for (std::size_t p = 0; p < block().parameters.size(); ++p)
      fill(weight(static_cast<ParameterId>(p)));
    std::vector<std::pair<std::size_t, std::size_t>> whole;
    const auto all = [&](std::size_t op) {
      std::vector<std::pair<std::size_t, std::size_t>> box;
      for (const DimId dim : block().operators[op].loop) box.emplace_back(0, extent(dim));
      return box;
    };
    const auto read = [&](Key key, std::size_t e) { return truth(key).data[e]; };
    const auto write = [&](Key key, std::size_t e, long v) {
      truth(key).set(e, truth(key).data[e] + v);
    };
    const std::size_t count = block().operators.size();
    for (std::size_t i = 0; i < count; ++i)
      multiply(i, OperatorPhase::Forward, all(i), read, write);
    for (std::size_t i = count; i-- > 0;) {
      multiply(i, OperatorPhase::InputGradient, all(i), read, write);
      multiply(i, OperatorPhase::WeightGradient, all(i), read, write);
    }
  }

  // ---- devices

  [[nodiscard]] derivation::Context context() {
    return {{c_.network, block(), c_.index, c_.rules, c_.placement, c_.sharding}, *scratch_};
  }

  [[nodiscard]] Slices parameter_slices(std::size_t op, ParameterId id, OperatorPhase phase) const {
    Slices slices;
    for (const std::int8_t p : c_.index.operators[op].use(id).positions) {
      slices.push_back(c_.placement.operators[op].slices(phase)[static_cast<std::size_t>(p)]);
    }
    return slices;
  }

  Values& stored(Key key) {
    auto [place, made] = stored_.try_emplace(key);
    if (made) place->second.assign(devices_.size(), Value(size(key)));
    return place->second;
  }

  /// Elements of a parameter that a device keeps: its tile, or its piece of the flattened tile.
  [[nodiscard]] std::vector<std::size_t> kept(std::size_t op, ParameterId id, Key key,
                                              const Coordinates& device,
                                              const FlatCut& flat) const {
    auto elements = tile(key, parameter_slices(op, id, OperatorPhase::Forward), device, 0,
                         c_.placement.operators[op].steps);
    for (const AxisSet axes : flat) {
      std::size_t piece = 0;
      std::size_t count = 1;
      for_each_axis(axes, [&](Axis axis) {
        const auto size = static_cast<std::size_t>(c_.rules.mesh[axis].size);
        piece = piece * size + static_cast<std::size_t>(device[static_cast<std::size_t>(axis)]);
        count *= size;
      });
      const std::size_t length = elements.size() / count;
      elements = {elements.begin() + static_cast<std::ptrdiff_t>(piece * length),
                  elements.begin() + static_cast<std::ptrdiff_t>((piece + 1) * length)};
    }
    return elements;
  }

  void load() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      for (const TensorId id : block().inputs) {
        const Layout layout = entering_layout(c_.network, block(), id, c_.rules, c_.placement);
        stored(activation(id))[d] =
            truth(activation(id)).only(tile(activation(id), layout.dims, devices_[d]));
      }
      for (const TensorId id : block().outputs) {
        const Layout layout = leaving_layout(c_.network, block(), id, c_.rules, c_.placement);
        stored(gradient(id))[d] =
            truth(gradient(id)).only(tile(gradient(id), layout.dims, devices_[d]));
      }
      for (std::size_t i = 0; i < block().operators.size(); ++i) {
        for (const ParameterId id : block().operators[i].parameters) {
          const Key key = weight(id);
          stored(key)[d] =
              truth(key).only(kept(i, id, key, devices_[d], c_.policies.dense.parameter.storage));
        }
      }
    }
  }

  void pass(std::size_t op, OperatorPhase phase) {
    deliver(op, phase, Side::Before);
    work(op, phase);
    deliver(op, phase, Side::After);
  }

  [[nodiscard]] std::vector<Key> operands(std::size_t i, OperatorPhase phase) const {
    const Operator& op = block().operators[i];
    const bool attends = op.kind == OperatorKind::Attention;
    std::vector<Key> keys;
    if (attends && phase == OperatorPhase::WeightGradient) return keys;
    if (attends || phase != OperatorPhase::InputGradient) {
      for (const TensorId id : op.inputs) keys.push_back(activation(id));
    }
    if (phase != OperatorPhase::Forward) keys.push_back(gradient(op.outputs[0]));
    if (!attends && phase != OperatorPhase::WeightGradient)
      keys.push_back(weight(op.parameters[0]));
    return keys;
  }

  [[nodiscard]] std::vector<Key> results(std::size_t i, OperatorPhase phase) const {
    const Operator& op = block().operators[i];
    if (phase == OperatorPhase::Forward) return {activation(op.outputs[0])};
    std::vector<Key> keys;
    if (phase == OperatorPhase::InputGradient) {
      for (const TensorId id : op.inputs) keys.push_back(gradient(id));
    } else if (op.kind != OperatorKind::Attention) {
      keys.push_back(weight_gradient(op.parameters[0]));
    }
    return keys;
  }

  [[nodiscard]] Slices used(std::size_t op, Key key, OperatorPhase phase) {
    if (is_parameter(key)) return parameter_slices(op, static_cast<ParameterId>(key.index), phase);
    return context().slices(op, static_cast<TensorId>(key.index), phase);
  }
  [[nodiscard]] bool stays(std::size_t op, Key key) const {
    return !is_parameter(key) && c_.placement.operators[op].stays(static_cast<TensorId>(key.index));
  }

  void work(std::size_t op, OperatorPhase phase) {
    const int steps = c_.placement.operators[op].steps;
    for (const Key key : operands(op, phase)) acquire(op, key, phase);
    results_.clear();
    for (const Key key : results(op, phase))
      results_[key].assign(devices_.size(), Value(size(key)));
    if (results_.empty()) return;
    for (int t = 0; t < steps; ++t) {
      for (const Key key : operands(op, phase)) check_copies(op, key, phase, t);
      for (std::size_t d = 0; d < devices_.size(); ++d) step(op, phase, d, t);
      for (const TileMove& move : c_.moves[op].moves) {
        if (move.phase == phase && move.step <= t && t < move.step + move.count) shift(op, move, t);
      }
    }
    for (auto& [key, values] : results_) finish(op, key, phase, values);
  }

  /// The first tile of an operand: what the phase before left, the tile kept since the beginning,
  /// or what the device has.
  void acquire(std::size_t op, Key key, OperatorPhase phase) {
    const int steps = c_.placement.operators[op].steps;
    auto& copies = copies_[{op, key}];
    const bool fresh = copies.empty() || steps == 1;
    copies.resize(devices_.size());
    Slices slices = used(op, key, phase);
    const bool whole = stays(op, key);
    if (whole)
      std::transform(slices.begin(), slices.end(), slices.begin(),
                     [](const SliceMap& map) { return map.held(); });
    const auto& kept_tiles = c_.moves[op].kept;
    const bool keep = std::find(kept_tiles.begin(), kept_tiles.end(),
                                derivation::KeptTile{key.subject, key.index}) != kept_tiles.end();
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto wanted = tile(key, slices, devices_[d], 0, steps);
      Copy& copy = copies[d];
      if (!fresh && copy.home && !copy.now.covers(wanted)) copy.now = *copy.home;
      if (fresh) copy.now = stored(key)[d].only(wanted);
      if (!copy.now.covers(wanted))
        throw Fault(fmt::format("{} starts without its tile of {}", device(d), name(key)));
      if (fresh && keep) copy.home = copy.now;
    }
  }

  [[nodiscard]] std::string device(std::size_t d) const { return fmt::format("device {}", d); }

  /// Every tile is on as many devices as there are more devices than tiles.
  void check_copies(std::size_t op, Key key, OperatorPhase phase, int t) {
    const int steps = c_.placement.operators[op].steps;
    if (steps == 1 || stays(op, key)) return;
    const Slices slices = used(op, key, phase);
    std::vector<int> copies(size(key), 0);
    std::size_t tiles = 1;
    for (const SliceMap& map : slices) tiles *= static_cast<std::size_t>(map.slices());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      for (const std::size_t e : tile(key, slices, devices_[d], t, steps)) ++copies[e];
    }
    for (const int n : copies) {
      if (static_cast<std::size_t>(n) * tiles != devices_.size()) {
        throw Fault(fmt::format("step {}: {} copies of a tile of {}", t, n, name(key)));
      }
    }
  }

  void step(std::size_t op, OperatorPhase phase, std::size_t d, int t) {
    const OperatorPlacement& placed = c_.placement.operators[op];
    const auto& loop = block().operators[op].loop;
    Box box;
    for (std::size_t p = 0; p < loop.size(); ++p) {
      const SliceMap& map = placed.slices(phase)[p];
      const std::size_t length = extent(loop[p]) / static_cast<std::size_t>(map.slices());
      const auto first =
          static_cast<std::size_t>(map.evaluate(devices_[d], t, placed.steps)) * length;
      box.emplace_back(first, first + length);
    }
    const auto read = [&](Key key, std::size_t e) {
      const Value& now = copies_[{op, key}][d].now;
      if (now.held[e] == 0)
        throw Fault(
            fmt::format("{}, step {}: reads {} that it does not hold", device(d), t, name(key)));
      return now.data[e];
    };
    const auto write = [&](Key key, std::size_t e, long v) {
      Value& value = results_[key][d];
      value.set(e, value.data[e] + v);
    };
    multiply(op, phase, box, read, write);
  }

  void shift(std::size_t op, const TileMove& move, int t) {
    const int steps = c_.placement.operators[op].steps;
    const Key key{move.subject, move.index};
    const auto at = [&](int when) {
      Slices fixed;
      for (const SliceMap& map : move.used) fixed.push_back(map.at(when, steps));
      return fixed;
    };
    const Slices from = at(t);
    const Slices to = move.target.empty() ? at(t + 1) : move.target;
    const auto sender = [&](std::size_t d) {
      const auto found = sender_of(devices_[d], {from.begin(), from.size()},
                                   {to.begin(), to.size()}, c_.rules.mesh);
      if (!found) throw Fault("nobody holds " + name(key));
      for_each_axis(all_, [&](Axis axis) {
        const auto a = static_cast<std::size_t>(axis);
        if ((*found)[a] != devices_[d][a] && !move.axes.contains(axis))
          throw Fault("a move leaves its axes");
      });
      return number(*found);
    };
    const auto result = results_.find(key);
    if (result != results_.end()) {
      const Values before = result->second;
      for (std::size_t d = 0; d < devices_.size(); ++d) result->second[d] = before[sender(d)];
      return;
    }
    auto& copies = copies_[{op, key}];
    const std::vector<Copy> before = copies;
    for (std::size_t d = 0; d < devices_.size(); ++d) copies[d].now = before[sender(d)].now;
  }

  /// A result is exactly the tile it should be. Gradients of several readers add up.
  void finish(std::size_t op, Key key, OperatorPhase phase, Values& values) {
    Slices slices = used(op, key, phase);
    const int steps = c_.placement.operators[op].steps;
    if (is_parameter(key)) {
      const bool varies = std::any_of(slices.begin(), slices.end(),
                                      [](const SliceMap& map) { return map.varies(); });
      if (varies)
        slices = parameter_slices(op, static_cast<ParameterId>(key.index), OperatorPhase::Forward);
    } else {
      slices = derivation::end_slices(context(), op, static_cast<TensorId>(key.index), phase);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto wanted = tile(key, slices, devices_[d], 0, is_parameter(key) ? steps : 1);
      if (!values[d].covers(wanted) || values[d].count() != static_cast<double>(wanted.size())) {
        throw Fault(fmt::format("{} ends with another tile of {}", device(d), name(key)));
      }
    }
    const bool more = key.subject == Subject::ActivationGradient && stored_.count(key) != 0;
    if (!more) {
      stored(key) = values;
      return;
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Value& sum = stored(key)[d];
      if (sum.held != values[d].held)
        throw Fault("contributions of different tiles to " + name(key));
      for (std::size_t e = 0; e < sum.data.size(); ++e) sum.data[e] += values[d].data[e];
    }
  }

  // ---- messages between operators

  void deliver(std::size_t op, OperatorPhase phase, Side side) {
    for (const Communication& message : c_.messages) {
      if (message.operator_index == op && message.phase == static_cast<DemandPhase>(phase) &&
          message.side == side) {
        deliver(message);
      }
    }
  }

  void deliver(const Communication& message) {
    if (message.kind == CommunicationKind::SendReceive) return;  // moves of tiles
    const Key key{message.subject, message.index};
    const Values before = stored(key);
    if (message.kind == CommunicationKind::AllGather && message.phase == DemandPhase::Forward &&
        message.reader != kNextBlock) {
      before_gather_.try_emplace(key, before);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      std::vector<const Value*> members;
      for (std::size_t other = 0; other < devices_.size(); ++other) {
        if (same_group(devices_[d], devices_[other], message.axes))
          members.push_back(&before[other]);
      }
      receive(message, key, d, before[d], members);
    }
  }

  static bool same_group(const Coordinates& a, const Coordinates& b, AxisSet axes) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i] && !axes.contains(static_cast<Axis>(i))) return false;
    }
    return true;
  }

  void receive(const Communication& message, Key key, std::size_t d, const Value& own,
               const std::vector<const Value*>& members) {
    const CommunicationKind kind = message.kind;
    const bool sums =
        kind == CommunicationKind::AllReduce || kind == CommunicationKind::ReduceScatter;
    Value all(own.data.size());
    for (const Value* member : members) {
      if (sums && member->held != own.held) throw Fault("parts of different tiles of " + name(key));
      for (std::size_t e = 0; e < all.data.size(); ++e) {
        if (member->held[e] != 0) all.set(e, (sums ? all.data[e] : 0) + member->data[e]);
      }
    }
    const double full = kind == CommunicationKind::AllGather ? all.count() : own.count();
    if (full != message.elements) {
      throw Fault(fmt::format("{} of {}: {} elements, not {}", to_text(kind), name(key), full,
                              message.elements));
    }
    if (kind == CommunicationKind::AllReduce || kind == CommunicationKind::AllGather) {
      stored(key)[d] = all;
      return;
    }
    stored(key)[d] = all.only(target(message, key, d));
  }

  /// What a device needs of the tensor that a message brings.
  [[nodiscard]] std::vector<std::size_t> target(const Communication& message, Key key,
                                                std::size_t d) {
    if (key.subject == Subject::Gradient) {
      const auto id = static_cast<ParameterId>(key.index);
      return kept(message.operator_index, id, key, devices_[d], c_.policies.dense.gradient.storage);
    }
    const auto id = static_cast<TensorId>(key.index);
    const bool forward = key.subject == Subject::Activation;
    const std::size_t producer = c_.index.producers[key.index];
    const bool edge = forward ? message.reader == kNextBlock : producer == kEdge;
    if (edge) {
      const Layout layout = forward
                                ? leaving_layout(c_.network, block(), id, c_.rules, c_.placement)
                                : entering_layout(c_.network, block(), id, c_.rules, c_.placement);
      return tile(key, layout.dims, devices_[d]);
    }
    const std::size_t op = forward ? message.reader : producer;
    const OperatorPhase phase = forward ? OperatorPhase::Forward : OperatorPhase::InputGradient;
    return tile(key, derivation::start_slices(context(), op, id, phase), devices_[d]);
  }

  // ---- the end

  void compare(Key key, std::size_t d, const std::vector<std::size_t>& wanted) {
    const Value& value = stored(key)[d];
    if (!value.covers(wanted))
      throw Fault(fmt::format("{} ends without its tile of {}", device(d), name(key)));
    for (const std::size_t e : wanted) {
      if (value.data[e] != truth(key).data[e])
        throw Fault(fmt::format("{}: a wrong element of {}", device(d), name(key)));
    }
  }

  void compare_outputs() {
    for (const TensorId id : block().outputs) {
      const Layout layout = leaving_layout(c_.network, block(), id, c_.rules, c_.placement);
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        compare(activation(id), d, tile(activation(id), layout.dims, devices_[d]));
      }
    }
  }

  void compare_gradients() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      for (const TensorId id : block().inputs) {
        const Layout layout = entering_layout(c_.network, block(), id, c_.rules, c_.placement);
        compare(gradient(id), d, tile(gradient(id), layout.dims, devices_[d]));
      }
      for (std::size_t i = 0; i < block().operators.size(); ++i) {
        for (const ParameterId id : block().operators[i].parameters) {
          const Key key = weight_gradient(id);
          compare(key, d, kept(i, id, key, devices_[d], c_.policies.dense.gradient.storage));
        }
      }
    }
  }

  /// The next step finds every weight where this one did: with the travelling copy, or kept.
  void weights_are_home() {
    for (auto& [place, copies] : copies_) {
      const auto& [op, key] = place;
      if (key.subject != Subject::Parameter || c_.placement.operators[op].steps == 1) continue;
      const Slices slices = used(op, key, OperatorPhase::Forward);
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        const auto home = tile(key, slices, devices_[d], 0, c_.placement.operators[op].steps);
        if (!copies[d].now.covers(home) && !(copies[d].home && copies[d].home->covers(home))) {
          throw Fault(fmt::format("{} is not at home", name(key)));
        }
      }
    }
  }

  const PlacedBlockCase& c_;
  std::mt19937 random_;
  DerivationScratchPtr scratch_ = make_derivation_scratch();
  std::vector<Coordinates> devices_;
  AxisSet all_ = AxisSet{Axis::In, Axis::Out, Axis::Depth, Axis::Context, Axis::Data} | kFactorAxes;
  std::map<Key, Value> truth_;
  std::map<Key, Values> stored_;
  std::map<Key, Values> before_gather_;
  std::map<std::pair<std::size_t, Key>, std::vector<Copy>> copies_;
  std::map<Key, Values> results_;
};

}  // namespace

void PlacedBlockCase::derive() {
  index = index_block(network, network.blocks[0]);
  messages = derive_communication(network, network.blocks[0], rules, placement, policies, sharding);
  const DerivationScratchPtr scratch = make_derivation_scratch();
  const derivation::Context context{{network, network.blocks[0], index, rules, placement, sharding},
                                    *scratch};
  moves.assign(network.blocks[0].operators.size(), {});
  for (std::size_t i = 0; i < moves.size(); ++i) derivation::find_tile_moves(context, i, moves[i]);
}

std::string execute(const PlacedBlockCase& placed, unsigned seed) {
  try {
    Run(placed, seed).run();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace plansearch::test
