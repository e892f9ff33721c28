# SPDX-License-Identifier: Apache-2.0
# What is checked besides behaviour, as tests, so that every way of running the tests checks it too.
if(NOT BUILD_TESTING)
  return()
endif()

# telpher_check(<name> COMMAND …): exit status 77 means skipped, with the reason on the output.
function(telpher_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS check)
endfunction()

telpher_check(check_format scripts/check-format)
