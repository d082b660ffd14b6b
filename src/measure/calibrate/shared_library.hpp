// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded at run time: the program starts without them.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {

/// The first of some files, open for the life of the process.
class SharedLibrary {
 public:
  /// Throws `missing` where none of the files is there.
  SharedLibrary(std::string name, const std::vector<std::string>& files,
                const Unmeasurable& missing, int scope = RTLD_GLOBAL)
      : name_(std::move(name)) {
    for (const std::string& file : files) {
      handle_ = ::dlopen(file.c_str(), RTLD_NOW | scope);
      if (handle_ != nullptr) return;
    }
    throw missing;
  }

  /// The address of a function or variable, which becomes a pointer of the wanted type.
  struct Address {
    void* place;
    template <typename T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<T*>(place);
    }
  };
  /// Throws Unmeasurable for a name that the library does not have.
  [[nodiscard]] Address operator[](const char* name) const {
    void* place = ::dlsym(handle_, name);
    if (place == nullptr) throw Unmeasurable{fmt::format("{} has no {}", name_, name)};
    return {place};
  }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace plansearch::calibrate
