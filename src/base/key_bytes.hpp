// SPDX-License-Identifier: Apache-2.0
// Keys of maps as bytes.
#pragma once

#include <string>

namespace plansearch {

/// Appends a value without padding as it lies in memory.
template <typename T>
void put_bytes(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace plansearch
