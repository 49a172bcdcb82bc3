/* One-step conversion of images for x86 processors with AVX2: vectors of 16 bytes, with three operands. */
#define CONVERT convert_avx2
#include "pixels.h"
#include "pixels_template.h"
