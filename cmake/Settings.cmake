# SPDX-License-Identifier: Apache-2.0
# Two interface targets: what every target needs, and the warnings of our own code only.
add_library(plansearch_settings INTERFACE)
target_compile_features(plansearch_settings INTERFACE cxx_std_20)
# Files are named in messages as they lie in the project, wherever it was built.
target_compile_options(plansearch_settings INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(PLANSEARCH_WERROR "Treat warnings as errors" OFF)
option(PLANSEARCH_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
option(PLANSEARCH_FUZZ "Build a libFuzzer executable for every reader (clang)" OFF)
option(PLANSEARCH_STATIC "Link the executable statically; calibrate finds no libraries of devices then" OFF)
option(PLANSEARCH_PYTHON "Build the Python module" OFF)

# The module is a shared library of the same objects; what it does not show is called as directly as in an executable.
if(PLANSEARCH_PYTHON)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()

# GCC 12 takes moves of std::string for overflows, which it shows where a header is precompiled. Where files
# are compiled as one it takes an std::optional without a value for one that is read, and names of another
# file for shadowed ones.
add_library(plansearch_warnings INTERFACE)
target_compile_options(plansearch_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                                                     "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>"
                                                     "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-maybe-uninitialized;-Wno-shadow>"
                                                     $<$<BOOL:${PLANSEARCH_WERROR}>:-Werror>)
if(PLANSEARCH_FUZZ)
  target_compile_options(plansearch_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(PLANSEARCH_STATIC)
  target_link_options(plansearch_settings INTERFACE -static)
endif()
# With all its checks GCC takes three times as long. The address sanitizer finds a pointer that is not
# valid where it is used, so that the other need not look; its checks are calls; and what outlives its
# scope is looked for by clang alone (preset fuzz).
add_library(plansearch_sanitizers INTERFACE)
target_compile_options(plansearch_sanitizers INTERFACE -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                                       -fno-omit-frame-pointer
  "$<$<CXX_COMPILER_ID:GNU>:-fno-sanitize=null,alignment,vptr,object-size,nonnull-attribute,returns-nonnull-attribute,pointer-overflow;-fno-sanitize-address-use-after-scope;SHELL:--param asan-instrumentation-with-call-threshold=0>")
target_link_options(plansearch_sanitizers INTERFACE -fsanitize=address,undefined)
if(PLANSEARCH_SANITIZE)
  target_link_libraries(plansearch_settings INTERFACE $<BUILD_INTERFACE:plansearch_sanitizers>)
endif()
