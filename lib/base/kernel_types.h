/* The vector types of one width; see kernel_lanes.h. */
#include "kernel.h"

#include <string.h>

#define VECTOR __attribute__((vector_size(BYTES)))
#define HALF __attribute__((vector_size(BYTES / 2)))
#define LANE static inline TARGET
#define LOOP static inline TARGET __attribute__((always_inline))

typedef int64_t raw VECTOR; /* any elements */
typedef float vf32 VECTOR;
typedef double vf64 VECTOR;
typedef int32_t vi32 VECTOR;
typedef uint32_t vu32 VECTOR;
typedef int64_t half HALF; /* 16-bit elements, as many as vf32 has */
typedef float hf32 HALF;   /* as many floats as vf64 has doubles */
