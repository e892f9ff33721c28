# SPDX-License-Identifier: Apache-2.0
# The functions every room uses: a room's library, a room's test, a fuzz target.

add_library(telpher_flags INTERFACE)
target_compile_definitions(telpher_flags INTERFACE _GNU_SOURCE)
target_include_directories(telpher_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_compile_options(telpher_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter # of functions in tables
  -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wpointer-arith
  $<$<BOOL:${TELPHER_WERROR}>:-Werror>
  -fvisibility=hidden)

# Instrumented code gives gcc wrong ideas of how long texts are; it still warns in other builds.
if(TELPHER_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(telpher_flags INTERFACE -Wno-format-truncation -Wno-stringop-truncation)
endif()
# The thread sanitizer takes no notice of fences. What they order is atomic itself.
if(TELPHER_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(telpher_flags INTERFACE -Wno-tsan)
endif()

# telpher_room(<name> SOURCES … [DEPS …]): static, position-independent library tp_<name>.
function(telpher_room name)
  cmake_parse_arguments(R "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tp_${name} STATIC ${R_SOURCES})
  set_target_properties(tp_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(tp_${name} PUBLIC telpher_flags ${R_DEPS})
endfunction()

# Time limits of tests are declared for builds without the thread sanitizer, under which programs take several times
# as long. All are set by this CMake command, so it multiplies them there.
if(TELPHER_SANITIZE MATCHES thread)
  function(set_tests_properties)
    set(call "_set_tests_properties(")
    set(before "")
    math(EXPR last "${ARGC} - 1")
    foreach(i RANGE ${last})
      set(value "${ARGV${i}}")
      if(before STREQUAL "TIMEOUT")
        math(EXPR value "5 * ${value}")
      endif()
      string(APPEND call " [==[${value}]==]")
      set(before "${ARGV${i}}")
    endforeach()
    cmake_language(EVAL CODE "${call})")
  endfunction()
endif()

# telpher_test(<name> SOURCES … [DEPS …] [LABELS …] [TIMEOUT s]): cmocka program and its CTest entry.
# Exit status 77 means skipped; the reason is on the test's output.
function(telpher_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 200)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE telpher_flags ${T_DEPS} PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT}
    LABELS "${T_LABELS}" ENVIRONMENT "TELPHER_CACHE=none")
endfunction()

# telpher_plain(TESTS … TARGETS …): tests that lack something under a sanitizer. CI runs them again without one, in
# the preset plain, and builds the targets that they need there.
add_custom_target(plain_tests)
function(telpher_plain)
  cmake_parse_arguments(P "" "" "TESTS;TARGETS" ${ARGN})
  add_dependencies(plain_tests ${P_TARGETS})
  foreach(test IN LISTS P_TESTS)
    set_property(TEST ${test} APPEND PROPERTY LABELS plain)
  endforeach()
endfunction()

# telpher_fuzz(<name> SOURCES … CORPUS <dir> [DEPS …]): a LLVMFuzzerTestOneInput. The fuzz preset links
# libFuzzer; every other build links a small main that replays the corpus as a test.
add_custom_target(fuzzers)
function(telpher_fuzz name)
  cmake_parse_arguments(F "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  get_filename_component(corpus "${F_CORPUS}" ABSOLUTE)
  if(TELPHER_FUZZ)
    add_executable(${name} ${F_SOURCES})
    target_link_libraries(${name} PRIVATE telpher_flags ${F_DEPS} -fsanitize=fuzzer
      -static-libstdc++ -static-libgcc) # so that scripts/fuzz-pack can take it elsewhere
    set_property(GLOBAL APPEND_STRING PROPERTY TELPHER_FUZZERS "${name} ${corpus}\n")
    get_property(lines GLOBAL PROPERTY TELPHER_FUZZERS)
    file(WRITE ${PROJECT_BINARY_DIR}/fuzzers.txt "${lines}")
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    add_dependencies(fuzzers ${name})
  elseif(BUILD_TESTING)
    add_executable(${name} ${F_SOURCES} ${PROJECT_SOURCE_DIR}/cmake/fuzz_replay.c)
    target_link_libraries(${name} PRIVATE telpher_flags ${F_DEPS})
    add_test(NAME ${name} COMMAND ${name} ${corpus})
    set_tests_properties(${name} PROPERTIES TIMEOUT 200 LABELS fuzz)
  endif()
endfunction()
