// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/reproduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/units.hpp"
#include "evidence/reproduce/primepar_layers.hpp"
#include "evidence/validate/error_summary.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"

namespace plansearch {
namespace {

/// "0.5..2", "..1", "3.."; "+-0.2" and "x0.9..1.1" of what was published. False for other texts.
bool set_band(std::string_view text, ReproducedRow& row) {
  if (text.empty()) return true;
  bool numbers = true;
  const auto number = [&](std::string_view word) -> std::optional<double> {
    if (word.empty()) return std::nullopt;
    const auto value = parse_number(word);
    numbers = numbers && value.has_value();
    return value;
  };
  const double published = row.published.value_or(0.0);
  if (text.starts_with("+-")) {
    const double to_both_sides = number(text.substr(2)).value_or(0.0);
    row.low = published - to_both_sides;
    row.high = published + to_both_sides;
    return numbers;
  }
  const bool factors = text.starts_with('x');
  if (factors) text.remove_prefix(1);
  const std::size_t dots = std::min(text.find(".."), text.size());
  row.low = number(text.substr(0, dots));
  row.high = dots == text.size() ? row.low : number(text.substr(dots + 2));
  for (std::optional<double>* bound : {&row.low, &row.high}) {
    if (factors && *bound) **bound *= published;
  }
  return numbers;
}

FigureKind read_kind(const io::CsvTable& table, const io::CsvRow& row) {
  const std::string& word = table.text(row, "kind");
  const auto* found = std::ranges::find(kFigureKinds, word);
  if (found == kFigureKinds.end()) {
    table.fail(row, "kind", fmt::format("\"{}\" is not a kind of figure", word),
               fmt::format("one of {}", fmt::join(kFigureKinds, ", ")));
  }
  return static_cast<FigureKind>(found - kFigureKinds.begin());
}

PublishedFigure read_figure(const io::CsvTable& table, const io::CsvRow& row) {
  constexpr double kAny = -std::numeric_limits<double>::max();
  const auto optional = [&](const char* column) {
    return table.has(column) ? table.text(row, column) : std::string();
  };
  PublishedFigure figure{
      {}, table.text(row, "band"), optional("question"), optional("measure"), optional("over")};
  ReproducedRow& published = figure.row;
  published.kind = read_kind(table, row);
  published.check = table.text(row, "check");
  published.unit = table.text(row, "unit");
  published.published = table.number(row, "published", kAny);
  published.extent = optional("extent");
  published.floored = optional("floored") == "yes";
  published.source = table.text(row, "source");
  published.locator = table.text(row, "locator");
  if (!set_band(figure.band, published)) {
    table.fail(row, "band", fmt::format("\"{}\" is not a band", figure.band),
               "1..2, ..2, 1.., +-0.2 or x0.9..1.1");
  }
  if (published.kind != FigureKind::Own &&
      (published.source.empty() || published.locator.empty())) {
    table.fail(row, "locator", "a published figure has a source and a locator");
  }
  return figure;
}

using Json = nlohmann::ordered_json;

struct SeedRow {
  std::string_view seed;
  ReproducedRow row;
};

std::string shown(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

/// "3 .. 5", "at least 5", "at most 1"; empty without bounds.
std::string interval(const std::optional<double>& low, const std::optional<double>& high) {
  if (low && high && *low == *high) return shown(low);
  if (low && high) return fmt::format("{} .. {}", shown(low), shown(high));
  if (low) return fmt::format("at least {}", shown(low));
  return high ? fmt::format("at most {}", shown(high)) : "";
}

const Columns<SeedRow>& columns_of_rows() {
  using Row = const SeedRow&;
  static const Columns<SeedRow> kColumns{
      {"seed", &SeedRow::seed},
      {"kind", [](Row r) { return to_text(r.row.kind); }, {"kind", Align::Left}},
      {"check", [](Row r) { return r.row.check; }, {"check", Align::Left}},
      {"unit", [](Row r) { return r.row.unit; }, {"unit", Align::Left}},
      {"extent", [](Row r) { return or_null(r.row.extent); }},
      {"floored", [](Row r) { return r.row.floored; }},
      {"published", [](Row r) { return r.row.published; }, {"published"}, shown},
      {"predicted", [](Row r) { return r.row.predicted; }, {"predicted"}, shown},
      {"tuned",
       [](Row r) { return r.row.tuned; },
       {"tuned", Align::Right, 2},
       [](Row r) { return r.row.tuned ? shown(r.row.tuned) : ""; }},
      {"least", [](Row r) { return r.row.least; }},
      {"most", [](Row r) { return r.row.most; }},
      {"",
       [](Row r) { return Cell(interval(r.row.least, r.row.most)); },
       {"range", Align::Right, 3}},
      {"p10", [](Row r) { return r.row.p10; }},
      {"p90", [](Row r) { return r.row.p90; }},
      {"",
       [](Row r) { return Cell(interval(r.row.p10, r.row.p90)); },
       {"p10 - p90", Align::Right, 1}},
      {"low", [](Row r) { return r.row.low; }},
      {"high", [](Row r) { return r.row.high; }},
      {"", [](Row r) { return Cell(interval(r.row.low, r.row.high)); }, {"band"}},
      {"within",
       [](Row r) { return r.row.within(); },
       {"within", Align::Left},
       [](std::optional<bool> within) { return !within   ? ""
                                               : *within ? "yes"
                                                         : "NO"; }},
      {"source",
       [](Row r) { return r.row.source; },
       {"source", Align::Left, 4},
       [](Row r) {
         const bool both = !r.row.source.empty() && !r.row.locator.empty();
         return r.row.source + (both ? ", " : "") + r.row.locator;
       }},
      {"locator", [](Row r) { return r.row.locator; }},
      {"question", [](Row r) { return r.row.question; }}};
  return kColumns;
}

/// ", 3 of 4 inside p10 - p90", of rows that have both.
std::string coverage(FigureKind kind, const std::vector<SeedRow>& rows) {
  std::size_t all = 0;
  std::size_t inside = 0;
  for (const auto& [seed, row] : rows) {
    const auto expected = row.expected();
    if (row.kind != kind || !expected) continue;
    ++all;
    inside += *expected ? 1 : 0;
  }
  return all == 0 ? "" : fmt::format(", {} of {} inside p10 - p90", inside, all);
}

/// "measured, end to end, not floored: 5 of 9 inside"; empty without such rows.
std::string strongest(const std::vector<SeedRow>& rows) {
  std::size_t checked = 0;
  std::size_t held = 0;
  for (const auto& [seed, row] : rows) {
    const bool measured = row.kind == FigureKind::Measured || row.kind == FigureKind::Range;
    const auto within = row.within();
    if (!measured || row.extent != "end to end" || row.floored || !within) continue;
    ++checked;
    held += *within ? 1 : 0;
  }
  return checked == 0
             ? ""
             : fmt::format("measured, end to end, not floored: {} of {} inside\n", held, checked);
}

/// "measured: 5 of 9 checked figures are within their bands; median error of 12: 14.2 %, 3 of 4
/// inside p10 - p90".
std::string summary(FigureKind kind, const std::vector<SeedRow>& rows) {
  std::size_t all = 0;
  std::size_t checked = 0;
  std::size_t held = 0;
  std::vector<double> errors;
  for (const auto& [seed, row] : rows) {
    if (row.kind != kind) continue;
    ++all;
    const auto within = row.within();
    checked += within ? 1 : 0;
    held += within.value_or(false) ? 1 : 0;
    if (const auto error = row.error()) errors.push_back(*error);
  }
  if (all == 0) return {};
  std::string text = fmt::format(
      "{}: {} of {} checked figures are {}", to_text(kind), held, checked,
      kind == FigureKind::Range ? "between the ends of their ranges" : "within their bands");
  if (checked < all) text += fmt::format(", {} are reported", all - checked);
  if (kind == FigureKind::Measured && !errors.empty()) {
    text += fmt::format("; median error of {}: {:.1f} %{}", errors.size(), 100.0 * median(errors),
                        coverage(kind, rows));
  }
  return text + "\n";
}

std::string table(const ReproducedSeed& seed, const std::vector<SeedRow>& rows, int columns) {
  std::string summaries = strongest(rows);
  for (std::size_t kind = 0; kind < kFigureKinds.size(); ++kind) {
    summaries += summary(static_cast<FigureKind>(kind), rows);
  }
  return wrapped(fmt::format("{}: {}\n\n{}\n{}", seed.name, seed.summary,
                             table_of(columns_of_rows(), rows).text(columns), summaries),
                 columns);
}

}  // namespace

// Each is made in a file of its own.
void add_alpa(const StudyContext& context, Figures& figures);
void add_axonn(const StudyContext& context, Figures& figures);
void add_hosoki_planner(const StudyContext& context, Figures& figures);
void add_hosoki_pass(const StudyContext& context, Figures& figures);
void add_nnscaler(const StudyContext& context, Figures& figures);
void add_tensor3d(const StudyContext& context, Figures& figures);

const std::vector<ReproducedSeed>& reproduced_seeds() {
  static const std::vector<ReproducedSeed> kSeeds{
      {"alpa", "Alpa (OSDI'22) and Megatron on its machine, 64 V100 on p3.16xlarge and p3.2xlarge",
       "alpa", add_alpa},
      {"axonn", "AxoNN's grids: its communication model and its GPT runs on Perlmutter", "axonn",
       add_axonn},
      {"hosoki", "the communication-timing pass (Hosoki et al.) on fixed plans of GPT-2 XL",
       "hosoki", add_hosoki_pass},
      {"hosoki-planner",
       "plans on true costs beside Alpa's on GPT-2 XL, and operators of its layer", "hosoki",
       add_hosoki_planner},
      {"nnscaler",
       "nnScaler (OSDI'24): Swin in pieces and AlphaFold2 beside DeepSpeed and tensor parallelism, "
       "DGX-2 and DGX-1; orders of its plans",
       "nnscaler", add_nnscaler},
      {"primepar", "PrimePar (ASPLOS'24): operators in steps beside Megatron, 4 and 8 V100",
       "primepar",
       [](const StudyContext& context, Figures& figures) {
         add_primepar_mlp(context, PrimeparNodes::UpToTwo, figures);
         add_primepar_models(context, PrimeparNodes::UpToTwo, figures);
       }},
      {"primepar-nodes", "PrimePar: the same on 16 and 32 V100, and with pipelines", "primepar",
       [](const StudyContext& context, Figures& figures) {
         add_primepar_mlp(context, PrimeparNodes::FourAndMore, figures);
         add_primepar_models(context, PrimeparNodes::FourAndMore, figures);
         add_primepar_pipelines(context, figures);
       }},
      {"tensor3d", "the best grid of a tensor group on a flat network", "tensor3d", add_tensor3d},
  };
  return kSeeds;
}

std::string reproduce(std::string_view seed, const StudyContext& context, Format format,
                      int columns) {
  std::vector<SeedRow> all;
  std::string text;
  std::vector<std::string_view> names;
  for (const ReproducedSeed& known : reproduced_seeds()) {
    names.push_back(known.name);
    if (!seed.empty() && known.name != seed) continue;
    Figures figures(context.data, known.figures);
    known.add(context, figures);
    std::vector<SeedRow> rows;
    for (const ReproducedRow& row : figures.rows()) rows.push_back({known.name, row});
    text += (text.empty() ? "" : "\n") + table(known, rows, columns);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (all.empty()) {
    throw InputError({}, fmt::format("'{}' is not a paper that can be reproduced", seed),
                     fmt::format("one of {}", fmt::join(names, ", ")));
  }
  Json document{{"schema", "plansearch/reproduce/v1"}};
  document["rows"] = objects_of(columns_of_rows(), all);
  return render_answer({std::move(document)}, format, [&] { return text; });
}

void ReproducedRow::widen(const std::optional<double>& under) {
  if (!under) return;
  least = std::min(*under, least.value_or(*under));
  most = std::max(*under, most.value_or(*under));
}

void ReproducedRow::take_middle() {
  if (least) predicted = std::sqrt(*least * *most);
}

std::optional<bool> ReproducedRow::within() const {
  if (!low && !high) return std::nullopt;
  if (kind == FigureKind::Range) return least && *least <= *published && *published <= *most;
  return predicted && (!low || *predicted >= *low) && (!high || *predicted <= *high);
}

std::optional<bool> ReproducedRow::expected() const {
  if (!published || !p10 || !p90) return std::nullopt;
  return *p10 <= *published && *published <= *p90;
}

std::optional<double> ReproducedRow::error() const {
  if (!published || !predicted || *published == 0.0) return std::nullopt;
  return std::abs(*predicted / *published - 1.0);
}

Figures::Figures(const ShippedData& data, std::string_view paper) {
  const auto table = io::CsvTable::read(data.directory() / "validation" / "published" /
                                        fmt::format("{}.csv", paper));
  for (const io::CsvRow& row : table.rows()) {
    const std::string& id = table.text(row, "id");
    const auto [figure, fresh] = known_.emplace(id, read_figure(table, row));
    if (!fresh) table.fail(row, "id", "another figure has this id");
    if (!figure->second.question.empty()) asked_.push_back(id);
  }
}

const PublishedFigure& Figures::at(std::string_view id) const {
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  throw InputError({}, fmt::format("validation/published has no figure \"{}\"", id));
}

double Figures::published(std::string_view id) const {
  return at(id).row.published.value();
}

ReproducedRow& Figures::add(std::string_view id, const Predicted& predicted,
                            const std::vector<std::string>& words,
                            std::optional<double> published) {
  const PublishedFigure& figure = at(id);
  ReproducedRow& row = rows_.emplace_back(figure.row);
  row.predicted = predicted.at_site;
  row.tuned = predicted.at_factor_one;
  row.p10 = predicted.p10;
  row.p90 = predicted.p90;
  if (published) {
    row.published = published;
    PLANSEARCH_CHECK(set_band(figure.band, row));
  }
  if (row.kind == FigureKind::Range) row.low = row.high = row.published;
  std::size_t place = 0;
  for (const std::string& word : words) {
    place = row.check.find("{}", place);
    PLANSEARCH_CHECK(place != std::string::npos);
    row.check.replace(place, 2, word);
    place += word.size();
  }
  return row;
}

}  // namespace plansearch
