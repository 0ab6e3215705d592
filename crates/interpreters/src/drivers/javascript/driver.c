/* JavaScript in a context: QuickJS-NG as a WebAssembly reactor.
 *
 * Two realms share one runtime. Code runs in `user`; what turns values and errors into an
 * answer runs in `host`, whose built-ins the code cannot reach, so that it may break its own
 * `JSON` or `Array.prototype` and still be answered. All that the driver keeps between calls
 * lies in C statics: no name leads to it.
 *
 * The library is included and not linked, as the seed of Math.random and the table of global
 * declarations are its own affair otherwise.
 */
#include "quickjs.c"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

/* Deepest use of the shadow stack, bytes; the host's own stack is deeper at that depth. */
#define STACK_MAX (768 * 1024)

__attribute__((import_module("sandkeep"), import_name("emit"))) void
sandkeep_emit(const char *bytes, size_t length);

/* alloc.c */
void settle(void);

static JSRuntime *runtime;
static JSContext *user, *host;
/* Functions of the host realm's script, and the objects of the user realm's. */
static JSValue answer_value, answer_error, format, inspect, display, environment;
/* The environment as it was last given. */
static JSValue given;
static unsigned execution;
static int leaving, exit_code;
static char *answer;
static size_t answer_length;

/* Declarations of earlier executions may be declared again, as at any prompt. The old value
 * stays until the new initialiser has run. */

static int sandkeep_check_global(JSContext *ctx, JSAtom name, int flags)
{
    JSObject *global = JS_VALUE_GET_OBJ(ctx->global_obj);
    JSShapeProperty *there = find_own_property1(global, name);
    if (flags & DEFINE_GLOBAL_LEX_VAR) {
        /* undefined, NaN and Infinity */
        if (there && !(there->flags & (JS_PROP_CONFIGURABLE | JS_PROP_WRITABLE))) {
            JS_ThrowSyntaxErrorVarRedeclaration(ctx, name);
            return -1;
        }
        return 0;
    }
    if (!there && !global->extensible) {
        JS_ThrowTypeErrorAtom(ctx, "cannot define variable '%s'", name);
        return -1;
    }
    if ((flags & DEFINE_GLOBAL_FUNC_VAR) && there && !(there->flags & JS_PROP_CONFIGURABLE)
        && ((there->flags & JS_PROP_TMASK) == JS_PROP_GETSET
            || !(there->flags & JS_PROP_WRITABLE))) {
        JS_ThrowTypeErrorAtom(ctx, "cannot define variable '%s'", name);
        return -1;
    }
    JSObject *lexical = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    if (find_own_property1(lexical, name) && delete_property(ctx, lexical, name) < 0)
        return -1;
    return 0;
}

/* Makes a lexical declaration that is there as the new one says; 0: there is none. */
static int sandkeep_redefine_global(JSContext *ctx, JSAtom name, int flags)
{
    if (!(flags & DEFINE_GLOBAL_LEX_VAR))
        return 0;
    JSObject *lexical = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    JSProperty *property;
    JSShapeProperty *there = find_own_property(&property, lexical, name);
    if (!there)
        return 0;
    if (js_shape_prepare_update(ctx, lexical, &there))
        return -1;
    there->flags = JS_PROP_ENUMERABLE | JS_PROP_CONFIGURABLE | (flags & JS_PROP_WRITABLE);
    return 1;
}

#include "natives.h"
#include "descriptors.h"
#include "loop.h"
#include "modules.h"
#include "intl.h"

