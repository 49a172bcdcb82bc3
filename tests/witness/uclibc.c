/*
 * What the vendor's librknnmrt.a (built for uClibc) wants and the GNU C library does not have: two tables of characters.
 * The bits are those of uClibc: upper 0, lower 1, alpha 2, digit 3, xdigit 4, space 5, print 6, graph 7, blank 8, cntrl 9,
 * punct 10, alnum 11.
 */
#include <ctype.h>
#include <stdint.h>

enum { LOWEST = -128, CHARACTERS = 384 };

static uint16_t kinds[CHARACTERS];
static int16_t lower[CHARACTERS];
const uint16_t *__ctype_b = kinds - LOWEST;
const int16_t *__ctype_tolower = lower - LOWEST;

__attribute__((constructor)) static void fill(void) {
    for (int at = 0; at < CHARACTERS; at++) {
        int letter = at + LOWEST;
        lower[at] = (int16_t)letter;
        if (letter < 0 || letter > 127) continue;
        lower[at] = (int16_t)tolower(letter);
        const int is[] = {isupper(letter), islower(letter), isalpha(letter), isdigit(letter), isxdigit(letter), isspace(letter),
                          isprint(letter), isgraph(letter), isblank(letter), iscntrl(letter), ispunct(letter), isalnum(letter)};
        for (unsigned bit = 0; bit < sizeof is / sizeof *is; bit++) kinds[at] |= (uint16_t)((is[bit] != 0) << bit);
    }
}
