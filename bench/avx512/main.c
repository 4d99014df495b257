/* Runs every function of the AVX-512 kernel beside the scalar one on bare metal, and prints what differs to the serial port. */
#include "kernel.h"

static inline void out_byte(uint16_t port, uint8_t value) { __asm__ volatile("outb %0,%1" ::"a"(value), "Nd"(port)); }
static inline uint8_t in_byte(uint16_t port) { uint8_t value; __asm__ volatile("inb %1,%0" : "=a"(value) : "Nd"(port)); return value; }
static void say(const char *text) { while (*text) { out_byte(0x3f8, (uint8_t)*text++); while (!(in_byte(0x3fd) & 0x40)) ; } }
static void say_number(uint64_t n) { char digits[24]; int i = 23; digits[i] = 0; do { digits[--i] = (char)('0' + n % 10); n /= 10; } while (n); say(digits + i); }

void *memcpy(void *to, const void *from, size_t count) { char *a = to; const char *b = from; while (count--) *a++ = *b++; return to; }
void *memset(void *to, int value, size_t count) { volatile char *a = to; while (count--) *a++ = (char)value; return to; }

static uint64_t state = 0x9E3779B97F4A7C15u, checks, failures;
static uint32_t draw(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return (uint32_t)(state >> 32); }
static void same(const char *what, int64_t size, const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    checks++;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i]) { failures++; say("DIFFERS "); say(what); say(" size "); say_number((uint64_t)size); say(" byte "); say_number(i); say("\n"); return; }
}

#define A native_kernel_avx512
#define B native_kernel_scalar
#define MOST 20000
static int16_t values[MOST], panel_a[1200 * PANEL], panel_b[1200 * PANEL], ints_a[MOST], ints_b[MOST], low_a[MOST], low_b[MOST];
static int8_t weights[9 * MOST];
static float x[MOST], ya[MOST], yb[MOST], w[MOST];
static double da[MOST], db[MOST];

static void fill(int pattern, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const int32_t any = (int32_t)(draw() % 32767) - 16383;
        values[i] = (int16_t)(pattern == 0 ? 16383 : pattern == 1 ? -16383 : pattern == 2 ? (i % 2 ? 16383 : -16383) : any);
    }
    for (int64_t i = 0; i < 9 * count; i++)
        weights[i] = (int8_t)(pattern < 2 ? -128 : pattern == 2 ? (i % 2 ? 127 : -127) : (int32_t)(draw() % 256) - 128);
    for (int64_t i = 0; i < count; i++) {
        const int shift = pattern == 0 ? 0 : (int)(draw() % 40) - 20;
        x[i] = ((float)(int32_t)draw() * 0x1p-31f) * float_of((127 + shift) << 23);
        w[i] = (float)(int32_t)draw() * 0x1p-31f;
    }
}

static void check_dots(int64_t depth)
{
    static double sums_a[9], sums_b[9];
    for (int64_t i = depth; i < padded(depth, EDGE); i++) values[i] = 0;
    for (int rows = 1; rows <= 9; rows++) {
        A.dots(rows, weights, depth, values, sums_a);
        B.dots(rows, weights, depth, values, sums_b);
        same("dots", depth, sums_a, sums_b, sizeof(double) * (size_t)rows);
    }
}

static void check_products(int64_t depth)
{
    static int32_t out_a[MOST_TILE][PANEL], out_b[MOST_TILE][PANEL];
    const int8_t *rows[PANEL];
    for (int i = 0; i < PANEL; i++) rows[i] = weights + (i % 9) * depth;
    A.pack(rows, depth, panel_a);
    B.pack(rows, depth, panel_b);
    same("pack", depth, panel_a, panel_b, sizeof(int16_t) * PANEL * (size_t)padded(depth, 2));
    for (int tile = 1; tile <= A.tile; tile++) {
        A.products(tile, values, depth % 7 + 2, panel_a, 2 * PANEL, depth / 2, out_a);
        for (int r = 0; r < tile; r++)
            B.products(1, values + r * (depth % 7 + 2), 0, panel_b, 2 * PANEL, depth / 2, out_b + r);
        same("products", depth, out_a, out_b, sizeof out_a[0] * (size_t)tile);
    }
    for (int i = 0; i < PANEL; i++) da[i] = db[i] = (double)i * 1e9;
    A.accumulate(out_a[0], 128.0, da); B.accumulate(out_b[0], 128.0, db);
    same("accumulate", depth, da, db, sizeof(double) * PANEL);
}

