# SPDX-License-Identifier: Apache-2.0
# plansearch_install_data(DESTINATION OPTION...): what an installed executable reads, and the scripts that make
# sites, rankings and fits of what `plansearch validate` answers.
function(plansearch_install_data destination)
  set(source ${PROJECT_SOURCE_DIR})
  install(DIRECTORY ${source}/hardware_profiles ${source}/models ${source}/frameworks ${source}/recipes
                    ${source}/constraints ${source}/validation
          DESTINATION ${destination} ${ARGN})
  install(FILES ${PROJECT_BINARY_DIR}/listings.json DESTINATION ${destination} OPTIONAL ${ARGN})
  install(PROGRAMS ${source}/tools/validation_summary.py DESTINATION ${destination}/tools ${ARGN})
  install(FILES ${source}/tools/validation_draws.py ${source}/tools/validation_markdown.py
                ${source}/tools/plain_yaml.py
          DESTINATION ${destination}/tools ${ARGN})
endfunction()
