// SPDX-License-Identifier: Apache-2.0
// Names of kernels and what they do: the first row whose text the name holds, in lower case.
#include <algorithm>
#include <cctype>
#include <string>

#include "io/tables/kernel_profile/step_profile.hpp"

namespace plansearch::io {
namespace {

struct NameRow {
  std::string_view text;
  ProfileTerm term;
};

// Messages first: names of kernels that compute while they send are messages. Attention before
// products: FlashAttention-3 is a device kernel of CUTLASS.
constexpr std::array kNames{
    NameRow{"allreduce", ProfileTerm::AllReduce},
    NameRow{"all_reduce", ProfileTerm::AllReduce},
    NameRow{"reducescatter", ProfileTerm::ReduceScatter},
    NameRow{"reduce_scatter", ProfileTerm::ReduceScatter},
    NameRow{"allgather", ProfileTerm::AllGather},
    NameRow{"all_gather", ProfileTerm::AllGather},
    NameRow{"nccldevkernel_broadcast", ProfileTerm::AllGather},
    NameRow{"ncclkernel_broadcast", ProfileTerm::AllGather},
    NameRow{"sendrecv", ProfileTerm::Exchange},
    NameRow{"alltoall", ProfileTerm::Exchange},
    NameRow{"all_to_all", ProfileTerm::Exchange},
    NameRow{"deep_ep", ProfileTerm::Exchange},
    NameRow{"ep_dispatch", ProfileTerm::Exchange},
    NameRow{"ep_combine", ProfileTerm::Exchange},
    NameRow{"ep_notify", ProfileTerm::Exchange},
    NameRow{"gloo:", ProfileTerm::Exchange},
    NameRow{"memcpy", ProfileTerm::Copy},
    NameRow{"multi_tensor_apply", ProfileTerm::Optimizer},
    NameRow{"fused_adam", ProfileTerm::Optimizer},
    NameRow{"fusedadam", ProfileTerm::Optimizer},
    NameRow{"flash_fwd", ProfileTerm::Attention},
    NameRow{"flash_bwd", ProfileTerm::Attention},
    NameRow{"flash::", ProfileTerm::Attention},
    NameRow{"fmha", ProfileTerm::Attention},
    NameRow{"attention", ProfileTerm::Attention},
    NameRow{"attn", ProfileTerm::Attention},
    NameRow{"sdpa", ProfileTerm::Attention},
    NameRow{"gemm", ProfileTerm::Product},
    NameRow{"gemv", ProfileTerm::Product},
    NameRow{"cutlass", ProfileTerm::Product},
    NameRow{"cublas", ProfileTerm::Product},
    NameRow{"nvjet", ProfileTerm::Product},
    NameRow{"xmma", ProfileTerm::Product},
    NameRow{"wgmma", ProfileTerm::Product},
    NameRow{"cijk_", ProfileTerm::Product},
    NameRow{"splitkreduce", ProfileTerm::Product},
    NameRow{"matmul", ProfileTerm::Product},
    NameRow{"implicit_convolve", ProfileTerm::Product},
    NameRow{"aten::mm", ProfileTerm::Product},
    NameRow{"aten::addmm", ProfileTerm::Product},
    NameRow{"aten::bmm", ProfileTerm::Product},
    NameRow{"aten::baddbmm", ProfileTerm::Product},
    NameRow{"aten::linear", ProfileTerm::Product},
    NameRow{"convolution", ProfileTerm::Product},
};

constexpr std::array<std::string_view, kProfileTerms> kWords{"matrix products",
                                                             "attention",
                                                             "memory-bound",
                                                             "optimizer",
                                                             "all-reduce",
                                                             "all-gather",
                                                             "reduce-scatter",
                                                             "all-to-all and sends",
                                                             "copies to and from the host"};

}  // namespace

std::string_view to_text(ProfileTerm term) {
  return kWords[static_cast<std::size_t>(term)];
}

bool is_message(ProfileTerm term) {
  return term >= ProfileTerm::AllReduce && term <= ProfileTerm::Exchange;
}

ProfileTerm term_of(std::string_view kernel) {
  std::string name(kernel);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const NameRow& row) {
    return name.find(row.text) != std::string::npos;
  });
  return found == kNames.end() ? ProfileTerm::MemoryBound : found->term;
}

}  // namespace plansearch::io