static void check_rows(int64_t width)
{
    static float scales[PANEL], sa[PANEL], sb[PANEL];
    static int32_t high[PANEL], low[PANEL];
    const int32_t ea = A.quantise(x, width, ints_a, padded(width, EDGE)), eb = B.quantise(x, width, ints_b, padded(width, EDGE));
    same("quantise E", width, &ea, &eb, sizeof ea);
    same("quantise", width, ints_a, ints_b, sizeof(int16_t) * (size_t)padded(width, EDGE));
    A.split(ints_a, width, low_a, panel_a); B.split(ints_b, width, low_b, panel_b);
    same("split high", width, low_a, low_b, 2 * (size_t)width); same("split low", width, panel_a, panel_b, 2 * (size_t)width);
    A.normalise(x, w, 0x1p-17f, width, ints_a, ya); B.normalise(x, w, 0x1p-17f, width, ints_b, yb);
    same("normalise", width, ya, yb, 4 * (size_t)width);
    A.gate(x, ya, width); B.gate(x, yb, width);
    same("gate", width, ya, yb, 4 * (size_t)width);
    for (int64_t i = 0; i < width; i++) { da[i] = (double)values[i] * weights[i] * 1234567.0; ya[i] = yb[i] = w[i]; }
    for (int add = 0; add < 2; add++) {
        A.outputs(da, width, 0x1p-20f, w, add ? x : 0, add, ya); B.outputs(da, width, 0x1p-20f, w, add ? x : 0, add, yb);
        same("outputs", width, ya, yb, 4 * (size_t)width);
    }
    A.rotate(w, x, width / 2, ya); B.rotate(w, x, width / 2, yb);
    same("rotate", width, ya, yb, 4 * (size_t)(width / 2 * 2));
    A.mix(da, width, 0x1p-30f, 3.0f, ya); B.mix(da, width, 0x1p-30f, 3.0f, yb);
    same("mix", width, ya, yb, 4 * (size_t)width);
    for (int i = 0; i < PANEL; i++) { high[i] = (int32_t)draw() / 4; low[i] = (int32_t)draw() / 4; scales[i] = w[i % width]; }
    A.scores(high, low, 0x1p-25f, scales, sa); B.scores(high, low, 0x1p-25f, scales, sb);
    same("scores", width, sa, sb, sizeof sa);
    for (int64_t i = 0; i < width; i++) { ya[i] = yb[i] = x[i] * 4.0f; w[i] = float_of((100 + (int)(draw() % 40)) << 23); }
    const Softmax ma = A.softmax(ya, w, width, ints_a, low_a), mb = B.softmax(yb, w, width, ints_b, low_b);
    same("softmax total", width, &ma.total, &mb.total, 4); same("softmax E", width, &ma.exponent, &mb.exponent, 4);
    same("softmax high", width, ints_a, ints_b, 2 * (size_t)width); same("softmax low", width, low_a, low_b, 2 * (size_t)width);
}

void test_main(void)
{
    static const int64_t depths[] = {8, 15, 31, 32, 33, 64, 65, 100, 576, 1023, 1024};
    out_byte(0x3fb, 3);
    say("kernel "); say(A.name); say(" beside "); say(B.name); say("\n");
    for (int pattern = 0; pattern < 4; pattern++) {
        fill(pattern, MOST - 64);
        for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
            check_dots(depths[i]); check_products(depths[i]); fill(pattern, 2048); check_rows(depths[i]);
        }
        fill(pattern, MOST - 64);
        check_dots(8191); check_dots(8192); check_dots(16384); check_dots(16417);
    }
    say_number(checks); say(" comparisons, "); say_number(failures); say(" differ\n");
    for (const char *text = "Shutdown"; *text; text++) out_byte(0x8900, (uint8_t)*text);
}
