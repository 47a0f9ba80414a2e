option(WEIR_TESTS "build unit tests" ON)
option(WEIR_FUZZ "build libFuzzer targets (clang only)" OFF)
set(WEIR_SANITIZE "" CACHE STRING "comma list for -fsanitize, e.g. address,undefined")

add_compile_options(-Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
  -Wno-unused-parameter -Wno-missing-field-initializers -fno-strict-aliasing -fstack-protector-strong)
add_compile_definitions(_GNU_SOURCE WEIR_VERSION="${PROJECT_VERSION}")
# test_the_binary_is_hardened in tests/integration/test_secrets.py looks whether they are in the binary.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-fstack-clash-protection HAS_STACK_CLASH)
  check_c_compiler_flag(-fcf-protection=full HAS_CF_PROTECTION) # x86 alone
  add_compile_options(-O2 -g1 -fPIE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 # 2 where compiler or libc know no 3
    $<$<BOOL:${HAS_STACK_CLASH}>:-fstack-clash-protection> $<$<BOOL:${HAS_CF_PROTECTION}>:-fcf-protection=full>)
  add_link_options(-pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
if(WEIR_SANITIZE)
  add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${WEIR_SANITIZE})
endif()
if(WEIR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
