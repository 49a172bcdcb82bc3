/* What the products of matrices share on x86: 4-bit numbers, and the sum of a register. */

ALWAYS_INLINE product_bytes product_load_nibbles(const uint8_t *at)
{
    const __m256i pairs = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at));
    const __m256i apart = _mm256_and_si256(_mm256_or_si256(pairs, _mm256_slli_epi16(pairs, 4)), _mm256_set1_epi8(15));
    return _mm256_sub_epi8(_mm256_xor_si256(apart, _mm256_set1_epi8(8)), _mm256_set1_epi8(8));
}

ALWAYS_INLINE int32_t product_total(product_sums sums)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

ALWAYS_INLINE void product_unpack(const uint8_t *at, int8_t *out)
{
    const __m128i pairs = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)at));
    const __m128i apart = _mm_and_si128(_mm_or_si128(pairs, _mm_slli_epi16(pairs, 4)), _mm_set1_epi8(15));
    _mm_storeu_si128((__m128i *)out, _mm_sub_epi8(_mm_xor_si128(apart, _mm_set1_epi8(8)), _mm_set1_epi8(8)));
}
