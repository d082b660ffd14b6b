// SPDX-License-Identifier: Apache-2.0
#include "plansearch/plan/collective_kind.hpp"

#include "plansearch/base/error.hpp"
#include "plansearch/plan/redistribution.hpp"

namespace plansearch {

std::string_view to_text(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all-reduce";
    case CollectiveKind::AllGather:
      return "all-gather";
    case CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::AllToAll:
      return "all-to-all";
    case CollectiveKind::SendReceive:
      return "send-receive";
    case CollectiveKind::Broadcast:
      return "broadcast";
  }
  throw InternalError("unknown collective");
}

CollectiveKind collective_kind(CommunicationKind kind) {
  switch (kind) {
    case CommunicationKind::AllGather:
      return CollectiveKind::AllGather;
    case CommunicationKind::ReduceScatter:
      return CollectiveKind::ReduceScatter;
    case CommunicationKind::AllReduce:
      return CollectiveKind::AllReduce;
    case CommunicationKind::AllToAll:
      return CollectiveKind::AllToAll;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return CollectiveKind::SendReceive;
    case CommunicationKind::Slice:
      break;
  }
  throw InternalError("a slice communicates nothing");
}

}  // namespace plansearch
