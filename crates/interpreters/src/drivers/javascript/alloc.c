/* Memory. The compiler's own allocator rounds every size up to a power of two and never joins what
 * was freed: half of a context's memory would be lost to it.
 *
 * A block begins with a word: its size, of which the low bits are flags. One that is free has
 * links behind it and its size again in its last word. Free blocks lie in lists by size, never
 * side by side. What is behind the last block is `top`, which has a head and is in no list.
 *
 * A unit of its own: where the compiler saw into it, it would take what it writes for objects of
 * other types than those that lay there. */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct block {
    uint32_t head;
    struct block *next, *prev;
} block;

enum {
    FREE = 1,        /* it is */
    BEHIND_FREE = 2, /* the one before it is */
    FLAGS = 7,
    UNIT = 8,
    LEAST = 16,
    LISTS = 16, /* for each power of two */
    LINEAR = UNIT * LISTS,
    POWERS = 26,
    TRIES = 32,
    WASM_PAGE = 65536,
};

extern char __heap_base;

static block *top;
static char *heap_end;
/* From here on nothing was ever written: it is zero. */
static char *fresh;
static uint32_t powers;
static uint32_t lists[POWERS];
static block *first[POWERS][LISTS];

#define SIZE(b) ((b)->head & ~(uint32_t)FLAGS)
#define AT(b, offset) ((block *)((char *)(b) + (offset)))
#define PAYLOAD(b) ((char *)(b) + 4)
#define BLOCK(p) ((block *)((char *)(p) - 4))

/* The list for blocks of this size. */
static void list_of(uint32_t size, unsigned *power, unsigned *list)
{
    if (size < LINEAR) {
        *power = 0;
        *list = size / UNIT;
    } else {
        unsigned log = 31 - __builtin_clz(size);
        *power = log - 6;
        *list = (size >> (log - 4)) & (LISTS - 1);
    }
}

static void take_out(block *b)
{
    unsigned power, list;
    list_of(SIZE(b), &power, &list);
    if (b->next)
        b->next->prev = b->prev;
    if (b->prev)
        b->prev->next = b->next;
    else if (!(first[power][list] = b->next) && !(lists[power] &= ~(1u << list)))
        powers &= ~(1u << power);
}

/* Makes a free block of what lies between two that are in use; the one behind it knows. */
static void put_in(block *b, uint32_t size)
{
    unsigned power, list;
    list_of(size, &power, &list);
    b->head = size | FREE;
    *(uint32_t *)((char *)b + size - 4) = size;
    AT(b, size)->head |= BEHIND_FREE;
    b->prev = NULL;
    b->next = first[power][list];
    if (b->next)
        b->next->prev = b;
    first[power][list] = b;
    lists[power] |= 1u << list;
    powers |= 1u << power;
}

/* A free block of at least this size, out of its list. In the first list some may be too small:
 * so many of them are looked at. */
static block *find(uint32_t size, unsigned tries)
{
    unsigned power, list;
    list_of(size, &power, &list);
    for (block *b = first[power][list]; b && tries--; b = b->next) {
        if (SIZE(b) >= size) {
            take_out(b);
            return b;
        }
    }
    uint32_t larger = list == LISTS - 1 ? 0 : lists[power] & (~0u << (list + 1));
    if (!larger) {
        uint32_t above = powers & (~0u << (power + 1));
        if (!above)
            return NULL;
        power = __builtin_ctz(above);
        larger = lists[power];
    }
    block *b = first[power][__builtin_ctz(larger)];
    take_out(b);
    return b;
}

/* Makes room at the top for a block of this size and a head behind it. */
static int grow_top(uint32_t size)
{
    if (!top) {
        uintptr_t begin = ((uintptr_t)&__heap_base + UNIT - 1) & ~(uintptr_t)(UNIT - 1);
        top = (block *)(begin + 4);
        heap_end = fresh = (char *)(__builtin_wasm_memory_size(0) * WASM_PAGE);
    }
    ptrdiff_t room = heap_end - (char *)top, needed = (ptrdiff_t)size + UNIT;
    if (room >= needed)
        return 1;
    size_t pages = (size_t)(needed - room + WASM_PAGE - 1) / WASM_PAGE;
    /* Nobody else asks for memory: what comes is where the last ended. */
    if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1)
        return 0;
    heap_end += pages * WASM_PAGE;
    return 1;
}

