// SPDX-License-Identifier: Apache-2.0
#include "exporters/export_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::exporters {
namespace {

/// One line of a comment, whatever names it quotes.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string text_of(Setting setting, const ExportRequest& request) {
  return fmt::format("{} {}", name_of(setting), value_of(setting, request));
}

/// "dp 2, 4, 4 by stage"
std::string by_stage_text(const DegreeRow& row, const ExportRequest& request) {
  std::vector<std::string> values = transformed(request.positions, [&](const PlanDegrees& degrees) {
    return value_text(row.degree, row.get(degrees));
  });
  return fmt::format("{} {} by stage", name_of(setting_of(row.degree)), fmt::join(values, ", "));
}

/// The degrees that are not neutral, and how the batch is cut.
std::string plan_text(const ExportRequest& request) {
  std::vector<std::string> words;
  for (const DegreeRow& row : degree_table()) {
    const Setting setting = setting_of(row.degree);
    if (!matters(setting, request)) continue;
    if (value_of(setting, request) == neutral_value(setting) && row.degree != Degree::MicroBatch &&
        !request.differ.contains(row.degree))
      continue;
    words.push_back(request.differ.contains(row.degree) ? by_stage_text(row, request)
                                                        : text_of(setting, request));
  }
  words.push_back(text_of(Setting::MicroBatches, request));
  if (!is_even(request.stages)) {
    words.push_back(fmt::format("layers {}", stages_text(request.stages)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Settings that no key says and the script must.
std::vector<std::string> left_to_script(const Exporter& exporter, const ExportRequest& request) {
  std::vector<std::string> words;
  const Settings said = said_by_keys(exporter, request);
  for (const Accepts& accepts : exporter.accepts) {
    if (accepts.by != By::Script || !matters(accepts.setting, request)) continue;
    if (said.test(static_cast<std::size_t>(accepts.setting))) continue;
    const bool chosen = accepts.setting >= Setting::FirstChosen;
    if (chosen && value_of(accepts.setting, request) == neutral_value(accepts.setting)) continue;
    const bool adapts = accepts.setting == setting_of(plansearch::Setting::Task) &&
                        request.chosen.lora_rank.has_value();
    words.push_back(!adapts                         ? text_of(accepts.setting, request)
                    : request.chosen.base_precision ? "task qlora"
                                                    : "task lora");
  }
  return words;
}

std::vector<std::string> placeholders(const Exporter& exporter, const ExportRequest& request) {
  std::vector<std::string> names;
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      if (key.says.empty() && !key.value(request).is_null()) names.emplace_back(key.name);
    }
  }
  return names;
}

std::vector<std::string> notes_of(const Exporter& exporter, const ExportRequest& request) {
  std::vector<std::string> notes;
  if (const auto words = left_to_script(exporter, request); !words.empty()) {
    notes.push_back(fmt::format("set in the training script: {}", fmt::join(words, ", ")));
  }
  if (const auto names = placeholders(exporter, request); !names.empty()) {
    notes.push_back(fmt::format("not the plan's, change them: {}", fmt::join(names, ", ")));
  }
  if (!request.prediction.fits) {
    notes.emplace_back("the prediction says that the plan does not fit in memory");
  }
  const Framework& framework = *request.problem.framework;
  const std::string& program = framework.release_of.empty() ? framework.name : framework.release_of;
  // A target with rings is the framework that runs them.
  const bool other = exporter.framework != program && request.degrees.temporal == Temporal::None;
  if (!exporter.framework.empty() && other) {
    notes.push_back(fmt::format("predicted as {}, which {} is not; --framework {} tells its time",
                                framework.name, exporter.name, exporter.framework));
  }
  if (exporter.notes != nullptr) {
    for (std::string& note : exporter.notes(request)) notes.push_back(std::move(note));
  }
  for (std::string& note : notes) note = one_line(std::move(note));
  return notes;
}

std::vector<std::string> header_of(const Exporter& exporter, const ExportRequest& h,
                                   const std::vector<std::string>& notes) {
  const Prediction& p = h.prediction;
  std::vector<std::string> lines{
      fmt::format("plansearch {}, plan {}: {}", h.version, h.identity, exporter.title),
      fmt::format("{} on {} x {} ({}), batch {} of {} tokens, {}", h.model().name, h.problem.gpus,
                  h.problem.cluster->accelerator.name, h.problem.cluster->name,
                  h.problem.global_batch, h.problem.seq_len, to_text(h.problem.precision)),
      plan_text(h),
      fmt::format("predicted as {}: step {} ({} - {}), peak memory {} of {}",
                  h.problem.framework->name, to_text(p.step), to_text(p.p10), to_text(p.p90),
                  to_text(p.memory), to_text(h.problem.cluster->accelerator.memory)),
      fmt::format("keys as in {}", exporter.checked)};
  lines.insert(lines.end(), notes.begin(), notes.end());
  for (std::string& line : lines) line = one_line(std::move(line));
  return lines;
}

/// Where the file of a document goes: started by hand on every node, each writes its own.
std::string path_of(const Document& document, const ExportRequest& request, Launcher launcher) {
  if (launcher == Launcher::Torchrun || launcher == Launcher::Kubernetes)
    return fmt::format("$(mktemp --suffix=-{})", document.file);
  return fmt::format("$PWD/plan-{}-{}", request.identity, document.file);
}

/// Files first, then arrays, as one piece of shell.
std::string shell_body(const Exporter& exporter, const ExportRequest& request, Launcher launcher,
                       const std::vector<std::string>& header) {
  std::string text;
  for (const Document& document : exporter.documents) {
    const Entries entries = entries_of(document, request);
    if (document.write == nullptr) {
      text += shell_array(document.array, entries);
      continue;
    }
    text += fmt::format("export PLAN_CONFIG=\"{}\"\n", path_of(document, request, launcher));
    text += shell_file("$PLAN_CONFIG", document.write(header, entries));
  }
  return text;
}

/// Rank orders are compared on the axes that have several ranks.
bool same_order(std::string_view offered, std::string_view wanted) {
  const auto axes = words_of(wanted, "-");
  std::vector<std::string> kept = words_of(offered, "-");
  std::erase_if(kept, [&](const std::string& word) { return !contains(axes, word); });
  return kept == axes;
}

/// Whether what a row offers is the value of the plan.
bool is_value(Setting setting, std::string_view offered, const ExportRequest& request) {
  const std::string value = value_of(setting, request);
  if (setting == Setting::RankOrder) return same_order(offered, value);
  if (offered == kOwnSplit) return request.stages == request.own_stages;
  return offered == value;
}

bool takes(const Accepts& accepts, const ExportRequest& request) {
  if (accepts.values.empty()) return true;
  return std::ranges::any_of(accepts.values, [&](std::string_view offered) {
    return is_value(accepts.setting, offered, request);
  });
}

std::optional<Refusal> refusal_of(Setting setting, const Exporter& exporter,
                                  const ExportRequest& request, const Settings& said) {
  if (!matters(setting, request)) return std::nullopt;
  const std::string value = value_of(setting, request);
  const std::string neutral = neutral_value(setting);
  const std::string what = fmt::format("{} {}", name_of(setting), value);
  const Accepts* accepts = find_accepts(exporter, setting);
  if (accepts == nullptr) {
    if (value == neutral) return std::nullopt;
    return Refusal{what, neutral};
  }
  if (!takes(*accepts, request))
    return Refusal{what, fmt::format("{}", fmt::join(accepts->values, ", "))};
  const std::string_view silent = accepts->silent.empty() ? neutral : accepts->silent;
  if (accepts->by != By::Key || is_value(setting, silent, request)) return std::nullopt;
  if (said.test(static_cast<std::size_t>(setting))) return std::nullopt;
  return Refusal{fmt::format("{} in this plan, which no key of its configuration can say", what),
                 {}};
}

}  // namespace

Value checkpoint_folder(const ExportRequest& request) {
  return request.job.checkpoints.empty() ? Value() : Value(request.job.checkpoints);
}

Value hydra_text(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return Value(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return Value(quoted + "'");
}

Value checkpoint_steps(const ExportRequest& request) {
  return request.job.checkpoints.empty() ? Value() : Value(request.job.save_every);
}

Value network_name(const ExportRequest& request) {
  // A name of the hub has an owner; a path of the user's own files starts elsewhere.
  const std::string& typed = request.chosen.model;
  std::error_code error;
  const bool hub = std::ranges::count(typed, '/') == 1 && !std::filesystem::exists(typed, error);
  return Value(hub ? typed : request.model().name);
}

Value training_steps(const ExportRequest& request) {
  constexpr double kTrial = 20.0;
  const auto tokens = parse_number(request.chosen.tokens.value_or(""));
  const double step = static_cast<double>(request.problem.global_batch * request.problem.seq_len);
  return Value(static_cast<std::int64_t>(tokens ? std::ceil(*tokens / step) : kTrial));
}

Entries entries_of(const Document& document, const ExportRequest& request) {
  Entries entries;
  for (const Key& key : document.keys) {
    Value value = key.value(request);
    if (!value.is_null()) entries.push_back({std::string(key.name), std::move(value)});
  }
  return entries;
}

const std::vector<std::string>& launcher_names() {
  static const std::vector<std::string> kNames{"slurm", "torchrun", "kubernetes"};
  return kNames;
}

Launcher find_launcher(std::string_view name) {
  const auto& names = launcher_names();
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? Launcher::None : static_cast<Launcher>(found - names.begin() + 1);
}

Exported export_plan(const Exporter& exporter, const ExportRequest& request, Launcher launcher) {
  const std::vector<std::string> notes = notes_of(exporter, request);
  const std::vector<std::string> header = header_of(exporter, request, notes);
  const Document& first = exporter.documents.front();
  if (launcher != Launcher::None) {
    const std::string body = shell_body(exporter, request, launcher, header);
    return {launch_script(exporter, request, launcher, header, body), notes};
  }
  if (exporter.documents.size() == 1 && first.write != nullptr)
    return {first.write(header, entries_of(first, request)), notes};
  return {shell_comments(header) + environment_text(exporter, request) +
              shell_body(exporter, request, launcher, header),
          notes};
}

ExportedHeader exported_header(std::string_view text) {
  // As header_of writes it, behind a mark of comments or in the quotes of JSON.
  constexpr std::string_view kFirst = "plansearch ", kPlan = ", plan ", kTitle = ": ",
                             kNetwork = " on ";
  for (auto at = text.find(kFirst); at != text.npos; at = text.find(kFirst, at)) {
    const std::string_view line = text.substr(at, text.find_first_of("\"\r\n", at) - at);
    at += line.size();
    const auto plan = line.find(kPlan);
    const auto title = line.find(kTitle, std::min(plan, line.size()));
    if (title == line.npos) continue;
    const auto begin = std::min(text.find_first_not_of("\"\r\n,#/ ", at), text.size());
    const auto end = std::min(text.find(kNetwork, begin), text.size());
    return {std::string(line.substr(title + kTitle.size())),
            std::string(text.substr(begin, end - begin))};
  }
  return {};
}

Settings said_by_keys(const Exporter& exporter, const ExportRequest& request) {
  Settings said;
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      if (key.says.empty() || key.value(request).is_null()) continue;
      for (const Setting setting : key.says) said.set(static_cast<std::size_t>(setting));
    }
  }
  return said;
}

