use super::context;
use crate::kit::all;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[tokio::test]
async fn files_are_those_of_the_workspace() {
    let mut c = context();
    std::fs::write(c.workspace().join("host.txt"), "from the host").unwrap();
    let cases = [
        ("fs.readFileSync('host.txt', 'utf8')", "'from the host'"),
        (
            "fs.writeFileSync('a.txt', 'one'); fs.appendFileSync('a.txt', ' two'); fs.readFileSync('/workspace/a.txt', 'utf8')",
            "'one two'",
        ),
        (
            "fs.mkdirSync('d/e/f', { recursive: true }); fs.writeFileSync('d/e/f/x', new Uint8Array([0, 255])); [...fs.readFileSync('d/e/f/x')]",
            "[ 0, 255 ]",
        ),
        ("fs.readdirSync('.')", "[ 'a.txt', 'd', 'host.txt' ]"),
        ("fs.readdirSync('d', { recursive: true })", "[ 'e', 'e/f', 'e/f/x' ]"),
        (
            "fs.readdirSync('.', { withFileTypes: true }).map((e) => e.isDirectory())",
            "[ false, true, false ]",
        ),
        ("fs.statSync('a.txt').size + fs.statSync('d').isDirectory()", "8"),
        (
            "fs.renameSync('a.txt', 'd/b.txt'); [fs.existsSync('a.txt'), fs.existsSync('d/b.txt')]",
            "[ false, true ]",
        ),
        (
            "fs.copyFileSync('d/b.txt', 'c.txt'); fs.unlinkSync('d/b.txt'); fs.readFileSync('c.txt').toString()",
            "'one two'",
        ),
        ("fs.rmSync('d', { recursive: true }); fs.existsSync('d')", "false"),
        ("(await fs.promises.readFile('c.txt', 'utf8')).length", "7"),
        ("fs.writeFileSync('/tmp/t', 'tmp'); fs.readFileSync('/tmp/t', 'utf8')", "'tmp'"),
    ];
    all(&mut c, &cases).await;
    assert_eq!(std::fs::read(c.workspace().join("c.txt")).unwrap(), b"one two");
}

/// It would never end.
#[tokio::test]
async fn no_directory_is_copied_into_itself() {
    let mut c = context();
    let code = "fs.mkdirSync('d/sub/deep', { recursive: true }); fs.writeFileSync('d/f', 'x'); \
                fs.symlinkSync('d', 'link'); fs.symlinkSync('d/sub/deep', 'into'); \
                fs.mkdirSync('k'); fs.symlinkSync('..', 'k/up'); const r = { recursive: true }";
    c.run(code).await;
    for (from, to) in [
        ("d", "d"),
        ("d", "link"),
        ("d", "d/x"),
        ("d", "d/x/y/z"),
        ("./d/", "/workspace/d/sub/../sub/x"),
        ("link", "d/x"),
        ("d", "link/x"),
        ("d", "into/x"),
        ("d/sub", "into"),
        ("/workspace", "x"),
        ("/", "x"),
        // By a link in what is copied.
        ("k", "x"),
    ] {
        let call = format!("('{from}', '{to}', r)");
        for code in [
            format!("try {{ fs.cpSync{call}; 'done' }} catch (e) {{ e.code }}"),
            format!("try {{ await fs.promises.cp{call}; 'done' }} catch (e) {{ e.code }}"),
        ] {
            assert_eq!(c.run(&code).await.text(), "'ERR_FS_CP_EINVAL'", "{code}");
        }
    }
    let cases = [
        ("fs.readdirSync('d', r)", "[ 'f', 'sub', 'sub/deep' ]"),
        // A name that only begins alike, one that is elsewhere, and what is above.
        ("fs.cpSync('d', 'd2', r); fs.readdirSync('d2', r)", "[ 'f', 'sub', 'sub/deep' ]"),
        ("fs.cpSync('d', '/tmp/d/d', r); fs.readdirSync('/tmp/d/d')", "[ 'f', 'sub' ]"),
        ("fs.cpSync('into', 'd/beside', r); fs.readdirSync('d')", "[ 'beside', 'f', 'sub' ]"),
        ("fs.cpSync('d2/sub', 'd2', r); fs.readdirSync('d2')", "[ 'deep', 'f', 'sub' ]"),
    ];
    all(&mut c, &cases).await;
}