/* Where the top begins from now on. The block before it is in use. */
static void set_top(block *b)
{
    top = b;
    top->head = 0;
    if (fresh < (char *)b + UNIT)
        fresh = (char *)b + UNIT;
}

/* Gives back what a block in use has beyond `size`. */
static void cut(block *b, uint32_t size)
{
    uint32_t rest = SIZE(b) - size;
    block *behind = AT(b, SIZE(b));
    if (behind == top) {
        if (rest) {
            b->head -= rest;
            set_top(AT(b, size));
        }
        return;
    }
    if (behind->head & FREE) {
        if (!rest)
            return;
        rest += SIZE(behind);
        take_out(behind);
    } else if (rest < LEAST) {
        return;
    }
    b->head = size | (b->head & FLAGS);
    put_in(AT(b, size), rest);
}

static uint32_t size_for(size_t length)
{
    if (length > UINT32_MAX / 2)
        return 0;
    uint32_t size = ((uint32_t)length + 4 + UNIT - 1) & ~(uint32_t)(UNIT - 1);
    return size < LEAST ? LEAST : size;
}

/* Not called what it is: of that name the compiler knows things by itself. */
static void *get(size_t length)
{
    uint32_t size = size_for(length);
    int grown = 0;
    block *b = size ? find(size, TRIES) : NULL;
    if (size && !b && !(grown = grow_top(size)))
        b = find(size, UINT32_MAX);
    if (b) {
        b->head &= ~(uint32_t)FREE;
        AT(b, SIZE(b))->head &= ~(uint32_t)BEHIND_FREE;
        cut(b, size);
        return PAYLOAD(b);
    }
    if (!grown) {
        errno = ENOMEM;
        return NULL;
    }
    b = top;
    b->head = size;
    set_top(AT(b, size));
    return PAYLOAD(b);
}

void *malloc(size_t length)
{
    return get(length);
}

void free(void *place)
{
    if (!place)
        return;
    block *b = BLOCK(place);
    uint32_t size = SIZE(b);
    block *behind = AT(b, size);
    if (b->head & BEHIND_FREE) {
        uint32_t before = ((uint32_t *)b)[-1];
        b = AT(b, -(ptrdiff_t)before);
        take_out(b);
        size += before;
    }
    if (behind == top) {
        set_top(b);
        return;
    }
    if (behind->head & FREE) {
        size += SIZE(behind);
        take_out(behind);
    }
    put_in(b, size);
}

void *calloc(size_t count, size_t each)
{
    size_t length;
    if (__builtin_mul_overflow(count, each, &length)) {
        errno = ENOMEM;
        return NULL;
    }
    char *clean = fresh;
    char *place = get(length);
    /* Writing zeros where there are zeros would make pages of it that have to be kept. */
    if (place && (!clean || place < clean))
        memset(place, 0, clean && length > (size_t)(clean - place) ? (size_t)(clean - place) : length);
    return place;
}

void *realloc(void *place, size_t length)
{
    if (!place)
        return get(length);
    uint32_t size = size_for(length);
    block *b = BLOCK(place);
    if (size && size > SIZE(b)) {
        block *behind = AT(b, SIZE(b));
        uint32_t more = size - SIZE(b);
        if (behind == top && grow_top(more)) {
            b->head += more;
            set_top(AT(b, size));
        } else if (behind != top && behind->head & FREE && SIZE(behind) >= more) {
            take_out(behind);
            b->head += SIZE(behind);
            AT(b, SIZE(b))->head &= ~(uint32_t)BEHIND_FREE;
        }
    }
    if (size && size <= SIZE(b)) {
        cut(b, size);
        return place;
    }
    void *other = get(length);
    if (other) {
        memcpy(other, place, SIZE(b) - 4);
        free(place);
    }
    return other;
}

size_t malloc_usable_size(void *place)
{
    return place ? SIZE(BLOCK(place)) - 4 : 0;
}

/* Nothing here asks for more than a unit. */
void *aligned_alloc(size_t alignment, size_t length)
{
    return alignment <= UNIT ? get(length) : NULL;
}

/* Takes all that is free but the top for good: what comes after this lies side by side behind what
 * is there, in few pages. */
void settle(void)
{
    while (powers) {
        unsigned power = __builtin_ctz(powers);
        block *b = first[power][__builtin_ctz(lists[power])];
        take_out(b);
        b->head &= ~(uint32_t)FREE;
        AT(b, SIZE(b))->head &= ~(uint32_t)BEHIND_FREE;
    }
}
