/* Open files, by their descriptors. The scripts check types; what is checked here keeps memory
   whole whatever they pass. */

/* Flags as Linux numbers them, and so Node. */
static const struct { int theirs, ours; } FLAGS[] = {
    {64, O_CREAT}, {128, O_EXCL}, {512, O_TRUNC}, {1024, O_APPEND}, {65536, O_DIRECTORY},
};

/* path, flags: a descriptor */
NATIVE(native_open)
{
    int flags;
    if (JS_ToInt32(ctx, &flags, argv[1]))
        return JS_EXCEPTION;
    int how = (flags & 3) == 0 ? O_RDONLY : (flags & 3) == 1 ? O_WRONLY : O_RDWR;
    for (size_t i = 0; i < countof(FLAGS); i++)
        how |= flags & FLAGS[i].theirs ? FLAGS[i].ours : 0;
    char *path = path_of(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int fd = open(path, how, 0666);
    JSValue result = fd < 0 ? failed(ctx, errno, "open", path, NULL) : JS_NewInt32(ctx, fd);
    js_free(ctx, path);
    return result;
}

enum { READ, WRITE };

/* descriptor, buffer, offset, length, position or -1: how many bytes */
NATIVE_MAGIC(native_transfer)
{
    int fd;
    int64_t offset, length, position;
    size_t size;
    if (JS_ToInt32(ctx, &fd, argv[0]) || JS_ToInt64(ctx, &offset, argv[2])
        || JS_ToInt64(ctx, &length, argv[3]) || JS_ToInt64(ctx, &position, argv[4]))
        return JS_EXCEPTION;
    /* Last: nothing of the code's runs between this and the call. */
    uint8_t *bytes = (uint8_t *)bytes_of(ctx, argv[1], &size);
    if (!bytes && JS_HasException(ctx))
        return JS_EXCEPTION;
    if (!bytes)
        size = 0;
    if (offset < 0 || length < 0 || offset > (int64_t)size || length > (int64_t)size - offset)
        return JS_ThrowRangeError(ctx, "out of bounds");
    ssize_t done;
    do {
        if (magic == READ)
            done = position < 0 ? read(fd, bytes + offset, length)
                                : pread(fd, bytes + offset, length, position);
        else
            done = position < 0 ? write(fd, bytes + offset, length)
                                : pwrite(fd, bytes + offset, length, position);
    } while (done < 0 && errno == EINTR);
    return done < 0 ? failed(ctx, errno, magic == READ ? "read" : "write", NULL, NULL)
                    : JS_NewInt64(ctx, done);
}

/* descriptor: as `native_stat` */
NATIVE(native_fstat)
{
    int fd;
    struct stat about;
    if (JS_ToInt32(ctx, &fd, argv[0]))
        return JS_EXCEPTION;
    return fstat(fd, &about) ? failed(ctx, errno, "fstat", NULL, NULL) : told(ctx, &about);
}

enum { CLOSE, TRUNCATE, SYNC };
static const char *const ACTS[] = {"close", "ftruncate", "fsync"};

/* descriptor, length where it is truncated */
NATIVE_MAGIC(native_act)
{
    int fd;
    int64_t length = 0;
    if (JS_ToInt32(ctx, &fd, argv[0]) || (magic == TRUNCATE && JS_ToInt64(ctx, &length, argv[1])))
        return JS_EXCEPTION;
    int status = magic == CLOSE ? close(fd) : magic == SYNC ? fsync(fd) : ftruncate(fd, length);
    return status ? failed(ctx, errno, ACTS[magic], NULL, NULL) : JS_UNDEFINED;
}
