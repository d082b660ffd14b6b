// SPDX-License-Identifier: Apache-2.0
// A thousand random graphs under random placements: what is sent is held to masks that are counted
// here, and to the best of all sequences of collectives between two layouts. Over one factor it is
// that; over several, ways that first put cuts into another order are not looked for, and send less
// for some seven tensors in a hundred.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "communication/redistribution/redistribution.hpp"
#include "small_networks.hpp"
#include "support/rounds.hpp"

namespace plansearch::random_graphs_test {
namespace {

constexpr int kTokens = 16;  // of every dimension: eight slices, two places each

/// By dimension of a tensor the factors that cut it, the outermost first; and those along which
/// devices hold parts of a sum. Factors are of two devices each.
struct Held {
  std::vector<std::vector<int>> cuts;
  std::set<int> parts;
  auto operator<=>(const Held&) const = default;

  [[nodiscard]] double elements() const {
    double count = 1.0;
    for (const auto& factors : cuts) count *= kTokens / static_cast<double>(1 << factors.size());
    return count;
  }
  [[nodiscard]] bool uses(int factor) const {
    return parts.contains(factor) || std::any_of(cuts.begin(), cuts.end(), [&](const auto& list) {
             return std::find(list.begin(), list.end(), factor) != list.end();
           });
  }
};

/// Every layout that one collective, or keeping a slice of places or of the value, makes of this
/// one; what a device sends.
class Moves {
 public:
  using Visit = std::function<void(const Held&, double)>;
  Moves(int factors, Visit visit) : factors_(factors), visit_(std::move(visit)) {}

  void of(const Held& from) const {
    const double local = from.elements();
    for (std::size_t dim = 0; dim < from.cuts.size(); ++dim) {
      Held now = from;
      std::vector<int> taken;
      while (!now.cuts[dim].empty()) {
        taken.push_back(now.cuts[dim].back());
        now.cuts[dim].pop_back();
        const double n = 1 << taken.size();
        visit_(now, local * (n - 1));                  // gathered
        append(now, taken, local * (n - 1) / n, dim);  // all to all
      }
      for (int f = 0; f < factors_; ++f) {
        if (from.uses(f)) continue;
        Held sliced = from;
        sliced.cuts[dim].push_back(f);
        visit_(sliced, 0.0);
      }
    }
    permute(from, local);
    for (int f = 0; f < factors_; ++f) {  // the value on one device, nothing on the other
      if (from.uses(f)) continue;
      Held sliced = from;
      sliced.parts.insert(f);
      visit_(sliced, 0.0);
    }
    const std::vector<int> parts(from.parts.begin(), from.parts.end());
    for (unsigned some = 1; some < 1U << parts.size(); ++some) {
      Held now = from;
      std::vector<int> summed;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if ((some >> i & 1U) == 0) continue;
        summed.push_back(parts[i]);
        now.parts.erase(parts[i]);
      }
      const double n = 1 << summed.size();
      visit_(now, 2.0 * local * (n - 1) / n);                      // summed
      append(now, summed, local * (n - 1) / n, from.cuts.size());  // and scattered
    }
  }

 private:
  /// To the end of every other dimension, in every order.
  void append(const Held& now, std::vector<int> factors, double sent, std::size_t but) const {
    std::sort(factors.begin(), factors.end());
    do {
      for (std::size_t dim = 0; dim < now.cuts.size(); ++dim) {
        if (dim == but) continue;
        Held made = now;
        made.cuts[dim].insert(made.cuts[dim].end(), factors.begin(), factors.end());
        visit_(made, sent);
      }
    } while (std::next_permutation(factors.begin(), factors.end()));
  }

  /// As many factors in every dimension, in any places.
  void permute(const Held& from, double local) const {
    std::vector<int> factors;
    for (const auto& cuts : from.cuts) factors.insert(factors.end(), cuts.begin(), cuts.end());
    std::sort(factors.begin(), factors.end());
    do {
      Held made = from;
      auto next = factors.begin();
      for (auto& cuts : made.cuts) {
        for (int& factor : cuts) factor = *next++;
      }
      visit_(made, local);
    } while (std::next_permutation(factors.begin(), factors.end()));
  }

  int factors_;
  Visit visit_;
};

/// The least that a device sends from a layout to others, over all sequences.
class BruteForce {
 public:
  explicit BruteForce(int factors) : factors_(factors) {}

