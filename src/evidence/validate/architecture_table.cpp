// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/names.hpp"
#include "evidence/validate/lookup.hpp"
#include "io/model/model_sections.hpp"

namespace plansearch {
namespace {

using io::Choice;
using io::Node;

constexpr Choice<bool> kSupport[] = {{"as-column", false}, {"unfused", true}};
constexpr Choice<MemoryRank> kReporters[] = {{"worst-stage", MemoryRank::Worst},
                                             {"last-stage", MemoryRank::LastStage}};

template <typename E, std::size_t N>
auto one_of(const Choice<E> (&choices)[N]) {
  return [&](const Node& word) { return word.choice(std::span<const Choice<E>>(choices)); };
}

/// One line a fact: its key, how it is read, and what it changes.
void read_facts(const Node& node, ArchitectureEntry& entry) {
  using Model = ModelDescription&;
  const auto fact = [&](std::string_view key, const auto& read, const auto& change) {
    const auto found = node.find(key);
    if (!found) return;
    entry.facts.push_back([value = read(*found), change](Model m) { change(m, value); });
  };
  const auto count = [](const Node& number) { return number.integer(io::kNonNegative); };
  const auto flag = [](const Node& word) { return word.boolean(); };
  fact("stack", one_of(io::kStacks), [](Model m, StackKind v) { m.stack = v; });
  fact("norm", one_of(io::kNorms), [](Model m, NormKind v) { m.norm.kind = v; });
  fact("positions", one_of(io::kPositions),
       [](Model m, PositionKind v) { m.attention.positions = v; });
  fact("biases", flag, [](Model m, bool v) {
    m.attention.query_key_value_bias = m.attention.output_bias = m.mlp.bias = v;
  });
  fact("tied", flag, [](Model m, bool v) { m.embedding.tied = v; });
  fact(
      "dropout", [](const Node& share) { return share.number(); },
      [](Model m, double v) { m.dropout = m.attention_dropout = v; });
  fact("qk_norm", one_of(io::kQkNorms), [](Model m, QkNorm v) { m.attention.qk_norm = v; });
  fact("sinks", flag, [](Model m, bool v) { m.attention.sinks = v; });
  fact("window", count, [](Model m, std::int64_t v) { m.attention.window = v; });
  fact("full_attention_every", count,
       [](Model m, std::int64_t v) { m.attention.full_attention_every = v; });
  fact("latent", io::read_latent,
       [](Model m, const LatentAttention& v) { m.attention.latent = v; });
  fact("mtp_layers", count, [](Model m, std::int64_t v) { m.mtp_layers = v; });
  fact("token_types", count, [](Model m, std::int64_t v) { m.embedding.token_types = v; });
  fact("predicted", io::read_predicted, [](Model m, double v) { m.embedding.predicted = v; });
  fact("shared_width", count, [](Model m, std::int64_t v) {
    if (m.moe) m.moe->shared_width = v;
  });
  fact("leading_dense", count, [](Model m, std::int64_t v) {
    if (m.moe) m.moe->leading_dense = v;
  });
  if (const auto attention = node.find("attention")) {
    entry.unfused_only = one_of(kSupport)(*attention);
  }
  if (const auto reason = node.find("inexpressible")) entry.inexpressible = reason->text();
}

/// Canonical ones.
std::vector<std::string> words(const Node& node, std::string_view key) {
  std::vector<std::string> list;
  if (const auto found = node.find(key)) {
    for (const Node& item : found->items()) list.push_back(canonical_name(item.text()));
  }
  return list;
}

/// Values of columns, which are settings or degrees.
void read_settings(const Node& node, ArchitectureEntry& entry) {
  for (const Node::Entry& column : node.entries()) {
    const std::string text = column.value.text();
    const auto setting = std::ranges::find(setting_table(), column.key, &SettingRow::column);
    const auto degree = std::ranges::find(degree_table(), column.key, &DegreeRow::key);
    if (setting != setting_table().end()) {
      const std::string problem = setting_problem(*setting, text);
      if (!problem.empty()) column.value.fail(problem);
      entry.settings.emplace_back(&*setting, text);
    } else if (degree != degree_table().end()) {
      const auto value = parse_value(degree->degree, text);
      if (!value) column.value.fail("must be " + legal_text(degree->degree));
      entry.degrees.pin(degree->degree, *value);
    } else if (std::ranges::find(kOtherColumns, column.key) != kOtherColumns.end()) {
      entry.others[column.key] = text;
    } else {
      throw InputError(column.where,
                       fmt::format("{} is neither a setting nor a degree", column.key),
                       "plansearch list settings shows the columns of settings");
    }
  }
}

ArchitectureEntry read_entry(const Node& node, const ModelFinder& find_model) {
  ArchitectureEntry entry;
  entry.name = node.at("name").text();
  (void)node.at("source").text();
  if (const auto columns = node.find("columns")) {
    for (const auto& column : columns->entries()) {
      std::vector<std::string>& values = entry.columns[column.key];
      if (column.value.is_list()) {
        for (const Node& item : column.value.items()) values.push_back(item.text());
      } else {
        values.push_back(column.value.text());
      }
    }
  }
  entry.text_has = words(node, "text_has");
  entry.label_has = words(node, "label_has");
  entry.label_lacks = words(node, "label_lacks");
  if (const auto model = node.find("model")) entry.like = find_model(model->text());
  if (const auto facts = node.find("facts")) read_facts(*facts, entry);
  if (const auto settings = node.find("settings")) read_settings(*settings, entry);
  if (const auto replaces = node.find("replaces")) entry.replaces = replaces->boolean();
  return entry;
}

MemoryRank read_memory_figure(const Node& node) {
  (void)node.at("source").text();
  return one_of(kReporters)(node.at("stage"));
}

/// Texts of a row in which entries look for their words, canonical.
struct RowTexts {
  explicit RowTexts(const RunRecord& run)
      : label(canonical_name(run.model)),
        all{label, canonical_name(run.cell("source")), canonical_name(run.cell("locator")),
            canonical_name(run.cell("schedule"))} {}
  std::string label;
  std::array<std::string, 4> all;
};

/// The sizes that both the row and a model file state.
bool same_sizes(const RunRecord& run, const ModelDescription& model) {
  if (run.layers != model.layers || run.hidden != model.hidden) return false;
  if (run.heads != model.attention.heads) return false;
  const bool sparse = model.moe.has_value();
  if (run.experts.has_value() != sparse) return false;
  if (!sparse) return !run.ffn || model.graph || *run.ffn == model.mlp.width;
  return *run.experts == model.moe->experts && run.top_k == model.moe->top_k &&
         run.expert_width == model.moe->expert_width;
}

bool holds(const ArchitectureEntry& entry, const RunRecord& run, const RowTexts& texts) {
  for (const auto& [column, values] : entry.columns) {
    if (std::ranges::find(values, run.cell(column)) == values.end()) return false;
  }
  const auto in_text = [&](const std::string& part) {
    return std::ranges::any_of(
        texts.all, [&](const std::string& text) { return text.find(part) != std::string::npos; });
  };
  if (!entry.text_has.empty() &&
      std::none_of(entry.text_has.begin(), entry.text_has.end(), in_text)) {
    return false;
  }
  const auto in_label = [&](const std::string& part) {
    return texts.label.find(part) != std::string::npos;
  };
  if (!entry.label_has.empty() && std::ranges::none_of(entry.label_has, in_label)) return false;
  if (std::ranges::any_of(entry.label_lacks, in_label)) return false;
  return !entry.like || same_sizes(run, *entry.like);
}

/// Lower case, without what stands in brackets, at commas and semicolons.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    const bool inside = depth > 0;
    if ((c == ')' || c == ']') && depth > 0) --depth;
    if (inside) continue;
    if (c == ',' || c == ';') {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (std::string& part : parts) part = std::string(trimmed(part, " \t\n\v\f\r"));
  return parts;
}

}  // namespace

MemoryRank ArchitectureTable::memory_figure(std::string_view framework) const {
  const auto found = memory_figures.find(framework);
  return found == memory_figures.end() ? MemoryRank::Worst : found->second;
}

std::string ArchitectureTable::cell(const RunRecord& run, const std::string& column) const {
  std::string value = run.cell(column);
  if (!value.empty()) return value;
  for (const ArchitectureEntry* entry : matching(run)) {
    const auto found = entry->others.find(column);
    if (found != entry->others.end()) value = found->second;
  }
  return value;
}

std::vector<const ArchitectureEntry*> ArchitectureTable::matching(const RunRecord& run) const {
  std::vector<const ArchitectureEntry*> found;
  const RowTexts texts(run);
  for (const ArchitectureEntry& entry : entries) {
    if (holds(entry, run, texts)) found.push_back(&entry);
  }
  return found;
}

std::optional<ScheduleId> ScheduleWords::find(std::string_view text) const {
  const std::vector<std::string> parts = parts_of(text);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!remarks.contains(parts[i])) return std::nullopt;
  }
  const auto named = orders.find(parts.front());
  return named == orders.end() ? find_schedule(parts.front()) : std::optional(named->second);
}

