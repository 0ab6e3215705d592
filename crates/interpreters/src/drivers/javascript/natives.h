/* What the scripts of both realms are given: files, time, randomness, text. */

#include "paths.h"

/* All bytes of a file; NULL with errno set. */
static uint8_t *read_all(const char *path, size_t *length)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    struct stat about;
    size_t room = 4096, have = 0;
    if (fstat(fd, &about) == 0) {
        if (S_ISDIR(about.st_mode)) {
            close(fd);
            errno = EISDIR;
            return NULL;
        }
        room = about.st_size > 0 && about.st_size < (1 << 30) ? (size_t)about.st_size + 1 : room;
    }
    uint8_t *bytes = malloc(room);
    while (bytes) {
        if (have == room) {
            uint8_t *more = realloc(bytes, room * 2);
            if (!more)
                break;
            bytes = more;
            room *= 2;
        }
        ssize_t got = read(fd, bytes + have, room - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int number = got < 0 ? errno : 0;
            close(fd);
            if (number) {
                free(bytes);
                errno = number;
                return NULL;
            }
            *length = have;
            return bytes;
        }
        have += got;
    }
    free(bytes);
    close(fd);
    errno = ENOMEM;
    return NULL;
}

static int write_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length) {
        ssize_t done = write(fd, bytes, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        bytes += done;
        length -= done;
    }
    return 0;
}

/* What the scripts are given. */

#define NATIVE(name) \
    static JSValue name(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
#define NATIVE_MAGIC(name)                                                                   \
    static JSValue name(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv,     \
                        int magic)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* Text as it is; half a surrogate pair, which no UTF-8 has, as `\uD800`. */
static void write_text(int fd, const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length, *at = text;
    while ((at = memchr(at, 0xed, end - at))) {
        if (end - at >= 3 && at[1] >= 0xa0) {
            char told[8];
            snprintf(told, sizeof told, "\\u%04X", 0xd000 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f));
            write_all(fd, text, at - text);
            write_all(fd, (const uint8_t *)told, 6);
            text = at + 3;
        }
        at++;
    }
    write_all(fd, text, end - text);
}

/* stream, text or bytes. Nobody can be told that output was lost. */
NATIVE(native_write)
{
    int fd;
    size_t length;
    if (JS_ToInt32(ctx, &fd, argv[0]))
        return JS_EXCEPTION;
    fd = fd == 2 ? 2 : 1;
    if (JS_IsArrayBuffer(argv[1]) || JS_GetTypedArrayType(argv[1]) >= 0) {
        const uint8_t *bytes = bytes_of(ctx, argv[1], &length);
        if (!bytes && JS_HasException(ctx))
            return JS_EXCEPTION;
        if (bytes)
            write_all(fd, bytes, length);
        return JS_UNDEFINED;
    }
    const char *text = JS_ToCStringLen(ctx, &length, argv[1]);
    if (!text)
        return JS_EXCEPTION;
    write_text(fd, (const uint8_t *)text, length);
    JS_FreeCString(ctx, text);
    return JS_UNDEFINED;
}

NATIVE(native_read_file)
{
    size_t length;
    JSValue result;
    char *path = path_of(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    uint8_t *bytes = read_all(path, &length);
    if (bytes) {
        result = JS_NewArrayBufferCopy(ctx, bytes, length);
        free(bytes);
    } else {
        result = failed(ctx, errno, "open", path, NULL);
    }
    js_free(ctx, path);
    return result;
}

/* Standard input, up to its end. */
NATIVE(native_read_input)
{
    JSValue result = JS_EXCEPTION;
    DynBuf text;
    char piece[4096];
    ssize_t got;
    js_dbuf_init(ctx, &text);
    while ((got = read(0, piece, sizeof piece)) > 0)
        dbuf_put(&text, (uint8_t *)piece, got);
    if (!dbuf_error(&text))
        result = JS_NewArrayBufferCopy(ctx, text.buf, text.size);
    dbuf_free(&text);
    return result;
}

/* path, string or buffer, "w", "a" or "wx" */
NATIVE(native_write_file)
{
    JSValue result = JS_UNDEFINED;
    size_t length = 0;
    const uint8_t *bytes;
    const char *text = NULL;
    char *path = path_of(ctx, argv[0]);
    const char *mode = path ? JS_ToCString(ctx, argv[2]) : NULL;
    if (!mode) {
        js_free(ctx, path);
        return JS_EXCEPTION;
    }
    if (JS_IsArrayBuffer(argv[1]) || JS_GetTypedArrayType(argv[1]) >= 0) {
        bytes = bytes_of(ctx, argv[1], &length);
    } else {
        text = JS_ToCStringLen(ctx, &length, argv[1]);
        bytes = (const uint8_t *)text;
    }
    if (!bytes && (text || length || JS_HasException(ctx))) {
        result = JS_EXCEPTION;
    } else {
        int how = mode[0] == 'a' ? O_APPEND : O_TRUNC;
        int fd = open(path, O_WRONLY | O_CREAT | how | (mode[1] == 'x' ? O_EXCL : 0), 0666);
        if (fd < 0) {
            result = failed(ctx, errno, "open", path, NULL);
        } else {
            if (write_all(fd, bytes, length))
                result = failed(ctx, errno, "write", path, NULL);
            if (close(fd) && !JS_IsException(result))
                result = failed(ctx, errno, "close", path, NULL);
        }
    }
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, mode);
    js_free(ctx, path);
    return result;
}

