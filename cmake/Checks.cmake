# SPDX-License-Identifier: Apache-2.0
# What is checked besides behaviour, as tests, so that every way of running the tests checks it too.
if(NOT BUILD_TESTING)
  return()
endif()

configure_file(cmake/sanitizers/environment.cmake.in sanitizers.cmake @ONLY)
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_BINARY_DIR}/sanitizers.cmake)

# telpher_check(<name> COMMAND …): exit status 77 means skipped, with the reason on the output.
function(telpher_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS check)
endfunction()

telpher_check(check_format scripts/check/format)
telpher_check(check_includes scripts/check/includes)
telpher_check(check_includes_self_test scripts/check/includes --self-test)
telpher_check(check_words scripts/check/words --baseline scripts/words-baseline README.md ARCHITECTURE.md CHANGELOG.md
  CONTRIBUTING.md SECURITY.md docs src include tools bench examples scripts python tests)
telpher_check(check_words_self_test scripts/check/words --self-test)
telpher_check(check_structure scripts/check/structure)
telpher_check(check_structure_self_test scripts/check/structure --self-test)
telpher_check(check_help scripts/check/help)
telpher_check(check_reference scripts/reference check)
if(EXISTS ${PROJECT_SOURCE_DIR}/include/telpher)
  telpher_check(check_headers scripts/check/headers ${PROJECT_BINARY_DIR}/include)
endif()

# telpher_check_symbols(<target> <map>): the library exports what its version script names, no more.
function(telpher_check_symbols target map)
  if(TARGET ${target})
    telpher_check(check_symbols_${target} scripts/check/symbols $<TARGET_FILE:${target}>
      ${PROJECT_SOURCE_DIR}/${map})
  endif()
endfunction()
telpher_check_symbols(telpher_api src/telpher.map)
telpher_check_symbols(telpher-opencl src/icd/telpher-opencl.map)
telpher_check_symbols(telpher-rma src/rma/telpher-rma.map)
telpher_check_symbols(telpher-mdr src/mdr/telpher-mdr.map)
if(TELPHER_HAVE_OFFLOAD)
  foreach(mpi IN LISTS TELPHER_MPIS)
    telpher_check(check_symbols_offload_${mpi} scripts/check/symbols $<TARGET_FILE:telpher-offload-${mpi}>
      ${PROJECT_BINARY_DIR}/src/offload/${mpi}/telpher-offload.map)
  endforeach()
endif()
if(TARGET telpher AND EXISTS ${PROJECT_SOURCE_DIR}/docs/config.md)
  telpher_check(check_docs scripts/docs ${PROJECT_BINARY_DIR} --check)
endif()
if(TARGET telpher AND TARGET telpherd AND TARGET telpher-bench)
  telpher_check(check_man scripts/check/man $<TARGET_FILE_DIR:telpher>)
endif()
telpher_check(check_wheel_python ${CMAKE_COMMAND} -E env PYTHON=false scripts/wheel ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/none)
set_tests_properties(check_wheel_python PROPERTIES PASS_REGULAR_EXPRESSION "name a Python that has them")
telpher_check(check_bootstrap_no make -n BOOTSTRAP=no wheel deb tidy docs demo check-apps check-fuzz)
set_tests_properties(check_bootstrap_no PROPERTIES FAIL_REGULAR_EXPRESSION "scripts/bootstrap")
telpher_check(check_bare scripts/check/bare ${PROJECT_BINARY_DIR}/bare ${CMAKE_C_COMPILER})
set_tests_properties(check_bare PROPERTIES TIMEOUT 300)
