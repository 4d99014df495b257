/* Compares the AVX-512 kernel with the scalar one, function by function, on a machine without an operating system. */
#include "kernel.h"

#define WIDE 2112
#define LONGEST 2048

static const Kernel *const fast = &native_kernel_avx512, *const plain = &native_kernel_scalar;

static int16_t left[MOST_TILE * WIDE], right[WIDE * 2 * PANEL], integers[2][3][40000];
static int8_t weights[PANEL * WIDE * 2];
static int32_t sums[2][MOST_TILE][PANEL];
static double totals[2][64];
static float numbers[LONGEST], others[LONGEST], found[2][LONGEST];
static uint32_t state = 1;
static int checks, failures;

void *memcpy(void *to, const void *from, size_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    return to;
}

void *memset(void *to, int value, size_t count)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(value) : "memory");
    return to;
}

static void put(const char *text)
{
    for (; *text; text++)
        __asm__ volatile("outb %0, $0xe9" : : "a"(*text));
}

static void put_number(int number)
{
    char digits[12] = {0};
    int at = 11;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(digits + at);
}

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static float draw_float(void)
{
    return (float)((int32_t)(draw() % 2000001) - 1000000) * scale_of(140 - (int32_t)(draw() % 40), 14);
}

static void same(const char *what, const void *a, const void *b, size_t bytes)
{
    const char *x = a, *y = b;
    checks++;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i]) {
            failures++;
            put("DIFFERENT ");
            put(what);
            put("\n");
            return;
        }
}

/* Operands of one sign, alternating, or drawn. */
static int operand(int pattern, int i, int least, int most)
{
    const int drawn = least + (int)(draw() % (uint32_t)(most - least + 1));
    return pattern == 0 ? most : pattern == 1 ? least : pattern == 2 ? (i & 1 ? most : least) : drawn;
}

static void compare_tiles(void)
{
    for (int rows = 1; rows <= MOST_TILE; rows++)
        for (int pairs = 1; pairs <= EXACT_DEPTH / 2; pairs = pairs * 3 + 1 > 512 && pairs < 512 ? 512 : pairs * 3 + 1) {
            fast->products(rows, left, WIDE, right, 2 * PANEL, pairs, sums[0]);
            for (int r = 0; r < rows; r++)
                plain->products(1, left + r * WIDE, WIDE, right, 2 * PANEL, pairs, sums[1] + r);
            same("products", sums[0], sums[1], (size_t)rows * sizeof sums[0][0]);
        }
}

static void compare_rows_of_weights(void)
{
    static const int depths[] = {1, 8, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 2100};
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
        const int8_t *rows[PANEL];
        for (int r = 0; r < PANEL; r++)
            rows[r] = weights + r * depths[d];
        for (int k = 0; k < 2; k++) {
            const Kernel *kernel = k ? plain : fast;
            kernel->dots(9, weights, depths[d], right, totals[k]);
            kernel->pack(rows, depths[d], integers[k][0]);
        }
        same("dots", totals[0], totals[1], 9 * sizeof(double));
        same("pack", integers[0][0], integers[1][0], (size_t)padded(depths[d], 2) * PANEL * sizeof(int16_t));
    }
}

static void compare_products(void)
{
    for (int pattern = 0; pattern < 4; pattern++) {
        for (int i = 0; i < MOST_TILE * WIDE; i++)
            left[i] = (int16_t)operand(pattern, i, -16383, 16383);
        for (int i = 0; i < WIDE * 2 * PANEL; i++)
            right[i] = (int16_t)operand(pattern, i, -128, 127);
        compare_tiles();
        for (int i = 0; i < WIDE * 2 * PANEL; i++)
            right[i] = (int16_t)operand(pattern, i, -16383, 16383);
        for (size_t i = 0; i < sizeof weights; i++)
            weights[i] = (int8_t)operand(3 - pattern, (int)i, -128, 127);
        compare_rows_of_weights();
    }
}

static void run_floats(const Kernel *kernel, int k, int64_t count)
{
    float *out = found[k];
    int16_t *own = integers[k][0];
    out[0] = (float)kernel->quantise(numbers, count, own, count + EDGE);
    kernel->split(own, count, integers[k][1], integers[k][2]);
    kernel->normalise(numbers, others, 0x1p-17f, count, own, out + 1);
    memcpy(out + 600, others, (size_t)count * sizeof *out);
    kernel->gate(numbers, out + 600, count);
    memcpy(out + 1200, others, (size_t)count * sizeof *out);
    kernel->rotate(numbers, numbers + count / 2, count / 2, out + 1200);
}

/* Twice over the same numbers: of equals the first stays. */
static Best run_choice(const Kernel *kernel, int64_t count)
{
    Best best = NOTHING_SEEN;
    kernel->best(numbers, count, 5, &best);
    kernel->best(numbers, count, 1000, &best);
    return best;
}

static Softmax run_attention(const Kernel *kernel, int k, int64_t count)
{
    float *out = found[k];
    for (int i = 0; i < PANEL; i++)
        totals[k][i] = 4096.0 * sums[0][2][i];
    kernel->accumulate(sums[0][0], 2048, totals[k]);
    kernel->outputs(totals[k], PANEL, 0x1p-9f, others, NULL, 0, out);
    kernel->outputs(totals[k], PANEL - 3, 0x1p-9f, others, others, 1, out);
    kernel->outputs_of_whole(sums[0][0], PANEL, 0x1p-9f, others, NULL, 1, out);
    kernel->scores(sums[0][0], sums[0][1], 0x1.234p-20f, others, out + PANEL);
    kernel->mix(totals[k], PANEL, 0x1p-7f, 1.5f, out + 2 * PANEL);
    for (int64_t i = 0; i < count; i++)
        out[100 + i] = numbers[i] * 0x1p-6f;
    return kernel->softmax(out + 100, others, count, integers[k][0], integers[k][1]);
}

static void compare_floats(void)
{
    for (int round = 0; round < 60; round++) {
        const int64_t count = round < 30 ? 16 + round : 100 + (int64_t)(draw() % 480);
        for (int64_t i = 0; i < count; i++) {
            numbers[i] = draw_float() * (round % 7 == 3 ? 0x1p-60f : 1.0f);
            others[i] = scale_of(100 + (int32_t)(draw() % 30), 14);
        }
        for (int i = 0; i < 3 * PANEL; i++)
            sums[0][i / PANEL][i % PANEL] = (int32_t)(draw() * 64);
        run_floats(fast, 0, count);
        run_floats(plain, 1, count);
        same("rows", found[0], found[1], sizeof found[0]);
        same("limbs", integers[0], integers[1], sizeof integers[0]);
        const Best first = run_choice(fast, count), second = run_choice(plain, count);
        same("choice", &first, &second, sizeof first);
        const Softmax a = run_attention(fast, 0, count), b = run_attention(plain, 1, count);
        same("attention", found[0], found[1], sizeof found[0]);
        same("softmax", &a, &b, sizeof a);
        same("weights", integers[0], integers[1], sizeof integers[0]);
    }
}

__attribute__((section(".entry"))) void entry(void)
{
    compare_products();
    compare_floats();
    put_number(checks);
    put(" comparisons, ");
    put_number(failures);
    put(" different\n");
    __asm__ volatile("outw %0, %1" : : "a"((uint16_t)0x2000), "Nd"((uint16_t)0xb004)); /* Power off. */
    for (;;)
        __asm__ volatile("cli; hlt");
}
