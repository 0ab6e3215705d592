use crate::small::{Context, Fixture, run};
use serde_json::json;

/// Memory of this process that it shares with nobody, bytes.
fn private() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("smaps");
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("the field");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB")
    };
    (field("Private_Dirty:") + field("Private_Clean:")) << 10
}

#[tokio::test]
async fn a_thousand_live_instances_take_what_they_write() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    run(&mut first, "poke 70000 7").await;
    context.keep(first.snapshot().expect("at rest"));
    let before = private();
    let mut all = Vec::new();
    for index in 0..1000u32 {
        let mut instance = fixture.restore(&context).await.expect("it is whole");
        run(&mut instance, &format!("poke 70001 {}", index % 251)).await;
        all.push(instance);
    }
    let each = (private() - before) / 1000;
    println!("a live instance takes {} KiB", each >> 10);
    for (index, instance) in all.iter_mut().enumerate() {
        assert_eq!(run(instance, "peek 70000").await, json!(7));
        assert_eq!(run(instance, "peek 70001").await, json!(index % 251), "they do not mix");
    }
    assert!(each < 1 << 20, "{each} bytes each");
}