/// Names are bytes; those that are no UTF-8 are given and told as buffers.
#[tokio::test]
async fn names_that_are_no_text_are_buffers() {
    let mut c = context();
    let on_disk = |name: &[u8]| c.workspace().join(OsStr::from_bytes(name));
    std::fs::create_dir(on_disk(b"a\xff")).unwrap();
    std::fs::write(on_disk(b"a\xff/\xfe\x80"), "found").unwrap();
    std::fs::write(on_disk("\u{feff}é".as_bytes()), "").unwrap();
    let cases = [
        ("fs.readdirSync('.')", "[ 'a\u{fffd}', '\u{feff}é' ]"),
        (
            "const names = fs.readdirSync('.', { encoding: 'buffer' }); names.map((name) => name.toString('hex'))",
            "[ '61ff', 'efbbbfc3a9' ]",
        ),
        (
            "fs.readdirSync('.', { encoding: 'buffer', recursive: true }).map((name) => name.toString('hex'))",
            "[ '61ff', '61ff2ffe80', 'efbbbfc3a9' ]",
        ),
        ("fs.readdirSync('.', { recursive: true })[1]", "'a\u{fffd}/\u{fffd}\u{fffd}'"),
        (
            "const [entry] = fs.readdirSync(names[0], { encoding: 'buffer', withFileTypes: true }); [entry.name.length, entry.isFile()]",
            "[ 2, true ]",
        ),
        (
            "const at = Buffer.concat([Buffer.from('/workspace/'), names[0], Buffer.from('/'), entry.name]); fs.readFileSync(at, 'utf8')",
            "'found'",
        ),
        ("fs.statSync(at).size + (await fs.promises.lstat(at)).size", "10"),
        ("fs.existsSync(names[1]) && fs.existsSync(new Uint8Array(names[1]))", "true"),
        (
            "fs.writeFileSync(at, 'x'); fs.appendFileSync(at, 'y'); fs.copyFileSync(at, 'plain'); fs.readFileSync('plain', 'utf8')",
            "'xy'",
        ),
        (
            "const odd = Buffer.from('d/\\xfd/\\xfc', 'latin1'); fs.mkdirSync(odd, { recursive: true }); fs.statSync(odd).isDirectory()",
            "true",
        ),
        (
            "fs.cpSync(names[0], odd, { recursive: true }); fs.renameSync(odd, Buffer.from([0xfb])); fs.readdirSync(Buffer.from([0xfb])).length",
            "1",
        ),
        (
            "fs.symlinkSync(Buffer.from([0xfb]), 'link'); fs.readdirSync('link', 'buffer')[0].toString('hex')",
            "'fe80'",
        ),
        (
            "for (const name of fs.readdirSync('.', 'buffer')) fs.rmSync(name, { recursive: true }); fs.readdirSync('.')",
            "[]",
        ),
        (
            "try { fs.readFileSync(Buffer.from([0xff])) } catch (e) { [e.code, e.path].join() }",
            "'ENOENT,\u{fffd}'",
        ),
        ("try { fs.readFileSync(Buffer.from([0xff, 0])) } catch (e) { e.name }", "'TypeError'"),
    ];
    all(&mut c, &cases).await;
}

#[tokio::test]
async fn faults_have_the_codes_of_node() {
    let mut c = context();
    c.run("fs.mkdirSync('dir/sub', { recursive: true }); fs.writeFileSync('file', 'x')").await;
    std::os::unix::fs::symlink("/etc/passwd", c.workspace().join("out")).unwrap();
    for (code, wanted) in [
        ("fs.readFileSync('nope')", "ENOENT"),
        ("fs.readFileSync('dir')", "EISDIR"),
        ("fs.readFileSync('file/x')", "ENOTDIR"),
        ("fs.writeFileSync('dir', 'x')", "EISDIR"),
        ("fs.mkdirSync('dir')", "EEXIST"),
        ("fs.mkdirSync('a/b')", "ENOENT"),
        ("fs.rmdirSync('dir')", "ENOTEMPTY"),
        ("fs.rmSync('dir')", "ERR_FS_EISDIR"),
        ("fs.rmSync('nope')", "ENOENT"),
        ("fs.unlinkSync('nope')", "ENOENT"),
        ("fs.writeFileSync('file', 'y', { flag: 'wx' })", "EEXIST"),
        ("process.chdir('nope')", "ENOENT"),
        ("require('./nope')", "MODULE_NOT_FOUND"),
    ] {
        let code = format!("try {{ {code}; 'nothing' }} catch (e) {{ e.code }}");
        assert_eq!(c.run(&code).await.text(), format!("'{wanted}'"), "{code}");
    }
    let ran = c.run("fs.readFileSync('nope')").await;
    assert_eq!(ran.error().message, "ENOENT: no such file or directory, open 'nope'");
    for path in
        ["/etc/passwd", "../../etc/passwd", "out", "/proc/self/environ", "/workspace/../etc/passwd"]
    {
        let ran = c.run(&format!("fs.readFileSync('{path}')")).await;
        assert_eq!(ran.error().name, "Error", "{path}");
    }
    assert_eq!(c.run("fs.readFileSync('a\\0b')").await.error().name, "TypeError");
}