ScheduleWords read_schedule_words(const io::Node& node) {
  ScheduleWords words;
  for (const io::Node::Entry& order : node.at("orders").entries()) {
    const auto schedule = find_schedule(order.key);
    if (!schedule) {
      throw InputError(order.where, fmt::format("unknown schedule '{}'", order.key),
                       "plansearch list schedules shows them");
    }
    for (const io::Node& word : order.value.items()) words.orders.emplace(word.text(), *schedule);
  }
  for (const io::Node& remark : node.at("remarks").items()) words.remarks.insert(remark.text());
  return words;
}

std::optional<ModelDescription> ArchitectureTable::named_network(const RunRecord& run) const {
  const std::string reason = named.reason_against(run.model);
  if (reason.empty()) return std::nullopt;
  const std::string name(trimmed(std::string_view(run.model).substr(0, run.model.find('('))));
  std::optional<ModelDescription> network;
  try {
    if (find_model) network = find_model(name);
  } catch (const InputError& error) {
    if (!is_of_row(error)) throw;
  }
  const std::string family = named.family_of(run.model);
  for (std::size_t i = 0; i < shipped.size() && !network; ++i) {
    if (named.family_of(shipped[i]) != family) continue;
    if (ModelDescription other = find_model(shipped[i]); same_sizes(run, other)) network = other;
  }
  if (!network) {
    throw refusal(fmt::format("{} is not the network that its columns describe: {}", name, reason));
  }
  if (!same_sizes(run, *network)) {
    throw refusal(fmt::format("the row has other sizes than {}", network->name));
  }
  return network;
}

