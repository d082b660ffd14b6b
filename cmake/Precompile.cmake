# SPDX-License-Identifier: Apache-2.0
# Standard headers and fmt, compiled once for all libraries: a fifth of the time of a first build
# (two fifths without optimisation). CMAKE_DISABLE_PRECOMPILE_HEADERS builds without: every source
# still includes what it uses, and the fuzz preset checks it.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
add_library(plansearch_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(plansearch_precompiled PRIVATE plansearch_settings plansearch_warnings fmt::fmt)
set(precompiled_headers <algorithm> <array> <charconv> <cmath> <cstdint> <filesystem> <functional> <limits> <map>
                        <memory> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <unordered_map>
                        <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
target_precompile_headers(plansearch_precompiled PRIVATE ${precompiled_headers})

# JSON takes two seconds a file to read: precompiled for those who write it.
add_library(plansearch_precompiled_json OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(plansearch_precompiled_json PRIVATE plansearch_settings plansearch_warnings fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(plansearch_precompiled_json PRIVATE ${precompiled_headers} <nlohmann/json.hpp>)

# plansearch_precompile(TARGET [_json])
function(plansearch_precompile target)
  target_precompile_headers(${target} REUSE_FROM plansearch_precompiled${ARGN})
endfunction()

# Files of one folder are compiled as one, eight at most, where CMAKE_UNITY_BUILD is on: half the time of a first
# build. A new file changes the batches of its own folder only. Called once a target has all its files.
function(plansearch_batches target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    list(APPEND groups ${group})
    list(APPEND ${group}_files ${source})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    list(LENGTH ${group}_files files)
    math(EXPR batches "(${files} + 7) / 8")
    set(number 0)
    foreach(source ${${group}_files})
      math(EXPR batch "${number} * ${batches} / ${files}")
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${group}_${batch})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
