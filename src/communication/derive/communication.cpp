// SPDX-License-Identifier: Apache-2.0
// Computes: number formats, purposes and words of derived communications.
// Source: the precision policy of the framework file; the words of NCCL.
// Assumes: one format per class of message.
// Units: none.
// Checked by: tests/unit/communication/derivation_test.cpp
#include <fmt/format.h>

#include <array>

#include "plansearch/communication.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

DataType wire_type(WireClass wire, const PrecisionPolicy& precision) {
  switch (wire) {
    case WireClass::Activation:
      return precision.activation;
    case WireClass::Token:
      return precision.dispatch.value_or(precision.activation);
    case WireClass::Statistic:
    case WireClass::Logit:
      return DataType::Fp32;
    case WireClass::Parameter:
      return precision.gather;
    case WireClass::Gradient:
      return precision.reduction;
    case WireClass::Moment:
      return precision.moment;
    case WireClass::Product:
      return DataType::Bf16;
    case WireClass::Index:
    case WireClass::Mask:
      break;
  }
  throw InternalError("indices and masks have no number format");
}

Bytes wire_size(WireClass wire, const PrecisionPolicy& precision) {
  if (wire == WireClass::Index) return Bytes(8.0);
  if (wire == WireClass::Mask) return Bytes(1.0);
  const DataType type = wire_type(wire, precision);
  return wire == WireClass::Token ? scaled_size(type) : element_size(type);
}

bool exchanges_tokens(const Communication& communication) {
  return communication.axes.contains(Axis::Expert) &&
         communication.kind == CommunicationKind::AllToAll &&
         (communication.subject == Subject::Activation ||
          communication.subject == Subject::ActivationGradient);
}

std::string_view to_text(Purpose purpose) {
  constexpr std::array<std::string_view, kPurposeCount> kWords{"tensor", "data",     "context",
                                                               "expert", "pipeline", "offload"};
  return kWords.at(static_cast<std::size_t>(purpose));
}

Purpose purpose_of(const Communication& communication) {
  const AxisSet axes = communication.axes;
  if (axes.contains(Axis::Pipeline)) return Purpose::Pipeline;
  // Weights that travel while several devices compute a product together.
  if (communication.steps > 1 && !(axes & kTensorAxes).empty()) return Purpose::Tensor;
  const Subject subject = communication.subject;
  if (subject == Subject::Parameter || subject == Subject::Gradient || subject == Subject::Update) {
    return Purpose::Data;
  }
  if (axes.contains(Axis::Expert)) return Purpose::Expert;
  return axes.contains(Axis::Context) ? Purpose::Context : Purpose::Tensor;
}

std::string_view to_text(DemandPhase phase) {
  constexpr std::array<std::string_view, 4> kWords{"forward", "input-gradient", "weight-gradient",
                                                   "step"};
  return kWords.at(static_cast<std::size_t>(phase));
}

std::string subject_name(const Block& block, const Communication& demand) {
  const auto parameter = [&]() -> std::string {
    return demand.index == kWholeBlock ? "block parameters" : block.parameters[demand.index].name;
  };
  switch (demand.subject) {
    case Subject::Activation:
      return block.tensors[demand.index].name;
    case Subject::ActivationGradient:
      return fmt::format("gradient of {}", block.tensors[demand.index].name);
    case Subject::Statistics:
      return fmt::format("statistics of {}", block.operators[demand.index].name);
    case Subject::Parameter:
      return parameter();
    case Subject::Gradient:
      return fmt::format("gradient of {}", parameter());
    case Subject::Update:
      return fmt::format("update of {}", parameter());
  }
  throw InternalError("unknown subject");
}

std::string_view to_text(CommunicationKind kind) {
  constexpr std::array<std::string_view, 7> kWords{"all-gather", "reduce-scatter", "all-reduce",
                                                   "all-to-all", "send-receive",   "permute",
                                                   "slice"};
  return kWords.at(static_cast<std::size_t>(kind));
}

}  // namespace plansearch
