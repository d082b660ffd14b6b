// SPDX-License-Identifier: Apache-2.0
// Readers: what a program does where its configuration says nothing, and what several facts say
// together. A file of a target names one; several targets may have the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/reading.hpp"

namespace plansearch::exporters {

using ReadStep = void(Reading& reading);

struct Reader {
  std::string_view name;
  ReadStep* start;
  ReadStep* settle;  ///< once all keys are read; throws Unsettled
};
[[nodiscard]] const Reader* find_reader(std::string_view name);
[[nodiscard]] std::vector<std::string> reader_names();

// Each in a file of its own.
ReadStep start_megatron, settle_megatron, start_megatron_plan, settle_megatron_plan;
ReadStep start_verl, settle_verl, start_verl_fsdp, settle_verl_fsdp;
ReadStep start_deepspeed, settle_deepspeed_alone, settle_megatron_deepspeed;
ReadStep start_accelerate, settle_accelerate;
ReadStep start_trainer, settle_axolotl, settle_llama_factory;
ReadStep start_torchtitan, settle_torchtitan, settle_torchtitan_toml;
ReadStep start_nanotron, settle_nanotron;
ReadStep start_maxtext, settle_maxtext;
ReadStep start_galvatron, settle_galvatron;

// Words of peft for the programs that train by it.

/// A list, or one text with commas, of peft's modules, or "all-linear". WrongValue for modules that
/// have no counterpart.
void read_adapter_modules(Reading& reading, const Value& value);
/// modules_to_save, beside what `read_adapter_modules` read.
void read_trained_tables(Reading& reading, const Value& value);

/// Overlap and sharding of DeepSpeed, whatever program calls it.
ReadStep settle_deepspeed, settle_unsharded_bf16;

}  // namespace plansearch::exporters
