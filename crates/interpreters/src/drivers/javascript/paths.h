/* Paths and names of files, which are bytes, and errors of the file system. */

/* Errors of the file system, as Node names them. */

static const struct { int number; const char *code, *text; } ERRORS[] = {
    {EACCES, "EACCES", "permission denied"},
    {EBADF, "EBADF", "bad file descriptor"},
    {EBUSY, "EBUSY", "resource busy or locked"},
    {EDQUOT, "EDQUOT", "disk quota exceeded"},
    {EEXIST, "EEXIST", "file already exists"},
    {EFBIG, "EFBIG", "file too large"},
    {EINVAL, "EINVAL", "invalid argument"},
    {EIO, "EIO", "i/o error"},
    {EISDIR, "EISDIR", "illegal operation on a directory"},
    {ELOOP, "ELOOP", "too many symbolic links encountered"},
    {EMFILE, "EMFILE", "too many open files"},
    {ENAMETOOLONG, "ENAMETOOLONG", "name too long"},
    {ENOENT, "ENOENT", "no such file or directory"},
    {ENOMEM, "ENOMEM", "not enough memory"},
    {ENOSPC, "ENOSPC", "no space left on device"},
    {ENOTCAPABLE, "EACCES", "permission denied"},
    {ENOTDIR, "ENOTDIR", "not a directory"},
    {ENOTEMPTY, "ENOTEMPTY", "directory not empty"},
    {EPERM, "EPERM", "operation not permitted"},
    {EROFS, "EROFS", "read-only file system"},
    {EXDEV, "EXDEV", "cross-device link not permitted"},
};

static JSValue failed(JSContext *ctx, int number, const char *call, const char *path,
                      const char *to)
{
    const char *code = "EUNKNOWN", *text = strerror(number);
    for (size_t i = 0; i < countof(ERRORS); i++) {
        if (ERRORS[i].number == number) {
            code = ERRORS[i].code;
            text = ERRORS[i].text;
        }
    }
    JSValue error =
        !path ? JS_NewPlainError(ctx, "%s: %s, %s", code, text, call)
        : to ? JS_NewPlainError(ctx, "%s: %s, %s '%s' -> '%s'", code, text, call, path, to)
             : JS_NewPlainError(ctx, "%s: %s, %s '%s'", code, text, call, path);
    if (JS_IsException(error))
        return error;
    JS_DefinePropertyValueStr(ctx, error, "errno", JS_NewInt32(ctx, -number), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, error, "code", JS_NewString(ctx, code), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, error, "syscall", JS_NewString(ctx, call), JS_PROP_C_W_E);
    if (path)
        JS_DefinePropertyValueStr(ctx, error, "path", JS_NewString(ctx, path), JS_PROP_C_W_E);
    if (to)
        JS_DefinePropertyValueStr(ctx, error, "dest", JS_NewString(ctx, to), JS_PROP_C_W_E);
    return JS_Throw(ctx, error);
}

/* How many bytes the character at a place has; negative: they are no UTF-8, and so many are
   passed over. */
static int utf8_length(const uint8_t *at, const uint8_t *end)
{
    uint8_t c = *at;
    int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2
               : c >= 0xf0 && c < 0xf5 ? 3 : -1;
    int have = 0;
    while (more > 0 && have < more && at + have + 1 < end) {
        uint8_t next = at[have + 1];
        uint8_t low = have == 0 ? (c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80) : 0x80;
        uint8_t high = have == 0 ? (c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf) : 0xbf;
        if (next < low || next > high)
            break;
        have++;
    }
    if (more >= 0 && have == more)
        return more + 1;
    return more < 0 ? -1 : -(have + 1);
}

/* The bytes of a buffer or a view of one; NULL where it is none, or detached. */
static const uint8_t *bytes_of(JSContext *ctx, JSValueConst value, size_t *length)
{
    if (JS_IsArrayBuffer(value))
        return JS_GetArrayBuffer(ctx, length, value);
    size_t offset, size;
    JSValue buffer = JS_GetTypedArrayBuffer(ctx, value, &offset, length, NULL);
    const uint8_t *bytes =
        JS_IsException(buffer) ? NULL : JS_GetArrayBuffer(ctx, &size, buffer);
    JS_FreeValue(ctx, buffer);
    return bytes ? bytes + offset : NULL;
}

/* A path that has no NUL in it, of text or of bytes; the caller frees it with js_free. */
static char *path_of(JSContext *ctx, JSValueConst value)
{
    size_t length = 0;
    bool is_text = !JS_IsArrayBuffer(value) && JS_GetTypedArrayType(value) < 0;
    const char *from = is_text ? JS_ToCStringLen(ctx, &length, value)
                               : (const char *)bytes_of(ctx, value, &length);
    char *path = NULL;
    if (from && !memchr(from, 0, length))
        path = js_strndup(ctx, from, length);
    else if (!JS_HasException(ctx))
        JS_ThrowTypeError(ctx, "a path must be a string or bytes without null bytes");
    if (is_text)
        JS_FreeCString(ctx, from);
    return path;
}

/* A name as text; as a buffer where it is no UTF-8. */
static JSValue name_of(JSContext *ctx, const char *name)
{
    const uint8_t *at = (const uint8_t *)name, *end = at + strlen(name);
    while (at < end) {
        int length = utf8_length(at, end);
        if (length < 0)
            return JS_NewArrayBufferCopy(ctx, (const uint8_t *)name, strlen(name));
        at += length;
    }
    return JS_NewString(ctx, name);
}