static const JSCFunctionListEntry NATIVES[] = {
    JS_CFUNC_DEF("write", 2, native_write),
    JS_CFUNC_DEF("readFile", 1, native_read_file),
    JS_CFUNC_DEF("readInput", 0, native_read_input),
    JS_CFUNC_DEF("writeFile", 3, native_write_file),
    JS_CFUNC_DEF("list", 1, native_list),
    JS_CFUNC_DEF("open", 2, native_open),
    JS_CFUNC_MAGIC_DEF("read", 5, native_transfer, READ),
    JS_CFUNC_MAGIC_DEF("writeAt", 5, native_transfer, WRITE),
    JS_CFUNC_DEF("fstat", 1, native_fstat),
    JS_CFUNC_MAGIC_DEF("close", 1, native_act, CLOSE),
    JS_CFUNC_MAGIC_DEF("ftruncate", 2, native_act, TRUNCATE),
    JS_CFUNC_MAGIC_DEF("fsync", 1, native_act, SYNC),
    JS_CFUNC_DEF("stat", 2, native_stat),
    JS_CFUNC_MAGIC_DEF("mkdir", 1, native_change, MKDIR),
    JS_CFUNC_MAGIC_DEF("rmdir", 1, native_change, RMDIR),
    JS_CFUNC_MAGIC_DEF("unlink", 1, native_change, UNLINK),
    JS_CFUNC_MAGIC_DEF("chdir", 1, native_change, CHDIR),
    JS_CFUNC_MAGIC_DEF("rename", 2, native_change, RENAME),
    JS_CFUNC_MAGIC_DEF("symlink", 2, native_change, LINK),
    JS_CFUNC_DEF("cwd", 0, native_cwd),
    JS_CFUNC_DEF("exit", 1, native_exit),
    JS_CFUNC_DEF("random", 1, native_random),
    JS_CFUNC_DEF("encode", 1, native_utf8_encode),
    JS_CFUNC_DEF("decode", 4, native_utf8_decode),
    JS_CFUNC_DEF("classOf", 1, native_class),
    JS_CFUNC_DEF("promise", 1, native_promise),
    JS_CFUNC_DEF("emit", 1, native_emit),
    JS_CFUNC_DEF("now", 0, native_now),
    JS_CFUNC_DEF("memory", 0, native_memory),
    JS_CFUNC_DEF("script", 2, native_script),
    JS_CFUNC_MAGIC_DEF("format", 1, native_host, FORMAT),
    JS_CFUNC_MAGIC_DEF("inspect", 2, native_host, INSPECT),
    JS_CFUNC_MAGIC_DEF("display", 2, native_host, DISPLAY),
    JS_CFUNC_MAGIC_DEF("setTimeout", 2, native_timer, 0),
    JS_CFUNC_MAGIC_DEF("setInterval", 2, native_timer, 1),
    JS_CFUNC_DEF("clearTimeout", 1, native_clear_timer),
    JS_CFUNC_DEF("intl", 0, native_intl),
    JS_CFUNC_DEF("libraryModule", 1, native_library_module),
    JS_CFUNC_DEF("libraryFile", 1, native_library_file),
};


static const char ANSWERS[] = {
#embed "answers.js"
    , 0};
static const char PRELUDE[] = {
#embed "prelude.js"
    , 0};
static const char WEB[] = {
#embed "web.js"
    , 0};
static const char DESCRIPTORS[] = {
#embed "descriptors.js"
    , 0};
static const char FILES[] = {
#embed "files.js"
    , 0};
static const char INTL[] = {
#embed "intl.js"
    , 0};
static const char LIBRARY[] = {
#embed "library.js"
    , 0};

/* Evaluates a script that is a function of the natives and of what an earlier one gave. */
static JSValue install(JSContext *ctx, const char *name, const char *text, JSValueConst before)
{
    JSValue function = JS_Eval(ctx, text, strlen(text), name, JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(function))
        return function;
    JSValue natives = JS_NewObject(ctx);
    JS_SetPropertyFunctionList(ctx, natives, NATIVES, countof(NATIVES));
    /* What plain objects and lists of the code look like. */
    JS_DefinePropertyValueStr(ctx, natives, "objectPrototype",
                              JS_GetClassProto(user, JS_CLASS_OBJECT), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, natives, "arrayPrototype",
                              JS_GetClassProto(user, JS_CLASS_ARRAY), JS_PROP_C_W_E);
    JSValue arguments[] = {natives, before};
    JSValue result = JS_Call(ctx, function, JS_UNDEFINED, 2, (JSValueConst *)arguments);
    JS_FreeValue(ctx, natives);
    JS_FreeValue(ctx, function);
    return result;
}

