// SPDX-License-Identifier: Apache-2.0
#include "io/plan/schedule_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "base/names.hpp"
#include "io/document/file.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/error.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/table.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostStages = 65'536;
constexpr int kMostMicroBatches = 1'000'000;

enum class Act : std::uint8_t { Forward, Full, Input, Weight, Send, Receive, Other };

struct Action {
  int stage = 0;
  Act act = Act::Forward;
  Phase direction = Phase::Forward;  ///< of a message
  int micro_batch = 0;
};

/// Actions of one cell; several run at the same time.
struct Cell {
  std::vector<Action> actions;
  SourceLocation where;
};

struct ActionWord {
  std::string_view word;
  Act act;
  Phase direction = Phase::Forward;
};
/// Longer words first: a word is the longest that fits.
constexpr std::array kActionWords{ActionWord{"WAIT_REDUCE_GRAD", Act::Other},
                                  ActionWord{"REDUCE_GRAD", Act::Other},
                                  ActionWord{"WAIT_SEND_F", Act::Other},
                                  ActionWord{"WAIT_SEND_B", Act::Other},
                                  ActionWord{"UNSHARD", Act::Other},
                                  ActionWord{"RESHARD", Act::Other},
                                  ActionWord{"SEND_F", Act::Send, Phase::Forward},
                                  ActionWord{"SEND_B", Act::Send, Phase::Backward},
                                  ActionWord{"RECV_F", Act::Receive, Phase::Forward},
                                  ActionWord{"RECV_B", Act::Receive, Phase::Backward},
                                  ActionWord{"F", Act::Forward},
                                  ActionWord{"B", Act::Full},
                                  ActionWord{"I", Act::Input},
                                  ActionWord{"W", Act::Weight}};

constexpr std::string_view kBlanks = " \t\r";

/// Cells and what they say; nothing about the order yet.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<std::vector<Cell>> rows() {
    std::vector<std::vector<Cell>> rows;
    for (const CsvRow& row : csv_rows(text_, file_)) {
      auto& cells = rows.emplace_back();
      for (const CsvCell& cell : row.cells) {
        where_ = {file_, cell.line, cell.column};
        const std::string_view word = trimmed(cell.text, kBlanks);
        if (!word.empty()) cells.push_back({actions(word), where_});
      }
    }
    while (!rows.empty() && rows.back().empty()) rows.pop_back();
    return rows;
  }

 private:
  std::vector<Action> actions(std::string_view word) {
    if (word.front() != '(') return {action(word)};
    const std::size_t close = word.find(')');
    if (close == std::string_view::npos || word.substr(close + 1) != kOverlapWord) refuse(word);
    std::vector<Action> result;
    for (const std::string& part : split(word.substr(1, close - 1), ";")) {
      result.push_back(action(trimmed(part, kBlanks)));
    }
    const bool pair = result.size() == 2 && result[0].act == Act::Forward &&
                      (result[1].act == Act::Full || result[1].act == Act::Input);
    if (!pair) refuse(word);
    return result;
  }

  Action action(std::string_view word) {
    Action result;
    const std::string_view after = number(word, word, result.stage, kMostStages);
    const auto known = std::ranges::find_if(kActionWords, [&](const ActionWord& w) {
      return after.substr(0, w.word.size()) == w.word;
    });
    if (known == kActionWords.end()) refuse(word);
    result.act = known->act;
    result.direction = known->direction;
    const std::string_view rest = after.substr(known->word.size());
    const bool bare = result.act == Act::Other && rest.empty();
    if (!bare && !number(rest, word, result.micro_batch, kMostMicroBatches).empty()) refuse(word);
    return result;
  }

  std::string_view number(std::string_view text, std::string_view word, int& value, int end) {
    const char* last = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), last, value);
    if (parsed.ec != std::errc{} || value < 0 || value >= end) refuse(word);
    return text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  }

  [[noreturn]] void refuse(std::string_view word) const {
    throw InputError(where_, fmt::format("'{}' is not an action of a pipeline schedule", word),
                     "stage, F, I, W or B, micro-batch, such as 2F0; or (0F3;7B1)OVERLAP_F_B");
  }

  std::string_view text_;
  const std::string& file_;
  SourceLocation where_;
};

/// Reader of cells as an order.
class Reader {
 public:
  Reader(std::vector<std::vector<Cell>> rows, std::string file)
      : rows_(std::move(rows)), file_(std::move(file)) {}

