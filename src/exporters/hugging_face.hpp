// SPDX-License-Identifier: Apache-2.0
// Words of transformers, peft and bitsandbytes, both ways, for the targets that train by them.
#pragma once

#include <string>
#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

inline constexpr Setting kLoraRank = setting_of(plansearch::Setting::LoraRank);
inline constexpr Setting kLoraTargets = setting_of(plansearch::Setting::LoraTargets);
inline constexpr Setting kBasePrecision = setting_of(plansearch::Setting::BasePrecision);
inline constexpr Setting kStates = setting_of(plansearch::Setting::OptimizerStates);
inline constexpr Setting kPacking = setting_of(plansearch::Setting::Packing);

/// On where documents fill sequences; else null.
[[nodiscard]] Value packs(const ExportRequest& request);
/// Notes that documents are packed: how long they are is in the data, not in the file.
void read_packing(Reading& reading, const Value& value);

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
/// Names of fused modules differ from network to network.
[[nodiscard]] Conflict fused_adapters();

/// transformers/training_args.py: OptimizerNames.
[[nodiscard]] std::string optimizer_name(const ExportRequest& request);
void read_optimizer_name(Reading& reading, const Value& value);

/// Whether FSDP shards something.
[[nodiscard]] bool fully_shards(const ExportRequest& request);
void read_flag_of_recompute(Reading& reading, const Value& value);

/// What transformers' Trainer leaves to other programs, or has no word for.
[[nodiscard]] std::vector<Accepts> accepts_of_trainer();

}  // namespace plansearch::exporters
