// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/ranges.hpp"
#include "exporters/exporter.hpp"
#include "exporters/fact.hpp"

namespace plansearch::exporters {

namespace {

const std::map<std::string, Fact, std::less<>>& fact_table() {
  static const auto kFacts = [] {
    std::map<std::string, Fact, std::less<>> facts;
    for (const auto part : {plan_facts, network_facts, megatron_facts, verl_facts, deepspeed_facts,
                            trainer_facts, torchtitan_facts, nanotron_facts, maxtext_facts,
                            axonn_facts, alpa_facts, galvatron_facts, order_facts}) {
      for (Fact& fact : part()) {
        std::string name = fact.name;
        facts.try_emplace(std::move(name), std::move(fact));
      }
    }
    return facts;
  }();
  return kFacts;
}

/// The target takes each setting that a key says, any value of it where no line restricts them.
void take_what_keys_say(Exporter& exporter) {
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      for (const Setting setting : key.says) {
        if (find_accepts(exporter, setting) == nullptr) exporter.accepts.push_back({setting});
      }
    }
  }
}

/// Data and script decide between the text as it comes and examples of a task: the step is the
/// same. Adapters are settings of their own.
void leave_task_to_script(Exporter& exporter) {
  const Setting task = setting_of(plansearch::Setting::Task);
  if (find_accepts(exporter, task) != nullptr || exporter.traces) return;
  exporter.accepts.push_back({task, {"pretrain", "sft"}, By::Script});
}

/// In the order of tables and messages; further files stand behind them, by name.
constexpr std::string_view kNames[] = {"megatron",
                                       "deepspeed",
                                       "megatron-deepspeed",
                                       "torchtitan",
                                       "torchtitan-0.2",
                                       "nanotron",
                                       "accelerate",
                                       "axonn",
                                       "galvatron",
                                       "megatron-bridge",
                                       "nnscaler",
                                       "pytorch-csv",
                                       "axolotl",
                                       "llama-factory",
                                       "ms-swift",
                                       "verl",
                                       "verl-fsdp",
                                       "maxtext",
                                       "alpa",
                                       "chakra"};
/// Those of them whose files are not read.
constexpr std::array<std::string_view, 6> kWrittenOnly{
    "axonn", "megatron-bridge", "nnscaler", "pytorch-csv", "alpa", "chakra"};

}  // namespace

std::vector<std::string> Targets::names() const {
  std::vector<std::string> further;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".yaml" && !contains(kNames, name)) further.push_back(name);
  }
  std::ranges::sort(further);
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  names.insert(names.end(), further.begin(), further.end());
  return names;
}

std::vector<std::string> Targets::readable_names() const {
  std::vector<std::string> all = names();
  std::erase_if(all, [](const std::string& name) { return contains(kWrittenOnly, name); });
  return all;
}

const Exporter* Targets::find(std::string_view name) const {
  if (const auto found = made_.find(name); found != made_.end()) return &found->second;
  if (!contains(names(), name)) return nullptr;
  Exporter made = read_target(folder_ / fmt::format("{}.yaml", name));
  made.name = name;
  take_what_keys_say(made);
  leave_task_to_script(made);
  return &made_.emplace(name, std::move(made)).first->second;
}

const Exporter* Targets::called(std::string_view name) const {
  if (const Exporter* found = find(name)) return found;
  for (const Exporter* other : all())
    if (contains(other->aliases, name)) return other;
  return nullptr;
}

std::vector<const Exporter*> Targets::all() const {
  return transformed(names(), [&](const std::string& name) { return find(name); });
}

std::string_view without_plus(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('+'), name.size()));
}

bool Targets::has_key(std::string_view name) const {
  const bool complete =
      std::ranges::all_of(kNames, [&](std::string_view known) { return made_.contains(known); });
  if (!complete) static_cast<void>(all());
  for (const auto& [target, exporter] : made_) {
    for (const Document& document : exporter.documents) {
      for (const Key& key : document.keys)
        if (without_plus(key.name) == without_plus(name)) return true;
    }
  }
  return false;
}

const Accepts* find_accepts(const Exporter& exporter, Setting setting) {
  const auto found = std::ranges::find(exporter.accepts, setting, &Accepts::setting);
  return found == exporter.accepts.end() ? nullptr : &*found;
}

const Fact* find_fact(std::string_view name) {
  const auto found = fact_table().find(name);
  return found == fact_table().end() ? nullptr : &found->second;
}

std::vector<std::string> fact_names() {
  std::vector<std::string> names;
  for (const auto& [name, fact] : fact_table()) names.push_back(name);
  return names;
}

bool holds(const Fact& fact, const ExportRequest& request) {
  return fact.write && is_on(fact.write(request));
}

}  // namespace plansearch::exporters
