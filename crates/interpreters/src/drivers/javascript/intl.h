/* What `Intl` and the methods for locales stand on: a library that is read when it is used first. */

/* No case of the built-in properties that are made at their first use. */
#define INTL_PROPERTY 1000

/* What the user realm had at its start, which its code cannot change; what the script made. */
static JSValue intrinsics, intl;
/* Which library it is: part of the base image. */
__attribute__((used)) static const char library_hash[] = INTL_LIBRARY;

static JSValue make_intl(void);

/* Its classes and what the methods of other classes call. */
NATIVE(native_intl)
{
    if (JS_IsUndefined(intl)) {
        JSValue made = make_intl();
        if (JS_IsException(made))
            return made;
        intl = made;
    }
    return JS_DupValue(user, intl);
}

/* The global of that name, when it is looked at first. */
static JSValue sandkeep_intl(void)
{
    JSValue all = native_intl(user, JS_UNDEFINED, 0, NULL);
    if (JS_IsException(all))
        return all;
    JSValue value = JS_GetPropertyStr(user, all, "Intl");
    JS_FreeValue(user, all);
    return value;
}

/* name of a package: what it exports. Its code awaits nothing. */
NATIVE(native_library_module)
{
    const char *name = JS_ToCString(ctx, argv[0]);
    char *path = name ? library_path(ctx, name) : NULL;
    JS_FreeCString(ctx, name);
    if (!path)
        return JS_EXCEPTION;
    JSModuleDef *module = load_module(ctx, path, NULL, JS_UNDEFINED);
    js_free(ctx, path);
    if (!module)
        return JS_EXCEPTION;
    JSValue value = JS_DupValue(ctx, JS_MKPTR(JS_TAG_MODULE, module));
    if (JS_ResolveModule(ctx, value) < 0)
        return JS_EXCEPTION;
    JSValue done = JS_EvalFunction(ctx, value);
    if (JS_IsException(done))
        return done;
    if (JS_PromiseState(ctx, done) == JS_PROMISE_REJECTED) {
        JSValue reason = JS_PromiseResult(ctx, done);
        forget_rejection(done);
        JS_FreeValue(ctx, done);
        return JS_Throw(ctx, reason);
    }
    JS_FreeValue(ctx, done);
    return JS_GetModuleNamespace(ctx, module);
}

/* A file's text; null where there is none. */
NATIVE(native_library_file)
{
    const char *name = JS_ToCString(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    char path[200];
    snprintf(path, sizeof path, "/usr/local/lib/intl/%s", name);
    JS_FreeCString(ctx, name);
    size_t length;
    uint8_t *bytes = read_all(path, &length);
    if (!bytes)
        return errno == ENOENT ? JS_NULL : failed(ctx, errno, "open", path, NULL);
    JSValue text = JS_NewStringLen(ctx, (char *)bytes, length);
    free(bytes);
    return text;
}
