/* import() of files, and of the few built-in modules. */

/* The built-in modules: name → object of the user realm. */
static JSValue builtins;

/* "/a/b/../c" without its dots, in place. */
static void clean(char *path)
{
    char *out = path;
    for (char *at = path; *at;) {
        while (*at == '/')
            at++;
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.') {
            while (out > path && *--out != '/') {
            }
        } else if (length && !(length == 1 && at[0] == '.')) {
            *out++ = '/';
            memmove(out, at, length);
            out += length;
        }
        at += length;
    }
    if (out == path)
        *out++ = '/';
    *out = 0;
}

/* The realm of the library behind `Intl`, once it is loaded. Its modules name each other by package. */
static JSContext *library;

static char *library_path(JSContext *ctx, const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *package = slash ? slash + 1 : name;
    size_t room = strlen(package) + 64;
    char *path = js_malloc(ctx, room);
    if (path)
        snprintf(path, room, "/usr/local/lib/intl/%s/index.js", package);
    return path;
}

static char *module_path(JSContext *ctx, const char *base, const char *name, void *opaque)
{
    if (ctx == library)
        return library_path(ctx, name);
    if (!strncmp(name, "node:", 5))
        name += 5;
    JSAtom atom = JS_NewAtom(ctx, name);
    int builtin = JS_HasProperty(ctx, builtins, atom);
    JS_FreeAtom(ctx, atom);
    if (builtin > 0)
        return js_strdup(ctx, name);
    if (!strncmp(name, "file://", 7))
        name += 7;
    if (name[0] != '/' && name[0] != '.') {
        JS_ThrowReferenceError(ctx, "cannot find the package '%s': only files can be imported, "
                               "by a path that begins with './', '../' or '/'", name);
        return NULL;
    }
    char here[4097];
    if (base[0] == '/')
        snprintf(here, sizeof here, "%.*s", (int)(strrchr(base, '/') - base), base);
    else if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    size_t room = strlen(here) + strlen(name) + 2;
    char *path = js_malloc(ctx, room);
    if (!path)
        return NULL;
    if (name[0] == '/')
        strcpy(path, name);
    else
        snprintf(path, room, "%s/%s", here, name);
    clean(path);
    return path;
}

/* Fills a module from an object: its keys, and itself as the default export. */
static int fill_module(JSContext *ctx, JSModuleDef *module)
{
    JSValue object = JS_GetModulePrivateValue(ctx, module);
    JSPropertyEnum *keys = NULL;
    uint32_t count = 0;
    int status = 0;
    if (JS_IsObject(object) && !JS_IsArray(object))
        status = JS_GetOwnPropertyNames(ctx, &keys, &count, object,
                                        JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        const char *key = JS_AtomToCString(ctx, keys[i].atom);
        if (!key)
            status = -1;
        else if (strcmp(key, "default"))
            /* It fails where the key is not among the exports, as for JSON. */
            JS_SetModuleExport(ctx, module, key, JS_GetProperty(ctx, object, keys[i].atom));
        JS_FreeCString(ctx, key);
    }
    JS_FreePropertyEnum(ctx, keys, count);
    if (status == 0)
        return JS_SetModuleExport(ctx, module, "default", object);
    JS_FreeValue(ctx, object);
    return -1;
}

/* Takes `object`. */
static JSModuleDef *object_module(JSContext *ctx, const char *name, JSValue object, bool keys_too)
{
    JSModuleDef *module = JS_NewCModule(ctx, name, fill_module);
    JSPropertyEnum *keys = NULL;
    uint32_t count = 0;
    if (!module || JS_AddModuleExport(ctx, module, "default") < 0)
        goto fail;
    if (keys_too && JS_IsObject(object) && !JS_IsArray(object)
        && JS_GetOwnPropertyNames(ctx, &keys, &count, object,
                                  JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY))
        goto fail;
    for (uint32_t i = 0; i < count; i++) {
        const char *key = JS_AtomToCString(ctx, keys[i].atom);
        if (key && strcmp(key, "default"))
            JS_AddModuleExport(ctx, module, key);
        JS_FreeCString(ctx, key);
    }
    JS_FreePropertyEnum(ctx, keys, count);
    JS_SetModulePrivateValue(ctx, module, object);
    return module;
fail:
    JS_FreeValue(ctx, object);
    return NULL;
}

static JSModuleDef *load_module(JSContext *ctx, const char *name, void *opaque,
                                JSValueConst with)
{
    if (name[0] != '/')
        return object_module(ctx, name, JS_GetPropertyStr(ctx, builtins, name), true);
    size_t length;
    uint8_t *bytes = read_all(name, &length);
    if (!bytes) {
        failed(ctx, errno, "import", name, NULL);
        return NULL;
    }
    /* The parser wants a NUL behind the text. */
    uint8_t *text = realloc(bytes, length + 1);
    if (!text) {
        free(bytes);
        JS_ThrowOutOfMemory(ctx);
        return NULL;
    }
    text[length] = 0;
    const char *dot = strrchr(name, '.');
    JSModuleDef *module = NULL;
    if (dot && !strcmp(dot, ".json")) {
        JSValue value = JS_ParseJSON(ctx, (char *)text, length, name);
        if (!JS_IsException(value))
            module = object_module(ctx, name, value, false);
    } else {
        JSValue code = JS_Eval(ctx, (char *)text, length, name,
                               JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
        if (!JS_IsException(code)) {
            module = JS_VALUE_GET_PTR(code);
            JSValue meta = JS_GetImportMeta(ctx, module);
            char url[4200];
            snprintf(url, sizeof url, "file://%s", name);
            JS_DefinePropertyValueStr(ctx, meta, "url", JS_NewString(ctx, url), JS_PROP_C_W_E);
            JS_DefinePropertyValueStr(ctx, meta, "filename", JS_NewString(ctx, name),
                                      JS_PROP_C_W_E);
            JS_FreeValue(ctx, meta);
            JS_FreeValue(ctx, code);
        }
    }
    free(text);
    return module;
}
