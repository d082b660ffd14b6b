# SPDX-License-Identifier: Apache-2.0
# Every library: the folders it is made of, the libraries it uses, and what else it is linked with. A source file
# belongs to the library of its folder; no list names it.

# plansearch_library(NAME [JSON] FROM FOLDER... [LEAVE FOLDER...] [USES LIBRARY...] [WITH TARGET...])
#   FROM   folders, with those below them; LEAVE: not these
#   USES   libraries of this project, which the users of this one see too
#   WITH   other targets, which they do not see
#   JSON   writes JSON: linked with nlohmann_json, whose header is precompiled for it
function(plansearch_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "JSON" "" "FROM;LEAVE;USES;WITH")
  add_library(plansearch_${name} STATIC)
  add_library(plansearch::${name} ALIAS plansearch_${name})
  foreach(folder ${library_FROM})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
    foreach(left IN LISTS library_LEAVE)
      list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${left}")
    endforeach()
    target_sources(plansearch_${name} PRIVATE ${sources})
  endforeach()
  list(TRANSFORM library_USES PREPEND plansearch_)
  target_link_libraries(plansearch_${name} PUBLIC plansearch_settings ${library_USES}
                                           PRIVATE $<BUILD_INTERFACE:plansearch_internal> $<BUILD_INTERFACE:plansearch_warnings>
                                                   fmt::fmt ${library_WITH})
  if(library_JSON)
    target_link_libraries(plansearch_${name} PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
    plansearch_precompile(plansearch_${name} _json)
  else()
    plansearch_precompile(plansearch_${name})
  endif()
  plansearch_batches(plansearch_${name})
endfunction()

plansearch_library(base FROM src/base WITH Threads::Threads)
target_include_directories(plansearch_base PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
plansearch_library(cost FROM src/hardware src/workload src/framework src/schedule src/plan src/communication src/cost
                             src/evaluate src/partition
                        USES base WITH $<BUILD_INTERFACE:Boost::headers>)
plansearch_library(search FROM search USES cost)
plansearch_library(io JSON FROM src/io USES cost WITH yaml-cpp::yaml-cpp)
plansearch_library(report JSON FROM src/report USES cost)
plansearch_library(exporters JSON FROM src/exporters USES io report WITH yaml-cpp::yaml-cpp)
plansearch_library(question FROM src/question USES search io)
plansearch_library(answer JSON FROM src/answer USES question exporters)
plansearch_library(commands JSON FROM src/cli LEAVE "src/cli/main.cpp$" USES answer WITH $<BUILD_INTERFACE:CLI11::CLI11>)

# Wings: parts of the program that the core does not know. Each brings the rows of its commands; what else the core
# declares and a wing defines stands in src/absent, which is built in place of the wings in PLANSEARCH_WITHOUT.
set(PLANSEARCH_WITHOUT "" CACHE STRING "Parts to leave out: exchange;evidence;measure;python")
foreach(wing ${PLANSEARCH_WITHOUT})
  if(NOT wing MATCHES "^(exchange|evidence|measure|python)$")
    message(FATAL_ERROR "PLANSEARCH_WITHOUT: '${wing}' is not one of exchange, evidence, measure, python")
  endif()
endforeach()
if("evidence" IN_LIST PLANSEARCH_WITHOUT AND NOT "measure" IN_LIST PLANSEARCH_WITHOUT)
  message(FATAL_ERROR "PLANSEARCH_WITHOUT: measure fits runs as evidence predicts them; leave out both, or measure alone")
endif()
function(plansearch_wing name)
  if(name IN_LIST PLANSEARCH_WITHOUT)
    plansearch_library(${name} USES commands WITH $<BUILD_INTERFACE:CLI11::CLI11>)
    target_sources(plansearch_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/absent/${name}.cpp)
  else()
    plansearch_library(${name} ${ARGN})
  endif()
  target_link_libraries(plansearch_commands INTERFACE plansearch_${name})
endfunction()
plansearch_wing(exchange JSON FROM src/exchange USES commands WITH $<BUILD_INTERFACE:CLI11::CLI11> ZLIB::ZLIB)
plansearch_wing(evidence JSON FROM src/evidence USES commands WITH $<BUILD_INTERFACE:CLI11::CLI11> $<BUILD_INTERFACE:Eigen3::Eigen>)
plansearch_wing(measure JSON FROM src/measure LEAVE "src/measure/calibrate/backends/(cuda|cudnn|nccl)[^/]*$" USES evidence
                WITH $<BUILD_INTERFACE:CLI11::CLI11> $<BUILD_INTERFACE:Eigen3::Eigen> ${CMAKE_DL_LIBS})
# Declared by the core, defined by the wing: archives that need each other.
target_link_libraries(plansearch_io INTERFACE plansearch_exchange)

# Rows of a table have functions of the same names: their files stay alone.
file(GLOB rows ${PROJECT_SOURCE_DIR}/src/cost/collective/*.cpp ${PROJECT_SOURCE_DIR}/src/schedule/orders/*.cpp
               ${PROJECT_SOURCE_DIR}/src/schedule/passes/*.cpp ${PROJECT_SOURCE_DIR}/src/exporters/alpa.cpp
               ${PROJECT_SOURCE_DIR}/src/exporters/galvatron.cpp ${PROJECT_SOURCE_DIR}/src/exporters/pytorch_csv.cpp)
set_source_files_properties(${rows} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# The template of pages as a string, so that no executable needs the file.
set(page ${PROJECT_SOURCE_DIR}/src/report/page/page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} PLANSEARCH_PAGE)
file(CONFIGURE OUTPUT page_html.cpp @ONLY CONTENT "#include \"report/page/page.hpp\"

const std::string_view plansearch::page::kPage = R\"html(@PLANSEARCH_PAGE@)html\";
")
target_sources(plansearch_report PRIVATE ${PROJECT_BINARY_DIR}/page_html.cpp)

set_source_files_properties(${PROJECT_SOURCE_DIR}/src/question/shipped_data.cpp PROPERTIES
                            COMPILE_DEFINITIONS PLANSEARCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# Answers of many questions as a database; without the library `sweep` says so.
if(PLANSEARCH_WITH_SQLITE)
  target_link_libraries(plansearch_answer PRIVATE SQLite::SQLite3)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/answer/sweep_files.cpp PROPERTIES COMPILE_DEFINITIONS PLANSEARCH_SQLITE)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/measure/tune_command.cpp PROPERTIES
                            COMPILE_DEFINITIONS PLANSEARCH_VERSION="${PROJECT_VERSION}")
# Loops that are measured must not be bound by their instructions, in debug builds neither.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/measure/calibrate/backends/cpu_loops.cpp PROPERTIES
                            COMPILE_OPTIONS "-O3;-fno-math-errno" SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
if(NOT "measure" IN_LIST PLANSEARCH_WITHOUT)
  include(Cuda)
endif()

target_compile_definitions(plansearch_commands PRIVATE PLANSEARCH_VERSION="${PROJECT_VERSION}")
add_executable(plansearch ${PROJECT_SOURCE_DIR}/src/cli/main.cpp)
set_target_properties(plansearch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_libraries(plansearch PRIVATE plansearch_commands plansearch_internal plansearch_warnings fmt::fmt)
# What `list` shows of hundreds of files, as one; read while the files are the same.
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(TARGET plansearch POST_BUILD COMMAND plansearch list index --out ${PROJECT_BINARY_DIR}/listings.json VERBATIM)
endif()
