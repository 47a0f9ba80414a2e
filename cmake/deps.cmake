# Everything from outside. Only the module that uses a library links it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
# Debian's libroaring-dev has no .pc file
find_path(ROARING_INCLUDE roaring/roaring.h REQUIRED)
find_library(ROARING_LIB roaring REQUIRED)
add_library(roaring UNKNOWN IMPORTED)
set_target_properties(roaring PROPERTIES IMPORTED_LOCATION ${ROARING_LIB} INTERFACE_INCLUDE_DIRECTORIES ${ROARING_INCLUDE})
pkg_check_modules(MARIADB REQUIRED IMPORTED_TARGET libmariadb)
pkg_check_modules(ICU REQUIRED IMPORTED_TARGET icu-uc)

# libduckdb: DUCKDB_ROOT (a folder with libduckdb.so and duckdb.h, or lib/ and include/), pkg-config,
# or what tools/setup.sh fetched into third_party/duckdb.
set(DUCKDB_ROOT "" CACHE PATH "folder that holds libduckdb.so and duckdb.h")
if(NOT DUCKDB_ROOT AND DEFINED ENV{DUCKDB_ROOT})
  set(DUCKDB_ROOT $ENV{DUCKDB_ROOT})
endif()
find_path(DUCKDB_INCLUDE duckdb.h HINTS ${DUCKDB_ROOT} ${CMAKE_SOURCE_DIR}/third_party/duckdb PATH_SUFFIXES include)
find_library(DUCKDB_LIB duckdb HINTS ${DUCKDB_ROOT} ${CMAKE_SOURCE_DIR}/third_party/duckdb PATH_SUFFIXES lib)
if(NOT DUCKDB_INCLUDE OR NOT DUCKDB_LIB)
  message(FATAL_ERROR "libduckdb not found. Run tools/setup.sh (it fetches a pinned, checksummed copy into "
    "third_party/duckdb), or set DUCKDB_ROOT to a folder with libduckdb.so and duckdb.h.")
endif()
add_library(duckdb SHARED IMPORTED)
set_target_properties(duckdb PROPERTIES IMPORTED_LOCATION ${DUCKDB_LIB} INTERFACE_INCLUDE_DIRECTORIES ${DUCKDB_INCLUDE})