  ComputeOrder read() {
    if (rows_.empty()) fail({file_}, "a schedule without a row", "a row of actions per rank");
    find_stages();
    order_.pipeline.resize(rank_of_.size());
    place_stages();
    find_replicas();
    order_.weight_gradients = split_ ? WeightGradients::Separate : WeightGradients::Fused;
    for (const auto& row : rows_) {
      auto& steps = order_.devices.emplace_back();
      for (const Cell& cell : row) add(cell, steps);
    }
    if (const auto fault = check_order(order_)) {
      fail({file_}, fault->detail,
           fault->kind == OrderFaultKind::Deadlock
               ? "a device runs its row from left to right"
               : "every stage runs F and B, or F, I and W, of every micro-batch once");
    }
    check_messages();
    return std::move(order_);
  }

 private:
  [[noreturn]] static void fail(SourceLocation where, const std::string& message,
                                const std::string& hint) {
    throw InputError(std::move(where), message, hint);
  }

  static bool computes(const Action& action) { return action.act <= Act::Weight; }

  template <typename Visit>
  void for_each_action(Visit visit) const {
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      for (const Cell& cell : rows_[rank]) {
        for (const Action& action : cell.actions) visit(static_cast<int>(rank), cell, action);
      }
    }
  }

  void find_stages() {
    std::size_t count = 0;
    for_each_action([&](int rank, const Cell& cell, const Action& action) {
      if (!computes(action)) return;
      ++count;
      split_ = split_ || action.act == Act::Input || action.act == Act::Weight;
      order_.micro_batches = std::max(order_.micro_batches, action.micro_batch + 1);
      const auto [known, inserted] = rank_of_.try_emplace(action.stage, rank);
      if (known->second == rank) return;
      fail(
          cell.where,
          fmt::format("stage {} runs on rank {} and on rank {}", action.stage, known->second, rank),
          "a stage lives on one rank");
    });
    const auto pieces = static_cast<double>(rank_of_.size()) * order_.micro_batches;
    if (pieces > static_cast<double>(count)) {
      fail({file_},
           fmt::format("{} stages and {} micro-batches, but {} actions: pieces are missing",
                       rank_of_.size(), order_.micro_batches, count),
           "every stage runs F and B, or F, I and W, of every micro-batch once");
    }
    if (rank_of_.empty()) fail({file_}, "a schedule that computes nothing", "actions such as 0F0");
    for (int stage = 0; stage < static_cast<int>(rank_of_.size()); ++stage) {
      if (rank_of_.contains(stage)) continue;
      fail({file_}, fmt::format("stage {} runs nowhere", stage), "stages count from 0");
    }
  }

  void place_stages() {
    const std::size_t ranks = rows_.size();
    const std::size_t chunks = rank_of_.size() / ranks;
    std::vector<int> held(ranks, 0);
    for (const auto& [stage, rank] : rank_of_) {
      order_.pipeline[static_cast<std::size_t>(stage)] = {rank,
                                                          held[static_cast<std::size_t>(rank)]++};
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (static_cast<std::size_t>(held[rank]) == chunks && chunks * ranks == rank_of_.size()) {
        continue;
      }
      fail({file_, static_cast<int>(rank + 1), 1},
           fmt::format("rank {} holds {} stages; {} ranks share {}", rank, held[rank], ranks,
                       rank_of_.size()),
           "all ranks hold as many");
    }
  }

  /// Two halves of the stages that share no micro-batch are two replicas.
  void find_replicas() {
    const auto half = static_cast<int>(rank_of_.size() / 2);
    if (rank_of_.size() % 2 != 0 || order_.micro_batches % 2 != 0) return;
    std::set<int> lower, upper;
    for_each_action([&](int, const Cell&, const Action& action) {
      if (computes(action)) (action.stage < half ? lower : upper).insert(action.micro_batch);
    });
    if (!lower.empty() && !upper.empty() && *lower.rbegin() < order_.micro_batches / 2 &&
        *upper.begin() >= order_.micro_batches / 2) {
      order_.replicas = 2;
    }
  }

  void add(const Cell& cell, std::vector<ComputeStep>& steps) const {
    bool joined = false;
    const auto push = [&](const Action& action, Phase phase) {
      const StagePlace& place = order_.pipeline[static_cast<std::size_t>(action.stage)];
      steps.push_back({place.chunk, action.micro_batch, phase, joined});
      joined = true;
    };
    for (const Action& action : cell.actions) {
      if (action.act == Act::Forward) push(action, Phase::Forward);
      if (action.act == Act::Full || action.act == Act::Input) push(action, Phase::Backward);
      if (action.act == Act::Weight || (action.act == Act::Full && split_)) {
        push(action, Phase::WeightGradient);
      }
    }
  }

  /// A message: the stage that makes it, its micro-batch and direction.
  using Message = std::tuple<int, int, Phase>;

  void check_messages() const {
    std::set<Message> made, needed, sent, received;
    const auto crosses = [&](int stage, int offset) {
      const auto other = order_.neighbour(static_cast<std::size_t>(stage), offset);
      return other && rank_of_.at(static_cast<int>(*other)) != rank_of_.at(stage);
    };
    for_each_action([&](int rank, const Cell& cell, const Action& action) {
      if (action.act == Act::Other || action.act == Act::Weight) return;
      const bool message = !computes(action);
      if (message && (!rank_of_.contains(action.stage) || rank_of_.at(action.stage) != rank)) {
        fail(cell.where, fmt::format("stage {} is not on rank {}", action.stage, rank),
             "a rank sends and receives for its own stages");
      }
      const Phase phase = message                      ? action.direction
                          : action.act == Act::Forward ? Phase::Forward
                                                       : Phase::Backward;
      const int ahead = phase == Phase::Forward ? 1 : -1;
      const Message out{action.stage, action.micro_batch, phase};
      const Message in{action.stage - ahead, action.micro_batch, phase};
      if (computes(action)) {
        if (crosses(action.stage, ahead)) made.insert(out);
        if (crosses(action.stage, -ahead)) {
          needed.insert(in);
          if (lists_messages_ && !received.contains(in)) {
            fail(cell.where, fmt::format("{} is not received before", name_of(in)),
                 "a RECV stands before what uses it");
          }
        }
        return;
      }
      const bool right = action.act == Act::Send
                             ? made.contains(out) && sent.insert(out).second
                             : crosses(action.stage, -ahead) && received.insert(in).second;
      if (right) return;
      fail(cell.where,
           fmt::format("{} has nothing to {}", action.act == Act::Send ? "SEND" : "RECV",
                       action.act == Act::Send ? "send here" : "receive"),
           "a message is sent once, after it is made, and received once");
    });
    if (lists_messages_ && sent != made) {
      std::vector<Message> missing;
      std::set_difference(made.begin(), made.end(), sent.begin(), sent.end(),
                          std::back_inserter(missing));
      fail({file_}, fmt::format("{} is never sent", name_of(missing.front())),
           "a file that lists messages lists all of them");
    }
  }
  static std::string name_of(const Message& message) {
    const auto& [stage, micro_batch, phase] = message;
    return fmt::format("the {} of micro-batch {} from stage {}",
                       phase == Phase::Forward ? "activation" : "gradient", micro_batch, stage);
  }

  std::vector<std::vector<Cell>> rows_;
  std::string file_;
  std::map<int, int> rank_of_;
  bool split_ = false;
  bool lists_messages_ = std::ranges::any_of(rows_, [](const auto& row) {
    return std::ranges::any_of(row, [](const Cell& cell) {
      return std::ranges::any_of(cell.actions, [](const Action& action) {
        return action.act == Act::Send || action.act == Act::Receive;
      });
    });
  });
  ComputeOrder order_;
};

}  // namespace

ComputeOrder parse_schedule(std::string_view text, const std::string& file_name) {
  return Reader(Parser(text, file_name).rows(), file_name).read();
}

ComputeOrder read_schedule(const std::filesystem::path& path) {
  return parse_schedule(read_file(path, std::size_t{64} << 20U), path.string());
}

std::optional<ScheduleId> find_or_read_schedule(std::string_view word) {
  const std::string name(trimmed(word, kBlanks));
  const bool file = name.find('/') != std::string::npos || name.ends_with(".csv");
  if (!file || name.find('\0') != std::string::npos) return find_schedule(word);
  return given_schedule(name, read_schedule(name));
}

std::optional<int> parse_degree(Degree degree, std::string_view text) {
  if (degree != Degree::Schedule) return parse_value(degree, text);
  const auto schedule = find_or_read_schedule(text);
  return schedule ? std::optional(static_cast<int>(*schedule)) : std::nullopt;
}

}  // namespace plansearch::io
