use crate::small::{Context, Fixture, MIB, PAGE, run};
use interpreters::pack::PackError;
use interpreters::pages::PageMap;
use interpreters::{Instance, InstanceError};
use serde_json::json;

#[tokio::test]
async fn a_context_that_changed_nothing_has_no_pack() {
    let fixture = Fixture::new().await;
    let mut first = fixture.fresh().await;
    let mut context = Context::default();
    let new = first.snapshot().expect("at rest");
    assert_eq!((new.pack.as_ref(), new.snapshot.seq), (None, 1));
    context.keep(new);
    let base = run(&mut first, "hash").await;
    let mut second = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(run(&mut second, "hash").await, base);
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restore() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    run(&mut first, "poke 70000 7\npoke 5 9").await;
    let new = first.snapshot().expect("at rest");
    assert_eq!(new.snapshot.packs.len(), 1);
    assert_eq!(new.snapshot.packs[0].pages, 2);
    context.keep(new);
    assert_eq!(first.snapshot_taken(), context.snapshot.as_ref());
    let mut second = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(second.snapshot_taken(), context.snapshot.as_ref());
    assert_eq!(run(&mut second, "peek 70000").await, json!(7));
    assert_eq!(run(&mut second, "peek 5").await, json!(9));
    assert_eq!(run(&mut second, "hash").await, run(&mut first, "hash").await);
}

/// Few pages or many, with and without the page map.
#[tokio::test]
async fn what_is_left_on_the_stack_is_not_kept() {
    for pages in [PageMap::open(), PageMap::unknown()] {
        let fixture = Fixture::stacked(pages, 65536).await;
        let mut context = Context::default();
        let mut live = fixture.fresh().await;
        let base = run(&mut live, "hash").await;
        for (first, pages) in [(3, 1), (0, 16), (14, 2), (1, 15)] {
            let fill = |page: u32| format!("fill {page} 200\n");
            run(&mut live, &(first..first + pages).map(fill).collect::<String>()).await;
            assert_eq!(live.snapshot().expect("at rest").pack, None, "{pages} pages");
            assert_eq!(run(&mut live, "hash").await, base);
            // What is not on it is.
            run(&mut live, &format!("{}{}", fill(15), fill(16))).await;
            context.keep(live.snapshot().expect("at rest"));
            let snapshot = context.snapshot.as_ref().expect("it was saved");
            assert_eq!(snapshot.packs.iter().map(|pack| pack.pages).sum::<u64>(), 1);
            let mut restored = fixture.restore(&context).await.expect("it is whole");
            assert_eq!(run(&mut restored, "peek 65536").await, json!(200));
            assert_eq!(run(&mut restored, "hash").await, run(&mut live, "hash").await);
            run(&mut live, "fill 16 16").await;
            context.keep(live.snapshot().expect("at rest"));
        }
    }
}

/// Two flips of the top bit in a page must not cancel out.
#[tokio::test]
async fn negated_doubles_stay_negated() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    run(&mut first, "fill 20 65").await;
    context.keep(first.snapshot().expect("at rest"));
    run(&mut first, "negate 20").await;
    context.keep(first.snapshot().expect("at rest"));
    let mut second = fixture.restore(&context).await.expect("it is whole");
    let last = 20 * PAGE + PAGE - 1;
    assert_eq!(run(&mut second, &format!("peek {last}")).await, json!(65 ^ 0x80));
    assert_eq!(run(&mut second, "hash").await, run(&mut first, "hash").await);
}

#[tokio::test]
async fn memory_that_grew_past_the_image_comes_back() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    assert_eq!(run(&mut first, "grow 10").await, json!(6));
    let last = 16 * 65536 - 1;
    run(&mut first, &format!("poke {last} 3\npoke 393216 4")).await;
    let new = first.snapshot().expect("at rest");
    assert_eq!(new.snapshot.memory_bytes, 16 * 65536);
    context.keep(new);
    let mut second = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(second.memory_bytes(), 16 * 65536);
    assert_eq!(run(&mut second, &format!("peek {last}")).await, json!(3));
    assert_eq!(run(&mut second, "peek 393216").await, json!(4));
    assert_eq!(run(&mut second, "peek 500000").await, json!(0));
    let (build, runtime) = (fixture.build.clone(), fixture.runtime.clone());
    let snapshot = context.snapshot.as_ref().expect("it was saved");
    let packs = context.packs(&build, snapshot).expect("they are whole");
    let error = Instance::restore(build, runtime, fixture.places(), MIB / 2, snapshot, packs);
    let error = error.await.err().expect("it does not fit");
    assert!(matches!(error, InstanceError::TooLarge { has: 1_048_576, limit: 524_288 }), "{error}");
}

