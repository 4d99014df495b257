/* Limits against which every argument from Python is checked. */
#ifndef NATIVE_LIMITS_H
#define NATIVE_LIMITS_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_THREADS 256
#define MOST_TOKENS 131072   /* Most keys of a weighted sum, which stays below 2^53; also most rows of a call. */
#define MOST_DEPTH 65536
#define MOST_OUTPUTS 1048576
#define MOST_SEQUENCES 4096

static inline int in_range(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

#endif