#[tokio::test]
async fn modules_come_from_the_workspace() {
    let mut c = context();
    let write = |name: &str, text: &str| {
        let path = c.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "lib/m.mjs",
        "import data from '../data.json'; import { x } from './n.js'; export default data.k + x; export const url = import.meta.url;",
    );
    write("lib/n.js", "export const x = await Promise.resolve(2);");
    write("data.json", "{\"k\": 40}");
    write("old.js", "exports.twice = (n) => n * 2; exports.dir = __dirname;");
    write("bad.js", "let x = ;");
    write("throws.js", "throw new RangeError('in module');");
    let cases = [
        ("const m = await import('./lib/m.mjs'); m.default", "42"),
        ("m.url", "'file:///workspace/lib/m.mjs'"),
        ("(await import('/workspace/data.json')).default.k", "40"),
        ("require('./old').twice(4) + require('./old.js').dir", "'8/workspace'"),
        ("require('./data.json').k", "40"),
        ("process.chdir('lib'); (await import('./n.js')).x", "2"),
    ];
    all(&mut c, &cases).await;
    assert_eq!(c.cwd, "/workspace/lib");
    all(&mut c, &[("process.cwd()", "'/workspace/lib'")]).await;
    for (code, name) in [
        ("await import('./nope.js')", "Error"),
        ("await import('../bad.js')", "SyntaxError"),
        ("await import('../throws.js')", "RangeError"),
        ("await import('left-pad')", "ReferenceError"),
    ] {
        assert_eq!(c.run(code).await.error().name, name, "{code}");
    }
}

#[tokio::test]
async fn a_working_directory_that_is_gone_is_the_workspace() {
    let mut c = context();
    c.run("fs.mkdirSync('gone'); process.chdir('gone')").await;
    assert_eq!(c.cwd, "/workspace/gone");
    std::fs::remove_dir(c.workspace().join("gone")).unwrap();
    all(&mut c, &[("process.cwd()", "'/workspace'")]).await;
}

