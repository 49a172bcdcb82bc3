/* What gcc links into each shared library as part of its crtbeginS.o, and zig does not: a name for the library, and word
   to the C library when it is unloaded. Without them the functions of pthread_atfork stay when dlclose has taken their
   code, and the next fork of the program jumps nowhere. zig-cc links it into everything shared. */
extern void __cxa_finalize(void *);

__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

__attribute__((destructor)) static void unload(void) { __cxa_finalize(__dso_handle); }
