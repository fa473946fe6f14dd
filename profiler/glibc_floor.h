/* The injected library must load in whatever container the user brings: RHEL 7's GLIBC_2.17 is the
 * floor. glibc 2.34 moved libdl and libpthread into libc and gave their functions a new version;
 * linking today would ask for that one. These directives ask for the first version instead, which
 * every later glibc still provides, in libdl.so.2 and libpthread.so.0 (linked by name). `make
 * check` reads the library's symbol versions and fails when one is newer than the floor.
 *
 * Included before every source of the injected library (-include); never elsewhere. */
#ifndef MFU_PROFILER_GLIBC_FLOOR_H_
#define MFU_PROFILER_GLIBC_FLOOR_H_

#if defined(__x86_64__)
#define MFU_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define MFU_OLDEST "GLIBC_2.17"
#else
#error "name this architecture's first GLIBC version"
#endif

__asm__(".symver dlopen,dlopen@" MFU_OLDEST);
__asm__(".symver dlsym,dlsym@" MFU_OLDEST);
__asm__(".symver dlclose,dlclose@" MFU_OLDEST);
__asm__(".symver pthread_create,pthread_create@" MFU_OLDEST);
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@" MFU_OLDEST);
__asm__(".symver pthread_sigmask,pthread_sigmask@" MFU_OLDEST);
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@" MFU_OLDEST);

#endif
