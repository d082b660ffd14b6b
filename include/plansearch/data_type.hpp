// SPDX-License-Identifier: Apache-2.0
// Number formats of tensors and matrix engines.
#pragma once

#include <optional>
#include <string_view>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// Number formats. Those after Nvfp4 are storage formats: no matrix engine here multiplies them.
enum class DataType { Fp64, Fp32, Tf32, Fp16, Bf16, Fp8, Mxfp8, Nvfp4, Int8, Nf4, Int4 };
inline constexpr std::size_t kDataTypeCount = 8;     ///< that products run in
inline constexpr std::size_t kStoredTypeCount = 11;  ///< that tensors are kept in

/// Bytes one element occupies, block scales included (mxfp8: one scale byte per 32 elements,
/// nvfp4: one per 16; int8: one fp32 per 256; nf4: one byte per 64 and one fp32 per 256 of those,
/// "double quantization" of arXiv:2305.14314; int4: a scale of 16 bits and a zero point of 4 per
/// 128, GPTQ's).
[[nodiscard]] Bytes element_size(DataType type);
/// The same of an activation: fp8 with an fp32 scale per 128 elements.
[[nodiscard]] Bytes scaled_size(DataType type);
[[nodiscard]] std::string_view to_text(DataType type);
/// Accepts aliases: bfloat16, float16, half, float8, e4m3.
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view text);
/// The same, and formats that are kept only: int8 (8-bit), nf4 (4-bit), int4 (gptq).
[[nodiscard]] std::optional<DataType> parse_stored_type(std::string_view text);

}  // namespace plansearch
