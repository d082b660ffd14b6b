// SPDX-License-Identifier: Apache-2.0
#include "plansearch/degrees.hpp"

#include "plansearch/error.hpp"

namespace plansearch {

std::string_view to_text(Recompute value) {
  switch (value) {
    case Recompute::None:
      return "none";
    case Recompute::Selective:
      return "selective";
    case Recompute::Full:
      return "full";
  }
  throw InternalError("unknown recompute level");
}

std::string_view to_text(ContextKind value) {
  switch (value) {
    case ContextKind::Ring:
      return "ring";
    case ContextKind::Ulysses:
      return "ulysses";
  }
  throw InternalError("unknown context kind");
}

}  // namespace plansearch