  [[nodiscard]] double least(const Held& from, const Held& to) {
    auto [place, is_new] = known_.try_emplace(from);
    if (is_new) place->second = all_from(from);
    const auto found = place->second.find(to);
    REQUIRE(found != place->second.end());
    return found->second;
  }

 private:
  [[nodiscard]] std::map<Held, double> all_from(const Held& from) const {
    std::map<Held, double> sent{{from, 0.0}};
    using Open = std::pair<double, Held>;
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    open.emplace(0.0, from);
    while (!open.empty()) {
      const auto [cost, here] = open.top();
      open.pop();
      if (cost > sent.at(here)) continue;
      Moves(factors_, [&, cost = cost](const Held& next, double more) {
        const auto [known, is_new] = sent.try_emplace(next, cost + more);
        if (!is_new && known->second <= cost + more) return;
        known->second = cost + more;
        open.emplace(cost + more, next);
      }).of(here);
    }
    return sent;
  }

  int factors_;
  std::map<Held, std::map<Held, double>> known_;
};

/// A block of products, sums and windows in which results are read again up to the end, some of
/// its dimensions of one role, every operator cut over factors of its own choice.
class RandomGraph {
 public:
  RandomGraph(std::mt19937& random, int factors) : random_(random), factors_(factors) {
    for (int i = 0; i < 6; ++i) {
      constexpr std::array kRoles{DimRole::Other, DimRole::Sequence, DimRole::Hidden, DimRole::Ffn};
      dims_.push_back(b_.dim(std::string(1, static_cast<char>('a' + i)),
                             kRoles[random_() % kRoles.size()], kTokens));
    }
    taps_ = b_.dim("taps", DimRole::Kernel, 3);
    tensors_.push_back(b_.tensor("in", {dims_[0], dims_[1]}));
    b_.block.inputs = {tensors_[0]};
    const int count = 4 + static_cast<int>(random_() % 5);
    for (int i = 0; i < count; ++i) add_operator(i);
    b_.block.outputs = {tensors_.back()};
    choose();
  }

  [[nodiscard]] Network network() { return b_.finish(); }
  [[nodiscard]] const Placements& placements() const { return placements_; }
  [[nodiscard]] const std::vector<FactorCuts>& cuts() const { return cuts_; }

 private:
  [[nodiscard]] DimId other_than(const std::vector<DimId>& dims) {
    DimId dim{};
    do {
      dim = dims_[random_() % dims_.size()];
    } while (std::find(dims.begin(), dims.end(), dim) != dims.end());
    return dim;
  }

  void add_operator(int number) {
    const std::string name = "op" + std::to_string(number);
    const TensorId in = tensors_[random_() % tensors_.size()];
    const std::vector<DimId> dims = b_.block.tensor(in).dims;
    switch (random_() % 3) {
      case 0: {  // [x, k] times [k, n]
        const DimId made = other_than(dims);
        const TensorId out = b_.tensor(name, {dims[0], made});
        const ParameterId w = b_.parameter(name + ".w", {dims[1], made});
        b_.op(name, OperatorKind::Matmul, {dims[0], dims[1], made}, {in}, {w}, {out});
        tensors_.push_back(out);
        return;
      }
      case 1: {  // added to another of the same dimensions, if there is one
        std::vector<TensorId> inputs{in};
        for (const TensorId other : tensors_) {
          if (other != in && b_.block.tensor(other).dims == dims) inputs = {in, other};
        }
        const TensorId out = b_.tensor(name, dims);
        b_.op(name, OperatorKind::Elementwise, dims, inputs, {}, {out});
        tensors_.push_back(out);
        return;
      }
      default: {  // three neighbours along the first dimension
        const DimId place = other_than(dims);
        const DimId made = other_than({dims[0], dims[1], place});
        const TensorId out = b_.tensor(name, {place, made});
        const ParameterId w = b_.parameter(name + ".w", {taps_, dims[1], made});
        b_.op(name, OperatorKind::Convolution, {place, taps_, dims[1], made}, {in}, {w}, {out});
        b_.block.operators.back().reads = {
            {{{{place, 1}, {taps_, 1}}, -1, 1}, {{{dims[1], 1}}, 0, 1}}};
        tensors_.push_back(out);
      }
    }
  }

