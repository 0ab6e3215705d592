/* Jobs, timers, and promises that nobody handles. */

struct timer {
    struct timer *next;
    int32_t id;
    uint64_t due_ns, every_ns; /* every_ns 0: once */
    JSValue function, arguments;
};

static struct timer *timers;
static int32_t last_timer;

static void insert_timer(struct timer *timer)
{
    struct timer **at = &timers;
    while (*at && (*at)->due_ns <= timer->due_ns)
        at = &(*at)->next;
    timer->next = *at;
    *at = timer;
}

static void free_timer(struct timer *timer)
{
    JS_FreeValue(user, timer->function);
    JS_FreeValue(user, timer->arguments);
    free(timer);
}

/* function, delay ms, arguments as an array */
NATIVE_MAGIC(native_timer)
{
    double delay = 0;
    if (!JS_IsFunction(ctx, argv[0]))
        return JS_ThrowTypeError(ctx, "the callback must be a function");
    if (!JS_IsUndefined(argv[1]) && JS_ToFloat64(ctx, &delay, argv[1]))
        return JS_EXCEPTION;
    /* As everywhere: what is no sensible delay is the shortest one. */
    if (!(delay >= 1 && delay <= 2147483647))
        delay = 1;
    struct timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return JS_ThrowOutOfMemory(ctx);
    uint64_t ns = (uint64_t)(delay * 1e6);
    timer->id = ++last_timer;
    timer->due_ns = now_ns() + ns;
    timer->every_ns = magic ? ns : 0;
    timer->function = JS_DupValue(ctx, argv[0]);
    timer->arguments = JS_DupValue(ctx, argv[2]);
    insert_timer(timer);
    return JS_NewInt32(ctx, timer->id);
}

NATIVE(native_clear_timer)
{
    int32_t id;
    if (!JS_IsNumber(argv[0]) || JS_ToInt32(ctx, &id, argv[0]))
        return JS_UNDEFINED;
    for (struct timer **at = &timers; *at; at = &(*at)->next) {
        if ((*at)->id == id) {
            struct timer *timer = *at;
            *at = timer->next;
            free_timer(timer);
            break;
        }
    }
    return JS_UNDEFINED;
}

static void clear_timers(void)
{
    while (timers) {
        struct timer *timer = timers;
        timers = timer->next;
        free_timer(timer);
    }
}

/* Runs what is due first; -1: it threw. */
static int run_timer(struct timer *timer)
{
    timers = timer->next;
    JSValue function = JS_DupValue(user, timer->function);
    JSValue arguments = JS_DupValue(user, timer->arguments);
    if (timer->every_ns) {
        timer->due_ns = now_ns() + timer->every_ns;
        insert_timer(timer);
    } else {
        free_timer(timer);
    }
    uint32_t count = 0;
    JSValue *values = JS_IsUndefined(arguments) ? NULL : build_arg_list(user, &count, arguments);
    JSValue result = JS_Call(user, function, JS_UNDEFINED, count, values);
    if (values)
        free_arg_list(user, values, count);
    JS_FreeValue(user, function);
    JS_FreeValue(user, arguments);
    JS_FreeValue(user, result);
    return JS_IsException(result) ? -1 : 0;
}

static void wait_until(uint64_t due_ns)
{
    uint64_t now = now_ns();
    if (due_ns > now) {
        uint64_t ns = due_ns - now;
        struct timespec wait = {ns / 1000000000u, ns % 1000000000u};
        nanosleep(&wait, NULL);
    }
}

/* Promises that were rejected while nothing handled them. */

struct rejection {
    struct rejection *next;
    JSValue promise, reason;
};

static struct rejection *rejections;
/* The promise of the code itself: its end is told anyway. */
static JSValue whole;

static void forget_rejection(JSValueConst promise)
{
    for (struct rejection **at = &rejections; *at; at = &(*at)->next) {
        struct rejection *rejection = *at;
        if (JS_IsStrictEqual(user, rejection->promise, promise)) {
            *at = rejection->next;
            JS_FreeValue(user, rejection->promise);
            JS_FreeValue(user, rejection->reason);
            free(rejection);
            return;
        }
    }
}

static void track_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason,
                            bool handled, void *opaque)
{
    if (JS_IsStrictEqual(ctx, promise, whole))
        return;
    if (!handled) {
        struct rejection *rejection = calloc(1, sizeof *rejection);
        if (!rejection)
            return;
        rejection->promise = JS_DupValue(ctx, promise);
        rejection->reason = JS_DupValue(ctx, reason);
        struct rejection **at = &rejections;
        while (*at)
            at = &(*at)->next;
        *at = rejection;
        return;
    }
    forget_rejection(promise);
}

static void clear_rejections(void)
{
    while (rejections) {
        struct rejection *rejection = rejections;
        rejections = rejection->next;
        JS_FreeValue(user, rejection->promise);
        JS_FreeValue(user, rejection->reason);
        free(rejection);
    }
}

static void clear_jobs(void)
{
    struct list_head *at, *next;
    list_for_each_safe(at, next, &runtime->job_list) {
        JSJobEntry *job = list_entry(at, JSJobEntry, link);
        list_del(&job->link);
        for (int i = 0; i < job->argc; i++)
            JS_FreeValue(job->ctx, job->argv[i]);
        js_free_rt(runtime, job);
    }
}

/* Runs until nothing is left to do. -1: something threw, and that is the pending exception. */
static int run_loop(void)
{
    for (;;) {
        JSContext *ctx;
        int status;
        while (!leaving && (status = JS_ExecutePendingJob(runtime, &ctx)) != 0) {
            if (status < 0)
                return -1;
        }
        if (leaving || (timers == NULL && rejections == NULL))
            return 0;
        if (rejections) {
            JS_Throw(user, JS_DupValue(user, rejections->reason));
            return -1;
        }
        struct timer *timer = timers;
        wait_until(timer->due_ns);
        if (run_timer(timer))
            return leaving ? 0 : -1;
    }
}