#[tokio::test]
async fn open_files_are_read_and_written_by_their_descriptors() {
    let mut c = context();
    let cases = [
        ("const h = fs.openSync('f', 'w+'); fs.writeSync(h, 'one\\ntwo\\né')", "10"),
        (
            "const b = Buffer.alloc(4); [fs.readSync(h, b), fs.readSync(h, b, 0, 4, 4), b.toString()]",
            "[ 0, 4, 'two\\n' ]",
        ),
        ("fs.writeSync(h, Buffer.from('xONEx'), 1, 3, 0)", "3"),
        ("fs.writeSync(h, 'e', 3, 'utf8'); fs.readFileSync('f', 'utf8')", "'ONEetwo\\né'"),
        ("fs.fstatSync(h).size + fs.fstatSync(h).isFile()", "11"),
        (
            "fs.ftruncateSync(h, 3); fs.fsyncSync(h); fs.closeSync(h); fs.readFileSync('f', 'utf8')",
            "'ONE'",
        ),
        (
            "try { fs.readSync(h, b) } catch (e) { [e.code, e.message, e.syscall] }",
            "[ 'EBADF', 'EBADF: bad file descriptor, read', 'read' ]",
        ),
        (
            "const r = fs.openSync('f'); [fs.readFileSync(r, 'utf8'), fs.readFileSync(r, 'utf8')]",
            "[ 'ONE', '' ]",
        ),
        ("try { fs.writeSync(r, 'x') } catch (e) { e.code }", "'EBADF'"),
        (
            "fs.closeSync(r); const a = fs.openSync('f', 'a'); fs.writeFileSync(a, 'more'); fs.appendFileSync(a, new Uint8Array([33])); fs.closeSync(a); fs.readFileSync('f', 'latin1')",
            "'ONEmore!'",
        ),
        ("try { fs.openSync('f', 'wx') } catch (e) { [e.code, e.path] }", "[ 'EEXIST', 'f' ]"),
        (
            "const { O_RDWR, O_CREAT, O_EXCL } = fs.constants; fs.closeSync(fs.openSync('g', O_RDWR | O_CREAT | O_EXCL)); fs.statSync('g').size",
            "0",
        ),
        (
            "const big = Buffer.alloc(300000, 'ab'); const w = fs.openSync('big', 'w+'); fs.writeFileSync(w, big); const back = Buffer.alloc(300000); [fs.readSync(w, back, { position: 0n }), back.equals(big)]",
            "[ 300000, true ]",
        ),
        // What cannot be.
        (
            "['', 'q', 1.5, {}].map((flags) => { try { return fs.openSync('f', flags) } catch (e) { return e.code } }).every((code) => code === 'ERR_INVALID_ARG_VALUE')",
            "true",
        ),
        (
            "['1', -1, 1.5, 2 ** 31].map((fd) => { try { return fs.readSync(fd, b) } catch (e) { return e.code } }).join()",
            "'ERR_INVALID_ARG_TYPE,ERR_OUT_OF_RANGE,ERR_OUT_OF_RANGE,ERR_OUT_OF_RANGE'",
        ),
        (
            "[[5], [0, 5], [-1], [0, 1, -2], [0, 1, 2 ** 60]].map((v) => { try { return fs.readSync(w, b, ...v) } catch (e) { return e.code } }).every((code) => code === 'ERR_OUT_OF_RANGE')",
            "true",
        ),
        (
            "const gone = new ArrayBuffer(4); gone.transfer(); try { fs.readSync(w, gone) } catch (e) { e.name }",
            "'TypeError'",
        ),
        ("try { fs.openSync('.', 'w') } catch (e) { e.code }", "'EISDIR'"),
        (
            "const many = []; let full; try { for (;;) many.push(fs.openSync('f')) } catch (e) { full = e.code } many.forEach((fd) => fs.closeSync(fd)); [full, many.length > 100]",
            "[ 'EMFILE', true ]",
        ),
        // Places that the interpreter needs stay, standard streams come back.
        (
            "[3, 4].map((fd) => { try { return fs.closeSync(fd) } catch (e) { return e.code } })",
            "[ 'EPERM', 'EPERM' ]",
        ),
        // Later, and by handles.
        (
            "await new Promise((done) => fs.open('f', 'r', (e, fd) => fs.read(fd, b, 0, 3, 0, (e, n, into) => fs.close(fd, (e) => done([n, into === b, b.toString('latin1', 0, 3), e])))))",
            "[ 3, true, 'ONE', null ]",
        ),
        ("await new Promise((done) => fs.read(99, b, 0, 3, 0, (e) => done(e.code)))", "'EBADF'"),
        (
            "const fh = await fs.promises.open('f', 'r+'); const { bytesRead } = await fh.read(b, 0, 3, 0); await fh.write('Z', 0); await fh.truncate(3); [bytesRead, (await fh.stat()).size, await fs.promises.readFile(fh, 'utf8')]",
            "[ 3, 3, 'ZNE' ]",
        ),
        (
            "await fh.sync(); await fh.close(); await fh.close(); try { await fh.readFile() } catch (e) { e.code }",
            "'ERR_OUT_OF_RANGE'",
        ),
        ("typeof fs.promises.read + typeof fs.promises.fstat", "'undefinedundefined'"),
    ];
    all(&mut c, &cases).await;
    let ran = c
        .run("fs.writeSync(1, 'out\\n'); fs.writeSync(2, Buffer.from('err')); fs.closeSync(1); 1")
        .await;
    assert_eq!((&*ran.stdout, &*ran.stderr), ("out\n", "err"));
    assert_eq!(c.run("console.log('back')").await.stdout, "back\n");
    c.stdin = b"asked".to_vec();
    assert_eq!(c.run("fs.readSync(0, b) + b.toString()").await.text(), "'4aske'");
}

/// As far as it was read, and what it is.
#[tokio::test]
async fn open_files_stay_with_the_context() {
    let mut c = context();
    c.run("const h = fs.openSync('f', 'w+'); fs.writeSync(h, '1\\n2\\n3\\n'); const r = fs.openSync('f'); const line = (fd) => { const b = Buffer.alloc(2); return b.toString('utf8', 0, fs.readSync(fd, b)) }; line(r)").await;
    assert_eq!(c.again("line(r)").await.text(), "'2\\n'");
    let mut fork = c.fork();
    assert_eq!(fork.run("line(r)").await.text(), "'3\\n'");
    assert_eq!(c.again("line(r) + line(r)").await.text(), "'3\\n'");
    assert_eq!(c.again("fs.writeSync(h, '4\\n'); line(r)").await.text(), "'4\\n'");
    c.timeout = std::time::Duration::from_millis(300);
    let ran = c.run("line(r); fs.closeSync(r); fs.writeSync(h, '5\\n'); for (;;) {}").await;
    c.timeout = std::time::Duration::from_secs(60);
    assert!(ran.rolled_back(), "{ran:?}");
    assert_eq!(
        c.again("line(r)").await.text(),
        "'5\\n'",
        "it is open as before, the file is as it was written"
    );
    std::fs::remove_file(c.workspace().join("f")).unwrap();
    assert_eq!(
        c.run("fs.readFileSync('f')").await.error().message,
        "ENOENT: no such file or directory, open 'f'"
    );
}