  /// The same, or its value: every operator here is linear.
  [[nodiscard]] FactorCuts random_splits(std::vector<DimId> dims) {
    dims.push_back(kValue);
    return random_cuts(dims);
  }

  /// Some dimensions of a list over some factors, in any order.
  [[nodiscard]] FactorCuts random_cuts(const std::vector<DimId>& dims) {
    FactorCuts cuts;
    std::vector<int> order;
    for (int f = 0; f < factors_; ++f) order.push_back(f);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int factor : order) {
      const auto where = random_() % (dims.size() + 1);
      if (where == dims.size()) continue;
      const DimId dim = dims[where];
      if (dim == taps_) continue;
      auto known = std::find_if(cuts.begin(), cuts.end(),
                                [&](const DimensionCut& cut) { return cut.dim == dim; });
      if (known == cuts.end()) known = cuts.insert(cuts.end(), {dim, {}});
      known->factors.push_back(static_cast<std::uint8_t>(factor));
    }
    return cuts;
  }

  void choose() {
    placements_.factors.assign(static_cast<std::size_t>(factors_), 2);
    BlockChoice& choice = placements_.blocks.emplace_back();
    for (const Operator& op : b_.block.operators) {
      cuts_.push_back(random_splits(op.loop));
      choice.operators.emplace_back(cuts_.back());
    }
    choice.entering = random_cuts(b_.block.tensor(tensors_.front()).dims);
    choice.leaving = random_cuts(b_.block.tensor(tensors_.back()).dims);
  }

  std::mt19937& random_;
  int factors_;
  test::BlockBuilder b_;
  std::vector<DimId> dims_;
  DimId taps_{};
  std::vector<TensorId> tensors_;
  std::vector<FactorCuts> cuts_;
  Placements placements_;
};

std::vector<int> factors_of(const FactorCuts& cuts, DimId dim) {
  for (const DimensionCut& cut : cuts) {
    if (cut.dim == dim) return {cut.factors.begin(), cut.factors.end()};
  }
  return {};
}

/// What messages of a block have to be, from its operators and cuts alone.
class Expected {
 public:
  Expected(const Network& network, const RandomGraph& graph, BruteForce& best)
      : block_(network.blocks[0]),
        cuts_(graph.cuts()),
        choice_(graph.placements().blocks[0]),
        best_(best) {}

  /// Elements that a device sends for a tensor, forward: to every reader from the nearest layout
  /// that there is by then.
  [[nodiscard]] double forward(TensorId tensor) {
    std::vector<Held> there{made(tensor)};
    double sum = 0.0;
    const auto supply = [&](const Held& wanted) {
      if (std::find(there.begin(), there.end(), wanted) != there.end()) return;
      double least = best_.least(there.front(), wanted);
      for (const Held& held : there) least = std::min(least, best_.least(held, wanted));
      sum += least;
      there.push_back(wanted);
    };
    for (const auto& [op, input] : readers(tensor)) supply(read(op, input));
    if (tensor == block_.outputs.front()) supply(edge(tensor, *choice_.leaving));
    return sum;
  }

  /// Gradients of readers that lie alike are added before they move.
  [[nodiscard]] double backward(TensorId tensor) {
    Held wanted = made(tensor);
    wanted.parts.clear();
    std::set<Held> sent{wanted};
    double sum = 0.0;
    const auto contribute = [&](const Held& gradient) {
      if (sent.insert(gradient).second) sum += best_.least(gradient, wanted);
    };
    if (tensor == block_.outputs.front()) contribute(edge(tensor, *choice_.leaving));
    for (const auto& [op, input] : readers(tensor)) {
      Held gradient = read(op, input);
      gradient.parts.clear();
      const std::set<DimId> carried = dims_read(op, input);
      for (const DimensionCut& cut : cuts_[op]) {
        if (carried.contains(cut.dim) || cut.dim == kValue) continue;
        gradient.parts.insert(cut.factors.begin(), cut.factors.end());
      }
      contribute(gradient);
    }
    return sum;
  }

  /// Places of a window that the device with the widest border lacks, times its share of the rest.
  [[nodiscard]] double halo(std::size_t op) {
    if (block_.operators[op].reads.empty()) return 0.0;
    const Held held = read(op, 0);
    const int slices = 1 << held.cuts[0].size();
    const int length = kTokens / slices;
    int widest = 0;
    for (int s = 0; s < slices; ++s) {
      std::set<int> needed;
      for (int place = s * length; place < (s + 1) * length; ++place) {
        for (int tap = 0; tap < 3; ++tap) needed.insert(place + tap - 1);
      }
      const auto lacks = [&](int x) {
        return x >= 0 && x < kTokens && (x < s * length || x >= (s + 1) * length);
      };
      widest =
          std::max(widest, static_cast<int>(std::count_if(needed.begin(), needed.end(), lacks)));
    }
    return widest * held.elements() / length;
  }

