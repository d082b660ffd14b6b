// SPDX-License-Identifier: Apache-2.0
// Groups with members on several nodes use the network, others the links of the node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/names.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/lookup.hpp"
#include "report/columns.hpp"

namespace plansearch {
namespace {

constexpr double kMillisecond = 1e-3;
/// A part has ended when this share of it is left.
constexpr double kRounding = 1e-12;

/// One thing that runs: the columns that say how large it is; zero in one of them: it does not run.
struct PartColumns {
  Activity activity;
  std::array<std::string_view, 3> sizes;
};
constexpr std::array<PartColumns, 4> kParts{{{Activity::Compute, {"m", "n", "k"}},
                                             {Activity::Local, {"gpu_to_gpu_mb", "", ""}},
                                             {Activity::FromHost, {"cpu_to_gpu_mb", "", ""}},
                                             {Activity::ToHost, {"gpu_to_cpu_mb", "", ""}}}};
/// Parts are the same only where these columns are.
constexpr std::array<std::string_view, 3> kPlaces{"nodes", "intra_group", "inter_group"};

using Sizes = std::array<double, 3>;
/// Accelerator, place, activity, sizes.
using PartKey = std::tuple<std::string, std::array<double, 3>, Activity, Sizes>;

struct Part {
  Activity activity = Activity::Compute;
  double work = 0.0;  ///< seconds, alone
};

double cell(const io::CsvTable& table, const io::CsvRow& row, std::string_view column) {
  const auto value = table.number(row, column, 0.0);
  if (!value)
    table.fail(row, column, fmt::format("column {} is empty", column), "0 where it does not run");
  return *value;
}

std::vector<PartKey> parts_of(const io::CsvTable& table, const io::CsvRow& row) {
  std::array<double, kPlaces.size()> place{};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) place[i] = cell(table, row, kPlaces[i]);
  std::vector<PartKey> parts;
  for (const auto& [activity, columns] : kParts) {
    Sizes sizes{};
    bool runs = true;
    for (std::size_t i = 0; i < columns.size() && !columns[i].empty(); ++i) {
      sizes[i] = cell(table, row, columns[i]);
      runs = runs && sizes[i] > 0.0;
    }
    const bool leaves_node = activity == Activity::Local && place.back() > 1.0;
    if (runs) {
      parts.emplace_back(table.text(row, "gpu"), place, leaves_node ? Activity::Fabric : activity,
                         sizes);
    }
  }
  return parts;
}

std::string names_of(const std::vector<PartKey>& parts) {
  std::string names;
  for (const PartKey& part : parts) {
    names += fmt::format("{}{}", names.empty() ? "" : " + ", key_of(std::get<Activity>(part)));
  }
  return names.empty() ? "nothing" : names;
}

/// Until the last part has ended, all started at once.
double end_of(std::vector<Part> parts, const ConcurrencyRates& rates) {
  double now = 0.0;
  while (!parts.empty()) {
    ActivityMask active = 0;
    for (const Part& part : parts) active |= bit(part.activity);
    double step = parts.front().work / rates.rate(active, parts.front().activity);
    for (const Part& part : parts)
      step = std::min(step, part.work / rates.rate(active, part.activity));
    now += step;
    for (Part& part : parts) {
      const double left = part.work - step * rates.rate(active, part.activity);
      part.work = left <= kRounding * part.work ? 0.0 : left;
    }
    std::erase_if(parts, [](const Part& part) { return part.work <= 0.0; });
  }
  return now;
}

/// Time alone by part; several measurements are averaged.
class AloneTimes {
 public:
  AloneTimes(const io::CsvTable& table) {
    for (const io::CsvRow& row : table.rows()) {
      const auto parts = parts_of(table, row);
      const double time = cell(table, row, "time_ms") * kMillisecond;
      if (time <= 0.0) table.fail(row, "time_ms", "column time_ms must be above zero");
      if (parts.size() != 1) continue;
      auto& [sum, count] = times_[parts.front()];
      sum += time;
      ++count;
    }
  }
  [[nodiscard]] std::optional<double> of(const PartKey& part) const {
    const auto found = times_.find(part);
    if (found == times_.end()) return std::nullopt;
    return found->second.first / found->second.second;
  }

