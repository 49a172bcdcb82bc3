/* Eight fp16 numbers at a time, by F16C: the same for all kernels of x86. */

ALWAYS_INLINE void halves_to_floats(const uint8_t *at, float32 *out)
{
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at)));
}

ALWAYS_INLINE void floats_to_halves(const float32 *at, uint16_t *out)
{
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph(_mm256_loadu_ps(at), _MM_FROUND_TO_NEAREST_INT));
}