std::vector<Refusal> refusals(const Exporter& exporter, const ExportRequest& request) {
  std::vector<Refusal> result;
  if ((exporter.by_stage | request.differ) != exporter.by_stage) return {{request.difference, {}}};
  const Settings said = said_by_keys(exporter, request);
  for (std::size_t s = 0; s < kSettingCount && !exporter.traces; ++s) {
    const auto setting = static_cast<Setting>(s);
    auto refusal = refusal_of(setting, exporter, request, said);
    if (!refusal) continue;
    refusal->of_question = setting > Setting::MicroBatches && setting != Setting::Layers;
    result.push_back(std::move(*refusal));
  }
  for (const Trait& trait : exporter.lacks) {
    if (trait.has(request.model()))
      result.push_back({fmt::format("{} has {}", request.model().name, trait.words), {}, true});
  }
  for (const Conflict& conflict : exporter.conflicts) {
    if (conflict.has(request)) result.push_back({std::string(conflict.words), {}});
  }
  return result;
}

std::string capability_text(const Exporter& exporter, Setting setting) {
  const Accepts* accepts = find_accepts(exporter, setting);
  if (exporter.traces) return "any";
  if (accepts == nullptr) return neutral_value(setting);
  const std::string values =
      accepts->values.empty() ? "any" : fmt::format("{}", fmt::join(accepts->values, ", "));
  return accepts->by == By::Script ? fmt::format("{} (script)", values) : values;
}

}  // namespace plansearch::exporters
