use super::context;
use crate::kit::goes_on;
use serde_json::json;

const PROBE: &str = "[41 + 1, 0.5, 'aé', null]";
const THROW: &str = "throw 'x'";

#[tokio::test]
async fn what_code_defines_for_all_objects_takes_no_value() {
    for code in [
        "Object.prototype.then = function () {}; 1",
        "Object.defineProperty(Object.prototype, 'then', { get() { throw new Error('mine') } }); 1",
        "Object.defineProperty(Object.prototype, 'then', { get: () => (r) => r(5) }); 1",
        "Object.defineProperty(Object.prototype, 'value', { get: () => 5, set() {} }); 1",
        "Object.defineProperty(Object.prototype, 'value', { set() { throw 1 } }); 1",
        "for (const k of ['value', 'done', 'get', 'set', 'writable', 'code', 'env', 'cwd', 'line', 'json', 'text', 'toJSON', \
           'constructor', 'name', 'message', 'stack', 'length', '0']) Object.defineProperty(Object.prototype, k, \
           { get() { throw new Error(k) }, set() { throw new Error(k) } }); 1",
        "Promise.prototype.then = () => { throw 1 }; globalThis.Promise = null; 1",
        "Object.setPrototypeOf(Promise.prototype, new Proxy({}, { get() { throw 1 } })); 1",
        "Object.setPrototypeOf(globalThis, new Proxy({}, { get() { throw 1 }, has: () => true })); 1",
        "Object.freeze(globalThis); 1",
        "for (const k of Reflect.ownKeys(globalThis)) delete globalThis[k]",
        "Array.prototype[Symbol.iterator] = String.prototype.toString = JSON.stringify = () => { throw 1 }; 1",
        "Object.prototype.toJSON = Array.prototype.toJSON = () => { throw 1 }; 1",
        "Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 0; 1",
        "Object.freeze(process.env); process.env = null; process = null; 1",
        "let Promise = 1; const Object = 2; var Array = 5; let globalThis = 7; 1",
        "new FinalizationRegistry(() => { throw 1 }).register({}, 1); 1",
    ] {
        let ran = goes_on(&mut context(), code, (PROBE, json!([42, 0.5, "aé", null])), THROW).await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
    }
}

#[tokio::test]
async fn objects_with_then_are_values_like_others() {
    let mut c = context();
    assert_eq!(c.run("({ then(done) { done(7) } })").await.text(), "{ then: [Function: then] }");
    assert_eq!(c.run("({ get then() { throw 1 } })").await.text(), "{ then: [Getter] }");
    c.run("Object.prototype.then = function (done) { done(8) }; 1").await;
    assert_eq!(c.again("({ a: 1 })").await.json(), Some(json!({ "a": 1 })));
    assert_eq!(c.run("await ({ a: 1 })").await.text(), "8");
}

#[tokio::test]
async fn code_that_describes_a_value_may_exit() {
    let mut c = context();
    let custom = "[Symbol.for('nodejs.util.inspect.custom')]";
    let ran = c.run(&format!("({{ {custom}() {{ process.exit(3) }} }})")).await;
    assert_eq!((ran.error().name.as_str(), ran.rolled_back()), ("SystemExit", false));
    assert_eq!(ran.error().message, "process.exit(3)");
    assert_eq!(c.again("1").await.text(), "1");
}