 private:
  using Reader = std::pair<std::size_t, std::size_t>;  // operator, input

  [[nodiscard]] std::vector<Reader> readers(TensorId tensor) const {
    std::vector<Reader> found;
    for (std::size_t op = 0; op < block_.operators.size(); ++op) {
      const auto& inputs = block_.operators[op].inputs;
      const auto at = std::find(inputs.begin(), inputs.end(), tensor);
      if (at != inputs.end()) found.emplace_back(op, at - inputs.begin());
    }
    return found;
  }

  [[nodiscard]] Held edge(TensorId tensor, const FactorCuts& cuts) const {
    Held held;
    for (const DimId dim : block_.tensor(tensor).dims) held.cuts.push_back(factors_of(cuts, dim));
    return held;
  }

  /// The dimension of the nest along which a reader walks each dimension of a tensor.
  [[nodiscard]] std::vector<DimId> walked(std::size_t op, std::size_t input) const {
    const Operator& reader = block_.operators[op];
    if (reader.reads.empty()) return block_.tensor(reader.inputs[input]).dims;
    std::vector<DimId> dims;
    for (const IndexExpression& index : reader.reads[input]) dims.push_back(index.terms[0].dim);
    return dims;
  }

  [[nodiscard]] std::set<DimId> dims_read(std::size_t op, std::size_t input) const {
    const auto dims = walked(op, input);
    return {dims.begin(), dims.end()};
  }

  [[nodiscard]] Held read(std::size_t op, std::size_t input) const {
    Held held;
    for (const DimId dim : walked(op, input)) held.cuts.push_back(factors_of(cuts_[op], dim));
    const std::vector<int> parts = factors_of(cuts_[op], kValue);
    held.parts.insert(parts.begin(), parts.end());
    return held;
  }

  /// As it is made: sums over dimensions that it does not have are in parts.
  [[nodiscard]] Held made(TensorId tensor) const {
    for (std::size_t op = 0; op < block_.operators.size(); ++op) {
      if (block_.operators[op].outputs.front() != tensor) continue;
      Held held = edge(tensor, cuts_[op]);
      const auto& dims = block_.tensor(tensor).dims;
      for (const DimensionCut& cut : cuts_[op]) {
        if (std::find(dims.begin(), dims.end(), cut.dim) != dims.end()) continue;
        held.parts.insert(cut.factors.begin(), cut.factors.end());
      }
      return held;
    }
    return edge(tensor, *choice_.entering);
  }

  const Block& block_;
  const std::vector<FactorCuts>& cuts_;
  const BlockChoice& choice_;
  BruteForce& best_;
};

struct Sent {
  std::map<TensorId, double> forward, backward;
  std::map<std::size_t, double> halo;  ///< by operator, forward
  bool operator==(const Sent&) const = default;
};

Sent sent_by(const std::vector<Communication>& messages) {
  Sent sent;
  for (const Communication& c : messages) {
    const auto tensor = static_cast<TensorId>(c.index);
    const double elements = elements_moved(c.kind, c.group_size, c.elements);
    if (c.kind == CommunicationKind::SendReceive) {
      if (c.phase == DemandPhase::Forward) sent.halo[c.operator_index] += elements;
    } else if (c.phase == DemandPhase::Forward) {
      sent.forward[tensor] += elements;
    } else if (c.subject == Subject::ActivationGradient) {
      sent.backward[tensor] += elements;
    }
  }
  return sent;
}

/// The same operators in another order, in which every tensor is made before it is read.
struct Reordered {
  Network network;
  Placements placements;
  std::vector<std::size_t> from;  ///< by operator: its place before
};

