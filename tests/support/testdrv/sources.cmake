# SPDX-License-Identifier: Apache-2.0
# The files of the test driver, for who links it: TESTDRV_SOURCES.
set(TESTDRV_SOURCES builtins context device enqueue event exec il in_flush kernel mem object parse pipe program script subgroup suggest svm table)
list(TRANSFORM TESTDRV_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM TESTDRV_SOURCES APPEND .c)
