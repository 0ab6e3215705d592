use super::context;
use crate::kit::all;

#[tokio::test]
async fn await_works_at_the_outermost_level() {
    let mut c = context();
    let cases = [
        (
            "import asyncio\nasync def double(n):\n    await asyncio.sleep(0.001)\n    return n * 2\nawait double(2)",
            "4",
        ),
        ("await asyncio.gather(*map(double, range(3)))", "[0, 2, 4]"),
        ("asyncio.run(double(5))", "10"),
        ("x = await double(1)\nx", "2"),
        ("async with asyncio.timeout(1):\n    y = await double(3)\ny", "6"),
        ("q = asyncio.Queue()\nawait q.put(1)\nawait q.get()", "1"),
        ("await asyncio.to_thread(lambda: 7)", "7"),
        ("loop = asyncio.new_event_loop()\nloop.run_until_complete(double(8))", "16"),
    ];
    all(&mut c, &cases).await;
    let ran = c.run("await asyncio.wait_for(asyncio.sleep(10), 0.01)").await;
    assert_eq!(ran.error().name, "TimeoutError");
    let ran = c.run("await asyncio.Future()").await;
    assert!(ran.error().message.contains("did not complete"), "{ran:?}");
    let ran = c.run("async def bad():\n    1/0\n\nawait bad()").await;
    assert_eq!(
        (ran.error().name.as_str(), ran.error().line_number),
        ("ZeroDivisionError", Some(2))
    );
    assert!(ran.error().traceback.contains(&"    1/0".to_owned()), "{ran:?}");
    assert!(ran.error().traceback.iter().all(|line| !line.contains("base_events")), "{ran:?}");
}

#[tokio::test]
async fn there_is_a_loop_also_where_nothing_is_awaited() {
    let mut c = context();
    c.run("import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n").await;
    assert_eq!(c.run("asyncio.get_event_loop().run_until_complete(f(1))").await.text(), "1");
    assert_eq!(c.run("asyncio.run(f(2))").await.text(), "2");
    // `run` leaves none, and the next execution has one again.
    c.run("t = asyncio.get_event_loop().create_task(f(3))").await;
    assert_eq!(c.again("await t").await.text(), "3");
    assert_eq!(c.run("asyncio.get_event_loop().run_until_complete(f(4))").await.text(), "4");
}

#[tokio::test]
async fn tasks_go_on_in_a_new_instance() {
    let mut c = context();
    c.run("import asyncio\nseen = []\nasync def work():\n    for i in range(3):\n        seen.append(i)\n        await asyncio.sleep(0.001)\n    return 'done'\nloop = asyncio.new_event_loop()\ntask = loop.create_task(work())\nloop.run_until_complete(asyncio.sleep(0))").await;
    assert_eq!(c.again("seen").await.text(), "[0]");
    assert_eq!(c.again("loop.run_until_complete(task), seen").await.text(), "('done', [0, 1, 2])");
}