static JSContext *realm(void)
{
    JSContext *ctx = JS_NewContext(runtime);
    if (ctx)
        JS_AddIntrinsicBigInt(ctx);
    return ctx;
}

/* What makes `Intl`, made at its first use: in a realm of its own, which no code can change, the
 * library; in the user's realm its classes. Nothing of it is there after a failure. */
static JSValue make_intl(void)
{
    if (!(library = realm()))
        return JS_ThrowOutOfMemory(user);
    JSValue calls = install(library, "sandkeep:library", LIBRARY, JS_UNDEFINED);
    JSValue both = JS_NewObjectProto(user, JS_NULL);
    JSValue made = JS_EXCEPTION;
    if (JS_IsException(calls)) {
        JS_FreeValue(user, both);
    } else {
        JS_DefinePropertyValueStr(user, both, "library", calls, JS_PROP_C_W_E);
        JS_DefinePropertyValueStr(user, both, "intrinsics", JS_DupValue(user, intrinsics),
                                  JS_PROP_C_W_E);
        made = install(user, "sandkeep:intl", INTL, both);
        JS_FreeValue(user, both);
    }
    if (JS_IsException(made)) {
        JS_FreeContext(library);
        library = NULL;
    }
    return made;
}

static int boot_failed(void)
{
    JSValue error = JS_GetException(user);
    const char *text = JS_ToCString(user, error);
    JSValue stack = JS_GetPropertyStr(user, error, "stack");
    const char *where = JS_ToCString(user, stack);
    fprintf(stderr, "%s\n%s\n", text ? text : "?", where ? where : "");
    return 3;
}

