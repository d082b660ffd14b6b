# SPDX-License-Identifier: Apache-2.0
# Every dependency is a Debian 12 package; nothing is downloaded at configure time.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(ZLIB REQUIRED)
if(PLANSEARCH_BUILD_TESTS)
  find_package(doctest 2.4 REQUIRED)
endif()

# yaml-cpp 0.7 installs its target without a namespace, 0.8 with one.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
