//! Objects over a real store: one live copy, order, eviction, alarms.

use async_trait::async_trait;
use objects::{AlarmFailed, AlarmHandle, Clock, Holds, Object, Objects, Options};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::Store;
use tokio::sync::oneshot;
use tokio::time::Instant;
use types::{ObjectId, SandboxName, Settings, TimeDefaults};

#[derive(Default)]
struct World {
    /// How many copies there are at this moment, and how many there ever were.
    copies: AtomicUsize,
    lives: AtomicUsize,
    log: Mutex<Vec<u64>>,
    alarms: Mutex<Vec<(ObjectId, Instant)>>,
    /// How many alarms still fail.
    failing: AtomicUsize,
    /// One alarm panics.
    panics: AtomicUsize,
}

struct Counter {
    id: ObjectId,
    world: Arc<World>,
    count: u64,
}

enum Message {
    Add(u64, oneshot::Sender<u64>),
    Panic,
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.world.copies.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Object for Counter {
    type Message = Message;
    type World = World;

    async fn activate(id: ObjectId, world: Arc<World>) -> Self {
        world.copies.fetch_add(1, Ordering::SeqCst);
        world.lives.fetch_add(1, Ordering::SeqCst);
        // Long enough that a second copy, if there could be one, would meet the first.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Self { id, world, count: 0 }
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Add(n, reply) => {
                let before = self.count;
                tokio::task::yield_now().await;
                self.count = before + 1;
                self.world.log.lock().unwrap().push(n);
                let _ = reply.send(self.count);
            }
            Message::Panic => panic!("as asked"),
        }
    }

    async fn alarm(&mut self) -> Result<(), AlarmFailed> {
        self.world.alarms.lock().unwrap().push((self.id, Instant::now()));
        let one_less = |n: usize| n.checked_sub(1);
        if self.world.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            panic!("as asked");
        }
        if self.world.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(AlarmFailed("as asked".into()));
        }
        Ok(())
    }

    fn recheck(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn evictable(&self) -> bool {
        true
    }
}

struct Rig {
    objects: Objects<Counter>,
    world: Arc<World>,
    alarms: AlarmHandle,
    store: Store,
    _directory: tempfile::TempDir,
}

async fn rig(evict_after: Duration, prepare: impl AsyncFn(&Store)) -> Rig {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(store::Options { dir: directory.path().to_owned() }).unwrap();
    prepare(&store).await;
    let mut handle = None;
    let options = Options { evict_after, ..Options::default() };
    let clock = Clock::default();
    let start = Objects::start(&store, &clock, options, |alarms| {
        handle = Some(alarms);
        Arc::new(World::default())
    });
    let (objects, world) = start.await.unwrap();
    Rig { objects, world, alarms: handle.unwrap(), store, _directory: directory }
}

fn id(n: usize) -> ObjectId {
    SandboxName::new("ada".parse().unwrap(), format!("s{n}").parse().unwrap()).object_id()
}

