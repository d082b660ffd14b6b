// SPDX-License-Identifier: Apache-2.0
// Computes: names of messages.
// Source: names of operators' parameters; what a framework sends together (ParameterUnit).
// Assumes: parameters of one launch that end alike (query.weight, key.weight) go together.
// Units: none.
// Checked by: tests/unit/evaluate/overlap_report_test.cpp
#include "evaluate/block/message_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace plansearch {

std::string message_name(const Block& block, const Communication& message, ParameterUnit unit) {
  const bool parameter =
      message.subject == Subject::Parameter || message.subject == Subject::Gradient;
  const std::string alone = subject_name(block, message);
  if (!parameter || unit != ParameterUnit::Launch || message.index == kWholeBlock) return alone;
  const std::string& launch = block.operators[message.operator_index].fused_key;
  const std::string& own = block.parameters[message.index].name;
  const std::size_t dot = own.rfind('.');
  if (launch.empty() || dot == std::string::npos) return alone;
  const std::string ending = own.substr(dot);
  std::vector<std::string> names;
  for (const Operator& op : block.operators) {
    if (op.fused_key != launch) continue;
    for (const ParameterId id : op.parameters) {
      const std::string& name = block.parameter(id).name;
      if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
    }
  }
  return fmt::format("{}{}{}", message.subject == Subject::Gradient ? "gradient of " : "",
                     fmt::join(names, ", "), ending);
}

}  // namespace plansearch
