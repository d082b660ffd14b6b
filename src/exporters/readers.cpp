// SPDX-License-Identifier: Apache-2.0
#include "exporters/readers.hpp"

#include <algorithm>
#include <array>

#include "base/ranges.hpp"

namespace plansearch::exporters {
namespace {

constexpr std::array kReaders{
    Reader{"megatron", start_megatron, settle_megatron},
    Reader{"megatron_plan", start_megatron_plan, settle_megatron_plan},
    Reader{"megatron_deepspeed", start_megatron, settle_megatron_deepspeed},
    Reader{"verl", start_verl, settle_verl},
    Reader{"verl_fsdp", start_verl_fsdp, settle_verl_fsdp},
    Reader{"deepspeed", start_deepspeed, settle_deepspeed_alone},
    Reader{"accelerate", start_accelerate, settle_accelerate},
    Reader{"axolotl", start_trainer, settle_axolotl},
    Reader{"llama_factory", start_trainer, settle_llama_factory},
    Reader{"torchtitan", start_torchtitan, settle_torchtitan},
    Reader{"torchtitan_toml", start_torchtitan, settle_torchtitan_toml},
    Reader{"nanotron", start_nanotron, settle_nanotron},
    Reader{"maxtext", start_maxtext, settle_maxtext},
    Reader{"galvatron", start_galvatron, settle_galvatron},
};

}  // namespace

const Reader* find_reader(std::string_view name) {
  const auto* found = std::ranges::find(kReaders, name, &Reader::name);
  return found == kReaders.end() ? nullptr : found;
}

std::vector<std::string> reader_names() {
  return transformed<std::string>(kReaders, &Reader::name);
}

}  // namespace plansearch::exporters