async fn add(objects: &Objects<Counter>, id: ObjectId, n: u64) -> u64 {
    let (reply, answer) = oneshot::channel();
    objects.send(id, Message::Add(n, reply));
    answer.await.unwrap()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_live_copy_takes_messages_in_order() {
    let rig = rig(Duration::from_secs(60), async |_: &Store| {}).await;
    let (one, senders) = (id(1), 50);
    let mut tasks = Vec::new();
    for n in 0..senders {
        let objects = rig.objects.clone();
        tasks.push(tokio::spawn(async move { add(&objects, one, n).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, (1..=senders).collect::<Vec<_>>(), "an update was lost");
    assert_eq!(rig.world.lives.load(Ordering::SeqCst), 1);
    rig.world.log.lock().unwrap().clear();
    let mut last = None;
    for n in 0..100 {
        let (reply, answer) = oneshot::channel();
        rig.objects.send(one, Message::Add(n, reply));
        last = Some(answer);
    }
    last.unwrap().await.unwrap();
    assert_eq!(*rig.world.log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_leave_memory_and_no_message_is_lost_on_the_way() {
    let rig = rig(Duration::from_millis(1), async |_: &Store| {}).await;
    // Sends at all distances from the moment of the eviction.
    for n in 0..300u64 {
        let answer = tokio::time::timeout(Duration::from_secs(20), add(&rig.objects, id(1), n));
        answer.await.expect("a message was lost");
        assert!(rig.world.copies.load(Ordering::SeqCst) <= 1, "two copies live");
        tokio::time::sleep(Duration::from_micros(n * 10)).await;
    }
    assert!(rig.world.lives.load(Ordering::SeqCst) > 1, "it never left memory");
    until("the map is empty", || rig.objects.live_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_costs_one_message_and_not_the_object() {
    let rig = rig(Duration::from_secs(60), async |_: &Store| {}).await;
    assert_eq!(add(&rig.objects, id(1), 0).await, 1);
    rig.objects.send(id(1), Message::Panic);
    until("it answers again", || rig.world.copies.load(Ordering::SeqCst) == 0).await;
    assert_eq!(add(&rig.objects, id(1), 0).await, 1, "a new copy starts from the store");
    assert_eq!(add(&rig.objects, id(2), 0).await, 1, "others are not touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_of_the_store_fire_after_begin_overdue_ones_at_once() {
    let now = Clock::default().now_ms();
    let many = 300;
    let rig = rig(Duration::from_secs(1), async |store: &Store| {
        for n in 0..many {
            let name = SandboxName::new("ada".parse().unwrap(), format!("s{n}").parse().unwrap());
            let settings = Settings::defaults(TimeDefaults::default());
            // All at the same ms, long ago; one far ahead.
            let at = if n == 0 { now + 3_600_000 } else { now - 5000 };
            store.create(&name, &settings, &BTreeMap::new(), now, Some(at)).await.unwrap();
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(rig.world.alarms.lock().unwrap().is_empty(), "an alarm fired before begin");
    rig.objects.begin();
    until("all overdue ones fired", || rig.world.alarms.lock().unwrap().len() == many - 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut fired: Vec<_> = rig.world.alarms.lock().unwrap().iter().map(|(id, _)| *id).collect();
    fired.sort_unstable();
    fired.dedup();
    assert_eq!(fired.len(), many - 1, "each once");
    assert!(!fired.contains(&id(0)), "one that is not due fired");
    assert!(rig.store.alarm(&id(1)).await.unwrap().is_some(), "only the handler clears it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_never_early_and_the_last_setting_counts() {
    let rig = rig(Duration::from_secs(1), async |_: &Store| {}).await;
    rig.objects.begin();
    let (late, cleared) = (Instant::now() + Duration::from_millis(300), id(2));
    rig.alarms.set(id(1), Instant::now() + Duration::from_millis(20));
    rig.alarms.set(id(1), late);
    rig.alarms.set(cleared, Instant::now() + Duration::from_millis(50));
    rig.alarms.clear(cleared);
    until("it fired", || !rig.world.alarms.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let fired = rig.world.alarms.lock().unwrap().clone();
    assert_eq!(fired.len(), 1, "once, and the cleared one not at all");
    assert!(fired[0].0 == id(1) && fired[0].1 >= late, "early");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_or_panicking_alarm_fires_again() {
    let rig = rig(Duration::from_secs(1), async |_: &Store| {}).await;
    rig.objects.begin();
    rig.world.panics.store(1, Ordering::SeqCst);
    rig.world.failing.store(1, Ordering::SeqCst);
    rig.alarms.set(id(1), Instant::now());
    until("three tries", || rig.world.alarms.lock().unwrap().len() == 3).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.world.alarms.lock().unwrap().len(), 3, "after success it rests");
}

#[test]
fn a_hold_counts_until_dropped_also_by_a_panic() {
    let (holds, ended) = (Holds::default(), Arc::new(AtomicUsize::new(0)));
    let take = || {
        let (holds_then, ended) = (holds.clone(), ended.clone());
        holds.take(move || {
            ended.fetch_add(1 + holds_then.count() * 100, Ordering::SeqCst);
        })
    };
    let first = take();
    let second = take();
    assert_eq!(holds.count(), 2);
    drop(second);
    assert_eq!((holds.count(), ended.load(Ordering::SeqCst)), (1, 101), "told after it counts");
    let panicked = std::thread::spawn(move || {
        let _held = first;
        panic!("as asked");
    });
    assert!(panicked.join().is_err());
    assert_eq!((holds.count(), ended.load(Ordering::SeqCst)), (0, 102));
}
