# SPDX-License-Identifier: Apache-2.0
# The two functions every room uses: one makes a room's library, one a room's test.

add_library(telpher_flags INTERFACE)
target_compile_definitions(telpher_flags INTERFACE _GNU_SOURCE)
target_include_directories(telpher_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_compile_options(telpher_flags INTERFACE
  -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wpointer-arith
  -fvisibility=hidden)

# telpher_room(<name> SOURCES … [DEPS …]): static, position-independent library tp_<name>.
function(telpher_room name)
  cmake_parse_arguments(R "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tp_${name} STATIC ${R_SOURCES})
  set_target_properties(tp_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(tp_${name} PUBLIC telpher_flags ${R_DEPS})
endfunction()

# telpher_test(<name> SOURCES … [DEPS …] [LABELS …] [TIMEOUT s]): cmocka program and its CTest entry.
# Exit status 77 means skipped; the reason is on the test's output.
function(telpher_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE telpher_flags ${T_DEPS} PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT}
    LABELS "${T_LABELS}")
endfunction()