/// `readers`: operators that read one tensor may change places too.
Reordered reordered(const Network& network, const Placements& placements, bool readers,
                    std::mt19937& random) {
  Reordered other{network, placements, {}};
  const std::vector<Operator>& ops = network.blocks[0].operators;
  const auto contains = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  const auto behind = [&](std::size_t late, std::size_t early) {
    return contains(ops[late].inputs, ops[early].outputs.front()) ||
           (!readers && std::any_of(ops[late].inputs.begin(), ops[late].inputs.end(),
                                    [&](TensorId id) { return contains(ops[early].inputs, id); }));
  };
  while (other.from.size() < ops.size()) {
    std::vector<std::size_t> ready;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      bool waits = contains(other.from, op);
      for (std::size_t early = 0; early < op; ++early) {
        waits = waits || (behind(op, early) && !contains(other.from, early));
      }
      if (!waits) ready.push_back(op);
    }
    other.from.push_back(ready[random() % ready.size()]);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    other.network.blocks[0].operators[i] = ops[other.from[i]];
    other.placements.blocks[0].operators[i] = placements.blocks[0].operators[other.from[i]];
  }
  return other;
}

/// What is sent for each tensor and window, whoever sends it.
Sent sent_by(const Reordered& other) {
  Sent sent = sent_by(test::operator_messages(other.network, other.placements));
  std::map<std::size_t, double> halo;
  for (const auto& [op, elements] : sent.halo) halo[other.from[op]] = elements;
  sent.halo = std::move(halo);
  return sent;
}

TEST_SUITE("unit") {
  TEST_CASE("operators that do not need each other may change places") {
    std::mt19937 random(12);
    int moved = 0;
    int differ = 0;
    for (int graphs = 0; graphs < test::rounds(1000); ++graphs) {
      CAPTURE(graphs);
      RandomGraph graph(random, 1 + graphs % 3);
      const Network network = graph.network();
      const Sent sent = sent_by(test::operator_messages(network, graph.placements()));
      const Reordered apart = reordered(network, graph.placements(), false, random);
      moved += std::is_sorted(apart.from.begin(), apart.from.end()) ? 0 : 1;
      CHECK(sent_by(apart) == sent);
      // A reader takes a tensor from the nearest layout that there is by then: who reads first
      // counts.
      differ += sent_by(reordered(network, graph.placements(), true, random)) == sent ? 0 : 1;
    }
    CHECK(moved > test::rounds(600));
    CHECK(differ < test::rounds(400));
  }

  TEST_CASE("a thousand random graphs send what masks and all sequences of collectives say") {
    std::mt19937 random(11);
    std::map<int, BruteForce> best;
    int sums = 0;
    int halos = 0;
    int longer = 0;
    int all = 0;
    for (int graphs = 0; graphs < test::rounds(1000); ++graphs) {
      const int factors = graphs % 10 == 9 ? 3 : 1 + graphs % 2;
      RandomGraph graph(random, factors);
      const Network network = graph.network();
      const auto messages = test::operator_messages(network, graph.placements());
      Sent sent = sent_by(messages);
      Expected expected(network, graph, best.try_emplace(factors, factors).first->second);
      CAPTURE(graphs);
      const Block& block = network.blocks[0];
      for (std::size_t t = 0; t < block.tensors.size(); ++t) {
        const auto tensor = static_cast<TensorId>(t);
        CAPTURE(t);
        for (const auto& [own, best_of_all] :
             {std::pair(sent.forward[tensor], expected.forward(tensor)),
              {sent.backward[tensor], expected.backward(tensor)}}) {
          CHECK(own >= best_of_all * (1.0 - 1e-9));
          const bool equal = own <= best_of_all * (1.0 + 1e-9);
          if (factors == 1) CHECK(equal);
          longer += equal ? 0 : 1;
          ++all;
        }
        sums += sent.backward[tensor] > 0.0 ? 1 : 0;
      }
      for (std::size_t op = 0; op < block.operators.size(); ++op) {
        CHECK(sent.halo[op] == doctest::Approx(expected.halo(op)).epsilon(1e-9));
        halos += sent.halo[op] > 0.0 ? 1 : 0;
      }
      // What is cut is said operator by operator: names and roles change nothing.
      Network other = network;
      for (Dimension& dimension : other.dimensions) {
        dimension.name = "no" + dimension.name;
        dimension.role = DimRole::Other;
      }
      CHECK(test::operator_messages(other, graph.placements()) == messages);
    }
    CHECK(longer < all / 100);
    CHECK(sums > test::rounds(1000));
    CHECK(halos > test::rounds(200));
  }
}

}  // namespace
}  // namespace plansearch::random_graphs_test
