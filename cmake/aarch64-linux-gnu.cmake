# SPDX-License-Identifier: Apache-2.0
# Toolchain file: builds for 64-bit Arm with Debian's cross compiler. Headers of OpenCL are this machine's,
# libraries come from TELPHER_SYSROOT, which scripts/cross-sysroot fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(TELPHER_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot CACHE PATH
  "arm64 libraries: scripts/cross-sysroot")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TELPHER_SYSROOT)
get_filename_component(telpher_sysroot "${TELPHER_SYSROOT}" ABSOLUTE)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${telpher_sysroot})
set(ENV{PKG_CONFIG_LIBDIR}
  ${telpher_sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig:${telpher_sysroot}/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH ${telpher_sysroot} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
# What these libraries need themselves is looked for there, too.
set(telpher_also ${telpher_sysroot}/usr/lib/aarch64-linux-gnu:${telpher_sysroot}/lib/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${telpher_also})
