// SPDX-License-Identifier: Apache-2.0
// Computes: names of collectives and messages.
// Source: the words of NCCL.
// Assumes: nothing.
// Units: none.
// Checked by: tests/unit/communication/derivation_test.cpp
#include "plansearch/communication_kind.hpp"

#include "plansearch/error.hpp"

namespace plansearch {

std::string_view to_text(CommunicationKind kind) {
  switch (kind) {
    case CommunicationKind::AllGather:
      return "all-gather";
    case CommunicationKind::ReduceScatter:
      return "reduce-scatter";
    case CommunicationKind::AllReduce:
      return "all-reduce";
    case CommunicationKind::AllToAll:
      return "all-to-all";
    case CommunicationKind::SendReceive:
      return "send-receive";
    case CommunicationKind::Permute:
      return "permute";
    case CommunicationKind::Slice:
      return "slice";
  }
  throw InternalError("unknown communication kind");
}

}  // namespace plansearch
