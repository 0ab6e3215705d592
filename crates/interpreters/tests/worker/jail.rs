//! What code can see of the machine.

use crate::bed::Bed;
use std::os::unix::fs::MetadataExt;

#[tokio::test(flavor = "multi_thread")]
async fn code_sees_its_directories_alone() {
    let bed = Bed::new().await;
    let worker = bed.worker(1).await;
    let mut context = bed.context("one");
    let list = context.run(&worker, "fs.readdirSync('/').sort().join()").await;
    assert_eq!(list.value(), "'dev,tmp,usr,workspace'");
    for path in ["/etc/passwd", "/proc/self/environ", "/engines", "/workspace/../etc/passwd"] {
        let code = format!("fs.existsSync('{path}')");
        assert_eq!(context.run(&worker, &code).await.value(), "false", "{path}");
        let code = format!("fs.readFileSync('{path}', 'utf8')");
        assert_eq!(context.run(&worker, &code).await.value(), "Error", "{path}");
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
    let code = "fs.writeFileSync('/workspace/made', 'from inside');
                fs.readFileSync('/workspace/given', 'utf8')";
    assert_eq!(context.run(&worker, code).await.value(), "'from outside'");
    let made = bed.path("workspace1/made");
    assert_eq!(std::fs::read_to_string(&made).expect("read"), "from inside");
    let owner = std::fs::metadata(&made).expect("metadata");
    let own = rustix::process::geteuid().as_raw();
    assert_eq!((owner.uid(), owner.mode() & 0o777), (own, 0o644));
}
