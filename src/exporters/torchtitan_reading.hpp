// SPDX-License-Identifier: Apache-2.0
// torchtitan's keys the other way round.
#pragma once

#include "exporters/torchtitan_keys.hpp"

namespace plansearch::exporters {

void start_torchtitan(Reading& reading);
void settle_torchtitan(Reading& reading);
void settle_torchtitan_toml(Reading& reading);

void read_reshard(Reading& reading, const Value& value);
void read_torch_schedule(Reading& reading, const Value& value);
void read_torch_precision(Reading& reading, const Value& value);
/// Asynchronous tensor parallelism is a framework of its own here.
void read_rings(Reading& reading, const Value& value);
/// Lists of the names of modules: the layers of every stage.
void read_module_names(Reading& reading, const Value& value);

}  // namespace plansearch::exporters
