use crate::small::{Context, Fixture, Kept, MIB, job, run, stopped};
use interpreters::{Execution, InstanceError, Stop};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn loops_and_sleeps_end_at_the_limit_and_the_context_goes_on() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    run(&mut first, "poke 70000 7").await;
    context.keep(first.snapshot().expect("at rest"));
    for code in ["poke 70000 8\nspin", "poke 70000 8\nsleep 100000"] {
        let mut instance = fixture.restore(&context).await.expect("it is whole");
        let short = Execution { timeout: Duration::from_millis(60), ..job(code) };
        let outcome = instance.execute(&short, Box::new(Kept::default())).await;
        assert_eq!(outcome.stopped, Some(Stop::Timeout(60)), "{code}");
        let error = outcome.error.expect("a limit is an error");
        assert_eq!(error.name, "ExecutionLimitError");
        assert!(instance.is_dead() && instance.snapshot_taken().is_none());
        assert!(matches!(instance.snapshot(), Err(InstanceError::NotAtRest(_))));
        let outcome = stopped(&mut instance, "peek 70000").await;
        assert!(outcome.stopped.is_some(), "a dead one runs nothing");
        let mut next = fixture.restore(&context).await.expect("it is whole");
        assert_eq!(run(&mut next, "peek 70000").await, json!(7));
    }
}

#[tokio::test]
async fn what_is_dropped_stops_and_lets_go_of_its_sink() {
    let fixture = Fixture::new().await;
    let mut instance = fixture.fresh().await;
    let kept = Kept::default();
    {
        let job = job("spin");
        let spin = instance.execute(&job, Box::new(kept.clone()));
        let ended = tokio::time::timeout(Duration::from_millis(50), spin).await;
        assert!(ended.is_err(), "it runs for ever");
    }
    assert!(instance.is_dead());
    assert_eq!(std::sync::Arc::strong_count(&kept.0), 1);
}

#[tokio::test]
async fn traps_exits_and_deep_stacks_are_told_apart() {
    let fixture = Fixture::new().await;
    for (code, want, name) in [
        ("exit 3", Stop::Exit(3), "SystemExit"),
        ("deep", Stop::Stack, "ExecutionLimitError"),
        ("poke 99999999 1", Stop::Driver(String::new()), "EngineError"),
        ("trap", Stop::Trap(String::new()), "EngineError"),
    ] {
        let mut instance = fixture.fresh().await;
        let outcome = stopped(&mut instance, code).await;
        let stop = outcome.stopped.expect("it was stopped");
        assert_eq!(std::mem::discriminant(&stop), std::mem::discriminant(&want), "{code}: {stop}");
        assert_eq!(outcome.error.expect("an error").name, name);
        assert!(instance.is_dead());
    }
}

#[tokio::test]
async fn memory_has_a_limit_that_the_guest_meets_itself() {
    let fixture = Fixture::new().await;
    let mut instance = fixture.fresh().await;
    let outcome = stopped(&mut instance, "grow 300").await;
    assert_eq!(outcome.result.and_then(|r| r.json), Some(json!(-1)));
    assert_eq!(outcome.stopped, None);
    let outcome = stopped(&mut instance, "grow 300\ntrap").await;
    assert_eq!(outcome.stopped, Some(Stop::Memory(16 * MIB)));
    assert_eq!(outcome.error.expect("an error").name, "ExecutionLimitError");
}

#[tokio::test]
async fn what_is_not_at_rest_is_not_saved() {
    let fixture = Fixture::new().await;
    let mut instance = fixture.fresh().await;
    run(&mut instance, "lean").await;
    let error = instance.snapshot().expect_err("a global has changed");
    assert!(error.to_string().contains("__stack_pointer"), "{error}");
}

#[tokio::test]
async fn output_over_the_limit_is_counted_and_dropped() {
    let fixture = Fixture::new().await;
    let mut instance = fixture.fresh().await;
    let kept = Kept::default();
    let small = Execution { output_max: 1000, ..job("say 1 5000 hällo") };
    let outcome = instance.execute(&small, Box::new(kept.clone())).await;
    assert_eq!(outcome.stopped, None, "the guest does not notice");
    assert!(outcome.truncated);
    assert_eq!(outcome.usage.output_bytes, 30_000);
    let bytes = kept.0.lock().expect("nobody panicked").clone();
    assert!(String::from_utf8(bytes).is_ok_and(|text| (995..=1000).contains(&text.len())));
}

#[tokio::test]
async fn a_call_that_is_not_there_says_so() {
    let fixture = Fixture::new().await;
    assert_eq!(run(&mut fixture.fresh().await, "unknown").await, json!(52));
}