ArchitectureTable read_architectures(const std::filesystem::path& path,
                                     const ModelFinder& find_model) {
  const io::Document document = io::Document::read(path);
  const Node root = document.root();
  constexpr std::string_view kSchema = "plansearch/architectures/v1";
  if (root.at("schema").text() != kSchema)
    root.at("schema").fail("expected " + std::string(kSchema));
  ArchitectureTable table;
  table.default_vocab = root.at("default_vocab").integer(io::kPositive);
  for (const auto& framework : root.at("memory_figures").entries()) {
    table.memory_figures.emplace(framework.key, read_memory_figure(framework.value));
  }
  if (const auto schedules = root.find("schedules")) {
    table.schedules = read_schedule_words(*schedules);
  }
  for (const Node& node : root.at("architectures").items()) {
    table.entries.push_back(read_entry(node, find_model));
  }
  root.finish();
  return table;
}

ArchitectureTable shipped_architectures(const ShippedData& data) {
  const ModelFinder find = [data](std::string_view name) { return data.model(name).description; };
  ArchitectureTable table =
      read_architectures(data.directory() / "validation" / "architectures.yaml", find);
  table.named = io::NetworkNames(data.directory() / "models" / "families");
  table.find_model = find;
  for (const ShippedFile& model : data.models()) table.shipped.push_back(model.name);
  return table;
}

}  // namespace plansearch
