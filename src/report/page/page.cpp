// SPDX-License-Identifier: Apache-2.0
#include "report/page/page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/units.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/training.hpp"

namespace plansearch::page {
namespace {

using Json = nlohmann::ordered_json;

/// Fills a template with an object:
///   {{key}}           text, escaped                  {{&key}}           markup
///   {{#key}}..{{/key}} for every item of an array, or once with the value as scope; {{.}} is it
///   {{?key}}..{{/key}} where the value is not empty  {{^key}}..{{/key}} where it is
///   {{<part}}..{{/part}} defines a part, {{>part}} is it  {{! a comment }}
/// The line end behind a tag other than {{key}} is dropped. Keys are looked up from the innermost
/// scope outwards.
class Filler {
 public:
  explicit Filler(const Json& content) : scopes_{&content} {}

  [[nodiscard]] std::string filled(std::string_view source) {
    std::string out;
    for (;;) {
      const std::size_t open = source.find("{{");
      out += source.substr(0, open);
      if (open == std::string_view::npos) return out;
      const std::size_t close = source.find("}}", open);
      const std::string_view tag = source.substr(open + 2, close - open - 2);
      source.remove_prefix(close + 2);
      if (std::string_view("&#?^<>!").find(tag.front()) == std::string_view::npos) {
        out += escaped(text_of(tag));
        continue;
      }
      drop_line_end(source);
      out += filled(tag.front(), tag.substr(1), source);
    }
  }

 private:
  static void drop_line_end(std::string_view& source) {
    if (source.starts_with('\n')) source.remove_prefix(1);
  }

  /// Takes the text before the end of a section, with the end, from the front of `source`.
  static std::string_view body_of(std::string_view name, std::string_view& source) {
    const std::string end = fmt::format("{{{{/{}}}}}", name);
    const std::string again = fmt::format("{}}}}}", name);  // behind # or ?
    std::size_t at = source.find(end);
    for (std::size_t from = 0;;) {
      const std::size_t inner = source.find(again, from);
      if (inner + 3 > at) break;
      if (source[inner - 1] == '#' || source[inner - 1] == '?') at = source.find(end, at + 1);
      from = inner + 1;
    }
    const std::string_view body = source.substr(0, at);
    source.remove_prefix(at + end.size());
    drop_line_end(source);
    return body;
  }

  std::string filled(char kind, std::string_view name, std::string_view& source) {
    if (kind == '!') return {};
    if (kind == '&') return text_of(name);
    if (kind == '>') return filled(parts_.at(std::string(name)));
    const std::string_view body = body_of(name, source);
    if (kind == '<') {
      parts_[std::string(name)] = body;
      return {};
    }
    const Json* value = find(name);
    if (is_empty(value) != (kind == '^')) return {};
    if (kind != '#') return filled(body);
    std::string out;
    const bool many = value->is_array();
    for (std::size_t i = 0; i < (many ? value->size() : 1); ++i) {
      scopes_.push_back(many ? &(*value)[i] : value);
      out += filled(body);
      scopes_.pop_back();
    }
    return out;
  }

  [[nodiscard]] const Json* find(std::string_view key) const {
    if (key == ".") return scopes_.back();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (!(*scope)->is_object()) continue;
      const auto found = (*scope)->find(std::string(key));
      if (found != (*scope)->end()) return &*found;
    }
    return nullptr;
  }
  static bool is_empty(const Json* value) {
    if (value == nullptr || value->is_null()) return true;
    if (value->is_boolean()) return !value->get<bool>();
    return value->is_string() ? value->get_ref<const std::string&>().empty() : value->empty();
  }
  [[nodiscard]] std::string text_of(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return {};
    return value->is_string() ? value->get<std::string>() : value->dump();
  }