/* [name, kind, name, kind, …]; a name that is no UTF-8 is a buffer; kind: "d", "l", "f" */
NATIVE(native_list)
{
    char *path = path_of(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    DIR *dir = opendir(path);
    if (!dir) {
        JSValue result = failed(ctx, errno, "scandir", path, NULL);
        js_free(ctx, path);
        return result;
    }
    JSValue list = JS_NewArray(ctx);
    struct dirent *entry;
    uint32_t i = 0;
    while ((entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        const char *kind =
            entry->d_type == DT_DIR ? "d" : entry->d_type == DT_LNK ? "l" : "f";
        JS_DefinePropertyValueUint32(ctx, list, i++, name_of(ctx, entry->d_name),
                                     JS_PROP_C_W_E);
        JS_DefinePropertyValueUint32(ctx, list, i++, JS_NewString(ctx, kind), JS_PROP_C_W_E);
    }
    closedir(dir);
    js_free(ctx, path);
    return list;
}

/* [kind, size, mtime ms, atime ms, ctime ms, mode, inode, links]; kind: "d", "l", "f", or "c" for
   what is none of them */
static JSValue told(JSContext *ctx, const struct stat *about)
{
    mode_t mode = about->st_mode;
    const char *kind = S_ISDIR(mode) ? "d" : S_ISLNK(mode) ? "l" : S_ISREG(mode) ? "f" : "c";
#define MS(t) ((double)(t).tv_sec * 1e3 + (double)(t).tv_nsec / 1e6)
    JSValue values[] = {
        JS_NewString(ctx, kind),
        JS_NewFloat64(ctx, (double)about->st_size),
        JS_NewFloat64(ctx, MS(about->st_mtim)),
        JS_NewFloat64(ctx, MS(about->st_atim)),
        JS_NewFloat64(ctx, MS(about->st_ctim)),
        JS_NewFloat64(ctx, (double)mode),
        JS_NewFloat64(ctx, (double)about->st_ino),
        JS_NewFloat64(ctx, (double)about->st_nlink),
    };
    return JS_NewArrayFrom(ctx, countof(values), values);
}

/* path, follow: what `told` gives */
NATIVE(native_stat)
{
    struct stat about;
    char *path = path_of(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    bool follow = JS_ToBool(ctx, argv[1]);
    if (follow ? stat(path, &about) : lstat(path, &about)) {
        JSValue result = failed(ctx, errno, follow ? "stat" : "lstat", path, NULL);
        js_free(ctx, path);
        return result;
    }
    js_free(ctx, path);
    return told(ctx, &about);
}

enum { MKDIR, RMDIR, UNLINK, CHDIR, RENAME, LINK };
static const char *const CALLS[] = {"mkdir", "rmdir", "unlink", "chdir", "rename", "symlink"};

NATIVE_MAGIC(native_change)
{
    char *path = path_of(ctx, argv[0]), *to = NULL;
    if (!path)
        return JS_EXCEPTION;
    if (magic >= RENAME && !(to = path_of(ctx, argv[1]))) {
        js_free(ctx, path);
        return JS_EXCEPTION;
    }
    int status = magic == MKDIR    ? mkdir(path, 0777)
                 : magic == RMDIR  ? rmdir(path)
                 : magic == UNLINK ? unlink(path)
                 : magic == CHDIR  ? chdir(path)
                 : magic == RENAME ? rename(path, to)
                                  : symlink(path, to);
    JSValue result = status ? failed(ctx, errno, CALLS[magic], path, to) : JS_UNDEFINED;
    js_free(ctx, path);
    js_free(ctx, to);
    return result;
}

NATIVE(native_cwd)
{
    char path[4097];
    if (!getcwd(path, sizeof path))
        return failed(ctx, errno, "getcwd", "", NULL);
    return JS_NewString(ctx, path);
}

/* Ends the execution: nothing that the code does can catch it. */
NATIVE(native_exit)
{
    JS_ToInt32(ctx, &exit_code, argv[0]);
    leaving = 1;
    JSValue error = JS_NewPlainError(ctx, "process.exit");
    JS_SetUncatchableError(ctx, error);
    return JS_Throw(ctx, error);
}

/* n random bytes, as a buffer */
NATIVE(native_random)
{
    int32_t length;
    if (JS_ToInt32(ctx, &length, argv[0]))
        return JS_EXCEPTION;
    if (length < 0 || length > 65536)
        return JS_ThrowRangeError(ctx, "at most 65536 bytes at once");
    uint8_t *all = js_malloc(ctx, length ? length : 1);
    if (!all)
        return JS_EXCEPTION;
    for (int32_t at = 0; at < length; at += 256) {
        int32_t piece = length - at < 256 ? length - at : 256;
        if (getentropy(all + at, piece)) {
            js_free(ctx, all);
            return JS_ThrowInternalError(ctx, "no randomness");
        }
    }
    JSValue buffer = JS_NewArrayBufferCopy(ctx, all, length);
    js_free(ctx, all);
    return buffer;
}

NATIVE(native_utf8_encode)
{
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    JSValue buffer = JS_NewArrayBufferCopy(ctx, (const uint8_t *)text, length);
    JS_FreeCString(ctx, text);
    return buffer;
}

/* buffer, offset, length, fatal */
NATIVE(native_utf8_decode)
{
    size_t size;
    uint32_t offset, length;
    uint8_t *bytes = JS_GetArrayBuffer(ctx, &size, argv[0]);
    if (!bytes && JS_HasException(ctx))
        return JS_EXCEPTION;
    if (JS_ToUint32(ctx, &offset, argv[1]) || JS_ToUint32(ctx, &length, argv[2]))
        return JS_EXCEPTION;
    if (offset > size || length > size - offset)
        return JS_ThrowRangeError(ctx, "out of bounds");
    bool fatal = JS_ToBool(ctx, argv[3]);
    DynBuf text;
    js_dbuf_init(ctx, &text);
    const uint8_t *at = bytes + offset, *end = at + length;
    while (at < end) {
        int here = utf8_length(at, end);
        if (here > 0) {
            dbuf_put(&text, at, here);
            at += here;
            continue;
        }
        if (fatal) {
            dbuf_free(&text);
            return JS_ThrowTypeError(ctx, "the encoded data is not valid UTF-8");
        }
        dbuf_put(&text, (const uint8_t *)"\xef\xbf\xbd", 3);
        at -= here;
    }
    JSValue result = dbuf_error(&text) ? JS_ThrowOutOfMemory(ctx)
                                       : JS_NewStringLen(ctx, (char *)text.buf, text.size);
    dbuf_free(&text);
    return result;
}

/* The name of a value's class, which no code can change. */
NATIVE(native_class)
{
    if (!JS_IsObject(argv[0]))
        return JS_UNDEFINED;
    if (JS_IsProxy(argv[0]))
        return JS_NewString(ctx, "Proxy");
    JSAtom name = JS_GetClassName(runtime, JS_GetClassID(argv[0]));
    JSValue value = JS_AtomToString(ctx, name);
    JS_FreeAtom(ctx, name);
    return value;
}

/* [state, result] of a promise: 0 pending, 1 fulfilled, 2 rejected */
NATIVE(native_promise)
{
    JSValue values[] = {
        JS_NewInt32(ctx, JS_PromiseState(ctx, argv[0])),
        JS_PromiseResult(ctx, argv[0]),
    };
    return JS_NewArrayFrom(ctx, countof(values), values);
}

/* ns since some time in the past */
NATIVE(native_now)
{
    return JS_NewFloat64(ctx, (double)now_ns());
}

/* Bytes of the linear memory. */
NATIVE(native_memory)
{
    return JS_NewFloat64(ctx, (double)__builtin_wasm_memory_size(0) * 65536);
}

/* text, file name: the value of a script */
NATIVE(native_script)
{
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    const char *name = text ? JS_ToCString(ctx, argv[1]) : NULL;
    JSValue value =
        name ? JS_Eval(ctx, text, length, name, JS_EVAL_TYPE_GLOBAL) : JS_EXCEPTION;
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, name);
    return value;
}

/* A result of `display`, as JSON text. */
NATIVE(native_emit)
{
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    sandkeep_emit(text, length);
    JS_FreeCString(ctx, text);
    return JS_UNDEFINED;
}

enum { FORMAT, INSPECT, DISPLAY };

/* Calls into the host's realm, on behalf of the user's. */
NATIVE_MAGIC(native_host)
{
    JSValueConst function = magic == FORMAT ? format : magic == INSPECT ? inspect : display;
    return JS_Call(host, function, JS_UNDEFINED, argc, argv);
}