#[tokio::test]
async fn pages_can_go_back_to_the_base() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    // So many that steps are increments, and then one back as the base had it.
    let before = run(&mut first, "hash").await;
    let all: Vec<_> = (100..400).map(|page| format!("fill {page} 1")).collect();
    run(&mut first, "grow 30").await;
    run(&mut first, &all.join("\n")).await;
    context.keep(first.snapshot().expect("at rest"));
    run(&mut first, "fill 50 77").await;
    context.keep(first.snapshot().expect("at rest"));
    assert_eq!(context.snapshot.as_ref().expect("saved").packs.len(), 2);
    run(&mut first, "fill 50 50\nfill 399 0").await;
    context.keep(first.snapshot().expect("at rest"));
    let mut second = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(run(&mut second, "hash").await, run(&mut first, "hash").await);
    assert_eq!(run(&mut second, &format!("peek {}", 50 * PAGE)).await, json!(50));
    // Everything goes back: nothing is stored but the size.
    let back: Vec<_> = (100..400).map(|page| format!("fill {page} 0")).collect();
    run(&mut second, &back.join("\n")).await;
    let new = second.snapshot().expect("at rest");
    assert!(new.snapshot.packs.iter().map(|pack| pack.pages).sum::<u64>() <= 300);
    context.keep(new);
    let mut third = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(run(&mut third, "hash").await, run(&mut second, "hash").await);
    assert_ne!(run(&mut third, "hash").await, before, "it has grown");
}

/// Steps of all sizes, with and without the page map: a restored memory is always the live one.
#[tokio::test]
async fn however_a_context_steps_it_is_restored_exactly() {
    for pages in [PageMap::open(), PageMap::unknown()] {
        let fixture = Fixture::with(pages).await;
        let mut context = Context::default();
        let mut live = fixture.fresh().await;
        run(&mut live, "grow 60").await;
        let mut random = 12345u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let mut most = 0;
        for step in 0..120 {
            let writes = [1, 3, 30, 400][next(4) as usize];
            let code: Vec<_> =
                (0..writes).map(|_| format!("fill {} {}", next(1056), next(4))).collect();
            run(&mut live, &code.join("\n")).await;
            context.keep(live.snapshot().expect("at rest"));
            let snapshot = context.snapshot.as_ref().expect("it was saved");
            most = most.max(snapshot.packs.len());
            if step % 10 == 9 {
                let mut restored = fixture.restore(&context).await.expect("it is whole");
                assert_eq!(run(&mut restored, "hash").await, run(&mut live, "hash").await);
                if step % 20 == 19 {
                    // Go on from what was restored.
                    live = fixture.restore(&context).await.expect("it is whole");
                }
            }
        }
        assert!((2..=12).contains(&most), "{most} packs");
    }
}

#[tokio::test]
async fn counts_follow_the_pages() {
    let fixture = Fixture::new().await;
    let mut first = fixture.fresh().await;
    let new = first.snapshot().expect("at rest").snapshot;
    assert_eq!((new.pages64k, new.chunks1m), (6, 1));
    run(&mut first, "grow 60\npoke 3000000 1").await;
    let new = first.snapshot().expect("at rest").snapshot;
    assert_eq!((new.pages64k, new.chunks1m), (7, 2));
    let zeros: Vec<_> = (16..32).map(|page| format!("fill {page} 0")).collect();
    run(&mut first, &zeros.join("\n")).await;
    let new = first.snapshot().expect("at rest").snapshot;
    assert_eq!((new.pages64k, new.chunks1m), (6, 2));
}

#[tokio::test]
async fn a_damaged_pack_is_an_error_and_never_a_value() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    run(&mut first, "poke 70000 7").await;
    context.keep(first.snapshot().expect("at rest"));
    let good = context.files.clone();
    let (name, bytes) = good.first_key_value().expect("one pack");
    for at in (0..bytes.len()).step_by(7) {
        context.files.get_mut(name).expect("it is there")[at] ^= 1;
        let error = fixture.restore(&context).await.err().expect("it is damaged");
        assert!(
            matches!(&error, InstanceError::Pack { file, error: PackError::Damaged } if file == name)
        );
        context.files = good.clone();
    }
    context.files.get_mut(name).expect("it is there").truncate(100);
    let error = fixture.restore(&context).await.err().expect("it is cut");
    assert!(matches!(error, InstanceError::Pack { error: PackError::Short(100), .. }), "{error}");
    context.files = good;
    assert!(fixture.restore(&context).await.is_ok());
    context.snapshot.as_mut().expect("it was saved").base = "22".repeat(32);
    let error = fixture.restore(&context).await.err().expect("it is another");
    assert!(matches!(error, InstanceError::OtherBuild), "{error}");
}

#[tokio::test]
async fn time_goes_on_and_seeds_are_given_once() {
    let fixture = Fixture::new().await;
    let mut context = Context::default();
    let mut first = fixture.fresh().await;
    let clock = |value: serde_json::Value| value.as_u64().expect("a number");
    let one = clock(run(&mut first, "sleep 20\nclock").await);
    let seed = clock(run(&mut fixture.fresh().await, "seed").await);
    assert!(seed < 1 << 53);
    assert_ne!(seed, clock(run(&mut fixture.fresh().await, "seed").await));
    assert_eq!(run(&mut first, "seed").await, json!(null), "it has run before");
    context.keep(first.snapshot().expect("at rest"));
    let mut second = fixture.restore(&context).await.expect("it is whole");
    assert_eq!(run(&mut second, "seed").await, json!(null), "it is no new context");
    let two = clock(run(&mut second, "clock").await);
    assert!(two >= one, "{two} is before {one}");
}
