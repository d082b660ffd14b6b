// SPDX-License-Identifier: Apache-2.0
// Readers: what a program does where its configuration says nothing, and what several facts say
// together. A file of a target names one; several targets may have the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/reading.hpp"

namespace plansearch::exporters {

struct Reader {
  std::string_view name;
  void (*start)(Reading&);
  void (*settle)(Reading&);  ///< once all keys are read; throws Unsettled
};
[[nodiscard]] const Reader* find_reader(std::string_view name);
[[nodiscard]] std::vector<std::string> reader_names();

// Each in a file of its own.
void start_megatron(Reading& reading);
void settle_megatron(Reading& reading);
void start_megatron_plan(Reading& reading);
void settle_megatron_plan(Reading& reading);
void settle_megatron_deepspeed(Reading& reading);
void start_verl(Reading& reading);
void settle_verl(Reading& reading);
void start_verl_fsdp(Reading& reading);
void settle_verl_fsdp(Reading& reading);
void start_deepspeed(Reading& reading);
void settle_deepspeed_alone(Reading& reading);
void start_accelerate(Reading& reading);
void settle_accelerate(Reading& reading);
void start_trainer(Reading& reading);
void settle_axolotl(Reading& reading);
void settle_llama_factory(Reading& reading);
void start_torchtitan(Reading& reading);
void settle_torchtitan(Reading& reading);
void settle_torchtitan_toml(Reading& reading);
void start_nanotron(Reading& reading);
void settle_nanotron(Reading& reading);
void start_maxtext(Reading& reading);
void settle_maxtext(Reading& reading);

/// Overlap and sharding of DeepSpeed, whatever program calls it.
void settle_deepspeed(Reading& reading);
void settle_unsharded_bf16(Reading& reading);

}  // namespace plansearch::exporters
