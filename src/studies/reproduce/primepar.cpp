// SPDX-License-Identifier: Apache-2.0
// PrimePar's figures beside ours.
#include "studies/reproduce/primepar.hpp"

namespace plansearch {

std::vector<ReproducedRow> primepar_rows(const StudyContext& context) {
  std::vector<ReproducedRow> rows;
  add_primepar_mlp(context, PrimeparNodes::UpToTwo, rows);
  add_primepar_models(context, PrimeparNodes::UpToTwo, rows);
  return rows;
}

std::vector<ReproducedRow> primepar_nodes_rows(const StudyContext& context) {
  std::vector<ReproducedRow> rows;
  add_primepar_mlp(context, PrimeparNodes::FourAndMore, rows);
  add_primepar_models(context, PrimeparNodes::FourAndMore, rows);
  add_primepar_pipelines(context, rows);
  return rows;
}

}  // namespace plansearch
