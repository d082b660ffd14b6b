// SPDX-License-Identifier: Apache-2.0
// Words of transformers, peft and bitsandbytes, both ways, for the targets that train by them.
#pragma once

#include <string>

#include "exporters/fact.hpp"

namespace plansearch::exporters {

/// Null where every parameter is trained.
[[nodiscard]] const LoraDescription* adapters_of(const ExportRequest& request);
/// Whether every linear product of the layers has an adapter, by that one word.
[[nodiscard]] bool adapts_all(const ExportRequest& request);
/// peft's target_modules by name; null where there are none, or one word says all.
[[nodiscard]] Value adapter_modules(const ExportRequest& request);
/// peft's modules_to_save: tables that are trained whole; null for none.
[[nodiscard]] Value trained_tables(const ExportRequest& request);
/// A list, or one text with commas, of peft's modules; `all` is the target's own word for all of
/// them. WrongValue for modules that have no counterpart.
void read_adapter_modules(Reading& reading, const Value& value, std::string_view all);
/// modules_to_save, beside what `read_adapter_modules` read.
void read_trained_tables(Reading& reading, const Value& value);

/// transformers/training_args.py: OptimizerNames.
[[nodiscard]] std::string optimizer_name(const ExportRequest& request);
void read_optimizer_name(Reading& reading, const Value& value);

}  // namespace plansearch::exporters
