// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "exporters/fact.hpp"

namespace plansearch::exporters {
namespace {

const std::map<std::string, Fact, std::less<>>& fact_table() {
  static const auto kFacts = [] {
    std::map<std::string, Fact, std::less<>> facts;
    for (const auto part :
         {plan_facts, network_facts, megatron_facts, verl_facts, deepspeed_facts, trainer_facts,
          torchtitan_facts, nanotron_facts, maxtext_facts, axonn_facts}) {
      for (Fact& fact : part()) {
        std::string name = fact.name;
        facts.try_emplace(std::move(name), std::move(fact));
      }
    }
    return facts;
  }();
  return kFacts;
}

}  // namespace

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
