// SPDX-License-Identifier: Apache-2.0
#include "plansearch/data_type.hpp"

#include <utility>

#include "base/names.hpp"

namespace plansearch {
namespace {

constexpr std::array<std::string_view, kStoredTypeCount> kTypeNames = {
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "int8", "nf4", "int4"};

// Bits per element; block formats add their scales: 8 + 8/32, 4 + 8/16, 8 + 32/256 (bitsandbytes
// functional.py: quantize_blockwise), 4 + 8/64 + 32/(64 x 256) and 4 + (16 + 4)/128 (AutoGPTQ).
constexpr std::array<double, kStoredTypeCount> kBits = {
    64, 32, 32, 16, 16, 8, 8.25, 4.5, 8.125, 4.0 + 8.0 / 64 + 32.0 / (64 * 256), 4.0 + 20.0 / 128};

constexpr std::array<std::pair<std::string_view, DataType>, 13> kAliases = {{
    {"float64", DataType::Fp64},
    {"double", DataType::Fp64},
    {"float32", DataType::Fp32},
    {"float", DataType::Fp32},
    {"single", DataType::Fp32},
    {"float16", DataType::Fp16},
    {"half", DataType::Fp16},
    {"bfloat16", DataType::Bf16},
    {"float8", DataType::Fp8},
    {"e4m3", DataType::Fp8},
    {"float8-e4m3fn", DataType::Fp8},
    {"fp8-mx", DataType::Mxfp8},
    {"fp4", DataType::Nvfp4},
}};

}  // namespace

Bytes element_size(DataType type) {
  return Bytes(kBits.at(static_cast<std::size_t>(type)) / 8.0);
}

Bytes scaled_size(DataType type) {
  constexpr double kScale = 4.0 / 128.0;
  return element_size(type) + Bytes(type == DataType::Fp8 ? kScale : 0.0);
}

std::string_view to_text(DataType type) {
  return kTypeNames.at(static_cast<std::size_t>(type));
}

std::optional<DataType> parse_data_type(std::string_view text) {
  const std::string name = canonical_name(text);
  for (std::size_t i = 0; i < kDataTypeCount; ++i) {
    if (kTypeNames.at(i) == name) return static_cast<DataType>(i);
  }
  for (const auto& [alias, type] : kAliases) {
    if (alias == name) return type;
  }
  return std::nullopt;
}

std::optional<DataType> parse_stored_type(std::string_view text) {
  const std::string name = canonical_name(text);
  if (name == "int8" || name == "8-bit" || name == "8bit") return DataType::Int8;
  if (name == "int4" || name == "gptq" || name == "gptq-int4") return DataType::Int4;
  if (name == "nf4" || name == "4-bit" || name == "4bit") return DataType::Nf4;
  return parse_data_type(text);
}

}  // namespace plansearch
