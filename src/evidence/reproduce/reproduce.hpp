// SPDX-License-Identifier: Apache-2.0
// Published figures of a paper beside those of this program, checked against bands that were set before anything was
// predicted (validation/published).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tables/csv.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// Kind of the value under "published".
enum class FigureKind : std::uint8_t {
  Measured,  ///< a published measurement
  Range,     ///< a published measurement, predicted over settings that the paper leaves open
  Trend,     ///< a published order, direction or choice
  Formula,   ///< a published closed form
  Fitted,    ///< a measurement that a constant was fitted to
  Own,       ///< nothing, or a study of this project
};
inline constexpr std::array<std::string_view, 6> kFigureKinds{"measured", "range",  "trend",
                                                              "formula",  "fitted", "own"};
[[nodiscard]] constexpr std::string_view to_text(FigureKind kind) {
  return kFigureKinds[static_cast<std::size_t>(kind)];
}

/// At the default site, and at factor 1 where that differs.
struct Predicted {
  Predicted(std::optional<double> value) : at_site(value) {}  // NOLINT(google-explicit-constructor)
  Predicted(double value) : at_site(value) {}                 // NOLINT(google-explicit-constructor)
  Predicted(std::nullopt_t /*none*/) {}                       // NOLINT(google-explicit-constructor)
  Predicted(double value, double tuned) : at_site(value), at_factor_one(tuned) {}

  std::optional<double> at_site{};  ///< absent: no plan, or not to be had here
  std::optional<double> at_factor_one{};
  /// Where one step decides: between these lie 80 % of outcomes at the default site.
  std::optional<double> p10{}, p90{};
};

/// One figure. Absent bounds do not bind; without any the figure is reported, not checked.
struct ReproducedRow {
  FigureKind kind = FigureKind::Own;
  std::string check{};
  std::string unit{};    ///< empty: a number by itself
  std::string extent{};  ///< "end to end": a whole step, throughput or peak; "part": less than that
  bool floored = false;  ///< its band, or how it is made, leaves the prediction one side at most
  std::optional<double> published{};
  std::optional<double> predicted{};
  std::optional<double> tuned{};  ///< at factor 1, where that differs
  /// Range of predictions over the settings that were not published; absent where all were.
  std::optional<double> least{}, most{};
  std::optional<double> p10{}, p90{};  ///< of what one predicted step decides: 80 % of outcomes
  std::optional<double> low{}, high{};
  std::string source{};    ///< the paper and its version, or a repository and its commit
  std::string locator{};   ///< the place in it
  std::string question{};  ///< flags of the command line that give `predicted`; empty: code does

  /// Takes a prediction under another setting into the range.
  void widen(const std::optional<double>& under);
  /// Predicts the middle of the range in ratio; nothing where there is none.
  void take_middle();
  /// Whether the prediction is within the band; a Range, whether what was published lies between its
  /// ends. Absent where nothing is checked; false where there is nothing to check.
  [[nodiscard]] std::optional<bool> within() const;
  /// |predicted / published - 1|
  [[nodiscard]] std::optional<double> error() const;
  /// Whether what was published lies between p10 and p90.
  [[nodiscard]] std::optional<bool> expected() const;
};

/// A line of validation/published.
struct PublishedFigure {
  ReproducedRow row;
  std::string band;  ///< as written: factors of what is published, or bounds
  std::string
      question;  ///< flags of the command line, of a Range joined by "|"; empty: code prices it
  std::string measure;  ///< what of the answer
  std::string over;     ///< id of the figure whose measure divides this one's
};

/// One paper: its file, and what is predicted so far. Figures are found by their `id`.
class Figures {
 public:
  Figures(const ShippedData& data, std::string_view paper);

  [[nodiscard]] bool has(std::string_view id) const { return known_.contains(id); }
  [[nodiscard]] const PublishedFigure& at(std::string_view id) const;
  [[nodiscard]] double published(std::string_view id) const;
  /// Ids of figures that a question prices, in the order of the file.
  [[nodiscard]] const std::vector<std::string>& asked() const { return asked_; }

  /// Adds a row: the figure of the file, its {} filled with `words`, beside what is predicted.
  /// `published`: of figures whose value stands in another table.
  ReproducedRow& add(std::string_view id, const Predicted& predicted,
                     const std::vector<std::string>& words = {},
                     std::optional<double> published = {});
  /// Adds a row that no paper has.
  ReproducedRow& add(ReproducedRow row) { return rows_.emplace_back(std::move(row)); }
  [[nodiscard]] const std::vector<ReproducedRow>& rows() const { return rows_; }

 private:
  std::map<std::string, PublishedFigure, std::less<>> known_;
  std::vector<std::string> asked_;
  std::vector<ReproducedRow> rows_;
};

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

/// Gain of passes over just-in-time lists on a fixed plan: the pipeline alone beside its closed form,
/// and the whole step.
struct PassGain {
  std::string hardware;
  int stages = 1;
  int micro_batches = 1;
  double transfer_share = 0.0;  ///< a message over the mean forward of a stage
  double gain = 0.0;            ///< of the pipeline alone, a share of its time before
  double equal_gain = 0.0;      ///< the same if every stage took the mean of all
  double closed_form = 0.0;     ///< what equal stages should gain
  double free_gain = 0.0;       ///< of equal stages where messages take no time
  double free_own_gain = 0.0;   ///< of the plan's stages, which meet at free messages too
  Seconds step_before;
  Seconds step_after;

  [[nodiscard]] double step_gain() const { return 1.0 - step_after / step_before; }
};

/// GPT-2 XL in fp16, 1,024 sequences a step on 64 GPUs, as Alpa's default runtime runs it; 2, 4 and
/// 8 stages of data-parallel ranks on each machine.
[[nodiscard]] std::vector<PassGain> pass_gains(const std::vector<std::string>& machines,
                                               const ShippedData& data);

}  // namespace plansearch