  std::vector<const Json*> scopes_;
  std::map<std::string, std::string_view> parts_;
};

/// A table of the same cells as in text; numbers are sorted by their value.
Json table_json(const TextTable& cells) {
  const SpelledTable spelled = cells.spelled_out();
  const auto is_number = [&](std::size_t c) { return spelled.columns[c].align == Align::Right; };
  Json table{{"columns", Json::array()}, {"rows", Json::array()}};
  for (std::size_t c = 0; c < spelled.columns.size(); ++c) {
    table["columns"].push_back({{"title", spelled.columns[c].title}, {"number", is_number(c)}});
  }
  for (const auto& row : spelled.rows) {
    Json& line = table["rows"].emplace_back(Json::array());
    for (std::size_t c = 0; c < row.size(); ++c) {
      line.push_back({{"text", row[c].text},
                      {"number", is_number(c)},
                      {"value", row[c].value ? fmt::format("{:.6g}", *row[c].value) : ""}});
    }
  }
  return table;
}

Json facts_of(const QuestionReport& question, const PlanReport& p) {
  Json facts = Json::array();
  const auto add = [&](const std::string& value, const std::string& name) {
    facts.push_back({{"value", value}, {"name", name}});
  };
  add(to_text(p.estimate.step.total()),
      fmt::format("a step ({} - {})", to_text(p.p10), to_text(p.p90)));
  add(share_text(p.mfu), "of the peak (MFU)");
  add(count_text(p.tokens_per_s), "tokens a second");
  add(memory_of(p.estimate.memory.total(), question.memory_capacity),
      fmt::format("memory, risk {}", risk_text(p)));
  if (const auto cost = training_cost(question, p)) {
    add(count_text(cost->gpu_time.value() / 3600.0), "GPU-hours");
  }
  return facts;
}

/// Plan 1 and what it is set against.
void add_plans(const SearchReport& report, Json& page) {
  const PlanReport& p = report.plans.front();
  const TextTable plans = plan_table(report);
  page["first_plan"] = short_plan(p.plan);
  page["facts"] = facts_of(report.question, p);
  page["why"] = fmt::format("{}", fmt::join(p.why, ", "));
  page["selection"] = report.selection;
  page["table_plans"] = table_json(plans);
  page["legend"] = plan_legend(report.plans, plans, kAnyWidth);
  if (!p.peak.parts.empty()) {
    page["table_peak"] = table_json(peak_table(p.peak));
    page["peak_device"] = p.peak.device;
    page["peak_line"] =
        fmt::format("allocated {}, reserved {}, of the process {}", to_text(p.peak.allocated),
                    to_text(p.peak.reserved), to_text(p.peak.process));
  }
  page["details"] = p.stages.size() > 1 || !p.communication.empty();
  if (p.stages.size() > 1) page["table_stages"] = table_json(stage_table(p.stages));
  if (!p.communication.empty()) {
    page["table_messages"] = table_json(communication_table(p.communication));
  }
  if (report.plans.size() < 2) return;
  const Rival rival{"plan 2", report.question, report.plans[1]};
  page["table_rival"] = table_json(comparison_table(p, rival));
  page["rival_line"] = comparison_line(p, rival);
}

void add_misses(const SearchReport& report, Json& page) {
  page["nothing"] =
      report.stopped ? "The search was cut short and found nothing." : "No plan fits.";
  page["near"] = !report.misses.empty() || !report.remedies.empty();
  if (!report.misses.empty()) page["table_misses"] = table_json(miss_table(report.misses));
}

void add_counts(const CountsReport& c, Json& page) {
  page["counts_line"] = fmt::format(
      "{} plans in space {}: {} priced, {} pruned by bounds, {} simulated.", grouped(c.total),
      c.space, grouped(c.evaluated), grouped(c.pruned), grouped(c.simulated));
  page["reasons"] = Json::array();
  for (const auto& [reason, plans] : c.rejected) {
    page["reasons"].push_back(fmt::format("rejected: {} {}", grouped(plans), reason));
  }
  for (const std::string& what : c.left_out) page["reasons"].push_back("left out: " + what);
}

}  // namespace

std::string search_page(const PageContent& content) {
  const SearchReport& report = *content.report;
  const QuestionReport& q = report.question;
  Json page = to_json(report);
  page["title"] = fmt::format("{} on {} x {}", q.model, grouped(q.gpus), q.accelerator);
  page["question_line"] = fmt::format("{} parameters, sequence {}, batch {}, {}, {} on {}",
                                      count_text(static_cast<double>(q.parameters)), q.seq_len,
                                      q.global_batch, q.precision, framework_text(q), q.hardware);
  if (report.plans.empty()) {
    add_misses(report, page);
  } else {
    add_plans(report, page);
  }
  add_counts(report.counts, page);
  if (content.ladder != nullptr) {
    page["table_sizes"] = table_json(ladder_rows(content.ladder->rungs));
    page["ceiling"] = content.ladder->ceiling;
  }
  if (!report.published.empty()) {
    page["table_published"] = table_json(published_table(report.published));
  }
  if (content.sensitivity != nullptr && !content.sensitivity->rows.empty()) {
    page["table_sensitivity"] = table_json(sensitivity_table(*content.sensitivity));
    page["more_percent"] = fmt::format("{:.0f}", (content.sensitivity->factor - 1.0) * 100.0);
  }
  for (const PlotRow& plot : plots()) {
    const Figure figure = plot.draw(content);
    if (figure.content.empty()) continue;
    page[fmt::format("figure_{}", plot.name)] = {{"height", fmt::format("{:.0f}", figure.height)},
                                                 {"alt", figure.alt},
                                                 {"content", figure.content}};
  }
  if (page.contains("figure_groups")) {
    page["table_groups"] =
        table_json(group_table(report.plans.front().plan.degrees, *content.problem));
  }
  return Filler(page).filled(kPage);
}

std::string tables_page(const TablesPage& content) {
  Json page{{"title", content.title}, {"question_line", content.line},
            {"lines", content.lines}, {"evidence", content.evidence},
            {"facts", Json::array()}, {"tables", Json::array()}};
  for (const auto& [value, name] : content.facts) {
    page["facts"].push_back({{"value", value}, {"name", name}});
  }
  for (const auto& [title, table] : content.tables) {
    Json& one = page["tables"].emplace_back(table_json(table));
    one["heading"] = title;
  }
  return Filler(page).filled(kPage);
}

}  // namespace plansearch::page