/* Starts the interpreter, once; what it leaves behind is the base of all contexts. 0: done. */
int EXPORT(sandkeep_boot)(void)
{
    if (!(runtime = JS_NewRuntime()))
        return 1;
    JS_SetMaxStackSize(runtime, STACK_MAX);
    JS_SetHostPromiseRejectionTracker(runtime, track_rejection, NULL);
    whole = given = JS_UNDEFINED;
    if (!(user = realm()) || !(host = realm()))
        return 2;
    JS_SetModuleLoaderFunc2(runtime, module_path, load_module, NULL, NULL);
    JSValue functions = install(host, "sandkeep:answers", ANSWERS, JS_UNDEFINED);
    if (JS_IsException(functions))
        return boot_failed();
    answer_value = JS_GetPropertyStr(host, functions, "value");
    answer_error = JS_GetPropertyStr(host, functions, "error");
    format = JS_GetPropertyStr(host, functions, "format");
    inspect = JS_GetPropertyStr(host, functions, "inspect");
    display = JS_GetPropertyStr(host, functions, "emit");
    JSValue objects = install(user, "sandkeep:prelude", PRELUDE, JS_UNDEFINED);
    if (JS_IsException(objects) || JS_IsException(install(user, "sandkeep:web", WEB, objects))
        || JS_IsException(install(user, "sandkeep:descriptors", DESCRIPTORS, objects))
        || JS_IsException(install(user, "sandkeep:files", FILES, objects)))
        return boot_failed();
    environment = JS_GetPropertyStr(user, objects, "env");
    builtins = JS_GetPropertyStr(user, objects, "modules");
    intrinsics = JS_GetPropertyStr(user, objects, "intrinsics");
    intl = JS_UNDEFINED;
    JSAtom name = JS_NewAtom(user, "Intl");
    JS_DefineAutoInitProperty(user, user->global_obj, name, JS_AUTOINIT_ID_BYTECODE,
                              (void *)INTL_PROPERTY, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeAtom(user, name);
    JS_FreeValue(user, objects);
    JS_FreeValue(host, functions);
    JS_RunGC(runtime);
    settle();
    return 0;
}

/* Room for a request of `length` bytes, which the next execution frees; 0: there is none. */
char *EXPORT(sandkeep_alloc)(size_t length)
{
    char *place = malloc(length + 1);
    if (!place) {
        JS_RunGC(runtime);
        place = malloc(length + 1);
    }
    return place;
}

/* Where the answer lies ends to be used. */
void EXPORT(sandkeep_release)(void)
{
    free(answer);
    answer = NULL;
}

/* Whether the environment was given this variable with this value before. */
static int given_as(JSAtom name, JSValueConst value)
{
    JSValue before = JS_IsObject(given) ? JS_GetProperty(host, given, name) : JS_UNDEFINED;
    int same = JS_IsStrictEqual(host, before, value);
    JS_FreeValue(host, before);
    return same;
}

/* The environment as the request has it. What the code itself changed stays: only what is given in
 * another way than before is changed. At first there is nothing else. */
static void set_environment(JSValueConst wanted)
{
    JSPropertyEnum *keys;
    uint32_t count;
    int flags = JS_GPN_STRING_MASK;
    int first = !JS_IsObject(given);
    if (!JS_IsObject(wanted))
        return;
    if (!JS_GetOwnPropertyNames(host, &keys, &count, first ? environment : given, flags)) {
        for (uint32_t i = 0; i < count; i++)
            if (JS_GetOwnProperty(host, NULL, wanted, keys[i].atom) <= 0)
                JS_DeleteProperty(user, environment, keys[i].atom, 0);
        JS_FreePropertyEnum(host, keys, count);
    }
    if (!JS_GetOwnPropertyNames(host, &keys, &count, wanted, flags)) {
        for (uint32_t i = 0; i < count; i++) {
            JSValue value = JS_GetProperty(host, wanted, keys[i].atom);
            if (given_as(keys[i].atom, value))
                JS_FreeValue(host, value);
            else
                JS_DefinePropertyValue(user, environment, keys[i].atom, value, JS_PROP_C_W_E);
        }
        JS_FreePropertyEnum(host, keys, count);
    }
    JS_FreeValue(host, given);
    given = JS_DupValue(host, wanted);
}

static void prepare(JSValueConst request)
{
    JSValue value = JS_GetPropertyStr(host, request, "seed");
    double seed;
    if (JS_IsNumber(value) && !JS_ToFloat64(host, &seed, value)) {
        uint64_t state = (uint64_t)seed ^ 0x9e3779b97f4a7c15u;
        user->random_state = state ? state : 1;
    }
    JS_FreeValue(host, value);
    value = JS_GetPropertyStr(host, request, "env");
    set_environment(value);
    JS_FreeValue(host, value);
    value = JS_GetPropertyStr(host, request, "cwd");
    const char *cwd = JS_ToCString(host, value);
    if (!cwd || chdir(cwd))
        chdir("/workspace");
    JS_FreeCString(host, cwd);
    JS_FreeValue(host, value);
}

/* The code's own end: its value, or the pending exception. */
static JSValue run(const char *code, size_t length, const char *name)
{
    whole = JS_UNDEFINED;
    JSValue promise = JS_Eval(user, code, length, name, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_ASYNC);
    if (JS_IsException(promise))
        return promise;
    whole = promise;
    JS_PromiseMarkAsHandled(user, promise);
    forget_rejection(promise);
    if (run_loop())
        return JS_EXCEPTION;
    JSValue result = JS_PromiseResult(user, promise);
    switch (JS_PromiseState(user, promise)) {
    case JS_PROMISE_FULFILLED: {
        /* A box without a prototype, so that nothing that all objects have takes its place. */
        JSPropertyDescriptor own = { .value = JS_UNDEFINED, .getter = JS_UNDEFINED, .setter = JS_UNDEFINED };
        JSAtom name = JS_NewAtom(user, "value");
        int found = name == JS_ATOM_NULL ? -1 : JS_GetOwnProperty(user, &own, result, name);
        JS_FreeAtom(user, name);
        JS_FreeValue(user, result);
        if (found <= 0)
            return JS_EXCEPTION;
        JS_FreeValue(user, own.getter);
        JS_FreeValue(user, own.setter);
        return own.value;
    }
    case JS_PROMISE_REJECTED:
        return JS_Throw(user, result);
    default:
        JS_FreeValue(user, result);
        if (leaving)
            return JS_UNDEFINED;
        return JS_ThrowPlainError(user, "the code did not complete: it awaits a promise that "
                                  "nothing can settle any more");
    }
}

static void set_answer(JSValue text)
{
    size_t length = 0;
    const char *bytes = JS_IsException(text) ? NULL : JS_ToCStringLen(host, &length, text);
    if (bytes && (answer = malloc(length))) {
        memcpy(answer, bytes, length);
        answer_length = length;
    } else {
        static const char LOST[] = "{\"cwd\":\"/workspace\",\"result\":null,\"error\":{\"name\":"
            "\"InternalError\",\"message\":\"out of memory\",\"traceback\":[]}}";
        JS_FreeValue(host, JS_GetException(host));
        answer = strdup(LOST);
        answer_length = answer ? sizeof LOST - 1 : 0;
    }
    JS_FreeCString(host, bytes);
    JS_FreeValue(host, text);
}

/* Executes a request, which it frees. The answer: its address in the high 32 bits, its length
 * in the low ones; it stays until `sandkeep_release`. */
uint64_t EXPORT(sandkeep_execute)(char *text, size_t length)
{
    sandkeep_release();
    JS_UpdateStackTop(runtime);
    text[length] = 0;
    JSValue request = JS_ParseJSON(host, text, length, "request");
    free(text);
    prepare(request);
    JSValue code = JS_GetPropertyStr(host, request, "code");
    size_t size = 0;
    const char *source = JS_ToCStringLen(host, &size, code);
    char name[32];
    snprintf(name, sizeof name, "<code %u>", ++execution);
    leaving = 0;
    exit_code = 0;
    JSValue value = source ? run(source, size, name) : JS_EXCEPTION;
    JS_FreeCString(host, source);
    JS_FreeValue(host, code);
    JS_FreeValue(host, request);

    int threw = JS_IsException(value);
    if (threw) {
        value = JS_GetException(user);
        JS_ClearUncatchableError(user, value);
    }
    clear_timers();
    clear_rejections();
    clear_jobs();
    JS_FreeValue(user, whole);
    whole = JS_UNDEFINED;
    JSValue arguments[] = {value, JS_NewString(host, name), JS_NewBool(host, leaving),
                           JS_NewInt32(host, exit_code)};
    int has_left = leaving;
    JSValue told = JS_Call(host, threw || leaving ? answer_error : answer_value, JS_UNDEFINED,
                           countof(arguments), (JSValueConst *)arguments);
    if (JS_IsException(told) && leaving && !has_left) {
        /* Code of the value's own, which was asked to describe it, wants to exit. */
        JS_FreeValue(host, JS_GetException(host));
        arguments[2] = JS_NewBool(host, 1);
        arguments[3] = JS_NewInt32(host, exit_code);
        told = JS_Call(host, answer_error, JS_UNDEFINED, countof(arguments),
                       (JSValueConst *)arguments);
    }
    set_answer(told);
    JS_FreeValue(user, value);
    JS_FreeValue(host, arguments[1]);
    /* What describing left behind, as a custom inspection that waits for something. */
    clear_jobs();
    clear_timers();
    clear_rejections();
    return (uint64_t)(uintptr_t)answer << 32 | answer_length;
}
