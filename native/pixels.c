/* One-step conversion of images: for every processor, and the choice of a better one. */
#define CONVERT convert_plain
#include "pixels.h"
#include "pixels_template.h"

void openrknn_convert(const openrknn_pixels *task)
{
#if defined(OPENRKNN_HAS_PIXELS_AVX2)
    if (openrknn_cpu_features() & OPENRKNN_CPU_AVX2) {
        convert_avx2(task);
        return;
    }
#endif
    convert_plain(task);
}
