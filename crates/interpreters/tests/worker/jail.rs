//! What code can see of the machine.

use crate::bed::Bed;
use std::os::unix::fs::MetadataExt;

#[tokio::test(flavor = "multi_thread")]
async fn code_sees_its_directories_alone() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    let list =
        context.run(&worker, "os.readdir('/')[0].filter(n => n[0] != '.').sort().join()").await;
    assert_eq!(list.value(), "'dev,tmp,workspace'");
    for path in ["/etc/passwd", "/proc/self/environ", "/engines", "/workspace/../etc/passwd"] {
        let code = format!("std.open('{path}', 'r')");
        assert_eq!(context.run(&worker, &code).await.value(), "null", "{path}");
    }
    let env = context.run(&worker, "Object.keys(process.env).join()").await;
    assert_eq!(env.value(), "'GIVEN'");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_the_instances_own() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    std::fs::write(bed.path("workspace1/given"), "from outside").expect("write");
    let mut context = bed.context("one");
    let code = "const f = std.open('/workspace/made', 'w'); f.puts('from inside'); f.close();
                std.loadFile('/workspace/given')";
    assert_eq!(context.run(&worker, code).await.value(), "'from outside'");
    let made = bed.path("workspace1/made");
    assert_eq!(std::fs::read_to_string(&made).expect("read"), "from inside");
    let owner = std::fs::metadata(&made).expect("metadata");
    let own = rustix::process::geteuid().as_raw();
    assert_eq!((owner.uid(), owner.mode() & 0o777), (own, 0o644));
}