 private:
  std::map<PartKey, std::pair<double, int>> times_;
};

Seconds predict(const std::vector<PartKey>& keys, const AloneTimes& alone,
                Lookup<ConcurrencyRates>& rates, const std::string& gpu) {
  if (keys.empty()) throw refusal("nothing runs");
  if (keys.size() == 1) throw refusal("one part alone: what the others are predicted from");
  const ConcurrencyRates& of_gpu = *rates.get(gpu);
  std::vector<Part> parts;
  for (const PartKey& key : keys) {
    const auto [time, activity] = std::pair(alone.of(key), std::get<Activity>(key));
    if (!time) {
      throw refusal(fmt::format("its {} part is not in the table alone", key_of(activity)));
    }
    parts.push_back({activity, *time});
  }
  return Seconds(end_of(std::move(parts), of_gpu));
}

using Json = nlohmann::ordered_json;

KernelGroup summarise(const std::string& by, const RowGroup& group,
                      const std::vector<KernelRow>& rows) {
  KernelGroup summary{by, group.value, 0, {}};
  std::vector<double> errors;
  for (const std::size_t row : group.rows) {
    const auto& [predicted, measured] = std::pair(rows[row].predicted, rows[row].measured);
    if (predicted && measured) {
      errors.push_back(*predicted / *measured - 1.0);
    } else {
      ++summary.inexpressible;
    }
  }
  summary.errors = summarise_errors(errors);
  return summary;
}

/// As the table wrote it: digits that only the change of units brought are dropped.
double in_microseconds(Seconds time) {
  return std::stod(fmt::format("{:.12g}", time.value() * 1e6));
}

Json microseconds(const std::optional<Seconds>& time) {
  return time ? Json(in_microseconds(*time)) : Json(nullptr);
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string render_table(const KernelReport& report, int columns) {
  std::vector<TextColumn> titles{
      {fmt::format("{} TIME, error in %", upper(to_text(report.kind))), Align::Left}};
  for (const auto& column : error_columns()) titles.push_back(column.title);
  titles.push_back({"inexpressible"});
  TextTable table(std::move(titles));
  std::string by;
  for (const KernelGroup& group : report.groups) {
    const bool all = group.by == "all";
    if (!all && group.errors.rows == 0) continue;  // the reasons below count them
    if (!all && group.by != by) {
      by = group.by;
      table.add_row({"by " + by, "", "", "", "", "", ""});
    }
    std::vector<Cell> cells{all ? "all" : "  " + shortened(group.value)};
    for (const auto& column : error_columns()) cells.push_back(column.cell(group.errors));
    cells.push_back(fmt::format("{}", group.inexpressible));
    table.add_row(std::move(cells));
  }
  std::map<std::string, std::size_t> reasons;
  for (const KernelRow& row : report.rows) {
    if (!row.reason.empty()) ++reasons[row.reason];
  }
  std::string text = table.text(columns);
  if (!reasons.empty()) text += "\nROWS THAT CANNOT BE EXPRESSED, by reason\n";
  for (const auto& [reason, rows] : reasons) {
    text += fmt::format("  {} ({} {})\n", reason, rows, rows == 1 ? "row" : "rows");
  }
  return text +
         "\n  mean, median, p90  of |predicted / measured - 1| of the time of one call, in %\n"
         "  bias               mean of predicted / measured - 1, in %: below zero, too fast\n";
}

Json row_json(const KernelRow& row) {
  Json json{{"row", row.line}};
  for (const char* key : {"gpu", "hw", "system", "dtype", "collective", "parts"}) {
    if (const auto cell = row.cells.find(key); cell != row.cells.end()) json[key] = cell->second;
  }
  json["measured_us"] = microseconds(row.measured);
  json["predicted_us"] = microseconds(row.predicted);
  json["reason"] = or_null(row.reason);
  return json;
}

/// Numbers as short as they are.
Json csv_row(const KernelRow& row) {
  const auto cell = [](const std::optional<Seconds>& time) {
    return time ? fmt::format("{}", in_microseconds(*time)) : "";
  };
  return {{"row", row.line},
          {"measured_us", cell(row.measured)},
          {"predicted_us", cell(row.predicted)},
          {"reason", row.reason}};
}

}  // namespace

std::vector<KernelRow> predict_concurrent(const io::CsvTable& table,
                                          const KernelProfiles& profiles) {
  const AloneTimes alone(table);
  Lookup<ConcurrencyRates> rates([&](std::string_view gpu) {
    return concurrency_rates(profiles.accelerator(gpu).concurrency);
  });
  return kernel_rows(table, [&](const io::CsvRow& cells, KernelRow& row) {
    const auto parts = parts_of(table, cells);
    row.cells["parts"] = names_of(parts);
    row.measured = Seconds(cell(table, cells, "time_ms") * kMillisecond);
    row.predicted = predict(parts, alone, rates, table.text(cells, "gpu"));
  });
}

void require_kernel_columns(const io::CsvTable& table, const std::string& columns) {
  for (const std::string& column : split(columns, "+")) {
    const TableKind kind = recognise_table(table);
    const bool derived = (column == "shape" && kind == TableKind::Matmul) ||
                         (column == "parts" && kind == TableKind::Concurrency);
    if (!derived) table.require(column);
  }
}

KernelReport report_kernels(TableKind kind, std::vector<KernelRow> rows,
                            const std::vector<std::string>& by) {
  KernelReport report{kind, std::move(rows), {}};
  std::vector<std::size_t> all(report.rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  report.groups.push_back(summarise("all", {"", all}, report.rows));
  for (const std::string& columns : by.empty() ? default_groups(kind) : by) {
    for (const RowGroup& group : grouped(all, [&](std::size_t row) -> std::vector<std::string> {
           const auto value = joined_cells(report.rows[row].cells, columns);
           return value ? std::vector{*value} : std::vector<std::string>{};
         })) {
      report.groups.push_back(summarise(columns, group, report.rows));
    }
  }
  return report;
}

std::string render_kernels(const KernelReport& report, Format format, int columns) {
  Json rows = array_of(report.rows, row_json);
  Json csv = array_of(report.rows, csv_row);
  Json summary = array_of(report.groups, [&](const KernelGroup& group) -> Json {
    return {{"by", group.by},
            {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
            {"inexpressible", group.inexpressible},
            {"time", object_of(error_columns(), group.errors)}};
  });
  const Answer answer{{{"schema", "plansearch/validate/v1"},
                       {"table", to_text(report.kind)},
                       {"rows", std::move(rows)},
                       {"summary", std::move(summary)}},
                      std::move(csv),
                      1};
  return render_answer(answer, format,
                       [&] { return wrapped(render_table(report, columns), columns); });
}

}  // namespace plansearch
