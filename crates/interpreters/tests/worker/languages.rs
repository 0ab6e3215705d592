//! Every language in the jail: its files, its errors, its state. The filter must let all of it
//! through that the languages do.

use crate::bed::{Bed, build};

async fn runs(engine: &'static str, steps: &[(&str, &str)]) {
    let build = tokio::task::spawn_blocking(move || build(engine)).await.expect("installed");
    let bed = Bed::of(build, |_| {}).await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    for (number, (code, value)) in steps.iter().enumerate() {
        // Every other step goes on from the disk.
        if number % 2 == 1 {
            worker.forget("one").await;
        }
        let ran = context.roomy(&worker, code).await;
        assert_eq!(ran.value(), *value, "{code}: {ran:?}");
    }
    let made = std::fs::read_to_string(bed.path("workspace1/moved")).expect("the file");
    assert_eq!(made, "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_python() {
    runs(
        "python",
        &[
            ("import os; f = open('a', 'w'); f.write('te'); x = 1", ""),
            ("f.write('xt'); f.close(); os.rename('a', 'moved'); open('moved').read()", "'text'"),
            (
                "os.makedirs('d/e', exist_ok=True); os.symlink('moved', 'l'); sorted(os.listdir())",
                "['d', 'l', 'moved']",
            ),
            ("os.stat('l').st_size, os.readlink('l'), os.environ['GIVEN']", "(4, 'moved', 'yes')"),
            ("import tempfile; t = tempfile.TemporaryFile(); t.write(b'1' * 100000)", "100000"),
            ("import time; time.sleep(0.01); x += 1; input()", "'a line'"),
            ("open('/etc/passwd')", "FileNotFoundError"),
            ("x", "2"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_ruby() {
    runs(
        "ruby",
        &[
            ("File.write('a', 'text'); x = 1", "1"),
            (
                "File.rename('a', 'moved'); Dir.mkdir('d'); Dir.children('.').sort",
                "[\"d\", \"moved\"]",
            ),
            ("sleep 0.01; x += 1; File.read('moved')", "\"text\""),
            ("File.read('/etc/passwd')", "Errno::ENOENT"),
            ("[x, ENV['GIVEN']]", "[2, \"yes\"]"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_perl() {
    runs(
        "perl",
        &[
            ("open(my $f, '>', 'a') or die; print $f 'text'; close $f; our $x = 1;", "1"),
            ("rename('a', 'moved') or die; mkdir('d'); -s 'moved'", "4"),
            ("our $x; $x += 1; $x", "2"),
            ("open(my $f, '<', '/etc/passwd') ? 'open' : 'closed'", "closed"),
        ],
    )
    .await;
}
