# SPDX-License-Identifier: Apache-2.0
# Preset `web`: the executable as WebAssembly and the page around it, with the libraries that tools/web_libraries.sh
# puts together. The page is the folder `page` of the build folder, for any file server.
set(libraries ${PROJECT_SOURCE_DIR}/build/web-libraries)
if(NOT EXISTS ${libraries}/yaml-cpp/src/parser.cpp)
  message(FATAL_ERROR "preset web: ${libraries} is missing: run tools/web_libraries.sh")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
add_compile_options(-fwasm-exceptions "SHELL:-include ${PROJECT_SOURCE_DIR}/web/standard.hpp")

add_library(web_headers INTERFACE)
target_include_directories(web_headers SYSTEM INTERFACE ${libraries}/include)
target_compile_definitions(web_headers INTERFACE FMT_HEADER_ONLY)
foreach(library Threads::Threads Boost::headers nlohmann_json::nlohmann_json CLI11::CLI11 fmt::fmt)
  add_library(${library} ALIAS web_headers)
endforeach()

file(GLOB yaml_sources ${libraries}/yaml-cpp/src/*.cpp)
add_library(yaml-cpp STATIC ${yaml_sources})
add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
target_include_directories(yaml-cpp SYSTEM PUBLIC ${libraries}/yaml-cpp/include)
target_compile_definitions(yaml-cpp PUBLIC YAML_CPP_STATIC_DEFINE)
target_compile_features(yaml-cpp PUBLIC cxx_std_20)
target_compile_options(yaml-cpp PRIVATE -w)
set_target_properties(yaml-cpp PROPERTIES UNITY_BUILD OFF)

# Called once the executable is there. `main` is started by the page, once for every question.
function(plansearch_page)
  set(page ${PROJECT_BINARY_DIR}/page)
  set_target_properties(plansearch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${page})
  target_link_options(plansearch PRIVATE -fwasm-exceptions -sMODULARIZE=1 -sEXPORT_NAME=createPlansearch -sINVOKE_RUN=0
                      -sALLOW_MEMORY_GROWTH=1 -sTOTAL_STACK=8MB -sFORCE_FILESYSTEM=1 -sENVIRONMENT=web,worker,node
                      "-sEXPORTED_RUNTIME_METHODS=callMain,FS,ENV")
  foreach(folder hardware_profiles models frameworks recipes constraints validation/sites.yaml
                 validation/reliability.yaml validation/switch_priors.yaml)
    target_link_options(plansearch PRIVATE "SHELL:--preload-file ${PROJECT_SOURCE_DIR}/${folder}@/plansearch/${folder}")
  endforeach()
  add_custom_command(TARGET plansearch POST_BUILD
                     COMMAND ${CMAKE_COMMAND} -E copy_if_different ${PROJECT_SOURCE_DIR}/web/index.html ${page}/index.html VERBATIM)
endfunction()
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL plansearch_page)
